"""Run one-node models of all operators in a real runtime: `python benchmarks/profiles.py opencv-4 mnn openvino ncnn`.

The models are ONNX's backend node tests, as far as one node can say them at the newest opset of the runtime's profile:
as they are, and with all inputs but the first as initializers. A row says of how many the runtime gives the values of
the test, other values, or none; element types and axes of length one are not compared. With `--check` the profile is
held against what was found: it must not have what never runs right, and must have what always does.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from converters import table
from runtimes import RUNTIMES, version

from opshift.opsets.runtimes.profiles import load_target
from opshift.opsets.runtimes.target import Legality
from opshift.passes.measurement.isolated import Isolated
from opshift.passes.measurement.measure import observe
from opshift.passes.measurement.probes import probes

OUTCOMES = ("right", "wrong", "refused")


def tried(name: str, pattern: str, most: int, opset: int) -> Iterator[tuple[str, str, str, bool]]:
    """Yield operator, test, outcome and whether the profile has the node, for the best one of all forms of a test."""
    runtime, legality = Isolated(name, timeout=20), Legality(opset, target=load_target(name))
    seen: Counter[str] = Counter()
    for probe in probes(opset):
        operator = probe.node.op_type
        if not re.search(pattern, probe.name) or seen[operator] >= most:
            continue
        seen[operator] += 1
        found = [(one.outcome, legality.why_not(one.node) is None) for one in observe(probe, opset, runtime)]
        result, listed = min(found, key=lambda one: (OUTCOMES.index(one[0]), not one[1]))
        yield operator, probe.name, result, listed
    runtime.close()


TOLD_BY_OTHERS = {
    ("opencv-4", "Constant"): "a graph of one Constant has no input; with others around it runs",
    ("opencv-4", "ConstantOfShape"): "the same",
    ("opencv-4", "GRU"): "it asks for all six inputs, and runs then",
    ("opencv-4", "PRelu"): "a slope by channel, of shape (C, 1, 1), runs right",
    ("opencv-4", "QLinearConv"): "of int8; the tests are of uint8",
    ("opencv-4", "QLinearMatMul"): "of int8; the tests are of uint8",
    ("opencv-4", "QuantizeLinear"): "of int8, and with DequantizeLinear behind it; the tests are of uint8",
    ("mnn", "Dropout"): "nothing is left of a graph of one Dropout",
    ("ncnn", "Constant"): "a graph of one Constant has no input; with others around it runs",
    ("ncnn", "Dropout"): "nothing is left of a graph of one Dropout",
    ("ncnn", "Identity"): "nothing is left of a graph of one Identity",
}
"""Operators of which the tests give a wrong picture, and what was seen."""


def faults(name: str, rows: Sequence[tuple[str, str, str, bool]]) -> Iterator[str]:
    """Say where a profile does not fit what was found."""
    target = load_target(name)
    for operator in sorted({row[0] for row in rows}):
        if (name, operator) in TOLD_BY_OTHERS:
            continue
        listed = [result for one, _, result, has in rows if one == operator and has]
        found = [result for one, _, result, _ in rows if one == operator]
        if listed and "right" not in listed:
            yield f"{name}: {operator} never runs right, and the profile has it"
        if not target.has(operator) and set(found) == {"right"}:
            yield f"{name}: {operator} always runs right, and the profile does not have it"


def main() -> int:
    """Run what is asked for, and print or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runtimes", nargs="*", default=[name for name in RUNTIMES if name != "onnxruntime"])
    parser.add_argument("--filter", default="", help="a pattern that the names of the tests have")
    parser.add_argument("--opset", type=int, help="another opset than the newest of the profile")
    parser.add_argument("--most", type=int, default=12, help="tests for an operator")
    parser.add_argument("--check", action="store_true", help="exit 1 where a profile does not fit")
    parser.add_argument("--json", type=Path, help="write all outcomes to this file")
    options = parser.parse_args()
    outcomes, wrong = {}, list[str]()
    for name in options.runtimes:
        print(f"{name} {version(name)}")
        rows = outcomes[name] = sorted(
            tried(name, options.filter, options.most, options.opset or load_target(name).opset[1])
        )
        found: dict[str, Counter[str]] = {}
        for operator, _, result, _ in rows:
            found.setdefault(operator, Counter())[result] += 1
        print(
            table(
                [("operator", *OUTCOMES), *((one, *(many[kind] for kind in OUTCOMES)) for one, many in found.items())]
            )
        )
        wrong += faults(name, rows)
    if options.json:
        options.json.write_text(json.dumps(outcomes, indent=0))
    print("\n".join(wrong))
    return 1 if options.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
