"""Run whole models with onnxruntime's own operators in other runtimes, before and after their conversion.

`python benchmarks/dialect_in_runtimes.py [NAME ...]`; `--wheels DIR` adds the models inside packages that `pip
download` put there, `--runtimes openvino tract` chooses among OpenVINO, OpenCV and tract (`pip install tract`). The
models are those of benchmarks/dialect_models.py, with fixed shapes.

Each runs once as it is, and once as converted: to the profile of OpenVINO and of OpenCV, and for tract to plain opset
17. A cell says `right` where all outputs are those of onnxruntime, `wrong` where they are not,
and `refused` where the runtime does not load the model, or does not run it.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import multiprocessing
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import dialect_models
import numpy as np
import onnx
from runtimes import Runtime, version

import opshift
from opshift.passes.measurement.isolated import RefusedError, alike
from opshift.passes.runtime.ort_models import Runnable
from opshift.passes.runtime.ort_session import Runner

SIZES = {"batch": 1, "tokens": 4, "past": 3, "total": 7, "encoded": 5}
"""Sizes of dims by name: those of a past and of the tokens behind it add up."""

OTHERS = 4
"""The size of dims of other names."""

TRACT = "tract"
Feeds = Mapping[str, np.ndarray[Any, Any]]


def fixed(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose inputs have sizes."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for value in found.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):
                dim.dim_value = SIZES.get(dim.dim_param, OTHERS if axis else 1)
    return found


def drawn(model: onnx.ModelProto) -> dict[str, np.ndarray[Any, Any]]:
    """Return an input of each name: small floats, ids of 1, masks of 1."""
    rng, held = np.random.default_rng(0), {tensor.name for tensor in model.graph.initializer}
    feeds = {}
    for value in (one for one in model.graph.input if one.name not in held):
        tensor = value.type.tensor_type
        shape = [dim.dim_value for dim in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        numbers = rng.uniform(-1, 1, shape) if dtype.kind == "f" else np.ones(shape)
        feeds[value.name] = np.asarray(numbers).astype(dtype)
    return feeds


def _in_tract(model: bytes, feeds: Feeds, answers: Any) -> None:
    with Path(os.devnull).open("w") as nothing:  # a panic prints all of its stack
        os.dup2(nothing.fileno(), 2)
    tract = importlib.import_module(TRACT)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model)
        loaded = tract.onnx().load(path)
        for place, array in enumerate(feeds.values()):
            shape = ",".join(map(str, array.shape))
            kind = {"float32": "f32", "float16": "f16", "int64": "i64", "int32": "i32", "bool": "bool"}[
                str(array.dtype)
            ]
            loaded.set_input_fact(place, f"{shape},{kind}" if shape else kind)
        made = loaded.into_model().into_runnable().run(list(feeds.values()))
        answers.put([one.to_numpy() for one in made])


def run_tract(model: onnx.ModelProto, feeds: Feeds, seconds: float = 60) -> list[Any]:
    """Return the outputs of tract, which runs in a process that it may end.

    Raises:
        RefusedError: it does not load the model, or does not run it.
    """
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=_in_tract, args=(model.SerializeToString(), feeds, answers))
    process.start()
    try:
        return list(answers.get(timeout=seconds) if _alive(process, answers, seconds) else answers.get(timeout=1))
    except Exception as error:  # nothing was put: it ended, or took too long
        raise RefusedError(str(error) or "it ended") from None
    finally:
        process.kill()


def _alive(process: Any, answers: Any, seconds: float) -> bool:
    """Wait for an answer, or for the end of the process."""
    for _ in range(int(seconds * 10)):
        if not answers.empty():
            return True
        process.join(0.1)
        if not process.is_alive():
            return False
    return False


def outcome(runtime: str, model: onnx.ModelProto, feeds: Feeds, wanted: list[Any]) -> str:
    """Return whether a runtime gives these outputs, others or none."""
    try:
        if runtime == TRACT:
            made = run_tract(model, feeds)
        else:
            opened = Runtime(runtime)
            made = [*opened.run(model, dict(feeds)).values()]
            opened.close()
    except RefusedError:
        return "refused"
    same = len(made) == len(wanted) and all(alike(got, want) for got, want in zip(made, wanted, strict=True))
    return "right" if same else "wrong"


def converted(runtime: str, model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return a model as it is for a runtime; None where opshift refuses it."""
    try:
        if runtime == TRACT:
            found = opshift.convert(model, opset=17, decompose=["com.microsoft"], fold=True, verify=False)
        else:
            found = opshift.convert(model, target=runtime, verify=False)
    except opshift.OpshiftError as error:
        print(f"{runtime}: {str(error)[:300]}", file=sys.stderr)
        return None
    assert isinstance(found.model, onnx.ModelProto)
    return found.model


def _exactly(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose kernels round no inputs that they are only permitted to round (accuracy_level of 4)."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for node in found.graph.node:
        for attribute in (one for one in node.attribute if one.name == "accuracy_level"):
            attribute.i = 1
    return found


def cells(make: Callable[[], onnx.ModelProto], runtimes: list[str]) -> list[tuple[str, str]]:
    """Return what becomes of a model in each runtime, before and after."""
    model = fixed(make())
    feeds = drawn(model)
    runner = Runner(Runnable(_exactly(model)))
    runner.open(optimised=False)
    wanted = list(runner.run(dict(feeds), False))
    found = []
    for runtime in runtimes:
        after = converted(runtime, model)
        last = "not converted" if after is None else outcome(runtime, after, feeds, wanted)
        found.append((outcome(runtime, model, feeds, wanted), last))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("names", metavar="NAME", nargs="*", help="only models whose name contains one of these (all)")
    parser.add_argument("--wheels", type=Path, help="a folder of wheels with models")
    parser.add_argument("--runtimes", nargs="+", default=["openvino", "opencv-4", TRACT], help="the runtimes")
    asked = parser.parse_args()
    shown = [f"{one} {importlib.metadata.version(TRACT) if one == TRACT else version(one)}" for one in asked.runtimes]
    print(f"| Model | {' | '.join(shown)} |\n|---|{'---|' * len(shown)}")
    counts = [(Counter[str](), Counter[str]()) for _ in shown]
    for name, make in [
        *dialect_models.packaged(asked.wheels),
        *dialect_models.FUSED.items(),
        *dialect_models.DECODERS.items(),
    ]:
        if asked.names and not any(one in name for one in asked.names):
            continue
        try:
            row = cells(make, asked.runtimes)
        except Exception as error:  # a package that is not installed, or an input that the model does not take
            print(f"| {name} | not run: {type(error).__name__}: {str(error).splitlines()[0][:120]} |", flush=True)
            continue
        for place, pair in enumerate(row):
            for counter, one in zip(counts[place], pair, strict=True):
                counter[one] += 1
        print(f"| {name} | {' | '.join(f'{before}, {after}' for before, after in row)} |", flush=True)
    for text, (before, after) in zip(shown, counts, strict=True):
        print(f"\n{text}: {before['right']} right before, {after['right']} after, of {before.total()}.")


if __name__ == "__main__":
    main()
