"""Define `Lowering`: a meaning expressed with other operators, as an onnxscript function at one opset."""

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
"""In a body: the operators of the body's opset."""

meaning: Any = None
"""In a body: operators spelled by their meaning, `meaning.OneHot(i, d, v, axis=0, negative="off")`."""

HELD = 2**24
"""The maximum number of elements of a constant in a lowering; a larger model could hardly be saved or loaded."""

APPROXIMATE = frozenset({"approximate"})
"""The assumption of a lowering with a relative error of at most 2^-21: 4 units of float."""

_compiling = threading.Lock()


class TooManyError(Exception):
    """A lowering would need a constant of too many elements."""


def bounded(count: int) -> int:
    """Return the number of elements of a lowering's constant, or raise if it is too large."""
    if count > HELD:
        raise TooManyError(f"it would hold a constant of {count} elements")
    return count


class Reason(str):
    """The reason why something does not apply; `missing`: a fact is unknown; `invalid`: the node breaks ONNX's rules.

    The text is empty if it does not help a user: the lowering is for another form of the node.
    """

    __slots__ = ("invalid", "missing")
    missing: bool
    invalid: bool

    def __new__(cls, text: str, missing: bool = False, invalid: bool = False) -> Reason:
        """Create a reason from a text."""
        self = super().__new__(cls, text)
        self.missing = missing
        self.invalid = invalid
        return self


@dataclass(frozen=True)
class BodyNode:
    """A node of a function: the values of its attributes, and the parameters that other attributes refer to."""

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
    """A function, read from its protobuf."""

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
    """A lowering's body for one node: the operands that are its inputs, and its bound attribute parameters.

    `rounds`: its results are equal only up to rounding.
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
    """The number of loop-carried values, if this is the body of a Loop; see `Lowering`."""


@dataclass(frozen=True)
class Lowering:
    """One way to express a meaning with other operators.

    `body` is a Python function in onnxscript's language: parameters without annotation are the operands, those with one
    are attributes, which `bind` computes. (None omits one; a list used as a value may be bound to a Tensor.)
    `applies_if` returns the reason why the lowering does not apply, or None. `assumes` names the assumptions that it
    needs: `no-nan`, `finite-inputs` and `whole-indices` about inputs, or `approximate`. `cost` is added to the cost of
    the body's nodes. `rounds`: float arithmetic is done in another order, so the result is equal only up to rounding;
    with `makes_floats` also for integer operands.

    With `carries`, the body is one iteration of a Loop. Its first operand is the iteration number; the operator's first
    operand is the number of iterations. The next `carries` operands are loop-carried; all others are the same in each
    iteration. Its outputs are the loop-carried values, then rows that are stacked.
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
        """Return the body for one node, or the reason why it does not apply."""
        try:
            reason = self.applies_if(meaning, operands) if self.applies_if else None
            if reason is not None:
                return Reason(f"{self.name}: {reason}" if reason else "", reason.missing)
            bound = dict(self.bind(meaning, operands)) if self.bind else {}
            assumes = self.assumes(meaning, operands) if self.assumes else frozenset[str]()
        except TooManyError as error:
            return Reason(f"{self.name}: {error}")
        except (ArithmeticError, IndexError, ValueError) as error:
            # The operator does not accept these constants: two axes instead of one, numbers beyond 64 bits.
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
        """The body as a function, from the compiled file or compiled on first use."""
        return compiled(self.body, self.opset) or self.compile()

    @functools.cached_property
    def read(self) -> Function:
        """The body as plain data."""
        return read(self.function)

    def compile(self) -> onnx.FunctionProto:
        """Return the body compiled by onnxscript (1 ms)."""
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


BETWEEN = "between"
"""The operand in the body of a variadic lowering that stands for any number of operands."""


@dataclass(frozen=True)
class VariadicLowering(Lowering):
    """A lowering of an operator with any number of operands.

    Its body has an operand `between`: a call that reads it gets all operands between those before and behind it.
    """

    def body_for(self, meaning: Any, operands: Any) -> Body | Reason:
        """Return the body for this number of operands, or the reason why it does not apply."""
        found = super().body_for(meaning, operands)
        if isinstance(found, Reason):
            return found
        inputs = found.function.inputs
        place = inputs.index(BETWEEN)
        names = tuple(f"{BETWEEN}_{index}" for index in range(len(operands) - len(inputs) + 1))
        calls = tuple(
            dataclasses.replace(
                call, inputs=tuple(one for name in call.inputs for one in (names if name == BETWEEN else (name,)))
            )
            for call in found.function.calls
        )
        every = (*inputs[:place], *names, *inputs[place + 1 :])
        return dataclasses.replace(found, function=Function(every, found.function.outputs, calls))


@dataclass(frozen=True)
class UnrolledLowering(Lowering):
    """A lowering whose body is one iteration, unrolled as many times as `turns` returns.

    As with `carries`, the body's first operand is not read, the loop-carried values follow, and the outputs are these
    values, then a row. The `scanned` operands are split along their first axis, and each iteration gets a part of
    length 1. The rows, also of length 1, are stacked. `turns` returns the number of iterations and whether they go
    backwards.
    """

    turns: Callable[[Any, Any], tuple[int, bool]] = lambda meaning, operands: (1, False)
    scanned: tuple[str, ...] = ()
    handed: int = 1

    def body_for(self, meaning: Any, operands: Any) -> Body | Reason:
        """Return the body with all iterations, or the reason why it does not apply."""
        found = super().body_for(meaning, operands)
        if isinstance(found, Reason):
            return found
        return dataclasses.replace(found, function=self._repeated(found.function, *self.turns(meaning, operands)))

    def _repeated(self, function: Function, count: int, backwards: bool) -> Function:
        """Return the function with this number of iterations."""
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
    """Return a decorator that makes an unrolled lowering of an onnxscript function for one iteration."""

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
    """Return a decorator that makes a lowering of an onnxscript function, with the function's name."""

    def decorate(body: Callable[..., Any]) -> Lowering:
        lowering_type = VariadicLowering if variadic else Lowering
        return lowering_type(body.__name__, opset, body, applies_if, bind, assumes, cost, rounds, carries, makes_floats)

    return decorate
