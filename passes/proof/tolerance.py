"""How far rounding alone takes the outputs of a model, as a bound for another order of the same arithmetic.

The model runs node by node in the next wider type (float as double, float16 and bfloat16 as float). What only moves,
selects and compares gets no bound at all, nor does arithmetic on small whole numbers, which is exact in any order. For
the rest the wide run is repeated with every value that is read disturbed by one unit of rounding, up or down (Monte
Carlo arithmetic, Parker 1997): another order of summation is such a disturbance, in long sums of more than one unit.
The bound is 8 times the largest distance from the wide run, of the narrow run and of the disturbed ones, and at least 8
times half a unit of the largest result: where there are few results, the narrow run may happen to be right. Only
results up to 1024 times as large as an element count for it: what a timestamp is rounded by says nothing of a score
beside it.

Another order can also overflow where this one does not: where sums and products read numbers that large, elements that
are not finite in one of the two do not count. In sums of infinities the order decides between those and NaN. And the
sign of a zero that a sum or a selection such as Max returns does not count.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx

from opshift.opsets.registry.inner_sums import InnerSum, Use
from opshift.opsets.registry.node_traits import (
    attributes_of,
    float_traits,
    is_exact,
    is_firm,
    keeps_signs,
    selects,
    traits_of,
)
from opshift.opsets.registry.traits import Trait
from opshift.passes.analysis.scopes import inlined, versions
from opshift.passes.base.limits import Limits
from opshift.passes.proof.coverage import unequal
from opshift.passes.proof.inputs.input_specs import schema
from opshift.passes.proof.wider_types import WIDE, in_double, is_float, narrowed, widened, wider
from opshift.passes.runtime.node_evaluator import Interpreter, bodies, outer_names, within
from opshift.passes.runtime.ort_session import Array, Feeds, RejectedError, Source, Why

FACTOR = 8
"""What the bound multiplies the distance by; the least significant bits of two right results differ by less."""
_LOST = 8 * FACTOR
"""The same for what no digit is right of: a quotient of two such numbers may be far from all that were seen."""
_RUNS = 4  # disturbed ones
_MORE_RUNS = 16
_REACH = 1024.0
"""So many times as large as an element may be those whose distances count for it: about as much cancels out in sums."""


@dataclass(frozen=True)
class Bound:
    """What an output may depart by.

    Attributes:
        slack: the absolute distance.
        unstable: the elements at which rounding decides everything; None where there are none.
        huge: elements that are not finite in one of the two do not count.
        wild: elements that are not finite in both do not count.
        undecided: the order of a sum of infinities decides which elements are NaN, of which the next node may make
            numbers.
        unsigned: the sign of a zero does not count.
        lost: no element counts.
        estimated: the distance was not measured, since the model cannot be run node by node on this input.
        graded: the distance of each element, where it is smaller for small ones; None where it is the same for all.
        reshaped: rounding decides the very shape, so that no element counts.
    """

    slack: float = 0.0
    unstable: npt.NDArray[np.bool_] | None = None
    huge: bool = False
    wild: bool = False
    undecided: bool = False
    unsigned: bool = False
    lost: bool = False
    estimated: bool = False
    graded: npt.NDArray[np.float64] | None = None
    reshaped: bool = False

    def within(self, other: Bound) -> Bound:
        """Return the marks of this bound with the distance and the elements of another."""
        return replace(other, huge=self.huge, wild=self.wild, unsigned=self.unsigned, lost=self.lost)

    def spread(self) -> Bound:
        """Return a bound with every element unstable if one is: rounding decides the whole row that it is in."""
        return self if self.unstable is None else replace(self, unstable=np.ones_like(self.unstable))

    def plus(self, slack: float, graded: npt.NDArray[np.float64] | None = None) -> Bound:
        """Return a bound that is wider by so much, or by so much for each element."""
        if self.graded is None:
            return replace(self, slack=self.slack + slack)
        return replace(self, slack=self.slack + slack, graded=self.graded + (slack if graded is None else graded))

    def reaching(self, value: Any, other: Any) -> Bound:
        """Return a bound within which another value is as right: wider by its distance, element by element.

        What is not finite in one of the two has no distance, and integers have none: those that differ do not count.
        """
        if not isinstance(value, np.ndarray) or not isinstance(other, np.ndarray):
            return self
        if value.shape != other.shape:
            return replace(self, reshaped=True)
        apart = unequal(value, other)
        if not apart.any():
            return self
        if not is_float(value.dtype):
            return replace(self, unstable=apart if self.unstable is None else apart | self.unstable)
        wide, wide_other = value.astype(np.float64), other.astype(np.float64)
        finite = np.isfinite(wide) & np.isfinite(wide_other)
        with np.errstate(invalid="ignore"):
            distance = np.where(finite, np.abs(wide - wide_other), 0.0)
        signs = bool((apart & finite & (distance == 0)).any())
        apart &= ~finite
        return replace(
            self,
            slack=self.slack + float(distance.max()),
            graded=np.asarray((self.slack if self.graded is None else self.graded) + distance),
            unstable=apart if self.unstable is None else apart | self.unstable,
            unsigned=self.unsigned or signs,
        )


EXACT = Bound()

Enough = Callable[[Sequence[Bound]], bool]
"""Says whether two models differ by no more than these bounds of their outputs."""


def _trained_apart(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model in which a BatchNormalization that trains computes mean and variance in a node before it.

    Kernels take x * scale + (bias - mean * scale), or scale the difference from the mean: the product is rounded in one
    of them, which does not show where x moves and its mean with it.
    """
    graph = onnx.GraphProto()
    for node in model.graph.node:
        given = {one.name: one for one in node.attribute}
        if node.op_type != "BatchNormalization" or node.domain or not given.get("training_mode", _NO).i:
            graph.node.append(node)
            continue
        statistics, normalized, rest = (onnx.NodeProto.FromString(node.SerializeToString()) for _ in range(3))
        mean, variance = (f"{node.output[0]}/{name} of the batch" for name in ("mean", "variance"))
        statistics.output[:] = ["", mean, variance]
        _set(statistics, momentum=0.0)
        normalized.input[3:] = [mean, variance]
        del normalized.output[1:]
        _set(normalized, training_mode=0)
        rest.output[0] = ""
        graph.node.extend([statistics, normalized, *([rest] if any(rest.output) else [])])
    if len(graph.node) == len(model.graph.node):
        return model
    opened = onnx.ModelProto()
    opened.CopyFrom(model)
    opened.graph.ClearField("node")
    opened.graph.node.extend(graph.node)
    return opened


_NO = onnx.AttributeProto()


def _set(node: onnx.NodeProto, **values: float) -> None:
    """Set attributes of a node, instead of those that it has."""
    kept = [one for one in node.attribute if one.name not in values]
    del node.attribute[:]
    node.attribute.extend([*kept, *(onnx.helper.make_attribute(name, value) for name, value in values.items())])


def _computing(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """Yield the node, or the nodes in its subgraphs where it has some, of which each computes."""
    inside = [inner for body in bodies(node) for inner in within(body)]
    yield from (inner for inner in inside or (node,) if not any(bodies(inner)))


def loses_signs(node: onnx.NodeProto) -> bool:
    """Return whether the sign of a zero that a node returns is not defined."""
    return not all(map(keeps_signs, _computing(node)))


@dataclass(frozen=True)
class _Run:
    """A run of a model in wide types.

    Attributes:
        values: the values, by name.
        exact: which of them no rounding changes, nor what they are computed from.
        firm: which of them every kernel computes alike, in whatever order, since one operation of IEEE 754 on exact
            values led there, and nothing overflowed. What compares or rounds those decides, and is as in the narrow
            run; arithmetic reads them disturbed, since it may be done in another order.
    """

    values: Mapping[str, Any]
    exact: Mapping[str, bool]
    firm: Mapping[str, bool]


@dataclass(frozen=True)
class _Overflow:
    """Elements of a value that may overflow where arithmetic is done in another order.

    Attributes:
        places: which.
        either: which of them may be any of the infinities, or NaN: large numbers of both signs are added up there.
    """

    places: npt.NDArray[np.bool_]
    either: npt.NDArray[np.bool_]


class Rounding:
    """The bounds of a model's outputs, input by input."""

    def __init__(self, source: Source, limits: Limits) -> None:
        """Keep the model; nothing is run yet."""
        source = replace(source, proto=_trained_apart(inlined(source.proto)), path=None)
        self._plain = Interpreter(source, limits)
        self._wide = Interpreter(source, limits)
        self._graph = self._plain.model.graph
        self._nodes = [(node, in_double(widened(node))) for node in self._graph.node]
        self._narrow_only: set[int] = set()
        self._opset = versions(self._plain.model)[""]

    def bounds(
        self, feeds: Feeds, outputs: Sequence[Any], inexact: Collection[str] = (), enough: Enough = lambda found: False
    ) -> tuple[Bound, ...]:
        """Return the bound of each output, given the outputs that the narrow model has on this input.

        `inexact` names values that other kernels round, even where this model's kernels are exact. Bounds without the
        disturbed runs, which only widen them, are returned where they are `enough`.

        Raises:
            RejectedError: the model cannot be run node by node.
        """
        plain = self._plain.values(feeds)
        run = self._run(feeds, plain, inexact)
        wide, exact = run.values, run.exact
        marks = self._marks(plain)
        first = self._of(outputs, [wide], exact, marks)
        if all(exact[value.name] for value in self._graph.output) or enough(first):
            return first
        overflowing = self._overflowing(plain, marks, run.firm)
        runs = [self._disturbed_run(feeds, plain, inexact, run, turn, 0, marks, overflowing) for turn in range(_RUNS)]
        found = self._of(outputs, [wide, *runs], exact, marks)
        if not enough(found):
            # What rounds the few elements of one size may have been small by chance, and numbers that cancel each
            # other may have been moved alike.
            turns = itertools.cycle((0, 2))
            more = zip(turns, range(1, _MORE_RUNS), strict=False)
            runs += [
                self._disturbed_run(feeds, plain, inexact, run, turn, seed, marks, overflowing) for turn, seed in more
            ]
            found = self._of(outputs, [wide, *runs], exact, marks)
        return found

    def _disturbed_run(
        self,
        feeds: Feeds,
        plain: Mapping[str, Any],
        inexact: Collection[str],
        first: _Run,
        turn: int,
        seed: int,
        marks: Mapping[str, Bound],
        overflowing: Mapping[str, _Overflow],
    ) -> Mapping[str, Any]:
        """Return the outputs of a disturbed run alone, since the values on the way take much room."""
        values = self._run(feeds, plain, inexact, first, turn, seed, marks, overflowing).values
        return {value.name: values[value.name] for value in self._graph.output}

    def _of(
        self,
        outputs: Sequence[Any],
        runs: Sequence[Mapping[str, Any]],
        exact: Mapping[str, bool],
        marks: Mapping[str, Bound],
    ) -> tuple[Bound, ...]:
        """Return the bound of each output, by the undisturbed run and what others there are."""
        names = [value.name for value in self._graph.output]
        found = [_bound(value, [run[name] for run in runs]) for name, value in zip(names, outputs, strict=True)]
        found = [
            replace(bound, slack=max(bound.slack, rounded(value).slack / 2))
            for bound, value in zip(found, outputs, strict=True)
        ]
        if any(Trait.NORMALIZES in float_traits(node) for node, _ in self._nodes):
            found = [bound.spread() for bound in found]
        found = [
            _lost(value) if marks[name].lost else one for name, value, one in zip(names, outputs, found, strict=True)
        ]
        return tuple(
            marks[name] if exact[name] and not marks[name].lost else marks[name].within(bound)
            for name, bound in zip(names, found, strict=True)
        )

    def coarse(self, feeds: Feeds, outputs: Sequence[Any]) -> list[Bound]:
        """Return 8 units of the largest value of each output, where the values between are not known."""
        names = [value.name for value in self._graph.output]
        between = dict.fromkeys(name for node in self._graph.node for name in node.output)
        marks = self._marks({**self._plain.constants, **between, **feeds, **dict(zip(names, outputs, strict=True))})
        return [
            replace(marks[name].within(rounded(value)), estimated=True)
            for name, value in zip(names, outputs, strict=True)
        ]

    def _marks(self, plain: Mapping[str, Any]) -> Mapping[str, Bound]:
        """Return for each value what of it does not count."""
        marks = dict.fromkeys(plain, EXACT)
        for node, _ in self._nodes:
            read = [name for name in (*node.input, *outer_names(node)) if name]
            kinds = frozenset[Trait]().union(*map(float_traits, _computing(node)))
            again = traits_of(node).iteration is not None  # one addition after the other is a sum
            adds = Trait.ADDS in kinds
            sums = Trait.SUMS in kinds or (again and adds)
            multiplies, composed = Trait.MULTIPLIES in kinds, Trait.COMPOSED in kinds
            square = _bare_square if _bare(node) else _square
            large = _huge if sums or multiplies else _near_the_end if adds or composed else None
            divided = Trait.DIVIDES in kinds and any(marks[name].unsigned and _has(plain[name], _zero) for name in read)
            found = Bound(
                huge=any(
                    marks[name].huge
                    or (large is not None and _has(plain[name], large))
                    or (marks[name].undecided and plain[name] is None)  # what follows of infinities is not known
                    for name in read
                )
                or ((Trait.NORMALIZES in kinds or _bare(node)) and _without_spread(plain, read, node.output))
                or (Trait.SAMPLES in kinds and any(_has(plain[name], _infinite) for name in read)),
                wild=any(marks[name].wild or (sums and _has(plain[name], _infinite)) for name in read) or divided,
                undecided=any(marks[name].undecided for name in read)
                or (sums and Trait.NORMALIZES not in kinds and any(_has(plain[name], _infinity) for name in read)),
                unsigned=loses_signs(node) or any(marks[name].unsigned for name in read),
                lost=any(marks[name].lost or (Trait.SQUARES in kinds and _has(plain[name], square)) for name in read),
            )
            marks.update(dict.fromkeys(node.output, found))
        return marks

    def _run(
        self,
        feeds: Feeds,
        plain: Mapping[str, Any],
        inexact: Collection[str],
        first: _Run | None = None,
        turn: int = 0,
        seed: int = 0,
        marks: Mapping[str, Bound] | None = None,
        overflowing: Mapping[str, _Overflow] | None = None,
    ) -> _Run:
        """Run the model in wide types.

        With the `first` run, what was exact there is taken from it, and what every other node reads is disturbed, in
        another way each `turn` and for each `seed`. By their `marks` other elements are not finite.
        """
        rng = np.random.default_rng([turn, seed] if seed else turn)
        values = {name: wider(value) for name, value in (*self._plain.constants.items(), *feeds.items())}
        exact = dict.fromkeys(values, True)
        firm = dict.fromkeys(values, True)
        for node, wide_node in self._nodes:
            names = [name for name in node.output if name]
            kinds = frozenset[Trait]().union(*map(float_traits, _computing(node)))
            # Of sums the scale alone is computed in float.
            in_float = Trait.IN_FLOAT in kinds and (
                Trait.SUMS not in kinds or any(_is_widest(plain[name]) for name in names)
            )
            if first and all(first.exact[name] for name in names):
                values.update({name: first.values[name] for name in names})
                continue
            read = [name for name in (*node.input, *outer_names(node)) if name]
            given = {name: values[name] for name in read}
            if first:
                data = _data(node, self._plain.model)
                power = (
                    0.5 if Trait.NORMALIZES in float_traits(node) else 1.0
                )  # a difference of squares loses half the digits
                units = _drift(node, read, plain) if _SIGNS[turn] else 1.0
                disturbed = [name for name in given if name in data and _is_wide(given[name])]
                moved = {
                    name: _disturbed(
                        given[name],
                        plain[name],
                        rng,
                        _SIGNS[turn] * (-1) ** place,
                        power,
                        1.0 if place else units,  # what two factors drift by in opposite directions cancels out
                        alike=seed % 4 == 0 and seed > 0,  # every second of those that are drawn at random
                    )
                    for place, name in enumerate(disturbed)  # the condition of an If has no place
                }
                if selects(node) or _decides(node, plain):
                    moved = {
                        name: _but_stuck(value, given[name], first.values[name], plain[name])
                        for name, value in moved.items()
                    }
                given |= moved
            results, narrow = self._node(node, wide_node, given, plain)
            if first:
                # A result that was not computed in a wider type does not show how it rounds itself.
                own = {name for name in results if not selects(node) and _is_widest(plain[name])}
                results = {
                    name: _disturbed(value, plain[name], rng, 0, units=_units(node, read, plain))
                    if narrow or name in own
                    else value
                    for name, value in results.items()
                }
                if in_float:
                    least = 0.0 if Trait.SUMS in kinds else 1.0  # the height of a window
                    results = {
                        name: _shaken(value, plain[name], rng, _SIGNS[turn], least, np.float32)
                        for name, value in results.items()
                    }
                inner_sum = traits_of(node).inner_sum
                if inner_sum and names[0] == node.output[0]:
                    moved = _summed_within(
                        node, inner_sum, given, results[names[0]], plain, _SIGNS[turn] or 1, self._opset
                    )
                    results = {**results, names[0]: moved}
                if Trait.ADDS_ONE in kinds:
                    results = {
                        name: _shaken(
                            value,
                            plain[name],
                            rng,
                            _SIGNS[turn],
                            _cancelled(node, plain[name]),
                            _kernel_type(plain[name]),
                        )
                        for name, value in results.items()
                    }
            results = {name: _whole(value, plain[name]) for name, value in results.items()}
            if first and marks:
                results = self._overflown(
                    node, wide_node, given, results, plain, marks, overflowing or {}, (turn, seed)
                )
            inside = list(_computing(node))
            same_everywhere = (
                all(map(is_firm, inside))
                and all(
                    exact.get(name, False) or (firm.get(name, False) and all(map(is_exact, inside))) for name in read
                )
                and not any(name in inexact or _has(plain[name], _infinite) for name in names)
            )
            firm.update(dict.fromkeys(names, same_everywhere))
            values.update(results)
            if same_everywhere:
                # Sums that read it may be added in another order; what it decides is decided.
                flows = not any(bodies(node)) and kinds.isdisjoint({Trait.STEPS, Trait.PIECEWISE})
                decided = (name for name in names if not (flows and _is_wide(wider(plain[name]))))
                values.update({name: wider(plain[name]) for name in decided})
            easy = all(is_exact(inner) or Trait.CONVERTS in float_traits(inner) for inner in inside) or (
                not narrow
                and not in_float
                and Trait.WEIGHS not in kinds
                and _easy([plain[name] for name in read])
                and all(_shown(plain[name]) for name in names)
                and (all(map(_computes_exactly, inside)) or not any(_is_widest(plain[name]) for name in names))
            )
            easy = easy and not any(name in inexact for name in names)
            same = easy and all(exact.get(name, False) for name in read) and _same(results, plain, names)
            exact.update(dict.fromkeys(names, same))
        return _Run(values, exact, firm)

    def _overflowing(
        self, plain: Mapping[str, Any], marks: Mapping[str, Bound], firm: Mapping[str, bool]
    ) -> Mapping[str, _Overflow]:
        """Return which elements of values may overflow where arithmetic is done in another order.

        Those that elementwise arithmetic makes of large numbers, and all that a sum makes where one of them is. What
        every kernel computes alike is as large as it is: a mask of the least float takes nothing from its neighbours.
        """
        found: dict[str, _Overflow] = {}
        for node, _ in self._nodes:
            read = [name for name in (*node.input, *outer_names(node)) if name and _is_float_array(plain[name])]
            kinds = frozenset[Trait]().union(*map(float_traits, _computing(node)))
            for name in node.output:
                if not name or not _is_float_array(plain[name]) or not marks[name].huge:
                    continue
                own = _is_large(plain[name], Trait.ADDS)
                if firm.get(name, False):
                    found[name] = _Overflow(own, np.zeros_like(own))
                elif Trait.SUMS in kinds or any(bodies(node)):
                    found[name] = _Overflow(np.ones_like(own), np.ones_like(own))
                else:
                    trait = Trait.MULTIPLIES if Trait.MULTIPLIES in kinds else Trait.ADDS
                    before = [found[one] for one in read if one in found]
                    masks = [_is_large(plain[one], trait) for one in read] + [one.places for one in before]
                    either = _spread([one.either for one in before], own.shape)
                    found[name] = _Overflow(own | _spread(masks, own.shape), either)
        return found

    def _overflown(
        self,
        node: onnx.NodeProto,
        wide_node: onnx.NodeProto,
        given: Mapping[str, Any],
        results: Mapping[str, Any],
        plain: Mapping[str, Any],
        marks: Mapping[str, Bound],
        overflowing: Mapping[str, _Overflow],
        drawn: tuple[int, int],
    ) -> Mapping[str, Any]:
        """Return the outputs of a node with what it makes numbers of where what it reads need not be finite: Clip, say.

        So are the elements that may have overflowed, and those that are not finite where a sum of infinities was.
        """
        turn, seed = drawn
        rng = np.random.default_rng(drawn)
        share = 1.0 if turn < _RUNS - 1 and not seed else 0.5
        nowhere = _Overflow(np.zeros((), np.bool_), np.zeros((), np.bool_))
        overflown = {
            name: np.where(
                (rng.random(value.shape) < share) & (overflow.places | ~np.isfinite(wider(plain[name]))),
                _not_finite(value, plain[name], turn, overflow.either),
                value,
            )
            for name, value, overflow in ((name, one, overflowing.get(name, nowhere)) for name, one in given.items())
            if (marks[name].huge or marks[name].undecided) and _is_wide(value) and value.shape == plain[name].shape
        }
        if not overflown:
            return results
        try:
            found, _ = self._node(node, wide_node, {**given, **overflown}, plain)
        except RejectedError as error:
            if error.why in (Why.LIMIT, Why.DEATH):
                raise
            return results
        if not any(marks[name].huge for name in overflown):
            return found
        return {name: _where_finite(found[name], value, plain[name]) for name, value in results.items()}

    def _node(
        self, node: onnx.NodeProto, wide_node: onnx.NodeProto, given: Mapping[str, Any], plain: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], bool]:
        """Return the outputs of a node in wide types, and whether they were computed in narrow ones."""
        names = [name for name in node.output if name]
        if not node.input or traits_of(node).typed_by_attribute:
            return {name: wider(plain[name]) for name in names}, False
        if id(node) not in self._narrow_only and not traits_of(node).reads_bits:
            try:
                return self._wide.node(wide_node, given), False
            except RejectedError as error:
                if error.why in (Why.LIMIT, Why.DEATH):
                    raise
                self._narrow_only.add(id(node))
        narrow = {name: narrowed(value, plain[name]) for name, value in given.items()}
        results = self._plain.node(node, narrow)
        floats = any(_is_wide(value) for value in given.values()) and any(
            isinstance(value, np.ndarray) and value.dtype in WIDE for value in results.values()
        )
        return {name: wider(value) for name, value in results.items()}, floats


def _data(node: onnx.NodeProto, model: onnx.ModelProto) -> frozenset[str]:
    """Return the names that a node reads as data, and not as parameters such as the scales of a Resize."""
    found = schema(node.domain, node.op_type, versions(model).get("" if node.domain == "ai.onnx" else node.domain, 0))
    if found is None or not found.outputs or not found.inputs:
        return frozenset((*node.input, *outer_names(node)))
    made = {output.type_str for output in found.outputs}
    pairs = ((name, found.inputs[min(index, len(found.inputs) - 1)]) for index, name in enumerate(node.input))
    return frozenset(name for name, parameter in pairs if parameter.type_str in made) | frozenset(outer_names(node))


def _has(value: Any, what: Callable[[Array, float], npt.NDArray[np.bool_]]) -> bool:
    """Return whether a value has floats of a kind, told of them and the largest of their type."""
    if not isinstance(value, np.ndarray) or not is_float(value.dtype):
        return False
    return bool(what(value.astype(np.float64), float(ml_dtypes.finfo(value.dtype).max)).any())  # type: ignore[no-untyped-call]


def _huge(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
    """Return which numbers have a square that overflows."""
    return np.asarray(np.isfinite(wide) & (np.abs(wide) > largest**0.5))


def _square(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
    """Return which numbers have a square that overflows; those of float16 do not in float, where kernels add them."""
    return _huge(wide, max(largest, float(np.finfo(np.float32).max)))


def _bare_square(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
    """Return which numbers have a square that overflows, or underflows where nothing is added to it."""
    least = float(np.finfo(np.float32).tiny) ** 0.5
    return np.asarray(_square(wide, largest) | ((wide != 0) & (np.abs(wide) < least)))


def _bare(node: onnx.NodeProto) -> bool:
    """Return whether a normalization adds an epsilon of 0, which leaves 0 / 0 where squares underflow."""
    return any(one.name == "epsilon" and one.f == 0 for inner in _computing(node) for one in inner.attribute)


def _near_the_end(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
    """Return which numbers overflow when they are added up."""
    return np.asarray(np.isfinite(wide) & (np.abs(wide) > largest / 8))


def _infinite(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
    return np.asarray(~np.isfinite(wide))


def _is_float_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and is_float(value.dtype)


def _is_large(value: Array, trait: Trait) -> npt.NDArray[np.bool_]:
    """Return which elements are not finite, or may overflow when they are multiplied, or added."""
    largest = float(ml_dtypes.finfo(value.dtype).max)  # type: ignore[no-untyped-call]
    wide = value.astype(np.float64)
    end = largest**0.5 if trait is Trait.MULTIPLIES else largest / 8
    return np.asarray(~np.isfinite(wide) | (np.abs(wide) > end))


def _spread(masks: Sequence[npt.NDArray[np.bool_]], shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Return which elements of a result come from marked ones: all of them, where its shape does not tell."""
    marked = np.zeros(shape, np.bool_)
    for mask in masks:
        try:
            marked |= mask if mask.shape == shape else np.broadcast_to(mask, shape)
        except (ValueError, RuntimeError):  # another shape, or more axes than numpy spreads
            marked |= bool(mask.any())
    return marked


def _where_finite(found: Any, value: Any, plain: Any) -> Any:
    """Return the elements of one value that are finite, or no floats, and else those of another."""
    arrays = isinstance(found, np.ndarray) and isinstance(value, np.ndarray) and found.shape == value.shape
    if not arrays or not isinstance(plain, np.ndarray):
        return value
    if found.dtype.kind != "f" or not is_float(plain.dtype):
        return found if plain.dtype.kind in "biu" else value
    return np.where(np.isfinite(found), found, value)


def _infinity(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
    return np.asarray(np.isinf(wide))


def _zero(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
    return np.asarray(wide == 0)


def _without_spread(plain: Mapping[str, Any], read: Sequence[str], made: Sequence[str]) -> bool:
    """Return whether a node returns NaN or an infinity for finite floats: the spread of a row is 0, or underflows."""
    finite = not any(_has(plain[name], _infinite) for name in read)
    return finite and any(_has(plain[name], _infinite) for name in made if name)


def _is_widest(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float64


def _is_wide(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype in WIDE.values()


def _not_finite(value: Array, plain: Array, turn: int, either: npt.NDArray[np.bool_]) -> Array:
    """Return what elements are in a disturbed run that may overflow.

    A large one is the infinity that it is near, but where it may be `either`.
    """
    large = _is_large(plain, Trait.ADDS) & np.isfinite(value) & ~either
    return np.where(large, np.copysign(np.inf, value), value.dtype.type(_NOT_FINITE[turn])).astype(value.dtype)


_NOT_FINITE = (np.nan, np.inf, -np.inf, np.nan)
"""What the disturbed runs have in place of an element that is not finite, and that a sum of infinities may decide."""

_SIGNS = (1, -1, 0, 0)  # of the first input's disturbance, the others' alternate; 0: at random, element by element


def _disturbed(
    value: Any,
    like: Any,
    rng: np.random.Generator,
    sign: int,
    power: float = 1.0,
    units: float = 1.0,
    *,
    alike: bool = False,
) -> Any:
    """Return floats with each element moved by units of rounding of the narrow type, to a power, up or down.

    Without a `sign` the direction is random; with `alike`, equal numbers are moved in the same one, so that what is
    tied since it was computed from the same numbers stays so.
    """
    if not (isinstance(value, np.ndarray) and isinstance(like, np.ndarray) and like.dtype in WIDE):
        return value
    info = ml_dtypes.finfo(like.dtype)  # type: ignore[no-untyped-call]
    signs = np.asarray(sign if sign else rng.integers(0, 2, size=value.shape) * 2 - 1)
    if alike and not sign:
        distinct, places = np.unique(value, return_inverse=True)
        signs = (rng.integers(0, 2, size=distinct.shape) * 2 - 1)[places].reshape(value.shape)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        unit = (
            units
            * np.maximum(np.abs(value) * float(info.eps) ** power, float(info.smallest_subnormal))
            * np.sign(value)
        )
        return np.asarray(np.where(np.isfinite(value), value + signs * unit, value), value.dtype)


def _decides(node: onnx.NodeProto, plain: Mapping[str, Any]) -> bool:
    """Return whether a node makes no floats of what it reads, or jumps."""
    jumps = not float_traits(node).isdisjoint({Trait.STEPS, Trait.PIECEWISE})
    return jumps or not any(_is_float_array(plain[name]) for name in node.output if name)


def _but_stuck(moved: Array, given: Any, first: Any, plain: Any) -> Array:
    """Return disturbed floats, with those as they were that do not move when what they are made of does.

    A function that saturates, such as Clip or Sigmoid, returns the same there in every kernel.
    """
    if not isinstance(first, np.ndarray) or first.shape != moved.shape:
        return moved
    stuck = (given == first) & (first == wider(plain))
    return np.asarray(np.where(stuck, given, moved), moved.dtype)


def _units(node: onnx.NodeProto, read: Sequence[str], plain: Mapping[str, Any]) -> float:
    """Return how many units of rounding a result may be off by that is computed in its own type alone.

    The error of a sum of n numbers grows as the square root of n (Higham and Mary, 2019); n is at most the number of
    elements of the largest input.
    """
    if not _adds_up(node):
        return 1.0
    return math.sqrt(max((value.size for name in read if isinstance(value := plain[name], np.ndarray)), default=1) or 1)


def _adds_up(node: onnx.NodeProto) -> bool:
    """Return whether a node, or one in its subgraphs, adds up many numbers."""
    return any(Trait.SUMS in float_traits(inner) for inner in _computing(node))


def _drift(node: onnx.NodeProto, read: Sequence[str], plain: Mapping[str, Any]) -> float:
    """Return how many units of rounding all that a sum reads is moved by, in one direction.

    A product of matrices adds up as many numbers as the root of both sizes by that of the result, a reduction the
    quotient of the sizes.
    """
    if not _adds_up(node):
        return 1.0
    values = [value for name in read if isinstance(value := plain[name], np.ndarray) and is_float(value.dtype)]
    sizes = sorted(value.size for value in values)
    made = [value.size for name in node.output if name and isinstance(value := plain[name], np.ndarray) and value.size]
    if not sizes or not made:
        return 1.0
    terms = max(sizes[-1] / min(made), math.sqrt(math.prod(sizes[-2:]) / min(made)) if len(sizes) > 1 else 0.0)
    factors = sorted(values, key=lambda value: -value.size)[: traits_of(node).factors]
    equal = min(float(_longest_run(value[value != 0].reshape(1, -1)).max(initial=1)) for value in factors)
    return float(_units_of_sum(terms, np.asarray(min(equal, terms))))


def _units_of_sum(terms: float, equal: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the units of rounding that a sum of n numbers may be off by, of which `FACTOR` covers a part.

    Roundings that are independent add up as the square root of n. They are not where numbers are equal: each of 1,000
    times 0.001, added one after the other, is rounded in the same direction as long as the sum has one exponent. The
    errors of m equal numbers add up to m, those of n / m such groups as the root of n / m: the root of n * m in all.
    No sum is off by more than n - 1 roundings of half a unit (Higham, Accuracy and Stability of Numerical Algorithms,
    2002, 4.2).
    """
    return np.maximum(1.0, np.minimum(np.sqrt(max(terms, 0.0) * equal), terms / 2) / FACTOR)


def _longest_run(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return how many numbers of each row are the same."""
    if not rows.size:
        return np.ones(len(rows))
    ordered = np.sort(rows.astype(np.float64), axis=1)
    places = np.arange(rows.shape[1])
    other = np.ones(ordered.shape, np.bool_)
    other[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    begins = np.maximum.accumulate(np.where(other, places, 0), axis=1)
    return np.asarray((places - begins).max(axis=1) + 1.0)


def _summed_within(
    node: onnx.NodeProto,
    inner: InnerSum,
    given: Mapping[str, Any],
    result: Any,
    plain: Mapping[str, Any],
    sign: int,
    opset: int,
) -> Any:
    """Return the result of a node with an inner sum, moved by what the rounding of its own sums makes of it.

    Of a sum of exponentials that is off by a part of itself the logarithm is off by that part, and what is divided by
    it too; what is divided by the root of a sum of squares by half of it. A mean that is off moves a centered row by as
    much, divided by its spread: of a row of two numbers no disturbance shows that, since normalized they are 1 and -1
    whatever the two are. Where a row has no more spread than the rounding of its mean, that decides everything.
    """
    x = given[node.input[0]]
    if not isinstance(x, np.ndarray) or not isinstance(result, np.ndarray) or not x.size or not result.size:
        return result
    unit = float(np.finfo(_kernel_type(plain[node.input[0]])).eps)
    if inner.use is Use.LOGARITHM:
        terms = x.size / result.size
        whole = unit * float(_units_of_sum(terms, np.minimum(terms, _longest_run(x.reshape(1, -1)).max())))
        return np.asarray(result + sign * whole, result.dtype)
    axes = tuple(inner.axes(attributes_of(node), x.ndim, opset)) if x.ndim else ()
    if not axes or result.shape != x.shape:
        return result
    lengths = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    terms = x.size // math.prod(lengths)
    rows = np.moveaxis(x, axes, range(x.ndim - len(axes), x.ndim)).reshape(-1, terms)
    part = unit * _units_of_sum(terms, _longest_run(rows)).reshape(lengths)
    with np.errstate(all="ignore"):
        if inner.use is Use.LESS_LOGARITHM:
            moved = result + sign * part
        elif inner.use is Use.QUOTIENT:
            moved = result * (1 + sign * part)
        else:
            centered = inner.use is Use.CENTERED
            shift = _off_center(node, inner, given, axes, part) if centered else np.zeros(())
            bias = _parameter(node, inner, given, 2, len(axes)) if centered else np.zeros(())
            moved = result + sign * shift + sign * (result - bias) * part / 2
        return np.asarray(np.where(np.isfinite(moved), moved, np.nan if inner.bare else result), result.dtype)


def _off_center(
    node: onnx.NodeProto, inner: InnerSum, given: Mapping[str, Any], axes: tuple[int, ...], part: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Return by how much the rounding of their mean moves normalized rows."""
    x = given[node.input[0]]
    epsilon = next((one.f for one in node.attribute if one.name == "epsilon"), 0.0 if inner.bare else 1e-5)
    spread = np.sqrt(x.var(axes, keepdims=True) + epsilon)
    shift = part / 2 * np.abs(x).mean(axes, keepdims=True) / spread
    if inner.bare:
        shift = np.where(shift < 0.5, shift, np.nan)
    return np.asarray(shift * _parameter(node, inner, given, 1, len(axes), default=1.0))


def _parameter(
    node: onnx.NodeProto, inner: InnerSum, given: Mapping[str, Any], place: int, axes: int, default: float = 0.0
) -> npt.NDArray[Any]:
    """Return the scale or the bias of a normalization, so that it broadcasts."""
    if len(node.input) <= place or not node.input[place]:
        return np.asarray(default)
    value = np.asarray(given[node.input[place]])
    return value.reshape(-1, *(1,) * axes) if inner.by_channel else value


def _shaken(
    value: Any, like: Any, rng: np.random.Generator, sign: int, least: float, dtype: type[np.floating[Any]]
) -> Any:
    """Return floats moved by one unit of the largest, and at least by one of `least`, of the type computed in.

    What becomes an integer is moved by all that it may depart by.
    """
    if not isinstance(value, np.ndarray) or not is_float(value.dtype) or not isinstance(like, np.ndarray):
        return value
    unit = float(np.finfo(dtype).eps) * float(np.abs(value[np.isfinite(value)]).max(initial=least))
    factor = FACTOR if _is_whole(like) else 1
    signs = sign if sign else rng.integers(0, 2, size=value.shape) * 2 - 1
    with np.errstate(over="ignore"):
        return np.asarray(value + factor * unit * signs, value.dtype)


def _kernel_type(value: Any) -> type[np.floating[Any]]:
    """Return the type that kernels compute a function in: those of 16 bits in float."""
    return np.float64 if _is_widest(value) else np.float32


def _cancelled(node: onnx.NodeProto, value: Any) -> float:
    """Return how many units of 1 the rounding of a sum with 1 costs the results of a node, however small they are.

    The kernels of onnxruntime 1.32.0 lose them in Elu, Celu and Selu, which then multiply by alpha and gamma. Softplus
    and Mish lose them in double only: in float log(1 + e) is exact to 2 units of its own. Mish multiplies half a unit
    by x, which is above -37 where e still counts. Swish multiplies by x what Sigmoid, whose kernel is exact to little
    more than a unit of 1, makes of alpha * x, which counts above -37 as well. Tanh and Sigmoid in RNN, GRU and LSTM are
    exact to a unit of 1.
    """
    nodes = list(_computing(node))
    if not _is_widest(value) and all(
        traits_of(inner).near_one.in_double_only or Trait.ADDS_ONE not in float_traits(inner) for inner in nodes
    ):
        return 0.0
    lost = [traits_of(inner).near_one for inner in nodes]
    most, divided = max((one.factor for one in lost), default=1.0), any(one.divided for one in lost)
    given = (abs(one.f) for inner in nodes for one in inner.attribute if one.name in ("alpha", "gamma"))
    return most * float(np.prod([1 / max(one, 1.0) if divided else one for one in given]))


def _is_whole(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "iu"


def _whole(value: Any, like: Any) -> Any:
    """Return floats as the integers that the narrow model has there."""
    if not _is_whole(like) or not isinstance(value, np.ndarray) or not is_float(value.dtype):
        return value
    with np.errstate(invalid="ignore", over="ignore"):
        return value.astype(like.dtype)


def _easy(values: Sequence[Any]) -> bool:
    """Return whether all floats are small multiples of one power of two, so that arithmetic on them is exact.

    Thousands of products of two such numbers add up exactly, in any order. Halves and quarters are such numbers as
    whole ones are.
    """
    arrays = [value for value in values if isinstance(value, np.ndarray) and is_float(value.dtype) and value.size]
    if not arrays:
        return True
    bits = min(-math.log2(float(ml_dtypes.finfo(one.dtype).eps)) for one in arrays)  # type: ignore[no-untyped-call]
    wide = [one.astype(np.float64) for one in arrays]
    if not all(np.isfinite(one).all() for one in wide):
        return False
    largest = max(float(np.abs(one).max()) for one in wide)
    unit = min(1.0, 2.0 ** (math.ceil(math.log2(largest)) - bits // 4)) if largest else 1.0
    return largest <= 2 ** (bits / 4) and unit >= _LEAST_UNIT and all(bool((one % unit == 0).all()) for one in wide)


_LEAST_UNIT = 2.0**-8
"""The least power of two that counts: of products of a few such numbers nothing underflows, in float16 neither."""


_ELEMENTARY = frozenset({Trait.MOVES, Trait.SELECTS, Trait.SUMS, Trait.ADDS, Trait.MULTIPLIES, Trait.ONCE})


def _computes_exactly(node: onnx.NodeProto) -> bool:
    """Return whether a node adds and multiplies, and no more: Tanh of 19 is 1 in double, and rounded."""
    return not float_traits(node).isdisjoint(_ELEMENTARY)


def _shown(value: Any) -> bool:
    """Return whether a wide run shows that nothing was rounded; of doubles, which have none, whole numbers do."""
    return not (isinstance(value, np.ndarray) and value.dtype == np.float64) or bool((value * 4 % 1 == 0).all())


def _same(wide: Mapping[str, Any], plain: Mapping[str, Any], names: Sequence[str]) -> bool:
    return all(_equal(wide[name], plain[name]) for name in names)


def _equal(wide: Any, plain: Any) -> bool:
    """Return whether a wide value is the narrow one: NaN is NaN, and a zero has its sign."""
    if isinstance(wide, list) and isinstance(plain, list):
        return len(wide) == len(plain) and all(map(_equal, wide, plain))
    if not (isinstance(wide, np.ndarray) and isinstance(plain, np.ndarray)):
        return wide is plain or bool(wide == plain)
    other = wider(plain)
    if wide.shape != other.shape or wide.dtype != other.dtype:
        return False
    if wide.dtype.kind != "f":
        return bool((wide == other).all())
    return bool(
        (((wide == other) & (np.signbit(wide) == np.signbit(other))) | (np.isnan(wide) & np.isnan(other))).all()
    )


def _bound(plain: Any, runs: Sequence[Any]) -> Bound:
    """Return the bound of an output, of the narrow value and the wide ones, of which the first is undisturbed."""
    if not isinstance(plain, np.ndarray):
        pairs = [_bound(item, [run[index] for run in runs]) for index, item in _items(plain)]
        return Bound(max((each.slack for each in pairs), default=0.0))
    wide = runs[0]
    others = [wider(plain), *runs[1:]]
    if any(not isinstance(other, np.ndarray) or other.shape != wide.shape for other in others):
        return Bound(0.0, np.ones(plain.shape, np.bool_), reshaped=True)
    if wide.dtype.kind != "f":
        unstable = functools.reduce(np.logical_or, [other != wide for other in others])
        return Bound(0.0, unstable if unstable.any() else None)
    # An array of 64 axes has no room for another one.
    finite = functools.reduce(np.logical_and, [np.isfinite(other) for other in (wide, *others)])
    alike = functools.reduce(np.logical_and, [(other == wide) | (np.isnan(other) & np.isnan(wide)) for other in others])
    with np.errstate(invalid="ignore", over="ignore"):
        apart = functools.reduce(np.maximum, [np.where(finite, np.abs(other - wide), 0.0) for other in others])
        size = np.where(finite, np.abs(wide), 0.0)
    largest = float(size.max(initial=0.0))
    unstable = ~finite & ~alike
    lost = apart > largest / 2  # no digit is right: all is cancelled on the way, or it lies where a function jumps
    if lost.any() and bool((lost | (size == 0)).all()):
        slack = _LOST * float(apart.max())
        # Whole numbers jump: one that is 0 in every run stays 0, whatever the others do.
        whole = all(bool((np.trunc(other) == other)[finite].all()) for other in (wide, *others))
        graded = np.where(apart > 0, slack, 0.0) if whole else None
        return Bound(slack, unstable if unstable.any() else None, graded=graded)
    kept = np.where(lost, 0.0, apart)
    graded = _graded(plain, kept, size, np.where(lost, apart, 0.0))
    return Bound(FACTOR * float(kept.max(initial=0.0)), unstable if unstable.any() else None, graded=graded)


def _graded(
    plain: Array,
    distance: npt.NDArray[np.float64],
    size: npt.NDArray[np.float64],
    lost: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64] | None:
    """Return the bound of each element by those that are not much larger; None where it is the same for all.

    What moves by more than half of its digits decides for others of that kind alone: it lies where a function jumps, or
    is what is left of large numbers. `lost` are the distances of those of which no digit is right. A zero has no size
    of its own: it may be what is left of large numbers, and where products are added without being rounded first
    (FMA), their last digits are left.
    """
    largest = float(size.max(initial=0.0))
    if not is_float(plain.dtype):
        return None
    jumps = distance > math.sqrt(float(ml_dtypes.finfo(plain.dtype).eps)) * largest  # type: ignore[no-untyped-call]
    if not jumps.any() and not lost.any() and bool((_reached(size) >= largest).all()):
        return None
    all_of_them, calm = (_farthest(one, size) for one in (distance, np.where(jumps, 0.0, distance)))
    graded = np.maximum(np.where(jumps, all_of_them, calm), _unit(plain, size) / 2)
    graded = np.where((size == 0) & (lost == 0), np.maximum(graded, distance.max(initial=0.0)), graded)
    return np.asarray(np.where(lost > 0, _LOST * lost, FACTOR * graded))


def _farthest(distance: npt.NDArray[np.float64], size: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return for each element the largest distance of those that are not much larger than it."""
    order = np.argsort(size, axis=None)
    ends = np.searchsorted(size.ravel()[order], _reached(size).ravel(), side="right") - 1
    return np.asarray(np.maximum.accumulate(distance.ravel()[order])[ends].reshape(size.shape))


def _unit(plain: Array, size: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return a unit of the largest number that counts for an element; kernels may make 0 of the smallest."""
    info = ml_dtypes.finfo(plain.dtype)  # type: ignore[no-untyped-call]
    least = float(info.tiny if plain.dtype.itemsize > 2 else info.smallest_subnormal)
    return np.asarray(float(info.eps) * np.minimum(_reached(size), size.max(initial=0.0)) + 2 * least)


def _reached(size: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return how large others may be that count for elements of these sizes; of the largest doubles, any."""
    with np.errstate(over="ignore"):
        return size * _REACH


def _lost(value: Any) -> Bound:
    """Return a bound with every element unstable."""
    return Bound(unstable=np.ones(value.shape, np.bool_)) if isinstance(value, np.ndarray) else EXACT


def rounded(value: Any) -> Bound:
    """Return 8 units of rounding of the largest value of an output, the bound where nothing better is known."""
    if not isinstance(value, np.ndarray) or not is_float(value.dtype):
        return EXACT
    wide = value.astype(np.float64)
    largest = float(np.abs(wide[np.isfinite(wide)]).max(initial=0.0))
    info = ml_dtypes.finfo(value.dtype)  # type: ignore[no-untyped-call]
    return Bound(FACTOR * max(largest * float(info.eps), float(info.smallest_subnormal)))


def half_the_digits(value: Any) -> float:
    """Return the distance at which half of the digits of the largest value of an output are wrong."""
    if not isinstance(value, np.ndarray) or not is_float(value.dtype):
        return 0.0
    eps = float(ml_dtypes.finfo(value.dtype).eps)  # type: ignore[no-untyped-call]
    return rounded(value).slack / FACTOR / math.sqrt(eps)


class Bounds:
    """The bounds of a model's outputs; 8 units of the largest value where it cannot be run node by node."""

    def __init__(self, source: Source, limits: Limits, *, kernels: bool = True) -> None:
        """Keep the model; without `kernels`, its outputs are an oracle's, and 8 units of the largest are added.

        An oracle rounds once, and a kernel's Tanh or Exp is a few units off on whole numbers too.
        """
        self._rounding = Rounding(source, limits)
        self._kernels = kernels
        self.coarse = 0
        """On how many inputs nothing better was known."""

    def __call__(
        self, feeds: Feeds, outputs: Sequence[Any], enough: Enough, inexact: Collection[str] = ()
    ) -> Sequence[Bound]:
        """Return the bound of each output; `enough` and `inexact` as for `Rounding.bounds`."""

        def added(bounds: Sequence[Bound]) -> Sequence[Bound]:
            if self._kernels:
                return bounds
            return [_with_kernels(bound, value) for bound, value in zip(bounds, outputs, strict=True)]

        try:
            return added(self._rounding.bounds(feeds, outputs, inexact, lambda found: enough(added(found))))
        except RejectedError:
            self.coarse += 1
            return self._rounding.coarse(feeds, outputs)


def _with_kernels(bound: Bound, value: Any) -> Bound:
    """Return the bound of what an oracle computed for what a kernel computes."""
    if bound.graded is None:
        return bound.plus(rounded(value).slack)
    size = np.abs(np.nan_to_num(value.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0))
    return bound.plus(rounded(value).slack, FACTOR * _unit(value, size))


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, list):
        yield from enumerate(value)
    elif isinstance(value, dict):
        yield from value.items()
