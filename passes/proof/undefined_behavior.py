"""Find inputs whose differences do not count, because the original's result is undefined for them."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from opshift.opsets.families.merged_axes import has_rows, is_elementwise
from opshift.opsets.registry.node_traits import attributes_of, float_traits, integers_of, selects, traits_of
from opshift.opsets.registry.traits import Integers, Trait, Undefined
from opshift.passes.analysis.scopes import inlined
from opshift.passes.base.limits import Limits
from opshift.passes.graph.limits import MOST_AXES
from opshift.passes.graph.traversal import outer_names, subgraphs
from opshift.passes.proof.bisect import Trace
from opshift.passes.proof.comparison import Excluded, Executor
from opshift.passes.proof.equality import differs
from opshift.passes.proof.integer_overflow import overflows, overflows_inside
from opshift.passes.proof.model_variants import unchecked_operators
from opshift.passes.proof.pair import Pair
from opshift.passes.proof.pair_executors import has_empty_axis
from opshift.passes.proof.signature import contradiction
from opshift.passes.proof.wider_types import is_float
from opshift.passes.runtime import ort_opsets
from opshift.passes.runtime.node_evaluator import Interpreter
from opshift.passes.runtime.ort_models import ExcludedError, Feeds, RejectedError, Runnable

_ONCE = frozenset({Trait.MOVES, Trait.SELECTS, Trait.ADDS, Trait.MULTIPLIES})
"""The traits of operators whose results are rounded once, so that every kernel returns the same."""

Places = npt.NDArray[np.bool_] | bool
"""Which elements of a value; True: all of them, or unknown."""


class UndefinedFilter:
    """Returns the outputs, or elements of them, that do not count on an input on which two models differ.

    No output counts if the shape of a main-graph value of the original contradicts onnx's inference. The same holds if
    onnxruntime and the numpy oracle of a selecting operator of the pairs differ (1.31.1 selects 0 as the larger of 2^31
    and 0 in int64). Outputs do not count either if they depend on:

    - a selecting operator that reads a NaN; of the pairs also one that excludes NaN, or that is exact only for finite
      values or whole indices and reads others;
    - an operator that reads at positions that no float can represent;
    - a Cast of a number that no integer represents;
    - a quantizing operator without a valid scale;
    - the scan outputs of a Loop without iterations, of which only the first dimension is defined.

    Inputs that an oracle of the pairs rejects are undefined, whatever onnxruntime returns: it does not check the axis
    of a CumSum of an empty tensor (1.32.0). The same holds for an operator that runs by ONNX's function body, which
    does not check all requirements of the specification: that of LinearAttention reshapes the rates of fewer tokens.

    With graph optimizations on, the optimized model's values count as well: a Conv in another layout adds in another
    order, where infinities of both signs may lead to a NaN only there (onnxruntime 1.32.0).
    """

    def __init__(
        self, original: Runnable, pairs: Sequence[Pair], limits: Limits, executor: Executor | None = None
    ) -> None:
        """Store the model; it is opened on first use, unless its executor runs node by node anyway."""
        self._executor = executor
        self._interpreter = executor if isinstance(executor, Interpreter) else None
        model = self._interpreter.model if self._interpreter else inlined(original.proto)
        self._original = replace(original, proto=model)
        self._outputs = frozenset(value.name for value in original.proto.graph.output)
        named = [(pair.original.graph.node[0].op_type, pair) for pair in pairs]
        operators = frozenset(name for name, pair in named if pair.exclude_nan or pair.finite)
        self._selecting = operators
        self._finite = frozenset(name for name, pair in named if pair.finite)
        self._whole = frozenset(name for name, pair in named if pair.whole)
        self._known = frozenset(name for name, pair in named if pair.oracle is not None)
        self._by_body = unchecked_operators(original.proto)
        self._by_oracle = frozenset(name for name, pair in named if selects(pair.original.graph.node[0]))
        self._functions = {function.name for function in original.proto.functions if self._selects(function.node)}
        self._constants = {
            tensor.name: onnx.numpy_helper.to_array(tensor)
            for tensor in model.graph.initializer
            if math.prod(tensor.dims) <= MOST_AXES and tensor.data_location != onnx.TensorProto.EXTERNAL
        }
        self._limits = limits
        self._unsaid: dict[int, Feeds] = {}

    @functools.cached_property
    def _oracles(self) -> Interpreter:
        return Interpreter(self._original, self._limits, self._by_oracle)

    @functools.cached_property
    def _every_oracle(self) -> Interpreter:
        return Interpreter(self._original, self._limits, self._known | self._by_body)

    @functools.cached_property
    def _side(self) -> Trace:
        return Trace(ort_opsets.fit(self._original)[0], self._limits)

    @functools.cached_property
    def _optimised_side(self) -> Trace:
        return Trace(ort_opsets.fit(self._original)[0], self._limits, optimised=True)

    @functools.cached_property
    def _rounded(self) -> frozenset[str]:
        """The values that kernels compute in several steps, and those that depend on them.

        Beside an undefined element, their other elements do not count either: rounding decides integers made of them.
        """
        found: set[str] = set()
        for node in self._original.proto.graph.node:
            if not _ONCE.issuperset(float_traits(node)) or not found.isdisjoint([*node.input, *outer_names(node)]):
                found.update(node.output)
        return frozenset(found)

    def __call__(self, feeds: Feeds, optimised: bool) -> Excluded:
        """Return the outputs, and the elements of outputs, whose differences do not count on this input."""
        try:
            values = self._interpreter.values(feeds) if self._interpreter else self._side.values(feeds)
        except RejectedError:
            values = {**feeds, **self._results(feeds)}
        if contradiction(self._original.proto, feeds, values):
            # If a Scan's body declares vectors of one element, onnxruntime 1.32.0 scans a vector as such vectors.
            found = Excluded(self._outputs, ranks=True)
        elif self._miscomputed(feeds, values) or self._meaningless(feeds):
            found = Excluded(self._outputs)
        else:
            found = self._undefined(values)
        if optimised and not self._interpreter and found.outputs != self._outputs:
            with contextlib.suppress(RejectedError):
                found |= self._undefined(self._optimised_side.values(feeds))
        if found:
            self._unsaid[id(feeds)] = feeds
        return found

    def _results(self, feeds: Feeds) -> Feeds:
        """Return only the outputs, if inner values are unavailable: numpy has no arrays of 128 axes."""
        if self._executor is None:
            return {}
        try:
            outputs = self._executor.run(feeds, False)
        except RejectedError:
            return {}
        return dict(zip((value.name for value in self._original.proto.graph.output), outputs, strict=True))

    def note(self) -> str:
        """Return a note with the number of inputs on which something did not count."""
        return f"on {len(self._unsaid)} inputs some of the original's outputs are undefined" if self._unsaid else ""

    def _miscomputed(self, feeds: Feeds, values: Mapping[str, Any]) -> bool:
        if not self._by_oracle or self._interpreter:
            return False
        try:
            right = self._oracles.run(feeds)
        except ExcludedError:
            return True
        except RejectedError:
            return False  # there is no oracle for it
        outputs = [value.name for value in self._original.proto.graph.output]
        return any(differs(one, values[name]) for name, one in zip(outputs, right, strict=True) if name in values)

    def _meaningless(self, feeds: Feeds) -> bool:
        if not (self._known or self._by_body):
            return False
        try:
            self._every_oracle.run(feeds)
        except ExcludedError:
            return True
        except RejectedError:
            return False  # there is no oracle for it, or onnxruntime does not run the single node
        return False

    def _undefined(self, values: Mapping[str, Any]) -> Excluded:
        """Return the outputs, and the elements of outputs, that depend on an undefined value."""
        tainted: dict[str, Places] = {}
        for node in self._original.proto.graph.node:
            names = [*node.input, *outer_names(node)]
            reached = [tainted[name] for name in names if name in tainted]
            for name in node.output if reached else ():
                tainted[name] = _passed(node, reached, values.get(name))
            if self._at(node, self._read(names, values), values):
                places = self._undefined_elements(node, values)
                for name in node.output:
                    tainted[name] = _both(places, tainted.get(name, False))
            tainted |= dict.fromkeys(_collected(node, values), True)
        found = {name: places for name, places in tainted.items() if name in self._outputs}
        return Excluded(
            frozenset(name for name, places in found.items() if isinstance(places, bool)),
            {name: places for name, places in found.items() if not isinstance(places, bool)},
        )

    def _undefined_elements(self, node: onnx.NodeProto, values: Mapping[str, Any]) -> Places:
        """Return which elements of the only output of a node with an undefined result are undefined."""
        own, read, made = traits_of(node), values.get(node.input[0]), values.get(node.output[0])
        if len(node.output) != 1 or not (isinstance(read, np.ndarray) and isinstance(made, np.ndarray)):
            return True
        found: npt.NDArray[np.bool_] = np.zeros((), np.bool_)
        if own.undefined is Undefined.BEYOND_INTEGERS and node.input[0] not in self._rounded:
            found = _beyond(read, made)
        axis = attributes_of(node).get("axis")
        rows = has_rows(own) and own.nan_undefined and isinstance(axis, int)
        if rows and is_float(read.dtype) and not (node.op_type in self._finite and _has(np.isinf, read)):
            found = np.asarray(np.isnan(read).any(axis, keepdims=read.ndim == made.ndim))
        return found if found.any() and found.shape == made.shape else True

    def _read(self, names: Iterable[str], values: Mapping[str, Any]) -> list[Any]:
        """Return the inputs of a node, including constant axes; None if unknown."""
        axes = {name: value for name in names if (value := self._constants.get(name)) is not None and _is_axes(value)}
        return [values.get(name, axes.get(name)) for name in names]

    def _at(self, node: onnx.NodeProto, read: Sequence[Any], values: Mapping[str, Any]) -> bool:
        """Return whether the node itself returns an undefined result."""
        inside = node.op_type in self._functions or any(self._selects(graph.node) for graph in subgraphs(node))
        if inside and any(_has(_not_finite, value) for value in values.values()):
            return True  # a NaN may arise inside, also from infinities
        for graph in subgraphs(node):
            if any(self._at(inner, self._read(inner.input, values), values) for inner in graph.node):
                return True
        for inner in self._inside(node):
            # The factors of an inner product are unknown: one may be an input of the node.
            near = read if integers_of(inner) is Integers.PRODUCTS else (*read, *values.values())
            if any(overflows_inside(inner, one) for one in near):
                return True
        places = any(traits_of(inner).reads_places for inner in self._inside(node))
        if places and any(_has(_nowhere, value) for value in values.values()):
            return True
        own, made = traits_of(node), [values.get(name) for name in node.output]
        return (
            (own.reads_places and any(_has(_nowhere, value) for value in read[1:]))
            or (self._reads_no_nan(node) and any(_has(np.isnan, value) for value in read))
            or (own.overflows_inside and _is_lost_inside(read, made))
            or (node.op_type in self._finite and any(_has(np.isinf, value) for value in read))
            or (node.op_type in self._whole and _has(_has_fraction, read[0]))
            or any(_empty(read[place]) for place in own.unwritten)
            or (own.miscounts and has_empty_axis(read[0]))
            or _scans_nothing(node, read)
            or overflows(node, read)
            or (
                own.meaningless is not None
                and own.meaningless([values.get(name, self._constants.get(name)) for name in node.input])
            )
            or (own.undefined is not None and _UNDEFINED[own.undefined](node, read, values))
            or bool(own.scales and not _scaled([read[place] for place in own.scales]))
        )

    def _inside(self, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        """Yield the nodes in a node's subgraphs, and in the function that it calls."""
        called = [function.node for function in self._original.proto.functions if function.name == node.op_type]
        for inner in itertools.chain(*(graph.node for graph in subgraphs(node)), *called):
            yield inner
            yield from self._inside(inner)

    def _reads_no_nan(self, node: onnx.NodeProto) -> bool:
        return node.op_type in self._selecting or traits_of(node).nan_undefined

    def _selects(self, nodes: Sequence[onnx.NodeProto]) -> bool:
        return any(
            self._reads_no_nan(node) or any(self._selects(graph.node) for graph in subgraphs(node)) for node in nodes
        )


def _both(one: Places, other: Places) -> Places:
    """Return the places that are in one of two, or in any place of equally large outputs."""
    if isinstance(one, bool):
        return one or other
    if isinstance(other, bool):
        return other or one
    return one | other if one.shape == other.shape else True


def _passed(node: onnx.NodeProto, reached: Sequence[Places], made: Any) -> Places:
    """Return which elements of an output are computed from undefined elements of the inputs."""
    if not (is_elementwise(traits_of(node)) and isinstance(made, np.ndarray)):
        return True
    found: Places = False
    for places in reached:
        if isinstance(places, bool) or places.ndim > made.ndim:
            return True
        try:
            found = _both(np.array(np.broadcast_to(places, made.shape)), found)
        except ValueError:
            return True
    return found


def _collected(node: onnx.NodeProto, values: Mapping[str, Any]) -> list[str]:
    """Return the scan outputs of a Loop without iterations."""
    loop = traits_of(node).iteration
    if loop is None or loop.scanned:
        return []
    collected = node.output[len(node.input) - loop.inputs :]
    return [name for name in collected if isinstance(value := values.get(name), np.ndarray) and not value.shape[0]]


def _scans_nothing(node: onnx.NodeProto, read: Sequence[Any]) -> bool:
    """Return whether there is nothing to iterate over: onnxruntime 1.32.0 accepts it in Scan-8, and fails from 9 on."""
    loop = traits_of(node).iteration
    scanned = attributes_of(node).get(loop.scanned, 0) if loop is not None and loop.scanned else 0
    return any(_empty(value) for value in read[len(node.input) - scanned : len(node.input)])


def _ranged(value: Any) -> bool:
    """Return whether 1/255 of the range of floats and 0 is a valid divisor; for only zeros it is 1."""
    if not isinstance(value, np.ndarray) or not value.size:
        return True
    with np.errstate(all="ignore"):
        spread = np.float32(max(value.max(), 0)) - np.float32(min(value.min(), 0))
        return bool(spread == 0 or (np.isfinite(spread) and spread / np.float32(255) >= np.finfo(np.float32).tiny))


def _alone(node: onnx.NodeProto, theta: Any, size: Any) -> bool:
    """Return whether a single pixel is at both corners: 0 / 0 in ONNX's function body, 1 in onnxruntime's kernel.

    The kernel exists for float and double; for other types it runs the body.
    """
    if isinstance(theta, np.ndarray) and theta.dtype in (np.float32, np.float64):
        return False
    aligned = any(attribute.name == "align_corners" and attribute.i for attribute in node.attribute)
    return aligned and isinstance(size, np.ndarray) and bool((size[2:] == 1).any())


def _scaled(scales: Sequence[Any]) -> bool:
    """Return whether scales are valid: a quotient by 0 or NaN cannot be rounded to an integer."""
    floats = [one.astype(np.float32) for one in scales if isinstance(one, np.ndarray)]
    with np.errstate(all="ignore"):
        inputs = functools.reduce(np.multiply, [one.max(initial=0) for one in floats[:-1]], np.float32(1))
        floats.append(np.asarray(inputs / floats[-1] if floats else inputs))
    return all(bool((np.isfinite(one) & (one != 0)).all()) for one in floats)


def _empty(value: Any) -> bool:
    return isinstance(value, np.ndarray) and not value.size


def _has(what: Callable[[Any], Any], value: Any) -> bool:
    return isinstance(value, np.ndarray) and is_float(value.dtype) and bool(what(value).any())


def _not_finite(value: Any) -> Any:
    return ~np.isfinite(value)


def _is_axes(value: Any) -> bool:
    return bool(value.dtype == np.int64 and value.ndim == 1)


def _nowhere(value: Any) -> Any:
    return ~(np.abs(value.astype(np.float64)) < 2**23)


def _has_fraction(value: Any) -> Any:
    return value != np.trunc(value)


def _beyond(value: Any, integers: Any) -> npt.NDArray[np.bool_]:
    """Return which floats were cast to integers that cannot hold them: "results are undefined" (Cast-13)."""
    if not (isinstance(value, np.ndarray) and isinstance(integers, np.ndarray)):
        return np.zeros(0, np.bool_)
    if not is_float(value.dtype) or integers.dtype.kind not in "iu":
        return np.zeros(value.shape, np.bool_)
    info, wide = np.iinfo(integers.dtype), value.astype(np.float64)
    return ~((wide > float(info.min) - 1) & (wide < float(info.max) + 1))


def _inferred_beside_zero(node: onnx.NodeProto, shape: Any) -> bool:
    """Return whether a shape breaks a rule.

    Reshape-14: "it is invalid for the specified shape to contain both a zero value and -1", with allowzero.
    """
    zeros = bool(attributes_of(node).get("allowzero")) and isinstance(shape, np.ndarray)
    return zeros and bool((shape == 0).any() and (shape == -1).any())


def _is_lost_inside(read: Sequence[Any], made: Sequence[Any]) -> bool:
    """Return whether an input or an output is NaN or infinite: kernels multiply by 0, or overflow, internally."""
    return any(_has(_not_finite, value) for value in (*read, *made))


def _is_quantized_nan(value: Any, made: Any) -> bool:
    return _has(np.isnan, value) and isinstance(made, np.ndarray) and not is_float(made.dtype)


# onnxruntime 1.32.0's kernel for Attention-24 returns 0 for a NaN in a row with padded keys.
_UNDEFINED: Mapping[Undefined, Callable[[onnx.NodeProto, Sequence[Any], Mapping[str, Any]], bool]] = {
    Undefined.BEYOND_INTEGERS: lambda node, read, values: bool(_beyond(read[0], values.get(node.output[0])).any()),
    Undefined.QUANTIZED_NAN: lambda node, read, values: _is_quantized_nan(read[0], values.get(node.output[0])),
    Undefined.PADDED_ROWS: lambda node, read, values: len(read) > 6 and any(_has(_nowhere, one) for one in read[:3]),
    Undefined.WITHOUT_RANGE: lambda node, read, values: not _ranged(read[0]),
    Undefined.NO_BATCH: lambda node, read, values: any(node.output[1:]) and _empty(read[0]),
    Undefined.ONE_PIXEL: lambda node, read, values: _alone(node, *read[:2]),
    Undefined.ZERO_AND_INFERRED: lambda node, read, values: _inferred_beside_zero(node, read[1]),
}
