"""Infer the outputs of one node with onnx, even if facts about its inputs are missing.

onnx infers nothing for an input without an element type, and treats other unknown facts as zero or absent. Here types
are assumed, and unknown facts lead to no conclusions.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper
from onnx.shape_inference import InferenceError

from opshift.opsets.native import onnx_process
from opshift.opsets.registry.facts import Dim, Facts, constant, container_type, facts_of_type, tensor_of, type_of_facts
from opshift.opsets.registry.inference_gaps import unranked, unsized, with_fixed_rank, wrong_without_constants
from opshift.opsets.registry.node_traits import traits
from opshift.opsets.registry.operator import Node
from opshift.opsets.registry.schema import Schema
from opshift.passes.graph import limits

Types = Mapping[int, onnx.TypeProto]
"""Assumed types, by input index."""

_PREFERRED = ("float", "int64", "int32", "bool", "uint8", "int8", "float16", "double", "string")
"""The element types in the order in which they are assumed: those of most models first."""

_TRIES = 24
"""The maximum number of type combinations for the inputs of one node: no operator of onnx 1.23.2 needs as many."""

_NUMBERS = (5040, 1)
"""The numbers used for unknown dimensions: heads and groups divide 5040, and 1 broadcasts."""


_POSITIONS = frozenset(("tensor(int32)", "tensor(int64)"))
"""The types of axes, indices and counts."""


@dataclass(frozen=True)
class NodeInference:
    """The inference of one node; `proto` is the node, with inputs i0, i1 ... and outputs o0, o1 ..., '' if omitted."""

    node: Node
    schema: Schema
    proto: onnx.NodeProto

    def facts(self, *, strict: bool) -> tuple[Facts, ...] | str:
        """Return the facts about the outputs, or onnx's error.

        Unless `strict`, an error is returned only if it would occur for all unknown facts. Unknown types are assumed
        twice, with all of them different: facts inferred in both runs do not depend on them. A node that crashes onnx
        has unknown outputs.
        """
        try:
            return self._facts(strict)
        except onnx_process.OnnxDiedError as error:
            return str(error) if strict else tuple(Facts() for _ in self.node.used)

    def _facts(self, strict: bool) -> tuple[Facts, ...] | str:
        complaint, free = "", self._free()
        results: list[tuple[Types, tuple[Facts, ...]]] = []
        for assumed in itertools.islice(self._assumptions(), _TRIES):
            if results and any(assumed[index] == results[0][0][index] for index in free):
                continue
            found = self._call(self.node.inputs, assumed)
            if isinstance(found, str):
                complaint = complaint or found
                continue
            results.append((assumed, found))
            if not free or len(results) == 2 or all(facts.dtype is None for facts in found):
                break
        if not results:
            return complaint if strict or self._is_final() else tuple(Facts() for _ in self.node.used)
        assumed, found = results[0]
        found = self._without_false_zeros(assumed, found)
        if not free:
            return found
        second = results[1][1] if len(results) == 2 else None
        return tuple(
            facts if self._is_sure(index, facts, free, second) else Facts(None, facts.shape)
            for index, facts in enumerate(found)
        )

    def _free(self) -> Collection[int]:
        """Return the inputs with more than one possible type."""
        typed = {self._variable(index) for index, facts in enumerate(self.node.inputs) if facts and facts.type}
        return [
            index
            for index, facts in enumerate(self.node.inputs)
            if facts is not None and not facts.type and self._variable(index) not in typed
            if (parameter := self.schema.input(index)) is not None and len(parameter.types) > 1
        ]

    def _variable(self, index: int) -> str:
        """Return the name of the type variable of an input."""
        parameter = self.schema.input(index)
        if parameter is None or not parameter.homogeneous:
            return f"input {index}"
        return parameter.type_variable

    def _is_sure(self, index: int, facts: Facts, free: Collection[int], second: Sequence[Facts] | None) -> bool:
        """Return whether an output's element type does not depend on an assumption about `free` inputs."""
        guessed = {parameter.type_variable for one in free if (parameter := self.schema.input(one)) is not None}
        formal = self.schema.outputs[min(index, len(self.schema.outputs) - 1)]
        if len(formal.types) == 1:
            return True
        if formal.type_variable in guessed:
            return False
        if second is None:
            return any(one.type_variable == formal.type_variable for one in self.schema.inputs)
        return second[index].dtype == facts.dtype

    def _call(self, inputs: Sequence[Facts | None], assumed: Types) -> tuple[Facts, ...] | str:
        """Infer the outputs, with an assumed type for each input without one; or return onnx's error."""
        present = {index: facts for index, facts in enumerate(inputs) if facts is not None}
        data = {
            f"i{index}": self._shown(index, facts.known, facts.dtype or 0)
            for index, facts in present.items()
            if facts.known is not None and (_is_shown(facts) or self._counts(index, facts))
        }
        if wrong_without_constants(
            self.node.name, [f"i{index}" in data if index in present else None for index in range(len(inputs))]
        ):
            data = {}
        known_types = {
            f"i{index}": assumed[index] if index in assumed else type_of_facts(facts)
            for index, facts in present.items()
        }
        try:
            types = onnx_process.infer_node(self.schema, self.proto, known_types, data)
        except onnx_process.OnnxDiedError:
            raise
        except (InferenceError, onnx.checker.ValidationError, ValueError, RuntimeError, MemoryError) as error:
            return next(iter(str(error).splitlines()), "") or type(error).__name__
        found = tuple(facts_of_type(types[name]) if name and name in types else Facts() for name in self.proto.output)
        shapes = [() if facts is None else facts.shape for facts in inputs]
        if unranked(self.node.name, shapes):
            return tuple(Facts(facts.dtype) for facts in found)
        if unsized(self.node.name, shapes):
            return tuple(Facts(one.dtype, None if one.shape is None else (None,) * len(one.shape)) for one in found)
        return with_fixed_rank(self.node.name, found)

    def _counts(self, index: int, facts: Facts) -> bool:
        """Return whether onnx reads sizes from floats: the scales of Resize."""
        few = facts.dtype == TensorProto.FLOAT and (facts.size or 0) <= limits.MOST_AXES
        return few and index in traits(self.node.name, self.node.domain).counts

    def _shown(self, index: int, known: npt.NDArray[Any], dtype: int) -> onnx.TensorProto:
        """Return the elements of an input; onnx reads only int64 if int32 is also permitted, as for Pad's axes."""
        parameter = self.schema.input(index)
        if parameter is not None and parameter.types == _POSITIONS:
            return tensor_of(known.astype(np.int64), TensorProto.INT64, f"i{index}")
        return tensor_of(known, dtype, f"i{index}")

    def _assumptions(self) -> Iterator[Types]:
        """Yield types for the untyped inputs, as the schema permits; inputs of one type variable get the same type."""
        bound: dict[str, str] = {}
        places: dict[str, list[int]] = {}
        allowed: dict[str, Sequence[str]] = {}
        for index, facts in enumerate(self.node.inputs):
            parameter = self.schema.input(index)
            if facts is None or parameter is None:
                continue
            variable = self._variable(index)
            if facts.type:
                bound[variable] = facts.type
            else:
                places.setdefault(variable, []).append(index)
                allowed[variable] = sorted(parameter.types, key=_preference)
        choices = [[bound[variable]] if variable in bound else kinds for variable, kinds in allowed.items()]
        # First the n-th type of each variable: two in a row differ in all variables with several types.
        turns = range(max(map(len, choices), default=1))
        together = (tuple(kinds[turn % len(kinds)] for kinds in choices) for turn in turns)
        for chosen in itertools.chain(together, itertools.product(*choices)):
            yield {
                index: _type_named(type_text, self.node.inputs[index])
                for variable, type_text in zip(allowed, chosen, strict=True)
                for index in places[variable]
            }

    def _is_final(self) -> bool:
        """Return whether onnx's error would occur for all unknown facts about the inputs.

        Counterexamples are Pad with computed axes, and Resize with an unknown number of sizes. Unknown dimensions are
        set to one number; the error must occur for all tried numbers. Unknown integer elements are set to 0, 1, 2 ...
        """
        present = [facts for facts in self.node.inputs if facts is not None]
        if any(not facts.dtype or facts.shape is None for facts in present):
            return False
        known = {dim for facts in present for dim in facts.shape or () if isinstance(dim, int)}
        numbers = [0] if all(map(_is_static, present)) else sorted(known.union(range(1, 9)))
        tried = (_filled(self.node.inputs, number) for number in numbers)
        return all(isinstance(self._call(one, {}), str) for inputs in tried for one in (inputs, _counted(inputs)))

    def _without_false_zeros(self, assumed: Types, found: tuple[Facts, ...]) -> tuple[Facts, ...]:
        """Remove dimensions of 0 that onnx infers from unknown ones (Attention) but not from other numbers."""
        present = [facts for facts in self.node.inputs if facts is not None]
        if all(facts.size != 0 for facts in found) or any(facts.size == 0 for facts in present):
            return found
        if all(map(_is_static, present)):
            return found
        sure: tuple[Facts, ...] | str = ""
        for number in _NUMBERS if all(facts.shape is not None for facts in present) else ():
            inputs = _filled(self.node.inputs, number)
            sure = self._call(
                inputs, {index: _reshaped(type_proto, inputs[index]) for index, type_proto in assumed.items()}
            )
            if not isinstance(sure, str):
                break
        return tuple(
            Facts(facts.dtype, _kept(facts.shape, None if isinstance(sure, str) else sure[index].shape))
            for index, facts in enumerate(found)
        )


_COUNTS = (TensorProto.INT64, TensorProto.INT32)
"""The element types of inputs whose elements onnx reads."""


def _is_shown(facts: Facts) -> bool:
    """Return whether onnx gets the elements of a constant."""
    return facts.dtype in _COUNTS and facts.known is not None and facts.known.size <= 1024


def _is_static(facts: Facts) -> bool:
    return facts.shape is not None and all(isinstance(dim, int) for dim in facts.shape)


def _filled(inputs: Sequence[Facts | None], number: int) -> Sequence[Facts | None]:
    """Return the facts about inputs, with a number in place of unknown dimensions."""
    return [
        dataclasses.replace(facts, shape=tuple(dim if isinstance(dim, int) else number for dim in facts.shape))
        if facts is not None and facts.shape is not None
        else facts
        for facts in inputs
    ]


def _counted(inputs: Sequence[Facts | None]) -> Sequence[Facts | None]:
    """Return the facts about inputs, with elements 0, 1, 2 ... for integer vectors that are not constant."""
    return [
        constant(np.arange(size, dtype=helper.tensor_dtype_to_np_dtype(facts.dtype)), facts.dtype)
        if index
        and facts is not None
        and facts.dtype in _COUNTS
        and facts.rank == 1
        and facts.known is None
        and (size := facts.size) is not None
        and size <= limits.MOST_AXES
        else facts
        for index, facts in enumerate(inputs)
    ]


def _kept(shape: tuple[Dim, ...] | None, sure: tuple[Dim, ...] | None) -> tuple[Dim, ...] | None:
    """Return dimensions without the zeros that are not zero in `sure`."""
    if shape is None:
        return None
    agreed = sure if sure is not None and len(sure) == len(shape) else (None,) * len(shape)
    return tuple(None if dim == 0 and other != 0 else dim for dim, other in zip(shape, agreed, strict=True))


def _preference(type_text: str) -> tuple[bool, int, str]:
    inner = type_text.removeprefix("tensor(").removesuffix(")")
    place = _PREFERRED.index(inner) if inner in _PREFERRED else len(_PREFERRED)
    return not type_text.startswith("tensor("), place, type_text


def _type_named(type_text: str, facts: Facts | None) -> onnx.TypeProto:
    """Return the type that a schema spells `tensor(float)`, `seq(tensor(float))` or `optional(...)`."""
    outer, _, inner = type_text.removesuffix(")").partition("(")
    found = onnx.TypeProto()
    if outer in ("seq", "optional"):
        return container_type(type_text)
    if outer == "map":
        key, _, value = inner.partition(",")
        found.map_type.key_type = _element_type(key)
        found.map_type.value_type.CopyFrom(type_of_facts(Facts(_element_type(value))))
    else:
        found.CopyFrom(type_of_facts(Facts(_element_type(inner), facts.shape if facts else None)))
    return found


def _element_type(name: str) -> int:
    return int(TensorProto.DataType.Value(name.strip().removeprefix("tensor(").rstrip(")").upper()))


def _reshaped(type_proto: onnx.TypeProto, facts: Facts | None) -> onnx.TypeProto:
    """Return an assumed type with another shape; a type without a tensor has none."""
    known = facts_of_type(type_proto)
    return type_of_facts(Facts(known.dtype, facts.shape)) if known.dtype and facts else type_proto
