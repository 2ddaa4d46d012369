"""The matrix of conversions: case number n of seed s is always the same model, goal and inputs.

Strata are (operator version, place, goal); a case takes the next stratum and draws the rest at random.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from matrix_draw import COMPLEX, FEEDS, FLOATS, VERSIONS, Array, Dims, Draws, Slot, Use, attribute_type
from onnx import IR_VERSION, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from opshift.opsets.registry.schema import NEWEST, OLDEST

OPSETS = range(OLDEST, NEWEST + 1)
OPERATORS = ("Hardmax", "ArgMax", "OneHot")
SUBSETS = [subset for size in (1, 2, 3) for subset in itertools.combinations(OPERATORS, size)]
NEWEST_IR = IR_VERSION
SWITCH = [np.array(True), np.array(False), np.array(True)]
NODE_NAMES = ("hot", "hot/Equal", "hot_1", "n/x", "Hardmax")


@dataclasses.dataclass(frozen=True)
class Goal:
    """What `convert` is asked for."""

    opset: int | None
    decompose: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = [f"opset={self.opset}"] if self.opset else []
        return " ".join([*words, f"decompose={'+'.join(self.decompose)}"] if self.decompose else words)


@dataclasses.dataclass(frozen=True)
class Stratum:
    """What the matrix goes through in turn; everything else is drawn."""

    op: str
    since: int
    place: str
    goal: Goal


@dataclasses.dataclass(frozen=True)
class Case:
    """A model, what is asked for, and what must come out."""

    name: str
    stratum: Stratum
    source_opset: int
    goal: Goal
    model: ModelProto
    feeds: list[dict[str, Array]]
    expected: list[dict[str, Array]]
    kinds: frozenset[str]
    features: frozenset[str]
    elems: frozenset[int]
    text: str

    @property
    def target(self) -> int:
        return self.goal.opset or self.source_opset

    @property
    def impossible(self) -> str:
        """Why no converter can do this, or nothing."""
        if TensorProto.BFLOAT16 in self.elems and self.target < 13:
            return "no operator takes bfloat16 below opset 13"
        return ""


class Sketch:
    """A model in the making, with its feeds and the outputs expected."""

    def __init__(self, draws: Draws) -> None:
        """Start with nothing."""
        self.draws = draws
        self.main = Body()
        self.inputs: list[ValueInfoProto] = []
        self.outputs: list[ValueInfoProto] = []
        self.functions: list[FunctionProto] = []
        self.feeds: list[dict[str, Array]] = [{} for _ in range(FEEDS)]
        self.expected: list[dict[str, Array]] = [{} for _ in range(FEEDS)]
        self.uses: list[Use] = []
        self._numbers = itertools.count()

    def name(self, hint: str) -> str:
        return f"{hint}{next(self._numbers)}"

    def remember(self, use: Use) -> Use:
        self.uses.append(use)
        return use

    def input(self, name: str, elem: int, dims: Dims | None, arrays: Sequence[Array | None]) -> str:
        """Declare a graph input; a feed that is None leaves it to its initializer."""
        self.inputs.append(helper.make_tensor_value_info(name, elem, dims))
        for feed, array in zip(self.feeds, arrays, strict=True):
            if array is not None:
                feed[name] = array
        return name

    def value(self, slot: Slot, body: Body | None = None, kind: str = "") -> str:
        """Bring a slot into being where `body` can read it, and return its name."""
        inner = body if body is not None and self.draws.chance(0.5) else self.main
        name = self.name(self.draws.rng.choice(("x", "data.", "hot/Equal_", "v:")))
        if slot.how == "node":
            inner.nodes.append(helper.make_node("Constant", [], [name], value=tensor(name, slot)))
        elif slot.how == "init":
            inner = inner if inner.holds_initializers else self.main
            inner.initializers.append(tensor(name, slot))
            if self.draws.source_opset < 9 and inner is self.main:
                # Before IR 4 an initializer is also an input.
                self.inputs.append(helper.make_tensor_value_info(name, slot.elem, slot.arrays[0].shape))
        elif slot.how == "overridable":
            self.main.initializers.append(tensor(name, slot))
            self.input(name, slot.elem, slot.declared, [None, *slot.arrays[1:]])
        elif slot.declared is None and kind != "shapeless":
            return self._unranked(name, slot)
        else:
            self.input(name, slot.elem, slot.declared, slot.arrays)
        return name

    def _unranked(self, name: str, slot: Slot) -> str:
        """A value whose rank no inference can know: a Reshape to a shape of run-time length.

        A 0 in that shape would copy a dim, so that empty values come through the other branch of an If.
        """
        flat = self.input(f"{name}_flat", slot.elem, (f"{name}_n",), [array.reshape(-1) for array in slot.arrays])
        shapes = [np.array(array.shape, np.int64) for array in slot.arrays]
        shape = self.input(f"{name}_shape", TensorProto.INT64, (f"{name}_r",), shapes)
        reshape = helper.make_node("Reshape", [flat, shape], [name])
        if all(array.size for array in slot.arrays):
            self.main.nodes.append(reshape)
            return name
        ranks = {array.ndim for array in slot.arrays if not array.size}
        if len(ranks) > 1:
            raise AssertionError("empty values of two ranks")
        dims = (None,) * ranks.pop()
        nothing = np.zeros((0,) * len(dims), slot.arrays[0].dtype)
        empties = [nothing if array.size else array for array in slot.arrays]
        empty = self.input(f"{name}_empty", slot.elem, dims, empties)
        full = self.input(f"{name}_full", TensorProto.BOOL, (), [np.array(array.size > 0) for array in slot.arrays])
        reshape.output[0] = f"{name}_then"
        take = helper.make_node("Identity", [empty], [f"{name}_else"])
        branches = [branch(Body(), node, slot.elem) for node in (reshape, take)]
        self.main.nodes.append(choice(full, name, branches))
        return name

    def constant(self, value: int | list[int] | bool) -> str:
        """A constant of the main graph, in one of the ways that the opset has (Constant-1 is float only)."""
        array = np.array(value)
        elem = TensorProto.BOOL if array.dtype == bool else TensorProto.INT64
        how = "init" if self.draws.source_opset < 9 else self.draws.rng.choice(("init", "node"))
        return self.value(Slot(elem, array.shape, how, (array,) * FEEDS))

    def output(self, value: str, elem: int, arrays: Sequence[Array], hidden: bool, shapeless: bool = False) -> None:
        """Make a value a graph output, or its elements and its shape where no rank may be known."""
        if shapeless:
            self._declare_output(value, elem, None, arrays)
        elif hidden or len({array.ndim for array in arrays}) > 1:
            flat, shape = self.name("flat"), self.name("shape")
            self.main.nodes.append(helper.make_node("Reshape", [value, self.constant([-1])], [flat]))
            self.main.nodes.append(helper.make_node("Shape", [value], [shape]))
            self._declare_output(flat, elem, (None,), [array.reshape(-1) for array in arrays])
            self._declare_output(shape, TensorProto.INT64, (None,), [np.array(a.shape, np.int64) for a in arrays])
        else:
            self._declare_output(value, elem, self._output_dims(arrays), arrays)

    def _output_dims(self, arrays: Sequence[Array]) -> Dims:
        same = len({array.shape for array in arrays}) == 1
        return arrays[0].shape if same and self.draws.chance(0.3) else (None,) * arrays[0].ndim

    def _declare_output(self, name: str, elem: int, dims: Dims | None, arrays: Sequence[Array]) -> None:
        self.outputs.append(helper.make_tensor_value_info(name, elem, dims))
        for expected, array in zip(self.expected, arrays, strict=True):
            expected[name] = array

    def model(self) -> ModelProto:
        domains = {use.domain for use in self.uses if use.domain} | ({"local"} if self.functions else set())
        graph = self.main.graph("main", self.inputs, self.outputs)
        imports = [
            helper.make_opsetid("", self.draws.source_opset),
            *(helper.make_opsetid(d, 1) for d in sorted(domains)),
        ]
        model = helper.make_model(graph, opset_imports=imports, functions=self.functions, ir_version=self._ir_version())
        model.producer_name = "matrix"
        return model

    def _ir_version(self) -> int:
        needed = least_ir_version(self.draws.source_opset)
        if self.functions:
            needed = max(needed, 9 if any(f.attribute_proto for f in self.functions) else 8)
        if self.main.initializers:
            needed = max(needed, 3 if self.draws.source_opset < 9 else 4)
        return self.draws.rng.choice(
            [needed, needed, max(needed, 8), 13 if self.draws.source_opset < 28 else NEWEST_IR]
        )


@functools.cache
def least_ir_version(opset: int) -> int:
    return int(helper.find_min_ir_version_for([helper.make_opsetid("", opset)]))


@dataclasses.dataclass
class Body:
    """The nodes of a graph or a function."""

    holds_initializers: bool = True
    nodes: list[NodeProto] = dataclasses.field(default_factory=list)
    initializers: list[TensorProto] = dataclasses.field(default_factory=list)

    def graph(self, name: str, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto]) -> GraphProto:
        return helper.make_graph(self.nodes, name, inputs, outputs, initializer=self.initializers)


def tensor(name: str, slot: Slot) -> TensorProto:
    """The slot's first value as a TensorProto (onnx.numpy_helper is slow, and knows no ml_dtypes strings)."""
    array = slot.arrays[0]
    proto = TensorProto(name=name, data_type=slot.elem, dims=array.shape)
    if slot.elem == TensorProto.STRING:
        proto.string_data.extend(str(text).encode() for text in array.reshape(-1))
    else:
        proto.raw_data = np.ascontiguousarray(array).tobytes()
    return proto


def typed(name: str, elem: int, dims: Dims | None = None) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, elem, dims)


# -- The places. Each takes a sketch and its first node, and lays out a model around it.


def place_main(sketch: Sketch, use: Use) -> None:
    values = [sketch.value(slot, kind=use.kind) for slot in use.slots]
    out = sketch.name("y")
    sketch.main.nodes.append(use.node(values, out, name=node_name(sketch)))
    finish(sketch, use, out, [use.expected(feed) for feed in range(FEEDS)])


def node_name(sketch: Sketch) -> str:
    """No name, or one that a rewriter might make up itself; onnxruntime refuses a name twice."""
    taken = {node.name for node in sketch.main.nodes}
    return sketch.draws.rng.choice(["", *(name for name in NODE_NAMES if name not in taken)])


def finish(sketch: Sketch, use: Use, out: str, arrays: Sequence[Array]) -> None:
    """Make `out` an output of the graph; where the input's rank is hidden, the output's mostly is too."""
    hidden = use.kind == "unknown" and sketch.draws.chance(0.8)
    sketch.output(out, use.out_elem, arrays, hidden, use.kind == "shapeless")


def place_if(sketch: Sketch, use: Use) -> None:
    """Both branches read outer values; the other one has other attributes."""
    other = sketch.remember(with_other_attributes(sketch, use))
    branches = []
    for each in (use, other):
        body = Body()
        values = [sketch.value(slot, None if i == 0 else body, use.kind) for i, slot in enumerate(each.slots)]
        branches.append(branch(body, each.node(values, sketch.name("b")), use.out_elem))
    finish_if(sketch, use, other, branches)


def branch(body: Body, node: NodeProto, elem: int) -> GraphProto:
    body.nodes.append(node)
    return body.graph("branch", [], [typed(node.output[0], elem)])


def choice(condition: str, out: str, branches: Sequence[GraphProto]) -> NodeProto:
    return helper.make_node("If", [condition], [out], then_branch=branches[0], else_branch=branches[1])


def finish_if(sketch: Sketch, use: Use, other: Use, branches: Sequence[GraphProto]) -> None:
    condition = sketch.input(sketch.name("c"), TensorProto.BOOL, (), SWITCH)
    out = sketch.name("y")
    sketch.main.nodes.append(choice(condition, out, branches))
    arrays = [(other if feed == 1 else use).expected(feed) for feed in range(FEEDS)]
    finish(sketch, use, out, arrays)


def with_other_attributes(sketch: Sketch, use: Use) -> Use:
    """The same inputs with attributes that give an output of the same rank."""
    ranks = sorted({array.ndim for array in use.slots[0].arrays})
    drawn = sketch.draws.attributes(use.op, use.since, ranks)
    drawn.pop("keepdims", None)
    kept = {key: value for key, value in use.attributes.items() if key == "keepdims"}
    other = dataclasses.replace(use, attributes={**drawn, **kept})
    # Another axis may be the empty one, which ArgMax cannot reduce.
    if use.op == "ArgMax" and any(array.size == 0 for array in use.slots[0].arrays):
        return use
    same_shape = all(other.expected(feed).shape == use.expected(feed).shape for feed in range(FEEDS))
    # Inference for If-1 wants the branches to have one shape.
    return other if same_shape or sketch.draws.lowest >= 11 else use


def place_loop(sketch: Sketch, use: Use) -> None:
    """Three rounds; two carried values change places in each, or the node reads an outer value."""
    first = use.slots[0]
    body = Body()
    outer = [sketch.value(slot, body if i else None, use.kind) for i, slot in enumerate(use.slots)]
    carried = use.kind != "shapeless" and sketch.draws.chance(0.5)
    twin = dataclasses.replace(first, arrays=tuple(map(first.redraw, range(FEEDS)))) if carried else first
    names = [sketch.name(hint) for hint in ("i", "c", "a", "b", "c_out", "a_out", "b_out", "h")]
    i, c, a, b, c_out, a_out, b_out, h = names
    body.nodes += [helper.make_node("Identity", [c], [c_out])]
    inputs = [typed(i, TensorProto.INT64, ()), typed(c, TensorProto.BOOL, ())]
    outputs = [typed(c_out, TensorProto.BOOL, ())]
    states = []
    if carried:
        states = [outer[0], sketch.value(twin, None, use.kind)]
        dims = first.declared if sketch.draws.chance(0.5) else None
        inputs += [typed(a, first.elem, dims), typed(b, first.elem, dims)]
        body.nodes += [helper.make_node("Identity", [b], [a_out]), helper.make_node("Identity", [a], [b_out])]
        outputs += [typed(a_out, first.elem), typed(b_out, first.elem)]
    elif sketch.draws.source_opset < 11:
        # Loop-1 wants at least one carried value.
        states = [sketch.value(Slot(TensorProto.FLOAT, (), "input", (np.array(1, np.float32),) * FEEDS))]
        inputs.append(typed(a, TensorProto.FLOAT, ()))
        body.nodes.append(helper.make_node("Identity", [a], [a_out]))
        outputs.append(typed(a_out, TensorProto.FLOAT))
    body.nodes.append(use.node([a if carried else outer[0], *outer[1:]], h))
    outputs.append(typed(h, use.out_elem))
    rounds, go_on = sketch.constant(3), sketch.constant(True)
    out = sketch.name("y")
    finals = [sketch.name("last") for _ in states]
    graph = body.graph("body", inputs, outputs)
    sketch.main.nodes.append(helper.make_node("Loop", [rounds, go_on, *states], [*finals, out], body=graph))
    arrays = []
    for feed in range(FEEDS):
        even, odd = use.expected(feed), use.expected(feed, twin.arrays[feed])
        arrays.append(np.stack([even, odd, even]))
    finish(sketch, use, out, arrays)


def place_scan(sketch: Sketch, use: Use) -> None:
    """Two slices of the input, or an outer value read in each of two steps."""
    first = use.slots[0]
    sliced = use.kind in ("static", "symbolic", "partial", "empty") and sketch.draws.chance(0.6)
    body = Body()
    constants = [sketch.value(slot, body, use.kind) for slot in use.slots[1:]]
    step, h, out = sketch.name("s"), sketch.name("h"), sketch.name("y")
    if sliced and first.declared is not None:
        pairs = [(first.arrays[feed], first.redraw(feed)) for feed in range(FEEDS)]
        stacked = Slot(first.elem, ("T", *first.declared), "input", tuple(np.stack(pair) for pair in pairs))
        scanned = sketch.value(stacked)
        dims = first.declared if sketch.draws.chance(0.5) else None
        inputs = [typed(step, first.elem, dims)]
        body.nodes.append(use.node([step, *constants], h))
        arrays = [np.stack([use.expected(f, x) for x in pairs[f]]) for f in range(FEEDS)]
    else:
        steps = np.arange(2, dtype=np.int64)
        scanned = sketch.value(Slot(TensorProto.INT64, ("T",), "input", (steps,) * FEEDS))
        inputs = [typed(step, TensorProto.INT64, ())]
        body.nodes.append(use.node([sketch.value(first, None, use.kind), *constants], h))
        arrays = [np.stack([use.expected(f)] * 2) for f in range(FEEDS)]
    rank = (None,) * (arrays[0].ndim - 1)
    graph = body.graph("body", inputs, [typed(h, use.out_elem, rank)])
    sketch.main.nodes.append(helper.make_node("Scan", [scanned], [out], body=graph, num_scan_inputs=1))
    finish(sketch, use, out, arrays)


Refs: TypeAlias = Mapping[str, tuple[str, Any]]
"""Attributes that a function's node takes from its caller: key -> (parameter, default or None)."""


class Function:
    """A model-local function with one node of an operator under test."""

    def __init__(self, sketch: Sketch, use: Use, refs: Refs | None = None, wrap: str = "") -> None:
        """Put the node in: as it is, or `wrap`ped in both branches of an "if", or in a "call" of an inner function."""
        self.sketch, self.use = sketch, use
        self.inner = [slot.how == "node" and sketch.draws.chance(0.7) for slot in use.slots]
        self.name = sketch.name("Fn")
        body = Body(holds_initializers=False)
        values = []
        self.parameters: list[str] = []
        for slot, inside in zip(use.slots, self.inner, strict=True):
            value = sketch.name("p")
            values.append(value)
            if inside:
                body.nodes.append(helper.make_node("Constant", [], [value], value=tensor(value, slot)))
            else:
                self.parameters.append(value)
        out = sketch.name("r")
        self.condition = [sketch.name("k")] if wrap == "if" else []
        if wrap == "call":
            self._call_inner(body, values, out, refs or {})
        else:
            node = use.node(values, out, {key: parameter for key, (parameter, _) in (refs or {}).items()})
            body.nodes.append(self._in_if(node) if wrap == "if" else node)
        self._declare(body, out, refs or {})

    def _call_inner(self, body: Body, values: list[str], out: str, refs: Refs) -> None:
        slots = tuple(dataclasses.replace(slot, how="input") for slot in self.use.slots)
        # All attributes that the caller sets are required of the inner function and passed on by reference.
        required = {key: (parameter, None) for key, (parameter, _) in refs.items()}
        inner = Function(self.sketch, dataclasses.replace(self.use, slots=slots), required)
        call = helper.make_node(inner.name, values, [out], domain="local")
        for key, (parameter, _) in refs.items():
            call.attribute.add(name=parameter, ref_attr_name=parameter, type=attribute_type(self.use.op, key))
        body.nodes.append(call)

    def _in_if(self, node: NodeProto) -> NodeProto:
        """Both branches have the same node."""
        out = node.output[0]
        branches = []
        for _ in range(2):
            copy = NodeProto()
            copy.CopyFrom(node)
            copy.output[0] = self.sketch.name("b")
            branches.append(branch(Body(), copy, self.use.out_elem))
        return choice(self.condition[0], out, branches)

    def _declare(self, body: Body, out: str, refs: Refs) -> None:
        imports = [helper.make_opsetid("", self.sketch.draws.source_opset), helper.make_opsetid("local", 1)]
        if self.use.domain:
            imports.append(helper.make_opsetid(self.use.domain, 1))
        function = helper.make_function(
            "local",
            self.name,
            [*self.parameters, *self.condition],
            [out],
            body.nodes,
            imports,
            attributes=[parameter for parameter, default in refs.values() if default is None],
            attribute_protos=[helper.make_attribute(p, default) for p, default in refs.values() if default is not None],
        )
        self.sketch.functions.append(function)

    def call(self, use: Use, body: Body, given: Mapping[str, Any] | None = None) -> NodeProto:
        """A call on a use's inputs; constants inside the function are the function's."""
        sketch = self.sketch
        outer = [slot for slot, inside in zip(use.slots, self.inner, strict=True) if not inside]
        values = [sketch.value(slot, None if i == 0 else body, use.kind) for i, slot in enumerate(outer)]
        if self.condition:
            values.append(sketch.input(sketch.name("c"), TensorProto.BOOL, (), SWITCH))
        return helper.make_node(self.name, values, [sketch.name("y")], domain="local", **(given or {}))


def call_in_main(sketch: Sketch, function: Function, use: Use, given: Mapping[str, Any] | None = None) -> None:
    node = function.call(use, sketch.main, given)
    sketch.main.nodes.append(node)
    finish(sketch, use, node.output[0], [use.expected(feed) for feed in range(FEEDS)])


def place_function(sketch: Sketch, use: Use) -> None:
    call_in_main(sketch, Function(sketch, use), use)


def place_function_twice(sketch: Sketch, use: Use) -> None:
    """One function, called with different ranks or element types."""
    function = Function(sketch, use)
    call_in_main(sketch, function, use)
    call_in_main(sketch, function, sketch.remember(sketch.draws.use(use.op, like=use)))


def place_function_attributes(sketch: Sketch, use: Use) -> None:
    """Attributes are the function's; the call gives them, or leaves one to its default."""
    use = use.explicit()
    refs: dict[str, tuple[str, Any]] = {}
    given: dict[str, Any] = {}
    for key, value in use.attributes.items():
        parameter = sketch.name(f"{key}_")
        default = value if sketch.draws.chance(0.5) else None
        refs[key] = (parameter, default)
        if default is None or sketch.draws.chance(0.3):
            given[parameter] = value
    function = Function(sketch, use, refs, wrap=sketch.draws.rng.choice(("", "call")))
    call_in_main(sketch, function, use, given)
    if sketch.draws.chance(0.5):
        other = sketch.remember(with_other_attributes(sketch, use).explicit())
        call_in_main(sketch, function, other, {p: other.attributes[key] for key, (p, _) in refs.items()})


def place_function_in_function(sketch: Sketch, use: Use) -> None:
    function = Function(sketch, use, wrap="call")
    call_in_main(sketch, function, use)
    if sketch.draws.chance(0.4):
        call_in_main(sketch, function, sketch.remember(sketch.draws.use(use.op, like=use)))


def place_function_from_if(sketch: Sketch, use: Use) -> None:
    """A branch calls the function, the other one has the node itself."""
    function = Function(sketch, use)
    call_body, plain_body = Body(), Body()
    called = branch(call_body, function.call(use, call_body), use.out_elem)
    values = [sketch.value(slot, None if i == 0 else plain_body, use.kind) for i, slot in enumerate(use.slots)]
    plain = branch(plain_body, use.node(values, sketch.name("b")), use.out_elem)
    finish_if(sketch, use, use, [called, plain])


def place_if_in_function(sketch: Sketch, use: Use) -> None:
    call_in_main(sketch, Function(sketch, use, wrap="if"), use)


def place_several(sketch: Sketch, use: Use) -> None:
    """Independent nodes, one of which may have the same values as another."""
    place_main(sketch, use)
    ops = [op for op in VERSIONS if op != "OneHot" or sketch.draws.source_opset >= 9]
    for op in sketch.draws.rng.sample(ops, sketch.draws.rng.randint(1, 3)):
        place_main(sketch, sketch.remember(sketch.draws.use(op)))


def place_chain(sketch: Sketch, use: Use) -> None:
    """The node's output goes on into one or two others, without a declared shape."""
    values = [sketch.value(slot, kind=use.kind) for slot in use.slots]
    arrays = tuple(use.expected(feed) for feed in range(FEEDS))
    out = sketch.name("y")
    sketch.main.nodes.append(use.node(values, out))
    last = use
    # Of a row with NaN any index is right: nothing can follow it.
    for _ in range(0 if "nan" in use.features else sketch.draws.rng.randint(1, 2)):
        takers = [
            op for op in (*OPERATORS, "HardmaxAxes") if takes(op, last.out_elem, arrays, sketch.draws.source_opset)
        ]
        if not takers:
            break
        last = sketch.remember(sketch.draws.use(sketch.draws.rng.choice(takers), wire=(last.out_elem, arrays)))
        values = [out, *(sketch.value(slot, kind=last.kind) for slot in last.slots[1:])]
        out = sketch.name("y")
        sketch.main.nodes.append(last.node(values, out))
        arrays = tuple(last.expected(feed, array) for feed, array in enumerate(arrays))
    sketch.output(out, last.out_elem, arrays, use.kind == "unknown", use.kind == "shapeless")


def takes(op: str, elem: int, arrays: Sequence[Array], source_opset: int) -> bool:
    """Whether the operator may read these values: element type, rank, and no empty row."""
    if op == "OneHot":
        # Values of the other operators are small integers, so they are in reach of every version's text.
        return source_opset >= 9 and elem == TensorProto.INT64 and all(0 < array.ndim < 4 for array in arrays)
    if any(array.ndim == 0 for array in arrays):
        return False
    if op == "ArgMax":
        numeric = elem not in (TensorProto.STRING, TensorProto.BOOL, *COMPLEX) and not has_nan(arrays)
        return numeric and all(array.size for array in arrays)
    return elem in FLOATS and not has_nan(arrays) and (elem != TensorProto.BFLOAT16 or source_opset >= 13)


def has_nan(arrays: Sequence[Array]) -> bool:
    return any(bool((array != array).any()) for array in arrays)


PLACES: dict[str, Callable[[Sketch, Use], None]] = {
    "main": place_main,
    "if": place_if,
    "loop": place_loop,
    "scan": place_scan,
    "fn": place_function,
    "fn-twice": place_function_twice,
    "fn-attr": place_function_attributes,
    "fn-fn": place_function_in_function,
    "if-fn": place_function_from_if,
    "fn-if": place_if_in_function,
    "several": place_several,
    "chain": place_chain,
}


@functools.cache
def sources(op: str, since: int) -> range:
    """The opsets at which the operator has this version."""
    versions = [*VERSIONS[op], OPSETS.stop]
    first = max(since, OPSETS.start)
    return range(first, versions[versions.index(since) + 1])


@functools.cache
def strata() -> list[Stratum]:
    """Every operator version, in every place, to every goal that there is for it; in an order without pattern."""
    found = [
        Stratum(op, since, place, goal)
        for op, versions in VERSIONS.items()
        for since in versions
        for place in PLACES
        for goal in goals(op, place)
        if place != "scan" or ((goal.opset or 9) >= 9 and sources(op, since).stop > 9)
    ]
    random.Random(0).shuffle(found)
    return found


def goals(op: str, place: str) -> list[Goal]:
    own = "Hardmax" if op == "HardmaxAxes" else op
    mixed = place in ("several", "chain")
    subsets = [subset for subset in SUBSETS if mixed or own in subset or subset == ("ArgMax", "OneHot")]
    return [*(Goal(opset) for opset in OPSETS), *(Goal(None, subset) for subset in subsets for _ in range(2))]


def stratum_of(index: int) -> Stratum:
    return strata()[index % len(strata())]


def make(seed: int, index: int) -> Case:
    """Case `index` of the matrix of this seed."""
    stratum = stratum_of(index)
    rng = random.Random(f"{seed}:{index}")
    source_opset, goal = _ends(stratum, rng)
    lowest = min(source_opset, goal.opset or source_opset)
    draws = Draws(source_opset, lowest, stratum.place, rng, np.random.default_rng(rng.getrandbits(64)))
    sketch = Sketch(draws)
    use = sketch.remember(draws.use(stratum.op))
    PLACES[stratum.place](sketch, use)
    return Case(
        name=f"{seed}:{index}",
        stratum=stratum,
        source_opset=source_opset,
        goal=goal,
        model=sketch.model(),
        feeds=sketch.feeds,
        expected=sketch.expected,
        kinds=frozenset(use.kind for use in sketch.uses),
        features=frozenset().union(*(use.features for use in sketch.uses)),
        elems=frozenset(elem for use in sketch.uses for elem in (use.out_elem, *(slot.elem for slot in use.slots))),
        text="; ".join(str(use) for use in sketch.uses),
    )


def _ends(stratum: Stratum, rng: random.Random) -> tuple[int, Goal]:
    """The source opset, and the goal, which sometimes asks for an opset and a decomposition together."""
    possible = sources(stratum.op, stratum.since)
    least = 9 if stratum.place == "scan" else OPSETS.start
    source_opset = rng.choice([opset for opset in possible if opset >= least])
    goal = stratum.goal
    if goal.opset is None and rng.random() < 0.3:
        goal = Goal(rng.choice([opset for opset in OPSETS if opset >= least]), goal.decompose)
    return source_opset, goal
