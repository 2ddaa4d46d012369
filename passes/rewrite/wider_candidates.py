"""Express a meaning in a wider element type between Casts, for types that the target's operator does not support."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx

from opshift.opsets.registry.facts import Facts, Tensor, constant, type_name
from opshift.opsets.registry.operator import Lifted
from opshift.opsets.registry.schema import NEWEST, schema_at
from opshift.opsets.registry.structural import CAST
from opshift.opsets.registry.wider_types import ROUNDED
from opshift.passes.rewrite.fragment import Constant, Fragment, FragmentNode, Input, Output, moved


@dataclass(frozen=True)
class WiderTypes:
    """A meaning in a wider type: the operands to cast to it, and the outputs to cast back."""

    lifted: Lifted
    operands: tuple[int, ...]
    folded: Mapping[int, Constant]
    outputs: tuple[int, ...]
    dtype: int
    wider: int
    rounds: bool

    @property
    def name(self) -> str:
        """The name of the candidate in a report."""
        return f"through_{type_name(self.wider)}"

    @property
    def cost(self) -> float:
        """The number of casts."""
        return float(len(self.operands) + len(self.outputs))

    def around(self, found: Fragment) -> Fragment:
        """Add the Casts around the fragment of the meaning in the wider type."""
        into = tuple(FragmentNode(CAST, {"to": self.wider}, (Input(index),), 1) for index in self.operands)
        operands = tuple(
            Output(self.operands.index(index), 0) if index in self.operands else self.folded.get(index, Input(index))
            for index in range(len(self.lifted.operands))
        )
        inner = tuple(
            dataclasses.replace(leaf, inputs=tuple(moved(ref, len(into), operands) for ref in leaf.inputs))
            for leaf in found.nodes
        )
        results = tuple(moved(ref, len(into), operands) for ref in found.outputs)
        back = tuple(FragmentNode(CAST, {"to": self.dtype}, (results[index],), 1) for index in self.outputs)
        base = len(into) + len(inner)
        outputs = tuple(
            Output(base + self.outputs.index(index), 0) if index in self.outputs else ref
            for index, ref in enumerate(results)
        )
        return dataclasses.replace(
            found,
            nodes=(*into, *inner, *back),
            outputs=outputs,
            lowerings=(self.name, *found.lowerings),
            cost=found.cost + self.cost,
            rounds=found.rounds or self.rounds,
        )


def in_wider_types(lifted: Lifted) -> Iterator[WiderTypes]:
    """Yield the meaning in each wider type of its element types, by the type variables of the newest version."""
    operator = lifted.operator
    schema = schema_at(operator.domain, operator.name, NEWEST)
    if not operator.wider_types or schema is None:
        return
    formal = {parameter.name: parameter for parameter in schema.inputs}
    parameters = [
        schema.input(index) if operator.variadic else formal.get(operator.operands[index])
        for index in range(len(lifted.operands))
    ]
    bound: dict[str, list[int]] = {}
    for index, (facts, parameter) in enumerate(zip(lifted.operands, parameters, strict=True)):
        if facts is not None and parameter is not None:
            bound.setdefault(parameter.type_variable, []).append(index)
    for variable, operands in bound.items():
        dtype = next((facts.dtype for index in operands if (facts := lifted.operands[index]) and facts.dtype), None)
        outputs = tuple(
            index
            for index, used in enumerate(lifted.used)
            if used and schema.outputs[min(index, len(schema.outputs) - 1)].type_variable == variable
        )
        allowed = next(parameters[index] for index in operands)
        for wider in operator.wider_types.get(dtype or 0, ()):
            if allowed is None or f"tensor({type_name(wider)})" not in allowed.types:
                continue
            changed = list(lifted.operands)
            folded: dict[int, Constant] = {}
            for index in operands:
                one = lifted.operands[index] or Facts()
                changed[index] = Facts(wider, one.shape)
                if one.known is not None:
                    value = one.known.astype(onnx.helper.tensor_dtype_to_np_dtype(wider))
                    changed[index] = constant(value)
                    folded[index] = Constant(Tensor(value), wider)
            changed_meaning = dataclasses.replace(lifted, operands=tuple(changed))
            cast = tuple(index for index in operands if index not in folded)
            rounds = any(operator.wider_types is one for one in ROUNDED)
            yield WiderTypes(changed_meaning, cast, folded, outputs, dtype or 0, wider, rounds)
