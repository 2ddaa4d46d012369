"""Measure what onnxruntime's kernels take, and write the cost table that lowerings are chosen by.

    python benchmarks/kernels.py                    # prints the table
    python benchmarks/kernels.py --write            # writes opsets/data/costs.json
    python benchmarks/kernels.py --filter OneHot    # some kernels only, besides what a node takes

Each kernel runs on tensors of four sizes, in one thread. CPU time is taken, kernels in turn, and of three medians the
least; what the same run takes on hardly an element is taken off, and what a node takes on it is put in its place. Rows
are of five lengths, at the end of the shape, in front of another axis, in front of one whose length is a power of two,
and at the start of the shape.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import itertools
import json
import math
import platform
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from opshift.opsets.runtimes.costs import LENGTHS, PAGE, SPARSE, key

TABLE = Path(__file__).resolve().parent.parent / "opsets" / "data" / "costs.json"
SIZES = (2**10, 2**16, 2**20, 2**23)
HARDLY = 16
"""Elements of the smallest tensors, on which a node takes what it takes on one."""

OPSET = 18
BRANCHING = frozenset({"ArgMax", "ArgMaxLast", "Hardmax", "TopK"})
"""Kernels that go one way or another for each element."""

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


def session(model: onnx.ModelProto, *, arena: bool = True, optimized: bool = True) -> onnxruntime.InferenceSession:
    """Open a model for one thread; without `arena` memory is given back as soon as it is free."""
    options = onnxruntime.SessionOptions()
    options.enable_cpu_mem_arena = arena
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def model_of(kernel: Kernel, copies: int = 1) -> onnx.ModelProto:
    """Return a model of one node, or of several that do the same, whose dimensions are known."""
    names = [f"x{index}" for index in range(len(kernel.inputs))]
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for index, (name, array) in enumerate(zip(names, kernel.inputs, strict=True))
        if index not in kernel.constants
    ]
    name = {"ArgMaxLast": "ArgMax"}.get(kernel.name, kernel.name)
    made = [[f"y{copy}_{index}" for index in range(kernel.outputs)] for copy in range(copies)]
    graph = helper.make_graph(
        [helper.make_node(name, names, outputs, **kernel.attributes) for outputs in made],
        "kernel",
        given,
        [onnx.ValueInfoProto(name=made[0][-1])],
        [numpy_helper.from_array(kernel.inputs[index], names[index]) for index in sorted(kernel.constants)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def unaligned(count: int) -> int:
    """Return about as many elements, that are no multiple of a page, be they of four bytes or of eight."""
    return count * 63 // 64 - 8 * (count >= PAGE // 2)


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
        yield Kernel("Less", dtype, (x, column))
        for name in ("Mul", "Add", "Sub"):
            yield Kernel(name, dtype, (x, row), constants=frozenset({1}))
        for name in ("Max", "Min"):
            yield Kernel(name, dtype, (x, x[::-1].copy()))
        half = (np.array([0]), np.array([columns // 2]), np.array([1]))
        yield Kernel("Slice", dtype, (np.concatenate([x, x], 1), *half), constants=frozenset({1, 2, 3}))
        back = (np.array([-1]), np.array([-(2**63)]), np.array([1]), np.array([-1]))
        yield Kernel("Slice", f"{dtype} reversed", (x, *back), constants=frozenset({1, 2, 3, 4}))
        yield Kernel("Where", dtype, (x > 50, row, np.full((1, 1), 3, number)), constants=frozenset({1, 2}))
        yield Kernel("Where", f"{dtype} whole", (x > 50, x, x[::-1].copy()))
        yield Kernel("Gather", dtype, (x, np.arange(rows)[::-1].copy()), {"axis": 0})
        single = rng.integers(0, 2, shape).astype(np.int32)
        yield Kernel("Gather", f"{dtype} single", (x[0, :2].copy(), single), {"axis": 0}, frozenset({0}))
        yield Kernel("Expand", dtype, (column[:1], np.array(shape)), constants=frozenset({1}))
        yield Kernel("Tile", dtype, (x, np.array([1, 1])))
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
    yield Kernel("Cast", "uint8 bool", ((x > 0).astype(np.uint8),), {"to": TensorProto.BOOL})
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
    few = (SPARSE, max(unaligned(count // SPARSE), 1))
    apart = rng.standard_normal(few).astype(np.float32)
    yield Kernel("GatherElements", "inner", (apart, rng.integers(0, SPARSE, few, np.int32)), {"axis": 0})
    values = np.array([0, 1], np.float32)
    hot = (np.array(columns), values)
    yield Kernel("OneHot", "last", (places[:, 0].copy(), *hot), {"axis": -1}, frozenset({1, 2}))
    yield Kernel("OneHot", "inner", (places.reshape(-1, max(rows // 2, 1)), *hot), {"axis": 1}, frozenset({1, 2}))


def in_rows(count: int) -> Iterator[tuple[Kernel, str, int]]:
    """Yield the kernels that go through rows, with what is behind these and how long they are."""
    rng = np.random.default_rng(0)
    for behind in ("last", "inner", "aligned", "first"):
        for listed in LENGTHS:
            length = min(listed, count)
            rest = max(count // length, 1)
            before = 1 if behind == "first" else 2 ** max(int(math.log2(rest)) // 2 - 4, 1)
            inner = rest // before if behind == "aligned" else unaligned(rest // before)
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


@functools.cache
def pool(dtype: str) -> Array:
    """Return numbers enough that a processor does not learn which of them is larger than the next."""
    return (np.abs(np.random.default_rng(1).standard_normal(2**20)) * 50).astype(dtype)


def fed(kernel: Kernel) -> list[dict[str, Array]]:
    """Return what a session of the kernel is fed, one after the other."""
    feeds = {f"x{index}": array for index, array in enumerate(kernel.inputs) if index not in kernel.constants}
    x = kernel.inputs[0]
    if kernel.name not in BRANCHING or x.size > 2**19:
        return [feeds]
    numbers = pool(str(x.dtype))
    starts = range(0, numbers.size - x.size, max(x.size, 256))
    return [{**feeds, "x0": numbers[start : start + x.size].reshape(x.shape)} for start in starts]


def spent(ran: onnxruntime.InferenceSession, feeds: Sequence[Mapping[str, Array]], seconds: float) -> float:
    """Return the median of the microseconds that a run takes, of those that fit into this time."""
    ran.run(None, feeds[0])
    taken: list[int] = []
    end = time.perf_counter() + seconds
    for turn in itertools.cycle(feeds):
        start = time.process_time_ns()
        ran.run(None, turn)
        taken.append(time.process_time_ns() - start)
        if time.perf_counter() > end and len(taken) > 2:
            break
    return float(np.median(taken)) / 1000


def medians(pairs: Iterable[tuple[str, Kernel]], seconds: float) -> dict[str, float]:
    """Return the microseconds that each kernel takes for one run, all in turn for about this long each."""
    return {name: spent(session(model_of(kernel)), fed(kernel), seconds) for name, kernel in pairs}


def overheads(pairs: Iterable[tuple[str, Kernel]], seconds: float) -> dict[str, float]:
    """Return the microseconds that a node of each kernel takes: of a hundred that do the same."""
    found = {}
    for name, kernel in pairs:
        one, many = (session(model_of(kernel, copies), optimized=False) for copies in (1, 101))
        feeds = fed(kernel)
        apart = [spent(many, feeds, seconds / 4) - spent(one, feeds, seconds / 4) for _ in range(4)]
        found[name] = float(np.median(apart)) / 100
    return found


def least(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return the least of several measurements: what else a machine does makes them longer only."""
    return {name: min(run[name] for run in runs) for name in runs[0]}


def measured(seconds: float, pattern: str = "") -> tuple[dict[str, list[tuple[int, float]]], float]:
    """Return the table, by what is listed elements and microseconds beyond those of a node that does nothing; these."""
    nothing = key("Relu", "float")

    def wanted(count: int) -> Iterator[tuple[str, Kernel]]:
        return (pair for pair in kernels(count) if re.search(pattern, pair[0]) or pair[0] == nothing)

    overhead = least([overheads(wanted(HARDLY), seconds / 5) for _ in range(3)])
    idle, *sizes = (least([medians(wanted(count), seconds) for _ in range(3)]) for count in (HARDLY, *SIZES))
    table: dict[str, list[tuple[int, float]]] = {}
    for name in filter(re.compile(pattern).search, idle):
        start = max(overhead[name] - overhead[nothing], 0.01)
        times = [start, *(start + max(size[name] - idle[name], 0.0) for size in sizes)]
        table[name] = [(count, round(time, 2)) for count, time in zip((HARDLY, *SIZES), times, strict=True)]
    return table, overhead[nothing]


def write(table: Mapping[str, list[tuple[int, float]]], node: float, *, keep: bool = False) -> None:
    """Write opsets/data/costs.json; with `keep` what it has and the table has not stays."""
    head = {
        "onnxruntime": importlib.metadata.version("onnxruntime"),
        "machine": platform.machine(),
        "node": round(node, 3),
        "unit": "microseconds of one thread, by number of elements",
    }
    kept = json.loads(TABLE.read_text(encoding="utf-8")) if keep else {"measured": head, "times": {}}
    if kept["measured"]["onnxruntime"] != head["onnxruntime"]:
        sys.exit(f"{TABLE} is of onnxruntime {kept['measured']['onnxruntime']}: measure all of it, without --filter.")
    head = kept["measured"]  # of all that is listed, not of some
    times = {**kept["times"], **table}
    times["others"] = times[key("Mul", "float")]
    lines = ",\n".join(f'    "{name}": {json.dumps(points)}' for name, points in sorted(times.items()))
    text = f'{{\n  "measured": {json.dumps(head)},\n  "times": {{\n{lines}\n  }}\n}}\n'
    TABLE.write_text(text, encoding="utf-8")


def main() -> None:
    """Measure, and print or write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write opsets/data/costs.json")
    parser.add_argument("--seconds", type=float, default=0.05, help="for one kernel on tensors of one size")
    parser.add_argument("--filter", default="", help="a regular expression that what is listed must match")
    options = parser.parse_args()
    table, node = measured(options.seconds, options.filter)
    if options.write:
        write(table, node, keep=bool(options.filter))
    for name, points in sorted(table.items()):
        print(f"{name:36}", *(f"{taken / count * 1000:8.3f}" for count, taken in points))


if __name__ == "__main__":
    main()
