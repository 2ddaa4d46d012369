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

import converters
import matrix
import onnx
from converters import CONVERTERS, table
from matrix_cases import make, stratum_of
from matrix_judge import FINE, walk

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
    return SimpleNamespace(model=converters.by_opshift(model, opset))


def by_onnx(model: onnx.ModelProto, *, opset: int, **_: Any) -> Any:
    return SimpleNamespace(model=converters.by_onnx(model, opset))


def by_onnxscript(model: onnx.ModelProto, *, opset: int, **_: Any) -> Any:
    return SimpleNamespace(model=converters.by_onnxscript(model, opset))


def chosen(seed: int, cases: int) -> list[int]:
    """The numbers of the cases, among the first of the matrix, that all converters are asked."""
    found = []
    for index in range(cases):
        if stratum_of(index).goal.decompose:
            continue
        case = make(seed, index)
        plain = not any(node.domain == "opshift" for node in walk(case.model))
        if plain and not case.impossible and case.target != case.source_opset:
            found.append(index)
    return found


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
