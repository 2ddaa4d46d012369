"""What verification costs: `python benchmarks/verification.py`.

    python benchmarks/verification.py                 # prints; some minutes
    python benchmarks/verification.py --filter magika # some models only
    python benchmarks/verification.py --write         # writes the table into docs/verification.md

Every number is of a process of its own. The bare one opens the original and the converted model in onnxruntime, and
runs each once; the other one compares the two with `opshift.verify`, or converts the original with `opshift.convert`,
which compares the rewritten nodes too. CPU time is user and system time from the end of the imports on, that of the
child process included, which imports onnxruntime; memory is the most that was resident, of both processes together.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "verification.md"
LARGE = 100 * 10**6
"""Bytes of weights from which on a comparison may take 3 x the bare time, and not 10 x."""

FLOOR, ROOM = 2.0, 200.0
"""Seconds of CPU time below which nothing is asked for, and MiB beside twice the memory of the bare process."""


@dataclass(frozen=True)
class Case:
    """A model, where it is taken to, and the sizes that its symbols have in the bare run."""

    make: Callable[[], onnx.ModelProto]
    request: Mapping[str, Any]
    sizes: Mapping[str, int]
    feeds: Callable[[], Mapping[str, np.ndarray]] | None = None


# --- models that are made here ----------------------------------------------------------------------------------------


class Net:
    """Nodes and weights in the making."""

    def __init__(self, opset: int) -> None:
        """Begin with nothing."""
        self.opset, self.nodes, self.weights = opset, list[onnx.NodeProto](), list[TensorProto]()
        self.random = np.random.default_rng(0)

    def weight(self, *shape: int, scale: float | None = None) -> str:
        """Add a weight of floats, as large as keeps activations in bounds, and return its name."""
        spread = scale if scale is not None else 1 / np.sqrt(np.prod(shape[1:]) if len(shape) > 1 else 1.0)
        values = (self.random.standard_normal(shape, np.float32) * np.float32(spread)).astype(np.float32)
        return self.constant(values)

    def constant(self, values: Any) -> str:
        """Add an initializer, and return its name."""
        self.weights.append(numpy_helper.from_array(np.asarray(values), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def __call__(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Add a node, and return the name of its first output."""
        names = [f"{operator.lower()}{len(self.nodes)}{'' if place == 0 else f'_{place}'}" for place in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, name=f"/{names[0]}", **attributes))
        return names[0]

    def model(self, inputs: Mapping[str, tuple[Any, ...]], output: str, integer: bool = False) -> onnx.ModelProto:
        """Return the model from these inputs to an output."""
        kind = TensorProto.INT64 if integer else TensorProto.FLOAT
        graph = helper.make_graph(
            self.nodes,
            "made",
            [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()],
            [onnx.ValueInfoProto(name=output)],
            self.weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def audio() -> onnx.ModelProto:
    """Return a net of convolutions over three seconds of sound, 230 KB of weights, for any batch."""
    net, value, channels = Net(17), "x", 1
    for wide, stride in ((32, 4), (32, 4), (64, 2), (64, 2), (64, 2), (64, 2)):
        value = net("Relu", net("Conv", value, net.weight(wide, channels, 9), strides=[stride], pads=[4, 4]))
        channels = wide
    value = net("ReduceMean", value, axes=[2], keepdims=0)
    return net.model({"x": ("batch", 1, 48000)}, net("Hardmax", net("MatMul", value, net.weight(channels, 10)), axis=1))


def sound() -> onnx.ModelProto:
    """Return a net of convolutions over sound of any length."""
    net, value, channels = Net(17), "x", 1
    for wide in (32, 32, 64, 64):
        value = net("Conv", value, net.weight(wide, channels, 15), net.weight(wide), strides=[4], pads=[7, 7])
        value = net("Mul", value, net("Sigmoid", value))
        channels = wide
    return net.model({"x": ("batch", 1, "samples")}, net("ArgMax", value, axis=1))


def images(batch: Any = "n", size: Any = 224) -> onnx.ModelProto:
    """Return a net of convolutions over images, with BatchNormalization."""
    net, value, channels = Net(17), "x", 3
    for wide, stride in ((32, 2), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1)):
        value = net("Conv", value, net.weight(wide, channels, 3, 3), strides=[stride] * 2, pads=[1] * 4)
        ones = net.constant(np.ones(wide, np.float32))
        value = net("Relu", net("BatchNormalization", value, ones, net.weight(wide), net.weight(wide), ones))
        channels = wide
    value = net("Flatten", net("GlobalAveragePool", value))
    return net.model({"x": (batch, 3, size, size)}, net("Hardmax", net("Gemm", value, net.weight(256, 1000)), axis=-1))


def segmentation() -> onnx.ModelProto:
    """Return a net over images of any size, the class of each pixel out."""
    net, value, channels, skips = Net(17), "x", 3, []
    for wide in (16, 32, 64):
        value = net("Relu", net("Conv", value, net.weight(wide, channels, 3, 3), strides=[2, 2], pads=[1] * 4))
        channels = wide
        skips.append(value)
    for _ in skips:
        value = net("Resize", value, "", net.constant(np.array([1, 1, 2, 2], np.float32)), mode="linear")
        value = net("Relu", net("Conv", value, net.weight(64, channels, 3, 3), pads=[1] * 4))
        channels = 64
    return net.model({"x": ("n", 3, "h", "w")}, net("ArgMax", net("Conv", value, net.weight(21, 64, 1, 1)), axis=1))


def resizes() -> onnx.ModelProto:
    """Return 60 Resize that differ, up and down, with a convolution behind each sixth."""
    net, value = Net(18), "x"
    modes = ("linear", "nearest", "cubic")
    for place in range(60):
        size = 16 + (place * 7) % 41
        sizes = net.constant(np.array([1, 8, size, size + place % 3], np.int64))
        value = net("Resize", value, "", "", sizes, mode=modes[place % 3])
        if place % 6 == 5:
            value = net("Relu", net("Conv", value, net.weight(8, 8, 3, 3), pads=[1] * 4))
    return net.model({"x": (1, 8, 32, 32)}, net("Hardmax", value, axis=1))


def recurrent() -> onnx.ModelProto:
    """Return two LSTM over sequences of any length."""
    net, value, wide = Net(14), "x", 64
    for _ in range(2):
        weights = [net.weight(1, 4 * 128, wide), net.weight(1, 4 * 128, 128), net.weight(1, 8 * 128, scale=0.1)]
        value = net("Squeeze", net("LSTM", value, *weights, hidden_size=128), net.constant(np.array([1], np.int64)))
        wide = 128
    value = net("MatMul", value, net.weight(128, 30))
    return net.model({"x": ("length", "n", 64)}, net("ArgMax", value, axis=2))


def transformer(layers: int = 4, wide: int = 256, words: int = 5000, opset: int = 17) -> onnx.ModelProto:
    """Return an encoder with embeddings, for any batch and length."""
    net = Net(opset)
    value = net("Gather", net.weight(words, wide, scale=1.0), "ids")
    heads, shape = 4, net.constant(np.array([0, 0, 4, wide // 4], np.int64))
    back, root = net.constant(np.array([0, 0, wide], np.int64)), net.constant(np.float32(1 / np.sqrt(wide / heads)))
    for _ in range(layers):
        query, key, held = (
            net("Transpose", net("Reshape", net("MatMul", value, net.weight(wide, wide)), shape), perm=perm)
            for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        weights = net("Softmax", net("Mul", net("MatMul", query, key), root), axis=-1)
        mixed = net("Reshape", net("Transpose", net("MatMul", weights, held), perm=[0, 2, 1, 3]), back)
        value = net("Add", value, net("MatMul", mixed, net.weight(wide, wide)))
        value = net("LayerNormalization", value, net.constant(np.ones(wide, np.float32)), net.weight(wide))
        inner = net("MatMul", value, net.weight(wide, 4 * wide))
        inner = net("Mul", inner, net("Sigmoid", inner))
        value = net("Add", value, net("MatMul", inner, net.weight(4 * wide, wide)))
        value = net("LayerNormalization", value, net.constant(np.ones(wide, np.float32)), net.weight(wide))
    value = net("MatMul", value, net.weight(wide, 100))
    return net.model({"ids": ("n", "length")}, net("ArgMax", value, axis=-1), integer=True)


def many() -> onnx.ModelProto:
    """Return 500 nodes: small convolutions, activations and normalizations."""
    net, value = Net(17), "x"
    for place in range(125):
        added = net("Conv", value, net.weight(16, 16, 3, 3), pads=[1] * 4)
        added = net(("Relu", "Sigmoid", "Tanh", "HardSwish")[place % 4], added)
        scale, bias = net.constant(np.ones(16, np.float32)), net.weight(16)
        value = net("InstanceNormalization", net("Add", value, added), scale, bias)
    return net.model({"x": ("n", 16, 32, 32)}, net("Hardmax", value, axis=1))


def weighty() -> onnx.ModelProto:
    """Return 160 MB of weights in eight matrices, for any batch."""
    net, value = Net(17), "x"
    for _ in range(8):
        value = net("Relu", net("Gemm", value, net.weight(2240, 2240), net.weight(2240)))
    return net.model({"x": ("n", 2240)}, net("Hardmax", value, axis=1))


def deep() -> onnx.ModelProto:
    """Return a transformer with 200 MB of weights."""
    return transformer(12, 576, 4000)


# --- models of others -------------------------------------------------------------------------------------------------


def corpus(name: str) -> tuple[Callable[[], onnx.ModelProto], Callable[[], Mapping[str, np.ndarray]]]:
    """Return what reads a model of the tests' corpus, and what makes an input of it."""

    def entry() -> Any:
        sys.path.insert(0, str(ROOT / "tests"))
        import corpus_models

        return corpus_models.CORPUS[name].built()

    return lambda: entry().model, lambda: entry().feeds[0]


def cases() -> dict[str, Case]:
    """Return all that is measured, by name."""
    found = {}
    for name, opset in (
        ("magika", 13),
        ("silero-16", 14),
        ("silero-15", 13),
        ("silero-18", 15),
        ("piper-tashkeel", 12),
        ("piper-nakdimon", 12),
        ("sklearn-mlp-13", 11),
        ("sklearn-bagging-18", 12),
        ("torch-segmenter-script-17", 11),
        ("torch-tagger-script-17", 12),
    ):
        make, feeds = corpus(name)
        found[name] = Case(make, {"opset": opset}, {}, feeds)
    return found | {
        "audio, 48,000 samples": Case(audio, {"opset": 12}, {}),
        "sound of any length": Case(sound, {"decompose": ["ArgMax"]}, {"samples": 16000}),
        "images": Case(images, {"opset": 12}, {}),
        "segmentation": Case(segmentation, {"decompose": ["ArgMax"]}, {"h": 64, "w": 64}),
        "60 Resize": Case(resizes, {"opset": 13}, {}),
        "two LSTM": Case(recurrent, {"opset": 12}, {"length": 20}),
        "transformer, 4 layers": Case(transformer, {"opset": 13}, {"length": 16}),
        "500 nodes": Case(many, {"opset": 12}, {}),
        "160 MB of matrices": Case(weighty, {"opset": 12}, {}),
        "transformer, 200 MB": Case(deep, {"opset": 13}, {"length": 16}),
    }


# --- processes of their own -------------------------------------------------------------------------------------------


def bare(before: str, after: str, given: str) -> dict[str, Any]:
    """Open both models, and run each once."""
    import onnxruntime

    feeds = dict(np.load(given))

    def run() -> dict[str, Any]:
        opened = []
        for model in (before, after):
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            options.log_severity_level = 4
            opened.append(onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]))
        for session in opened:
            session.run(None, feeds)
        return {}

    return spent(run)


def verified(before: str, after: str, how: str) -> dict[str, Any]:
    """Compare both models."""
    import opshift

    return spent(lambda: told(opshift.verify(before, after, **json.loads(how))))


def converted(before: str, _: str, how: str) -> dict[str, Any]:
    """Convert the original, and compare."""
    import opshift

    return spent(lambda: told(opshift.convert(before, **json.loads(how)).report))


def told(report: Any) -> dict[str, Any]:
    """Return what a report says in a few words, once the child process has ended: its time is known then."""
    from opshift.passes.runtime import ort_process

    ort_process._worker(os.getpid()).stop()
    return {"verdict": str(report.verdict), "inputs": report.whole.inputs, "reason": report.whole.reason}


def spent(action: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what an action returns, with the CPU seconds, the seconds and the MiB that it takes."""
    start, began = cpu(), time.perf_counter()
    found = action()
    used, wall = cpu() - start, time.perf_counter() - began
    scale = 2**20 if sys.platform == "darwin" else 2**10
    peaks = [resource.getrusage(who).ru_maxrss / scale for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {**found, "seconds": used, "wall": wall, "mib": sum(peaks)}


def cpu() -> float:
    """Return the CPU seconds of this process and of the children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def alone(kind: str, *arguments: str) -> dict[str, Any]:
    """Return what a process of its own takes."""
    command = [sys.executable, __file__, "--alone", kind, *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return dict(json.loads(done.stdout.splitlines()[-1]))


# --- the table --------------------------------------------------------------------------------------------------------


def feeds_of(case: Case, model: onnx.ModelProto) -> Mapping[str, Any]:
    """Return an input for the bare run: symbols that the case does not name are 1."""
    if case.feeds is not None:
        return case.feeds()
    random, found = np.random.default_rng(0), {}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        shape = [case.sizes.get(dim.dim_param, 1) if dim.dim_param else dim.dim_value for dim in dims]
        integer = value.type.tensor_type.elem_type == TensorProto.INT64
        found[value.name] = random.integers(0, 50, shape) if integer else random.standard_normal(shape, np.float32)
    return found


def prepared(folder: Path, name: str) -> tuple[str, ...]:
    """Write both models of a case and an input, and return where they are, and how many bytes of weights there are."""
    import opshift

    case = cases()[name]
    paths = [str(folder / file) for file in ("before.onnx", "after.onnx", "feeds.npz")]
    model = case.make()
    onnx.save(model, paths[0])
    opshift.convert(model, **case.request, verify=False).save(paths[1])
    np.savez(paths[2], **feeds_of(case, model))
    return (*paths, str(sum(tensor.ByteSize() for tensor in model.graph.initializer)))


@dataclass(frozen=True)
class Row:
    """The measurements of a model."""

    name: str
    weights: int
    bare: Mapping[str, Any]
    verify: Mapping[str, Any]
    convert: Mapping[str, Any]

    @property
    def factor(self) -> int:
        """So many times the bare time is allowed."""
        return 3 if self.weights >= LARGE else 10

    def cells(self) -> list[str]:
        """Return the columns of the table."""
        base, room = self.bare["seconds"], 2 * self.bare["mib"] + ROOM
        bound = max(self.factor * base, FLOOR)
        cells = [self.name, f"{self.weights / 1e6:.1f}", f"{base:.3f}"]
        for found in (self.verify, self.convert):
            late, large = found["seconds"] > bound, found["mib"] > room
            cells.append(f"{found['seconds']:.2f}{' (above the bound)' * late}")
            cells.append(f"{found['seconds'] / base:.1f}")
            cells.append(f"{found['mib']:.0f}{' (above the bound)' * large}")
        return [*cells, f"{self.bare['mib']:.0f}", f"{self.verify['inputs']}"]


HEAD = (
    "model", "MB of weights", "bare s", "verify s", "ratio", "MiB", "convert s", "ratio", "MiB", "bare MiB", "inputs",
)  # fmt: skip


def measured(name: str, effort: Mapping[str, Any]) -> Row:
    """Measure a model."""
    with tempfile.TemporaryDirectory() as folder:
        paths = alone("prepared", folder, name)["paths"]
        before, after, feeds, weights = paths
        how = json.dumps(effort)
        asked = json.dumps({**cases()[name].request, **effort})
        base = min((alone("bare", before, after, feeds) for _ in range(3)), key=lambda one: one["seconds"])
        return Row(
            name, int(weights), base, alone("verified", before, after, how), alone("converted", before, after, asked)
        )


def versions() -> str:
    """Return what took part."""
    names = ("opshift", "onnx", "onnxruntime", "numpy")
    found = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    return f"{found}, Python {platform.python_version()}, {platform.machine()}"


def main() -> None:
    """Measure, print, and write."""
    if sys.argv[1:2] == ["--alone"]:
        kind, *arguments = sys.argv[2:]
        if kind == "prepared":
            print(json.dumps({"paths": prepared(Path(arguments[0]), arguments[1])}))
        else:
            print(json.dumps({"bare": bare, "verified": verified, "converted": converted}[kind](*arguments)))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--filter", default="", help="measure models only whose names match this expression")
    parser.add_argument("--effort", help="quick, normal or thorough")
    parser.add_argument("--write", action="store_true", help="write the table into docs/verification.md")
    options = parser.parse_args()
    effort = {"effort": options.effort} if options.effort else {}
    print(versions())
    print(" | ".join(HEAD))
    rows = []
    for name in cases():
        if re.search(options.filter, name):
            rows.append(measured(name, effort).cells())
            print(" | ".join(rows[-1]), flush=True)
    if options.write:
        begin, end = "<!-- costs -->\n", "<!-- end of costs -->\n"
        text = PAGE.read_text(encoding="utf-8")
        table = [f"Measured with {versions()}.", "", f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
        table += [f"| {' | '.join(row)} |" for row in rows]
        body = text[text.index(begin) : text.index(end)]
        PAGE.write_text(text.replace(body, begin + "\n".join(table) + "\n"), encoding="utf-8")


if __name__ == "__main__":
    main()
