"""Judge opshift and the converters of onnx and onnxscript on the same cases: `python benchmarks/against_converters.py`.

The cases are those of the tests' matrix (tests/matrix_cases.py) that only ask for another opset than the model's: no
decomposition, no operator of the domain opshift, none that no converter can do. The judge is the matrix's: numpy
oracles of the operators' text, onnxruntime, ONNX's checker. The cases without model-local functions are counted again
apart, since onnx's converter drops all functions, which alone decides the others.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import matrix
import onnx
import onnx_ir
import onnx_ir.serde
import onnxscript.version_converter
from matrix_cases import least_ir_version, make, stratum_of
from matrix_judge import FINE, walk
from onnx import version_converter

import opshift
from opshift.passes.errors import UsageError

COLUMNS = ("right", "wrong", "invalid", "runs nowhere", "refused", "crash")
"""What comes of a case. `right`: the numbers of the oracles, in onnxruntime, or in onnx's reference with the oracles as
kernels where onnxruntime has no kernel. `wrong`: other numbers. `invalid`: rejected by ONNX's checker, of another opset
than asked for, or with a negative axis where the version defines none. `runs nowhere`: neither of the two runs it."""

COLUMN_OF = {
    **dict.fromkeys((*FINE, "norun-native", "norun"), "right"),
    "unjudged": "runs nowhere",
    **{name: name for name in ("wrong", "invalid", "refused", "crash")},
}


def by_opshift(model: onnx.ModelProto, *, opset: int, **_: Any) -> Any:
    """opshift, without its proof: the judge here is the proof, and judges all alike."""
    return opshift.convert(model, opset=opset, verify=False)


def by_onnx(model: onnx.ModelProto, *, opset: int, **_: Any) -> Any:
    """ONNX's own converter, with a fitting ir_version, which it leaves to the caller."""
    try:
        converted = version_converter.convert_version(model, opset)
    except Exception as error:
        raise UsageError(str(error)) from error
    return finished(model, converted, opset)


def by_onnxscript(model: onnx.ModelProto, *, opset: int, **_: Any) -> Any:
    """onnxscript's converter, which knows opsets from 18 on; where it fails it warns and leaves the model as it was."""
    try:
        ir_model = onnx_ir.serde.deserialize_model(model)
        onnxscript.version_converter.convert_version(ir_model, opset)
        converted = onnx_ir.serde.serialize_model(ir_model)
    except Exception as error:
        raise UsageError(str(error)) from error
    if [entry.version for entry in converted.opset_import if not entry.domain] != [opset]:
        raise UsageError("the model was left as it was")
    return finished(model, converted, opset)


def finished(model: onnx.ModelProto, converted: onnx.ModelProto, opset: int) -> Any:
    """Set a fitting ir_version, and the declared types of the outputs as they were."""
    converted.ir_version = max(converted.ir_version, least_ir_version(opset))
    for old, new in zip(model.graph.output, converted.graph.output, strict=True):
        new.CopyFrom(old)
    return SimpleNamespace(model=converted)


CONVERTERS = {
    "opshift": ("opshift", by_opshift),
    "onnx.version_converter": ("onnx", by_onnx),
    "onnxscript.version_converter": ("onnxscript", by_onnxscript),
}


def chosen(seed: int, cases: int) -> list[int]:
    """The numbers of the cases, among the first of the matrix, that all converters are asked."""
    found = []
    for index in range(cases):
        if stratum_of(index).goal.decompose:
            continue
        case = make(seed, index)
        plain = not any(node.domain == "opshift" for node in walk(case.model))
        if plain and not case.impossible and case.target != case.source:
            found.append(index)
    return found


def table(rows: Sequence[Sequence[str]]) -> str:
    """Lines with aligned columns, the first to the left."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return "\n".join(
        row[0].ljust(widths[0]) + "".join(f"  {cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in rows
    )


def share(found: Sequence[matrix.Finding]) -> str:
    """How many are right, as `12/34, 35.3 %`."""
    right = sum(COLUMN_OF[finding.outcome.category] == "right" for finding in found)
    return f"{right}/{len(found)}, {100 * right / max(len(found), 1):.1f} %"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=4000, help="of the matrix, from which those that fit are taken")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    indices = chosen(options.seed, options.cases)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("onnx", "onnxruntime", "numpy"))
    print(f"{len(indices)} of the first {options.cases} cases of seed {options.seed}; {versions}\n")
    summary = [["converter", "version", *COLUMNS, "right of all", "without functions"]]
    by_operator: list[list[str]] = []
    for name, (package, function) in CONVERTERS.items():
        found = matrix.run(options.seed, indices, f"against_converters:{function.__name__}", options.jobs)
        counts = Counter(COLUMN_OF[finding.outcome.category] for finding in found)
        without = [finding for finding in found if "fn" not in finding.place]
        numbers = [str(counts[key]) for key in COLUMNS]
        summary.append([name, importlib.metadata.version(package), *numbers, share(found), share(without)])
        operators = sorted({finding.operator for finding in found})
        by_operator = by_operator or [["right of all", *operators]]
        rows = [[finding for finding in found if finding.operator == operator] for operator in operators]
        by_operator.append([name, *(share(row).partition(",")[0] for row in rows)])
    print(f"{table(summary)}\n\n{table(by_operator)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
