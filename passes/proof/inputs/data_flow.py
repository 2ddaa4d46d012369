"""Analyze data flow from a model's inputs: find indices, counts, and operands of roots and comparisons.

The analysis goes backwards, from the operators that read a value to the graph inputs that it comes from. Operators that
only move or cast elements pass on every usage; arithmetic with a constant passes on usages that can be solved for the
input.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import onnx

from opshift.opsets.registry.node_traits import attributes_of, traits_of
from opshift.opsets.registry.schema import default_domain
from opshift.opsets.registry.structural import CONSTANT
from opshift.opsets.registry.traits import AlongAxis, Arithmetic, Below, Coordinates, Flow, Interval, Strings, roots
from opshift.passes.analysis.model_summary import ModelSummary, summary
from opshift.passes.analysis.scopes import Array
from opshift.passes.graph.traversal import graphs, subgraphs
from opshift.passes.proof.inputs import texts
from opshift.passes.proof.inputs.input_specs import schema
from opshift.passes.proof.inputs.input_usage import (
    COUNT,
    NOTHING,
    PLACE,
    DrawnLength,
    InputUsage,
    Lookup,
    Number,
    _joined,
    length_of,
)

_KEPT = 24  # maximum number of constants of one node


# --- usages of inputs by operators ----------------------------------------------------------------------------------


def _attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    return next((onnx.helper.get_attribute_value(one) for one in node.attribute if one.name == name), default)


def _lookup(rule: AlongAxis | Coordinates | Below, node: onnx.NodeProto, view: ModelSummary) -> Lookup:
    """Return the usage of a node's input as indices."""
    if isinstance(rule, Below):
        return _below(node.input[rule.limit], view)
    if isinstance(rule, Coordinates):
        return _coordinates(node, view)
    axis = int(_attribute(node, rule.axis, 0)) if isinstance(rule.axis, str) else rule.axis
    ignored = _attribute(node, rule.ignored, None) if rule.ignored else None
    kept = (int(ignored),) if isinstance(ignored, int) else ()
    return Lookup((length_of(view, node.input[rule.data], axis),), negative=rule.negative, ignored=kept)


def _coordinates(node: onnx.NodeProto, view: ModelSummary) -> Lookup:
    batch = int(_attribute(node, "batch_dims", 0))
    data, indices = view.shapes.get(node.input[0]), view.shapes.get(node.input[1])
    rank = 6 if data is None else len(data)
    columns = indices[-1] if indices else None
    last = batch + columns if isinstance(columns, int) else rank
    return Lookup(tuple(length_of(view, node.input[0], axis) for axis in range(batch, min(last, rank))))


def _below(limit: str, view: ModelSummary) -> Lookup:
    known = view.constant(limit)
    if known is not None and known.size == 1:
        return Lookup((int(known.item()),), beyond=True)
    origin = view.origin(limit)
    return Lookup((DrawnLength(origin),) if origin in view.inputs else (None,), beyond=True)


def _own(node: onnx.NodeProto, view: ModelSummary, index: int) -> InputUsage:
    """Return a node's own usage of one of its inputs."""
    own = traits_of(node)
    if node.op_type in view.functions or index in own.counts:
        return COUNT
    if index in own.indices:
        return InputUsage(lookups=(_lookup(own.indices[index], node, view),))
    use = NOTHING
    if permitted := own.domains.get(index):
        use = InputUsage(intervals=(permitted,))
    if own.compares or own.bounds:
        use |= InputUsage(numbers=_compared(node, view, index))
    if own.landmarks and index == 0:
        constants = [view.constant(name) if name else None for name in node.input]
        use |= InputUsage(numbers=_numbers(map(float, own.landmarks(attributes_of(node), constants))))
    if index in own.corners:
        scale = float(_attribute(node, "spatial_scale", 1.0)) or 1.0
        use |= InputUsage(boxes=1 / scale, overlaps=tuple(_elements(node, view, own.overlaps)))
    if index in own.compared_with:
        use |= InputUsage(numbers=_numbers(_elements(node, view, own.compared_with[index])))
    if node.domain == "ai.onnx.ml" or own.strings:
        use |= InputUsage(numbers=_listed(node))
    domain = default_domain(node.domain)
    if not permitted and index in _positions(domain, node.op_type, view.versions.get(domain, 1), len(node.input)):
        use |= PLACE
    return use


def _listed(node: onnx.NodeProto) -> tuple[Number, ...]:
    """Return a node's keys and categories from attributes, and strings generated for its pattern or delimiter."""
    listed = (attribute for attribute in node.attribute if attribute.name.split("_")[0] in _KEYS)
    found = [item for attribute in listed for item in _some_values(attribute)]
    match traits_of(node).strings:
        case Strings.CASES:
            found += [made for word in found for made in (word.swapcase(), word.upper(), word.lower(), word.title())]
        case Strings.PATTERN:
            found += texts.around_pattern(_text(node, "pattern"))
        case Strings.DELIMITER:
            found += texts.around_delimiter(_text(node, "delimiter"), int(_attribute(node, "maxsplit", 0)))
        case Strings.NUMERALS:
            found += texts.NUMERALS
    return _numbers(found)


_KEYS = frozenset({"cats", "classlabels", "keys", "pool", "stopwords"})


def _text(node: onnx.NodeProto, name: str) -> str:
    held = _attribute(node, name, b"")
    return held.decode("utf-8", "replace") if isinstance(held, bytes) else ""


def _some_values(attribute: onnx.AttributeProto) -> Sequence[Any]:
    return [item.decode("utf-8", "replace") for item in attribute.strings[:_KEPT]] or list(attribute.ints[:_KEPT])


def _compared(node: onnx.NodeProto, view: ModelSummary, index: int) -> tuple[Number, ...]:
    """Return the constants that a node's input is compared with, from other inputs and attributes."""
    others = (view.constant(name) for at, name in enumerate(node.input) if at != index)
    found = [item for array in others if array is not None for item in _items(array)]
    for name in traits_of(node).bounds:
        found += _spread(_list(_attribute(node, name, None)))
    return _numbers(found)


def _list(bound: Any) -> Sequence[Any]:
    """Return the numbers of an attribute, which may be a tensor."""
    if isinstance(bound, onnx.TensorProto):
        return [] if bound.data_location == onnx.TensorProto.EXTERNAL else _items(onnx.numpy_helper.to_array(bound))
    return bound if isinstance(bound, list) else [bound]


def _spread(items: Sequence[Any]) -> Sequence[Any]:
    """Return distinct numbers of a list, from its smallest to its largest if there are many."""
    if len(items) == 1:
        return items
    distinct = sorted(item for item in set(items) if item == item)
    return distinct[:: max(1, -(-len(distinct) // _KEPT))]


def _elements(node: onnx.NodeProto, view: ModelSummary, index: int | None) -> list[Any]:
    """Return the elements of a constant input."""
    array = view.constant(node.input[index]) if index is not None and index < len(node.input) else None
    return [] if array is None else _items(array)


def _items(array: Array) -> list[Any]:
    return list(array.astype("f4").reshape(-1) if array.dtype.kind == "V" else array.reshape(-1).tolist())


def _numbers(items: Iterable[Any]) -> tuple[Number, ...]:
    kept = (item for item in items if isinstance(item, str) or (isinstance(item, int | float) and math.isfinite(item)))
    return tuple(Number(item) for item in dict.fromkeys(kept) if not isinstance(item, bool))


@functools.cache
def _positions(domain: str, operator: str, version: int, count: int) -> frozenset[int]:
    """Return the inputs that the schema restricts to int32 or int64: axes, positions, counts."""
    found = schema(domain, operator, version)
    if found is None or not found.inputs:
        return frozenset()
    last = len(found.inputs) - 1
    kinds = {"tensor(int32)", "tensor(int64)"}
    return frozenset(index for index in range(count) if set(found.inputs[min(index, last)].types) <= kinds)


# --- usages passed through operators --------------------------------------------------------------------------------


def _passed(node: onnx.NodeProto, view: ModelSummary, index: int, wanted: InputUsage) -> InputUsage:
    """Return the usage of one of a node's inputs, given the usages of its outputs."""
    own = traits_of(node)
    if wanted == NOTHING or own.flow is Flow.DROPPED:
        return NOTHING
    if index in own.moved:
        return wanted
    if own.flow is Flow.BOUNDED:
        return InputUsage(wanted.counts)
    if shifted := _shifted(node, view, index, wanted):
        numbers = (*_bounds_of(node, view, index), *wanted.numbers)
        return InputUsage(wanted.counts, wanted.places, shifted, rows=wanted.rows, numbers=numbers)
    rows = _joined(wanted.rows, tuple(_rows(wanted.lookups)))
    indirect = InputUsage(wanted.counts, wanted.places or bool(wanted.lookups), rows=rows)
    squares = own.arithmetic is Arithmetic.MULTIPLY and len(node.input) == 2 and node.input[0] == node.input[1]
    inverse = roots if squares else own.inverse
    numbers = _inverted(inverse, wanted.numbers) if inverse else wanted.numbers
    if own.flow is Flow.SUMMED:
        return dataclasses.replace(indirect, numbers=tuple(Number(one.value, summed=True) for one in numbers))
    if inverse:
        return dataclasses.replace(indirect, numbers=numbers)
    if own.flow is not Flow.POINTWISE:
        return indirect
    solved = _solved(node, view, index)
    if solved is None:
        return dataclasses.replace(indirect, numbers=wanted.numbers)
    return dataclasses.replace(
        indirect,
        numbers=tuple(
            Number(solved(one.value), one.summed) for one in wanted.numbers if not isinstance(one.value, str)
        ),
        intervals=tuple(_image(solved, one) for one in wanted.intervals),
        rows=tuple(_image(solved, one) for one in rows),
    )


def _rows(lookups: Iterable[Lookup]) -> Iterator[Interval]:
    """Yield where values are that are indices of an axis of constant length."""
    for one in lookups:
        if len(one.lengths) == 1 and isinstance(length := one.lengths[0], int) and length:
            yield Interval(-one.offset, length - 1 - one.offset)


def _inverted(inverse: Callable[[float], Sequence[float]], numbers: Iterable[Number]) -> tuple[Number, ...]:
    """Return the arguments for which a function returns these numbers."""
    found = []
    for one in numbers:
        with contextlib.suppress(ArithmeticError, ValueError):
            found += [Number(value, one.summed) for value in inverse(float(one.value))]
    return tuple(found)


def _shifted(node: onnx.NodeProto, view: ModelSummary, index: int, wanted: InputUsage) -> tuple[Lookup, ...]:
    """Return the lookups of an index's source, if a constant is added to it or it is clamped."""
    if not wanted.lookups or wanted.counts:
        return ()
    own = traits_of(node)
    if index in own.clamped:
        # A clamped index is always defined; the numbers show which side is clamped.
        return tuple(dataclasses.replace(one, beyond=True, negative=True) for one in wanted.lookups)
    subtracts = own.arithmetic is Arithmetic.SUBTRACT and index == 0
    if not (subtracts or own.arithmetic is Arithmetic.ADD) or len(node.input) != 2:
        return ()
    other = view.constant(node.input[1 - index])
    if other is None or other.size != 1 or other.dtype.kind not in "iu":
        return ()
    offset = -int(other.item()) if subtracts else int(other.item())
    return tuple(dataclasses.replace(one, offset=one.offset + offset) for one in wanted.lookups)


def _bounds_of(node: onnx.NodeProto, view: ModelSummary, index: int) -> tuple[Number, ...]:
    return _compared(node, view, index) if traits_of(node).clamped else ()


def _solved(node: onnx.NodeProto, view: ModelSummary, index: int) -> Callable[[float], float] | None:
    """Return the inverse of arithmetic with one constant, which maps a node's output to its input."""
    operation = traits_of(node).arithmetic
    if operation is Arithmetic.NEGATE:
        return lambda value: -value
    if operation is None or len(node.input) != 2:
        return None
    other = view.constant(node.input[1 - index])
    if other is None or other.size != 1 or other.dtype.kind not in "iuf":
        return None
    constant = other.item()
    if operation is Arithmetic.ADD:
        return lambda value: value - constant
    if operation is Arithmetic.SUBTRACT:
        return (lambda value: value + constant) if index == 0 else (lambda value: constant - value)
    if not constant or not math.isfinite(constant) or (operation is Arithmetic.DIVIDE and index == 1):
        return None
    if operation is Arithmetic.DIVIDE:
        return lambda value: value * constant
    return lambda value: value // constant if isinstance(value, int) and isinstance(constant, int) else value / constant


def _image(solved: Callable[[float], float], interval: Interval) -> Interval:
    """Return the interval of inputs for an interval of outputs."""
    low, high = sorted((solved(interval.low), solved(interval.high)))
    if not interval.zero and interval.low == -math.inf and interval.high == math.inf:
        return Interval()  # the transformed gap is not tracked
    return Interval(low, high, zero=interval.zero or low < 0 < high)


# --- graphs ---------------------------------------------------------------------------------------------------------

_Wanted = dict[str, InputUsage]


def _add(found: _Wanted, name: str, use: InputUsage) -> None:
    if name and use != NOTHING:
        found[name] = found.get(name, NOTHING) | use


def _followed(graph: onnx.GraphProto, view: ModelSummary, wanted: Iterable[InputUsage]) -> _Wanted:
    """Return the usages of the values of a graph and its outer graphs, given the usages of its outputs."""
    found: _Wanted = {}
    for value, use in zip(graph.output, wanted, strict=False):
        _add(found, value.name, use)
    for node in reversed(graph.node):
        outputs = [found.get(name, NOTHING) for name in node.output]
        if traits_of(node).positions_after:
            outputs = [outputs[0], *(InputUsage(use.counts) for use in outputs[1:])]
        flow = functools.reduce(InputUsage.__or__, outputs, NOTHING)
        graphs = list(subgraphs(node))
        inputs = [NOTHING] * len(node.input)
        for subgraph in graphs:
            inside, formal = _body(node, subgraph, view, outputs)
            own = {value.name for value in (*subgraph.input, *subgraph.initializer)}
            own.update(name for inner in subgraph.node for name in inner.output)
            for name, use in inside.items():
                if name not in own:
                    _add(found, name, use)
            # The inputs of a body are the last ones of its node: a Scan-8 has one more, which is optional.
            for at, use in enumerate(reversed(formal[: len(inputs)]), 1):
                inputs[-at] |= use
        for index, name in enumerate(node.input):
            if name:
                passed = inputs[index] if graphs else _passed(node, view, index, flow)
                _add(found, name, _own(node, view, index) | passed)
    return found


def _body(
    node: onnx.NodeProto, body: onnx.GraphProto, view: ModelSummary, outputs: Sequence[InputUsage]
) -> tuple[_Wanted, list[InputUsage]]:
    """Return the usages of the values in a body, and of its node's corresponding inputs.

    Loop-carried values are cyclic: the usages of a carried value also apply to its source in the previous iteration.
    """
    loop = traits_of(node).iteration
    first, entry = (loop.outputs, loop.inputs) if loop else (0, 0)
    carried = 0
    if loop:
        carried = len(body.input) - entry - (int(_attribute(node, loop.scanned, 0)) if loop.scanned else 0)
    wanted = [COUNT] * first + list(outputs)
    for _ in range(3):
        found = _followed(body, view, wanted)
        formal = [found.get(value.name, NOTHING) for value in body.input]
        again = list(wanted)
        for at in range(min(carried, len(wanted) - first)):
            again[first + at] |= formal[entry + at]
        if again == wanted:
            break
        wanted = again
    for at in range(min(carried, len(outputs))):
        formal[entry + at] |= outputs[at]  # a Loop may run zero times
    return found, formal


def input_usages(model: onnx.ModelProto | ModelSummary) -> dict[str, InputUsage]:
    """Return the usage of each graph input; inputs without known usages are omitted."""
    view = model if isinstance(model, ModelSummary) else summary(model)
    found = _followed(view.graph, view, ())
    return {name: found[name] for name in view.inputs if name in found}


def position_inputs(model: onnx.ModelProto | ModelSummary) -> frozenset[str]:
    """Return the names of the graph inputs whose values determine a size, a count, a position or an index.

    They need small numbers: ConstantOfShape([2^33]) would take all memory, and a Loop whose condition reads an infinity
    may never end. `Shape` and `Size` do not pass on values.
    """
    return frozenset(
        name
        for name, use in input_usages(model).items()
        if use.counts or use.places or any(not lookup.beyond for lookup in use.lookups)
    )


def divides(model: onnx.ModelProto) -> bool:
    """Return whether a model divides by a value that is not constant.

    onnxruntime's Div and Mod of the least integer by -1 crash the process (SIGFPE), so such a model never gets it.
    """
    found = [node for graph in graphs(model) for node in graph.node]
    constants = {tensor.name for tensor in model.graph.initializer}
    constants |= {name for node in found if node.op_type == CONSTANT for name in node.output}
    return any(
        len(node.input) == 2 and node.input[1] not in constants and not traits_of(node).domains.get(1, Interval()).zero
        for node in found
    )
