"""Run nodes of onnxruntime's own operators in another runtime: `python benchmarks/dialect_runtimes.py openvino`.

With `--converted` each is first converted to the profile of the runtime.

The nodes are the cases of tests/dialect_cases.py that onnxruntime runs, but for those of float16, bfloat16 and int4;
its values are those wanted. Each runs in a child process, which a runtime may end. A row says of how many nodes of an
operator the runtime gives these values, others, or none; a profile lists the operators of which all are right.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import onnx
from dialect_cases import CASES, Case, drawn
from runtimes import RUNTIMES, Runtime

import opshift
from opshift.passes.measurement.isolated import RefusedError, alike
from opshift.passes.runtime.ort_models import Runnable
from opshift.passes.runtime.ort_session import Runner


def fed(case: Case) -> tuple[onnx.ModelProto, dict[str, Any], tuple[Any, ...]]:
    """Return the model without inputs that the node does not read, what it is fed, and what onnxruntime returns."""
    model = case.model
    read = set(model.graph.node[0].input)
    for index in range(len(model.graph.input) - 1, -1, -1):
        if model.graph.input[index].name not in read:
            del model.graph.input[index]
    feeds = {name: value for name, value in drawn(case, 0).items() if name in read}
    runner = Runner(Runnable(model))
    runner.open(optimised=False)
    return model, feeds, tuple(runner.run(feeds, False))


def outcome(runtime: Runtime, case: Case, *, converted: bool) -> str:
    """Return whether the runtime gives the right values, others or none; of the model as it is, or made for it."""
    model, feeds, wanted = fed(case)
    if converted:
        try:
            made_for = opshift.convert(model, target=runtime.name, verify=False).model
        except opshift.UnsupportedError:
            return "not converted"
        assert isinstance(made_for, onnx.ModelProto)
        model = made_for
    try:
        made = runtime.run(model, feeds)
    except RefusedError:
        return "refused"
    pairs = zip(made.values(), wanted, strict=True)
    return "right" if all(alike(got, want) for got, want in pairs) else "wrong"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("runtime", choices=sorted(RUNTIMES))
    parser.add_argument("--converted", action="store_true", help="convert the nodes to the runtime's profile first")
    asked = parser.parse_args()
    runtime = Runtime(asked.runtime)
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for case in CASES:
        if case.runs and "float16" not in case.inputs and "int4" not in case.inputs:
            found[case.name][outcome(runtime, case, converted=asked.converted)] += 1
    for name, counts in sorted(found.items()):
        print(f"{name}: {', '.join(f'{count} {what}' for what, count in counts.items())}")
    total = sum(found.values(), Counter())
    print(f"all {total.total()}: {', '.join(f'{count} {what}' for what, count in total.items())}")
    print("all right:", ", ".join(f'"{name}"' for name, counts in sorted(found.items()) if set(counts) == {"right"}))


if __name__ == "__main__":
    main()
