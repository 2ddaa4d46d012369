"""Measure every lowering of Hardmax, ArgMax and OneHot against onnxruntime's own kernel, and say which is taken.

    python benchmarks/lowerings.py                    # prints the table
    python benchmarks/lowerings.py --filter Hardmax   # some cases only
    python benchmarks/lowerings.py --costs            # first measures the costs: opsets/data/costs.json
    python benchmarks/lowerings.py --write            # writes docs/lowerings.md and docs/lowerings.svg too

One thread, CPU time, all ways of a case in turn, medians. Each way must give what the kernel gives. The costs, which
`benchmarks/kernels.py` measures, are of kernels; where they say that lowerings begin to pay, the table of sizes shows.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import gc
import importlib.metadata
import math
import platform
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kernels
import numpy as np
import onnx
from onnx.parser import parse_model

import opshift
from opshift.opsets.faster import every
from opshift.opsets.registry.lowering import Lowering
from opshift.opsets.registry.operator import Lifted, Operator, lift, operator_for
from opshift.opsets.runtimes.target import Legality
from opshift.passes.analysis.scopes import describe, view
from opshift.passes.rewrite.edits import Replace
from opshift.passes.rewrite.fragment import Fragment, operand_sources
from opshift.passes.rewrite.lowering_search import Deriver
from opshift.passes.rewrite.node_models import alone

DOCS = Path(__file__).resolve().parent.parent / "docs"
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """A node on a shape, and the most that the way taken for it may cost, as a share of the kernel's time.

    Of the shape as many dimensions as `symbolic` says are not known.
    """

    operator: str
    shape: tuple[int, ...]
    axis: int
    most: float = math.inf
    opset: int = 18
    last: int = 0
    depth: int = 0
    values: tuple[float, float] = (0.0, 1.0)
    symbolic: int = 0
    small: bool = False

    def __str__(self) -> str:
        kind = {"Hardmax": f"Hardmax-{11 if self.opset < 13 else 13}"}.get(self.operator, self.operator)
        what = [f"depth {self.depth}", f"values {self.values[0]:g}, {self.values[1]:g}"] if self.depth else []
        what += ["select_last_index"] * self.last
        what += {0: [], 1: ["first dimension unknown"]}.get(self.symbolic, ["no dimension known"])
        return ", ".join([f"{kind} {'x'.join(map(str, self.shape))} axis {self.axis}", *what])

    @property
    def output(self) -> tuple[int, ...]:
        """The shape of the output."""
        if self.depth:
            return (*self.shape[: self.axis], self.depth, *self.shape[self.axis :])
        if self.operator == "ArgMax":
            return (*self.shape[: self.axis], *self.shape[self.axis + 1 :])
        return self.shape

    def model(self) -> onnx.ModelProto:
        """Return the node as a model."""
        given, made = (
            ",".join(f"{name}{axis}" if axis < self.symbolic else str(dim) for axis, dim in enumerate(shape))
            for name, shape in (("d", self.shape), ("e", self.output))
        )
        head = f'<ir_version: 8, opset_import: ["": {self.opset}]> g '
        if self.depth:
            values = ", ".join(map(str, self.values))
            held = f"<int64 depth = {{{self.depth}}}, float[2] values = {{{values}}}>"
            node = f"OneHot <axis = {self.axis}> (x, depth, values)"
            return parse_model(f"{head}(int64[{given}] x) => (float[{made}] y) {held} {{ y = {node} }}")
        if self.operator == "ArgMax":
            node = f"ArgMax <axis = {self.axis}, keepdims = 0, select_last_index = {self.last}> (x)"
            return parse_model(f"{head}(float[{given}] x) => (int64[{made}] y) {{ y = {node} }}")
        return parse_model(f"{head}(float[{given}] x) => (float[{made}] y) {{ y = Hardmax <axis = {self.axis}> (x) }}")

    def input(self) -> Array:
        """Return what to run it on: normal numbers, or indices of which some are negative or out of range."""
        rng = np.random.default_rng(0)
        if self.depth:
            return rng.integers(-2, self.depth + 2, self.shape)
        return rng.standard_normal(self.shape).astype(np.float32)


SEGMENTS, HEADS, WORDS = (8, 21, 256, 256), (32, 128, 768), (1, 151936)
STATIC = (
    Case("ArgMax", (64, 1000), 1, 0.35),
    Case("ArgMax", WORDS, 1, 0.20),
    Case("ArgMax", HEADS, 2, 0.30),
    Case("ArgMax", SEGMENTS, 1, 0.60),
    Case("ArgMax", (64, 1000), 1, 0.35, last=1),
    Case("ArgMax", WORDS, 1, 0.20, last=1),
    Case("ArgMax", SEGMENTS, 1, 0.60, last=1),
    Case("Hardmax", SEGMENTS, 1, 0.15),
    Case("Hardmax", HEADS, 1, 0.45),
    Case("Hardmax", HEADS, 2, 0.80),
    Case("Hardmax", WORDS, 1, 0.90),
    Case("Hardmax", SEGMENTS, 1, 0.95, opset=11),
    Case("OneHot", (64,), 1, 0.25, depth=1000),
    Case("OneHot", (8, 256, 256), 1, 0.60, depth=21),
    Case("OneHot", (32, 128), 2, 0.30, depth=30522),
    Case("OneHot", (32, 128), 2, 0.65, depth=30522, values=(0.1, 0.9)),
    Case("Hardmax", (16, 10), 1, 1.6, small=True),
    Case("Hardmax", (1, 1000), 1, 1.6, small=True),
    Case("ArgMax", (16, 10), 1, 1.6, small=True),
    Case("ArgMax", (1, 1000), 1, 1.6, small=True),
    Case("OneHot", (16,), 1, 1.6, depth=10, small=True),
    Case("OneHot", (1,), 1, 1.6, depth=1000, small=True),
)
LATER = {
    ("ArgMax", (64, 1000), 1): 0.45,
    ("ArgMax", WORDS, 1): 0.25,
    ("ArgMax", HEADS, 2): 0.35,
    ("Hardmax", HEADS, 2): 1.1,
    ("Hardmax", WORDS, 1): 1.1,
}
"""The most that may be taken where the shape is known at run time only."""
ANY = 9
"""More dimensions than a shape here has."""

SYMBOLIC = tuple(
    dataclasses.replace(case, symbolic=unknown, most=LATER.get((case.operator, case.shape, case.axis), math.inf))
    for unknown in (ANY,)
    for case in STATIC
    if not case.small and case.opset > 12 and not case.last and case.values == (0.0, 1.0)
)

SIZES = (
    *(Case("ArgMax", (rows, 1000), 1) for rows in (1, 4, 16, 64, 256)),
    *(Case("ArgMax", (rows, 10), 1) for rows in (16, 256, 4096, 65536)),
    *(
        Case(operator, (4, classes, side, side), 1)
        for operator in ("ArgMax", "Hardmax")
        for classes in (3, 21, 80)
        for side in (4, 10, 16, 32, 50, 64, 128, 200)
    ),
    *(Case("Hardmax", (rows, 1000), 1) for rows in (1, 4, 16, 64, 256)),
    *(Case("OneHot", (count,), 1, depth=1000) for count in (1, 4, 16, 64, 256)),
    *(Case("OneHot", (4, side, side), 1, depth=21) for side in (4, 10, 16, 32, 50, 64, 128, 200)),
)
"""What `--optimize` is to leave alone where it is small, and to replace where that is faster."""

TAKEN, GIVEN_UP = "taken with --optimize", "taken with --optimize --decompose"
DEFAULT, KERNEL = "taken with --decompose", "the kernel"


LARGE = 2**26
OF_LARGE = ("cast_mask", "where_mask", "scattered", "Equal + Cast by hand")
"""Where an output has more elements than this, only these ways are measured besides the one taken."""


# --- the ways ---------------------------------------------------------------------------------------------------------


def chosen(case: Case) -> dict[str, onnx.ModelProto]:
    """Return the kernel, and what is taken where it may stay and where it must go; by name."""
    model = case.model()
    return {
        KERNEL: model,
        TAKEN: converted(model, optimize=True),
        GIVEN_UP: converted(model, optimize=True, decompose=[case.operator]),
        DEFAULT: converted(model, decompose=[case.operator]),
    }


def ways(case: Case) -> dict[str, onnx.ModelProto]:
    """Return the kernel, what is taken, and every lowering at the top, with what serves it best below; by name."""
    model, found = case.model(), chosen(case)
    operator = operator_for("", case.operator)
    assert operator is not None
    for lowering in every(operator):
        if (made := by(case, model, operator, lowering)) is not None:
            found[lowering.name] = made
    return {**found, **by_hand(case)}


def converted(model: onnx.ModelProto, **request: Any) -> onnx.ModelProto:
    """Return what a conversion gives."""
    result = opshift.convert(model, verify=False, **request).model
    assert isinstance(result, onnx.ModelProto)
    return result


def by(case: Case, model: onnx.ModelProto, operator: Operator, lowering: Lowering) -> onnx.ModelProto | None:
    """Return the node in the words of one lowering, whose nodes are lowered at will; None where it does not apply."""
    seen = view(model.graph.node[0], describe(model), case.opset)
    whole = lift(operator, seen, "runtime")
    assert isinstance(whole, Lifted)
    only = dataclasses.replace(operator, versions=(), lowerings=(lowering,), wider_types={})
    legality = Legality(case.opset, frozenset({case.operator}), runnable=True)
    fragment = Deriver(legality, assume=frozenset({"finite-inputs"}), optimize=True).derive(
        dataclasses.replace(whole, operator=only)
    )
    if not isinstance(fragment, Fragment):
        return None
    change = Replace(fragment, operand_sources(whole), seen, whole, "node")
    _, made = alone(change, case.opset, case.opset)
    made.graph.output[0].CopyFrom(model.graph.output[0])
    made.graph.node[-1].output[0] = "y"
    return named(made)


def named(model: onnx.ModelProto) -> onnx.ModelProto:
    """Name the only input x and the only output y."""
    text = onnx.ModelProto()
    text.CopyFrom(model)
    names = {text.graph.input[0].name: "x", "y0": "y"}
    text.graph.input[0].name = "x"
    for node in text.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    return text


def by_hand(case: Case) -> dict[str, onnx.ModelProto]:
    """Return what people write: an index and OneHot, or an index and Equal with positions."""
    model, axis, rank = case.model(), case.axis, len(case.shape)
    head = onnx.printer.to_text(model).split("{")[0].split("<int64 depth")[0]
    if case.operator == "OneHot" and case.symbolic:
        along = ", ".join("-1" if place == axis else "1" for place in range(rank + 1))
        body = f"""z = Constant <value = int64 {{0}}> ()  o = Constant <value = int64 {{1}}> ()
            d = Constant <value = int64 {{{case.depth}}}> ()  n = Less (x, z)  m = Add (x, d)  w = Where (n, m, x)
            a = Constant <value = int64[1] {{{axis}}}> ()  i = Unsqueeze (w, a)  r = Range (z, d, o)
            al = Constant <value = int64[{rank + 1}] {{{along}}}> ()  p = Reshape (r, al)
            e = Equal (p, i)  y = Cast <to = 1> (e)"""
        return {"Equal + Cast by hand": parse_model(f"{head} {{ {body} }}")}
    if case.operator != "Hardmax" or case.opset < 13 or case.small:
        return {}
    length = case.shape[axis]
    along = ", ".join("-1" if place == axis else "1" for place in range(rank))
    end = "" if axis == rank - 1 else f", end = {axis + 1}"
    counted = f"""
        z = Constant <value = int64 {{0}}> ()  o = Constant <value = int64 {{1}}> ()
        a = Constant <value = int64[1] {{0}}> ()
        al = Constant <value = int64[{rank}] {{{along}}}> ()  l = Shape <start = {axis}{end}> (x)
        n = Squeeze (l, a)  r = Range (z, n, o)  p = Reshape (r, al)  e = Equal (p, i)  y = Cast <to = 1> (e)"""
    top = "k = Constant <value = int64[1] {1}> ()"
    bodies = {
        "ArgMax + Equal by hand": f"i = ArgMax <axis = {axis}> (x) {counted}",
        "TopK + Equal by hand": f"{top} w, i = TopK <axis = {axis}> (x, k) {counted}",
        "ArgMax + OneHot by hand": f"""i = ArgMax <axis = {axis}, keepdims = 0> (x)
            d = Constant <value = int64 {{{length}}}> ()  v = Constant <value = float[2] {{0, 1}}> ()
            y = OneHot <axis = {axis}> (i, d, v)""",
    }
    return {name: parse_model(f"{head} {{ {body} }}") for name, body in bodies.items()}


# --- the times --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """The median microseconds of each way, by name, and of copying as many bytes as the kernel reads and writes."""

    times: Mapping[str, float]
    copy: float
    lowerings: Mapping[str, str]
    more: float | None
    """By how many outputs the memory at the peak of the way taken is above the kernel's; None of small ones."""

    def share(self, name: str) -> float:
        """Return the time of a way as a share of the kernel's."""
        return self.times[name] / self.times[KERNEL]


def measure(case: Case, models: Mapping[str, onnx.ModelProto], seconds: float) -> Measured:
    """Run these ways of a case in turn."""
    x = case.input()
    written = {name: in_words(model) for name, model in models.items()}
    if math.prod(case.output) > LARGE:
        # Each session keeps the memory that it has had.
        models = {name: model for name, model in models.items() if name in (KERNEL, way_of(case), *OF_LARGE)}
    said = {name: nameless(model) for name, model in models.items()}
    alike = {name: next(other for other in models if said[other] == said[name]) for name in models}
    sessions = {name: kernels.session(models[name]) for name in models if alike[name] == name}
    expected = sessions[KERNEL].run(None, {"x": x})[0]
    for name, one in sessions.items():
        np.testing.assert_array_equal(one.run(None, {"x": x})[0], expected, err_msg=f"{case}: {name}")
    largest = max(x, expected, key=lambda array: array.nbytes)
    target = np.empty_like(largest)
    once = min(timed(sessions[KERNEL], x, 1) for _ in range(3))
    repeated = max(1, int(500 / max(once, 1.0)))
    taken: dict[str, list[float]] = {name: [] for name in sessions}
    copies: list[float] = []
    rng = np.random.default_rng(0)
    end = time.perf_counter() + seconds * len(sessions)
    while time.perf_counter() < end or len(copies) < 5:
        for name in rng.permutation(list(sessions)):
            taken[name].append(timed(sessions[name], x, repeated))
        np.copyto(target, largest)
        start = time.process_time_ns()
        for _ in range(repeated):
            np.copyto(target, largest)
        copies.append((time.process_time_ns() - start) / 1000 / repeated)
    medians = {name: float(np.median(taken[other])) for name, other in alike.items()}
    more = None
    if expected.nbytes >= LEAST and Path("/proc/self/clear_refs").exists():
        kernel, way = (peak(models[name], x) for name in (KERNEL, way_of(case)))
        more = (way - kernel) / expected.nbytes
    return Measured(medians, float(np.median(copies)), written, more)


def in_words(model: onnx.ModelProto) -> str:
    """Return the operators of a model in their order; where they are many, how many there are of each."""
    operators = [node.op_type for node in model.graph.node]
    if len(operators) <= 16:
        return ", ".join(operators)
    counted = ((name, operators.count(name)) for name in dict.fromkeys(operators))
    return f"{len(operators)} nodes: " + ", ".join(f"{count} {name}" if count > 1 else name for name, count in counted)


def nameless(model: onnx.ModelProto) -> bytes:
    """Return a model without its names: what is alike is the same way, and takes the same time."""
    text = onnx.ModelProto()
    text.graph.CopyFrom(model.graph)
    names: dict[str, str] = {"": ""}

    def name(old: str) -> str:
        return names.setdefault(old, f"v{len(names)}")

    text.graph.name = ""
    for value in (*text.graph.input, *text.graph.output):
        value.name = name(value.name)
    for node in text.graph.node:
        node.input[:], node.output[:] = [name(one) for one in node.input], [name(one) for one in node.output]
        node.name = ""
        del node.metadata_props[:]
    for tensor in text.graph.initializer:
        tensor.name = name(tensor.name)
    del text.graph.value_info[:]
    return bytes(text.SerializeToString(deterministic=True))


LEAST = 2**20
"""Bytes of an output from which on memory is measured: less is lost among what a process holds anyway."""


M_MMAP_THRESHOLD = -3
"""The parameter of mallopt: bytes from which on an allocation is a mapping of its own."""


def peak(model: onnx.ModelProto, x: Array) -> int:
    """Return by how many bytes this process grows at most while a model runs (Linux, glibc)."""
    one = kernels.session(model, arena=False)
    allocator = ctypes.CDLL(None)
    allocator.mallopt(M_MMAP_THRESHOLD, 2**16)  # what is freed is given back, and not there for the next run
    one.run(None, {"x": x})
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak is counted from here
    before = resident("VmRSS")
    one.run(None, {"x": x})
    grown = resident("VmHWM") - before
    allocator.mallopt(M_MMAP_THRESHOLD, 2**25)
    return grown


def resident(what: str) -> int:
    """Return an entry of /proc/self/status in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(what)).split()[1])


def timed(one: Any, x: Array, repeated: int) -> float:
    """Return the microseconds of CPU that one run takes, after one of the same: caches are as it leaves them."""
    one.run(None, {"x": x})
    start = time.process_time_ns()
    for _ in range(repeated):
        one.run(None, {"x": x})
    return (time.process_time_ns() - start) / 1000 / repeated


# --- what is said of it -----------------------------------------------------------------------------------------------


def way_of(case: Case) -> str:
    """Return the way that is judged: what is small, or of unknown shape, is replaced only where it must go."""
    return GIVEN_UP if case.small or (case.symbolic and case.most == math.inf) else TAKEN


def verdict(case: Case, measured: Measured) -> str:
    """Say whether the way taken is as fast as wanted."""
    name = way_of(case)
    if case.symbolic and case.most == math.inf:
        plain = min((measured.times[other] for other in PLAIN if other in measured.times), default=None)
        return "" if plain is None else "yes" if measured.times[name] <= plain else "no"
    written = min((spent for other, spent in measured.times.items() if "by hand" in other), default=math.inf)
    return "yes" if measured.share(name) <= case.most and measured.times[name] <= written else "no"


PLAIN = ("ArgMax + Equal by hand", "Equal + Cast by hand", "first_place")
"""The plain lowering of each operator: positions, and what is equal."""


def page(results: Mapping[Case, Measured], sizes: Mapping[Case, Measured], head: str) -> str:
    """Return docs/lowerings.md."""
    lines = [
        HEAD.format(head=head),
        "| Node | at most | taken | x kernel | x copy | reached | more memory |",
        "|---|---|---|---|---|---|---|",
    ]
    for case, measured in results.items():
        name = way_of(case)
        most = "" if case.most == math.inf else f"{case.most:.2f}"
        memory = "" if measured.more is None else f"{measured.more:.2f}"
        cells = [str(case), most, measured.lowerings[name], f"{measured.share(name):.2f}"]
        cells += [f"{measured.times[name] / measured.copy:.1f}", verdict(case, measured), memory]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [SMALL_AND_LARGE, *by_size(sizes), EVERY]
    for case, measured in results.items():
        kernel = measured.times[KERNEL]
        lines.append(f"\n### {case}\n\nThe kernel: {kernel:,.0f} us, {kernel / measured.copy:.1f} times a copy.\n")
        lines += ["| Way | x kernel | x copy | nodes |", "|---|---|---|---|"]
        for name, spent in sorted(measured.times.items(), key=lambda item: item[1]):
            if name != KERNEL:
                share, copies = spent / kernel, spent / measured.copy
                lines.append(f"| {name} | {share:.2f} | {copies:.1f} | {measured.lowerings[name]} |")
    return "\n".join(lines) + "\n"


def kept(measured: Measured) -> bool:
    """Return whether `--optimize` leaves the node alone."""
    return measured.lowerings[TAKEN] == measured.lowerings[KERNEL]


def by_size(results: Mapping[Case, Measured]) -> Iterator[str]:
    """Yield the table of where lowerings begin to be faster."""
    yield "| Node | `--optimize` | x kernel | x kernel where it must go |"
    yield "|---|---|---|---|"
    for case, measured in results.items():
        taken = ("leaves it", "1") if kept(measured) else ("replaces it", f"{measured.share(TAKEN):.2f}")
        yield f"| {' | '.join([str(case), *taken, f'{measured.share(GIVEN_UP):.2f}'])} |"


HEAD = """\
# Cost of lowerings

Written by `python benchmarks/lowerings.py --write`; do not edit by hand.

{head}. The numbers are medians of CPU time on one thread; the candidates of a node run in turn.

- "x kernel" is the time relative to onnxruntime's own kernel, "x copy" relative to copying the larger of input and
  output.
- "Taken" is the result of `--optimize`. For small nodes, and for nodes of unknown shape without a bound, it is the
  result of `--optimize --decompose`. The latter are compared with the plain lowering (positions and Equal).
- "Taken with --decompose" is the default: the fewest nodes, whatever their time.
- A replacement must never be slower than a handwritten one (an index and OneHot, or an index and Equal).
- "More memory" is the peak memory above the kernel's, as a multiple of the output's size, without onnxruntime's arena.
  The goal is at most one.

![times of all ways](lowerings.svg)
"""
SMALL_AND_LARGE = """
## Small and large

The table shows the size from which on `--optimize` replaces a node, and the cost of the replacement if the target does
not support the operator.
"""
EVERY = "\n## All candidates\n\nEach row is the best result of a lowering, including the lowering of its emitted nodes."


def drawing(results: Mapping[Case, Measured]) -> str:
    """Return a plot: a row for each node, a dot for each way, on a logarithmic scale."""
    low, high, left, wide, row = 0.05, 10.0, 430, 520, 22

    def at(share: float) -> float:
        return left + wide * math.log(min(max(share, low), high) / low) / math.log(high / low)

    tall = row * (len(results) + 3)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + wide + 30}" height="{tall}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="100%" height="{tall}" fill="white"/>',
    ]
    for share in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10):
        colour = "#888" if share == 1 else "#ddd"
        parts.append(f'<path d="M{at(share):.1f} {row}V{tall - row}" stroke="{colour}"/>')
        parts.append(f'<text x="{at(share):.1f}" y="{row - 6}" text-anchor="middle">{share:g}</text>')
    for index, (case, measured) in enumerate(results.items()):
        y = row * (index + 1.5)
        parts.append(f'<text x="{left - 10}" y="{y + 4:.1f}" text-anchor="end">{case}</text>')
        name = way_of(case)
        for way in measured.times:
            if way not in (KERNEL, TAKEN, GIVEN_UP, DEFAULT):
                title = f"<title>{way}: {measured.share(way):.2f}</title>"
                parts.append(
                    f'<circle cx="{at(measured.share(way)):.1f}" cy="{y:.1f}" r="4" fill="#9bc">{title}</circle>'
                )
        if case.most < math.inf:
            x = at(case.most)
            parts.append(f'<path d="M{x:.1f} {y - 8:.1f}V{y + 8:.1f}" stroke="#c33" stroke-width="2"/>')
        title = f"<title>{name}: {measured.share(name):.2f}</title>"
        parts.append(f'<circle cx="{at(measured.share(name)):.1f}" cy="{y:.1f}" r="5" fill="#136">{title}</circle>')
    legend = "Time as a share of the kernel's. Dark: what is taken; light: every other way; red: the most it may be."
    parts += [f'<text x="10" y="{tall - 6}">{legend}</text>', "</svg>"]
    return "\n".join(parts) + "\n"


def report(case: Case, measured: Measured) -> Iterator[str]:
    """Yield the lines that are printed of a case."""
    kernel = measured.times[KERNEL]
    wanted = "" if case.most == math.inf else f"; at most {case.most:g}: {verdict(case, measured)}"
    wanted = wanted or f"; no slower than the plain way: {verdict(case, measured)}"
    memory = "" if measured.more is None else f"; {measured.more:.2f} outputs more memory than the kernel"
    yield f"{case}: {kernel:,.0f} us, {kernel / measured.copy:.1f} x copy{wanted}{memory}"
    for name, spent in sorted(measured.times.items(), key=lambda item: item[1]):
        yield f"    {name:28} {spent / kernel:6.2f} {spent / measured.copy:7.1f}  {measured.lowerings[name]}"


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--filter", default="", help="a regular expression that the case must match")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each way of a case")
    parser.add_argument("--write", action="store_true", help="write docs/lowerings.md and docs/lowerings.svg")
    parser.add_argument("--costs", action="store_true", help="measure and write opsets/data/costs.json before")
    options = parser.parse_args()
    if options.costs:
        kernels.write(*kernels.measured(0.05))
    results: dict[Case, Measured] = {}
    for case in (*STATIC, *SYMBOLIC):
        if re.search(options.filter, str(case)):
            results[case] = measure(case, ways(case), options.seconds)
            print(*report(case, results[case]), sep="\n", flush=True)
    sizes: dict[Case, Measured] = {}
    for case in SIZES:
        if re.search(options.filter, str(case)):
            sizes[case] = measure(case, chosen(case), options.seconds)
            print(*report(case, sizes[case]), sep="\n", flush=True)
    head = f"onnxruntime {importlib.metadata.version('onnxruntime')}, numpy {np.__version__}, {platform.machine()}"
    if options.write:
        (DOCS / "lowerings.md").write_text(page(results, sizes, head), encoding="utf-8")
        (DOCS / "lowerings.svg").write_text(drawing(results), encoding="utf-8")


if __name__ == "__main__":
    main()
