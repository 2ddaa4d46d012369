"""Measure what onnxruntime's kernels take, and write the cost table that lowerings are chosen by.

    python benchmarks/kernels.py            # prints what differs from opsets/costs.json
    python benchmarks/kernels.py --write    # writes it

Each kernel runs on tensors of four sizes, in one thread. CPU time is taken, kernels in turn, and of three medians the
least; what the same node takes on a tensor of one element is taken off. Rows are of three lengths, at the end of the
shape, in front of another axis, in front of one whose length is a power of two, and at the start of the shape.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import platform
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from opshift.opsets.costs import LENGTHS, SPARSE, key

TABLE = Path(__file__).resolve().parent.parent / "opsets" / "costs.json"
SIZES = (2**10, 2**16, 2**20, 2**23)
OPSET = 18
NUMBERS = {"float": np.float32, "double": np.float64, "int32": np.int32, "int64": np.int64, "uint8": np.uint8}

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Kernel:
    """A node to measure: its inputs, which of them are constants, and the element type it is listed under."""

    name: str
    listed: str
    inputs: tuple[Array, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constants: frozenset[int] = frozenset()
    outputs: int = 1


def session(model: onnx.ModelProto, *, arena: bool = True) -> onnxruntime.InferenceSession:
    """Open a model for one thread; without `arena` memory is given back as soon as it is free."""
    options = onnxruntime.SessionOptions()
    options.enable_cpu_mem_arena = arena
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def model_of(kernel: Kernel) -> onnx.ModelProto:
    """Return a model of one node, whose dimensions are known."""
    names = [f"x{index}" for index in range(len(kernel.inputs))]
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for index, (name, array) in enumerate(zip(names, kernel.inputs, strict=True))
        if index not in kernel.constants
    ]
    outputs = [f"y{index}" for index in range(kernel.outputs)]
    graph = helper.make_graph(
        [helper.make_node(kernel.name, names, outputs, **kernel.attributes)],
        "kernel",
        given,
        [onnx.ValueInfoProto(name=outputs[-1])],
        [numpy_helper.from_array(kernel.inputs[index], names[index]) for index in sorted(kernel.constants)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def elementwise(count: int) -> Iterator[Kernel]:
    """Yield the kernels that go through elements, wherever they are."""
    rng = np.random.default_rng(0)
    shape = (max(count // 256, 1), min(count, 256))
    rows, columns = shape
    for dtype, number in NUMBERS.items():
        x = rng.integers(0, 100, shape).astype(number)
        row = np.arange(columns).astype(number).reshape(1, columns)
        column = x[:, :1].copy()
        yield Kernel("Equal", dtype, (row, column), constants=frozenset({0}))
        yield Kernel("Equal", f"{dtype} whole", (x, x[:1].copy()))
        if dtype == "float":
            runs = rng.standard_normal((count // 2, 2, 2)).astype(np.float32)
            yield Kernel("Equal", "runs", (runs, runs[:, :1].copy()))
        if dtype != "uint8":
            yield Kernel("Less", dtype, (x, column))
            yield Kernel("Mul", dtype, (x, row), constants=frozenset({1}))
            yield Kernel("Add", dtype, (x, row), constants=frozenset({1}))
            yield Kernel("Sub", dtype, (x, row), constants=frozenset({1}))
        for name in ("Max", "Min"):
            yield Kernel(name, dtype, (x, x[::-1].copy()))
        half = (np.array([0]), np.array([columns // 2]), np.array([1]))
        yield Kernel("Slice", dtype, (np.concatenate([x, x], 1), *half), constants=frozenset({1, 2, 3}))
        yield Kernel("Where", dtype, (x > 50, row, np.full((1, 1), 3, number)), constants=frozenset({1, 2}))
        yield Kernel("Where", f"{dtype} whole", (x > 50, x, x[::-1].copy()))
        yield Kernel("Gather", dtype, (x, np.arange(rows)[::-1].copy()), {"axis": 0})
        single = rng.integers(0, 2, shape).astype(np.int32)
        yield Kernel("Gather", f"{dtype} single", (x[0, :2].copy(), single), {"axis": 0}, frozenset({0}))
        yield Kernel("Expand", dtype, (column[:1], np.array(shape)), constants=frozenset({1}))
        yield Kernel("Transpose", dtype, (x,), {"perm": [1, 0]})
        for to, other in NUMBERS.items():
            if to != dtype:
                yield Kernel("Cast", f"{dtype} {to}", (x,), {"to": helper.np_dtype_to_tensor_dtype(np.dtype(other))})
        yield Kernel("Cast", f"bool {dtype}", (x > 50,), {"to": helper.np_dtype_to_tensor_dtype(np.dtype(number))})
    for dtype in ("int8", "int16"):
        places = (np.arange(columns) % 100).astype(dtype)
        yield Kernel("Equal", dtype, (places, np.zeros((rows, 1), dtype)), constants=frozenset({0}))
        short = {"to": helper.np_dtype_to_tensor_dtype(np.dtype(dtype))}
        for wide in ("float", "int32", "int64"):
            yield Kernel("Cast", f"{wide} {dtype}", (rng.integers(0, 100, shape).astype(NUMBERS[wide]),), short)
    x = rng.standard_normal(shape).astype(np.float32)
    places = rng.integers(0, columns, (rows, 1))
    yield Kernel("Relu", "float", (x,))
    yield Kernel("Clip", "float", (x, *np.array([-1, 1], np.float32)), constants=frozenset({1, 2}))
    yield Kernel("Sign", "float", (x,))
    yield Kernel("IsNaN", "float", (x,))
    for name in ("And", "Or"):
        yield Kernel(name, "bool", (x > 0, x > 1))
    yield Kernel("Not", "bool", (x > 0,))
    yield Kernel("Pad", "float", (x, np.array([0, 0, 0, 1])), constants=frozenset({1}))
    zero = numpy_helper.from_array(np.zeros(1, np.float32))
    yield Kernel("ConstantOfShape", "int64", (np.array(shape),), {"value": zero})
    yield Kernel("Range", "int64", (np.array(0), np.array(count), np.array(1)))
    turned = rng.integers(0, SPARSE, (1, count // SPARSE))
    for dtype in ("float", "double"):
        data = x.astype(NUMBERS[dtype])
        tall = data.reshape(SPARSE, -1)
        yield Kernel("ScatterElements", f"{dtype} last", (data, places, data[:, :1].copy()), {"axis": 1})
        yield Kernel("ScatterElements", f"{dtype} inner", (tall, turned, tall[:1].copy()), {"axis": 0})
    yield Kernel("GatherElements", "last", (x, rng.integers(0, columns, shape)), {"axis": 1})
    few = (SPARSE, max(count // SPARSE * 63 // 64, 1))
    apart = rng.standard_normal(few).astype(np.float32)
    yield Kernel("GatherElements", "inner", (apart, rng.integers(0, SPARSE, few, np.int32)), {"axis": 0})
    values = np.array([0, 1], np.float32)
    yield Kernel("OneHot", "int64", (places[:, 0].copy(), np.array(columns), values), constants=frozenset({1, 2}))


def in_rows(count: int) -> Iterator[tuple[Kernel, str, int]]:
    """Yield the kernels that go through rows, with what is behind these and how long they are."""
    rng = np.random.default_rng(0)
    for behind in ("last", "inner", "aligned", "first"):
        for listed in LENGTHS:
            length = min(listed, count)
            rest = max(count // length, 1)
            before = 1 if behind == "first" else 2 ** max(int(math.log2(rest)) // 2 - 4, 1)
            inner = rest // before if behind == "aligned" else rest // before * 63 // 64
            shape = (rest, length) if behind == "last" else (before, length, max(inner, 2))
            for dtype in ("float", "double", "int32", "uint8"):
                x = (np.abs(rng.standard_normal(shape)).astype(np.float32) * 50).astype(NUMBERS[dtype])
                axes = np.array([1])
                yield Kernel("ArgMax", dtype, (x,), {"axis": 1}), behind, listed
                yield Kernel("ArgMaxLast", dtype, (x,), {"axis": 1, "select_last_index": 1}), behind, listed
                for name in ("ReduceMax", "ReduceMin", *(["ReduceSum"] if dtype != "uint8" else [])):
                    yield Kernel(name, dtype, (x, axes), constants=frozenset({1})), behind, listed
                if dtype in ("float", "double"):
                    top = Kernel("TopK", dtype, (x, np.array([1])), {"axis": 1}, frozenset({1}), 2)
                    yield top, behind, listed
                if dtype == "float":
                    yield Kernel("Hardmax", dtype, (x,), {"axis": 1}), behind, listed


def kernels(count: int) -> Iterator[tuple[str, Kernel]]:
    """Yield every kernel on tensors of this many elements, with what it is listed under."""
    for kernel in elementwise(count):
        yield key(kernel.name, kernel.listed), kernel
    for kernel, behind, length in in_rows(count):
        yield key(kernel.name, kernel.listed, behind, length), kernel


def opened(kernel: Kernel) -> tuple[onnxruntime.InferenceSession, dict[str, Array]]:
    """Return a session and what to feed it."""
    plain = {"ArgMaxLast": "ArgMax"}.get(kernel.name, kernel.name)
    one = Kernel(plain, kernel.listed, kernel.inputs, kernel.attributes, kernel.constants, kernel.outputs)
    feeds = {f"x{index}": array for index, array in enumerate(one.inputs) if index not in one.constants}
    return session(model_of(one)), feeds


def medians(count: int, seconds: float) -> dict[str, float]:
    """Return the microseconds that each kernel takes for one run, all in turn for about this long each."""
    times: dict[str, float] = {}
    for name, kernel in kernels(count):
        ran, feeds = opened(kernel)
        ran.run(None, feeds)
        taken: list[int] = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(taken) < 3:
            start = time.process_time_ns()
            ran.run(None, feeds)
            taken.append(time.process_time_ns() - start)
        times[name] = float(np.median(taken)) / 1000
    return times


def least(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return the least of several measurements: what else a machine does makes them longer only."""
    return {name: min(run[name] for run in runs) for name in runs[0]}


def node() -> float:
    """Return the microseconds that a node takes for nothing: of a hundred in a row, on one element."""
    times = {}
    for count in (1, 101):
        chain = [helper.make_node("Relu", [f"x{index}"], [f"x{index + 1}"]) for index in range(count)]
        value = helper.make_tensor_value_info
        one, other = (value(name, TensorProto.FLOAT, [1]) for name in ("x0", f"x{count}"))
        graph = helper.make_graph(chain, "chain", [one], [other])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        ran = session(model)
        taken = []
        for _ in range(2000):
            start = time.process_time_ns()
            ran.run(None, {"x0": np.ones(1, np.float32)})
            taken.append(time.process_time_ns() - start)
        times[count] = float(np.median(taken)) / 1000
    return (times[101] - times[1]) / 100


def measured(seconds: float) -> dict[str, list[tuple[int, float]]]:
    """Return the table: by what is listed, elements and microseconds."""
    idle, *sizes = (least([medians(count, seconds) for _ in range(3)]) for count in (SPARSE, *SIZES))
    by_size = dict(zip(SIZES, sizes, strict=True))
    table: dict[str, list[tuple[int, float]]] = {}
    for name in idle:
        points = [(count, round(max(by_size[count][name] - idle[name], 0.01), 2)) for count in SIZES]
        table[name] = points
    table["others"] = table[key("Mul", "float")]
    return table


def main() -> None:
    """Measure, and print or write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write opsets/costs.json")
    parser.add_argument("--seconds", type=float, default=0.05, help="for one kernel on tensors of one size")
    options = parser.parse_args()
    table = measured(options.seconds)
    document = {
        "measured": {
            "onnxruntime": importlib.metadata.version("onnxruntime"),
            "machine": platform.machine(),
            "node": round(node(), 3),
            "unit": "microseconds of one thread, by number of elements",
        },
        "times": table,
    }
    if options.write:
        lines = ",\n".join(f'    "{name}": {json.dumps(points)}' for name, points in sorted(table.items()))
        head = json.dumps(document["measured"])
        TABLE.write_text(f'{{\n  "measured": {head},\n  "times": {{\n{lines}\n  }}\n}}\n', encoding="utf-8")
    for name, points in sorted(table.items()):
        print(f"{name:36}", *(f"{taken / count * 1000:8.3f}" for count, taken in points))


if __name__ == "__main__":
    main()
