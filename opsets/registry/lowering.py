"""`Lowering`: a meaning expressed with other operators, as an onnxscript function written at one opset."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from opshift.opsets.registry.compiled import compiled
from opshift.opsets.registry.facts import INTEGERS, Tensor, exact, freeze
from opshift.opsets.registry.schema import attribute_value, default_domain

op: Any = None
"""In a body: the operators of the opset that the body is written at."""

meaning: Any = None
"""In a body: operators spelled by their meaning, `meaning.OneHot(i, d, v, axis=0, negative="off")`."""

HELD = 2**24
"""Elements that a constant made for a lowering may have; a model with more would hardly be written, or loaded."""

APPROXIMATE = frozenset({"approximate"})
"""What a lowering assumes whose result is not the same, but at most 2^-21 of itself off: 4 units of float."""

_compiling = threading.Lock()


class TooManyError(Exception):
    """A lowering would need a constant of too many elements."""


def bounded(count: int) -> int:
    """Return how many elements a constant of a lowering is to have, where that is not too many."""
    if count > HELD:
        raise TooManyError(f"it would hold a constant of {count} elements")
    return count


class Reason(str):
    """Why something does not apply; `missing`: it might, were some fact known; `invalid`: it breaks ONNX's rules.

    The text is empty where it is of no use to a user: a lowering is for another form of the node.
    """

    __slots__ = ("invalid", "missing")
    missing: bool
    invalid: bool

    def __new__(cls, text: str, missing: bool = False, invalid: bool = False) -> Reason:
        """Make a reason of a text."""
        self = super().__new__(cls, text)
        self.missing = missing
        self.invalid = invalid
        return self


@dataclass(frozen=True)
class BodyNode:
    """A node of a function: the values of its attributes, and of others the parameter that each is bound to."""

    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    parameters: Mapping[str, str]

    @functools.cached_property
    def attribute_key(self) -> tuple[Hashable, ...]:
        """The key of its attributes, from `exact`."""
        return exact(self.attributes)


@dataclass(frozen=True)
class Function:
    """A function, read off its protobuf."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    calls: tuple[BodyNode, ...]


def read(function: onnx.FunctionProto) -> Function:
    """Return a function as plain data."""
    calls = (
        BodyNode(
            default_domain(node.domain),
            node.op_type,
            tuple(node.input),
            tuple(node.output),
            {one.name: freeze(attribute_value(one)) for one in node.attribute if not one.ref_attr_name},
            {one.name: one.ref_attr_name for one in node.attribute if one.ref_attr_name},
        )
        for node in function.node
    )
    return Function(tuple(function.input), tuple(function.output), tuple(calls))


@dataclass(frozen=True)
class Body:
    """A lowering's body for one node: which operands are its inputs, its attribute parameters bound.

    `rounds` says that it computes the same but for rounding.
    """

    name: str
    opset: int
    function: Function
    bound: Mapping[str, Any]
    inputs: tuple[int | None, ...]
    cost: float = 0.0
    assumes: frozenset[str] = frozenset()
    rounds: bool = False
    carries: int | None = None
    """The number of values that an iteration passes to the next, if this is the body of a Loop; see `Lowering`."""


@dataclass(frozen=True)
class Lowering:
    """One way to express a meaning with other operators.

    `body` is a Python function in onnxscript's language: parameters without annotation are the operands, those with
    one are attributes, which `bind` computes. (None leaves one out; a list used as a value may be bound to a Tensor.)
    `applies_if` tells why the lowering does not apply, or returns None. `assumes` names the assumptions without which
    it is not valid: `no-nan`, `finite-inputs` and `whole-indices` about inputs, or `approximate`. `cost` is added to
    that of the body's nodes. With `rounds`, floats are added up, or computed with, in another order, so that the result
    is the same but for rounding; with `makes_floats` also where all operands are integers.

    With `carries` the body is one iteration of a Loop. Its first operand is the number of the iteration, where the
    operator has how many there are. As many values as `carries` follow, which the iteration before gave; all others are
    the same in each. Its outputs are the values that go on, then rows that are stacked.
    """

    name: str
    opset: int
    body: Callable[..., Any]
    applies_if: Callable[[Any, Any], Reason | None] | None
    bind: Callable[[Any, Any], Mapping[str, Any]] | None
    assumes: Callable[[Any, Any], frozenset[str]] | None
    cost: float
    rounds: bool = False
    carries: int | None = None
    makes_floats: bool = False

    def body_for(self, meaning: Any, operands: Any) -> Body | Reason:
        """Return the body as it is for one node, or why it does not apply."""
        try:
            reason = self.applies_if(meaning, operands) if self.applies_if else None
            if reason is not None:
                return Reason(f"{self.name}: {reason}" if reason else "", reason.missing)
            bound = dict(self.bind(meaning, operands)) if self.bind else {}
            assumes = self.assumes(meaning, operands) if self.assumes else frozenset[str]()
        except TooManyError as error:
            return Reason(f"{self.name}: {error}")
        except (ArithmeticError, IndexError, ValueError) as error:
            # Constants that the operator does not accept: two axes where there is one, numbers beyond 64 bits.
            return Reason(f"{self.name}: the constants are none that it accepts ({error})")
        rounds = self.rounds and (
            self.makes_floats or any(facts is not None and facts.dtype not in INTEGERS for facts in operands)
        )
        inputs = tuple(range(len(operands)))
        return Body(self.name, self.opset, self.read, bound, inputs, self.cost, assumes, rounds, self.carries)

    @property
    def summary(self) -> str:
        """The first line of the body's docstring."""
        return (self.body.__doc__ or "").strip().split("\n")[0]

    @functools.cached_property
    def dequantizes(self) -> bool:
        """Whether the body computes with floats between DequantizeLinear and QuantizeLinear, as QDQ models do."""
        return {"DequantizeLinear", "QuantizeLinear"} <= {call.name for call in self.read.calls}

    @functools.cached_property
    def function(self) -> onnx.FunctionProto:
        """The body as a function: compiled already, or on first use."""
        return compiled(self.body, self.opset) or self.compile()

    @functools.cached_property
    def read(self) -> Function:
        """The body as plain data."""
        return read(self.function)

    def compile(self) -> onnx.FunctionProto:
        """Return the body as onnxscript compiles it (1 ms)."""
        import onnxscript
        from onnxscript import values

        opset = getattr(onnxscript, f"opset{self.opset}")
        names = {"op": opset, "meaning": values.Opset("opshift", 1)}
        # onnxscript looks names up in the module of the function; putting them there only while it compiles keeps
        # onnxscript (0.6 s) out of every run that lowers nothing.
        module = self.body.__globals__
        with _compiling:
            before = {name: module.get(name) for name in names}
            module.update(names)
            try:
                return onnxscript.script(default_opset=opset)(self.body).to_function_proto()
            finally:
                module.update(before)


@dataclass(frozen=True)
class VariadicLowering(Lowering):
    """A lowering of an operator that has any number of operands.

    Its body has three: a call that reads the second one reads all of them between the first and the last instead.
    """

    def body_for(self, meaning: Any, operands: Any) -> Body | Reason:
        """Return the body for so many operands, or why it does not apply."""
        found = super().body_for(meaning, operands)
        if isinstance(found, Reason):
            return found
        first, between, last = found.function.inputs
        names = tuple(f"{between}_{index}" for index in range(len(operands) - 2))
        calls = tuple(
            dataclasses.replace(
                call, inputs=tuple(one for name in call.inputs for one in (names if name == between else (name,)))
            )
            for call in found.function.calls
        )
        return dataclasses.replace(found, function=Function((first, *names, last), found.function.outputs, calls))


@dataclass(frozen=True)
class UnrolledLowering(Lowering):
    """A lowering of a step that its body is one turn of, as many times as `turns` returns, one after the other.

    As with `carries`, the body's first operand is not read, then come the values that a turn hands to the next, and the
    outputs are those, then a row. The operands that `scanned` names are cut along their first axis, and each turn has
    its part of length 1. The rows, of length 1 too, are stacked. Turns go `backwards` where that is returned beside
    their number.
    """

    turns: Callable[[Any, Any], tuple[int, bool]] = lambda meaning, operands: (1, False)
    scanned: tuple[str, ...] = ()
    handed: int = 1

    def body_for(self, meaning: Any, operands: Any) -> Body | Reason:
        """Return the body with all turns, or why it does not apply."""
        found = super().body_for(meaning, operands)
        if isinstance(found, Reason):
            return found
        return dataclasses.replace(found, function=self._repeated(found.function, *self.turns(meaning, operands)))

    def _repeated(self, function: Function, count: int, backwards: bool) -> Function:
        """Return the function with so many turns."""
        calls: list[BodyNode] = []
        parts = {name: [f"{name}:{turn}" for turn in range(count)] if count > 1 else [name] for name in self.scanned}
        if count > 1:
            calls += [_call("Split", (name,), parts[name], axis=0, num_outputs=count) for name in self.scanned]
        carried = function.inputs[1 : 1 + self.handed]
        names: dict[str, str] = {}
        rows: dict[int, str] = {}
        for turn in reversed(range(count)) if backwards else range(count):
            handed = [names.get(name, name) for name in (function.outputs if names else carried)[: self.handed]]
            names = {**dict(zip(carried, handed, strict=True)), **{name: parts[name][turn] for name in self.scanned}}
            for call in function.calls:
                inputs = tuple(names.get(name, name) for name in call.inputs)
                names.update((name, f"{name}/{turn}") for name in call.outputs)
                outputs = tuple(names[name] for name in call.outputs)
                calls.append(dataclasses.replace(call, inputs=inputs, outputs=outputs))
            rows[turn] = names[function.outputs[self.handed]]
        whole = rows[0]
        if count > 1:
            whole = "rows"
            calls.append(_call("Concat", [rows[turn] for turn in range(count)], [whole], axis=0))
        calls.append(_call("Constant", (), ["axes"], value=Tensor(np.array([1], np.int64))))
        calls.append(_call("Unsqueeze", (whole, "axes"), ["stacked"]))
        last = tuple(names[name] for name in function.outputs[: self.handed])
        return Function(function.inputs, (*last, "stacked"), tuple(calls))


def _call(name: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> BodyNode:
    return BodyNode("", name, tuple(inputs), tuple(outputs), attributes, {})


def unrolled(
    opset: int,
    *,
    turns: Callable[[Any, Any], tuple[int, bool]],
    scanned: tuple[str, ...],
    carries: int,
    applies_if: Callable[[Any, Any], Reason | None],
    bind: Callable[[Any, Any], Mapping[str, Any]],
) -> Callable[[Callable[..., Any]], Lowering]:
    """Make an unrolled lowering, of which the onnxscript function that follows is one turn."""

    def decorate(body: Callable[..., Any]) -> Lowering:
        return UnrolledLowering(
            body.__name__,
            opset,
            body,
            applies_if,
            bind,
            None,
            0.0,
            rounds=True,
            turns=turns,
            scanned=scanned,
            handed=carries,
        )

    return decorate


def lowering(
    opset: int,
    *,
    applies_if: Callable[[Any, Any], Reason | None] | None = None,
    bind: Callable[[Any, Any], Mapping[str, Any]] | None = None,
    assumes: Callable[[Any, Any], frozenset[str]] | None = None,
    cost: float = 0.0,
    rounds: bool = False,
    carries: int | None = None,
    makes_floats: bool = False,
    variadic: bool = False,
) -> Callable[[Callable[..., Any]], Lowering]:
    """Make a lowering of the onnxscript function that follows; it is named after that function."""

    def decorate(body: Callable[..., Any]) -> Lowering:
        kind = VariadicLowering if variadic else Lowering
        return kind(body.__name__, opset, body, applies_if, bind, assumes, cost, rounds, carries, makes_floats)

    return decorate
