"""Choose the values of a node that get another element type, and the nodes to refuse."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import AttributeProto, TensorProto

from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import FLOATS, INTEGERS, array_of, exact_types, tensor_of, type_name
from opshift.opsets.registry.node_traits import float_traits, traits_of
from opshift.opsets.registry.schema import default_domain
from opshift.opsets.registry.traits import Arithmetic, Trait
from opshift.opsets.registry.value_ranges import of_array, of_type, whole_numbers_of_type
from opshift.opsets.runtimes.kernels import has_kernel
from opshift.opsets.runtimes.limits import NAMING
from opshift.passes.base.assumptions import FITS
from opshift.passes.base.errors import printable
from opshift.passes.base.plan import Code, Refusal
from opshift.passes.rewrite.retyped_graph import Place, RetypedGraph, Visit, converted


@dataclass(frozen=True)
class NodeTypes:
    """New element types of one node, by type variable and old type, and the reason for them."""

    variables: Mapping[tuple[str, int], int]
    why: str


@dataclass(frozen=True)
class Types:
    """The requested changes of element types.

    Attributes:
        changes: the new element type of each old one.
        outer: whether inputs and outputs of the model change too.
        fits: whether all integers are assumed to fit their new types.
        wide: the reasons why nodes keep a wider float type, by node path.
    """

    changes: Mapping[int, int] = field(default_factory=dict)
    outer: bool = False
    fits: bool = False
    wide: Mapping[str, str] = field(default_factory=dict)
    lost: dict[tuple[str, int], str | None] = field(default_factory=dict, compare=False, repr=False)
    """The cached effects of narrower float types on constants: a search reads them many times."""
    at: Mapping[str, NodeTypes] = field(default_factory=dict)
    """The new types at single nodes, by node path; if the values do not fit, the nodes stay."""

    def __bool__(self) -> bool:
        """Return whether any type changes."""
        return bool(self.changes or self.at)

    def wanted(self, where: str, variable: str, dtype: int | None) -> int | None:
        """Return the new type of values of a type at a node; None if it stays."""
        single = self.at[where].variables.get((variable, dtype or 0)) if where in self.at else None
        found = self.changes.get(dtype or 0) if single is None else single
        return None if found == dtype else found

    @property
    def named(self) -> Mapping[str, str]:
        """The names of the new types, by old name."""
        return {type_name(old): type_name(new) for old, new in self.changes.items()}

    @property
    def narrows(self) -> bool:
        """Whether floats become narrower, which rounds them."""
        return any(map(is_narrower, self.changes, self.changes.values()))


def is_narrower(old: int, new: int) -> bool:
    """Return whether a float type cannot hold all floats of another one."""
    return old in FLOATS and new in FLOATS and new not in exact_types(old)


@dataclass
class TypeChoice:
    """Decides which values at a node get the new type, and refuses those that may not fit."""

    asked: Types
    opset: int
    runnable: bool
    refusals: list[Refusal] = field(default_factory=list)
    returned: set[str] = field(default_factory=set)
    """The model outputs without consumers, whose type stays."""
    assumed: set[str] = field(default_factory=set)
    """The nodes with a value that is assumed to fit."""
    kept: dict[str, str] = field(default_factory=dict)
    """The reasons why nodes keep a wider float type, by node path."""

    def changes(self, graph: RetypedGraph, visit: Visit, places: Sequence[Place], dtype: int, wanted: int) -> bool:
        """Return whether the values at some places of a node, which have one type, get the new type."""
        allowed = f"tensor({type_name(wanted)})"
        outputs = [place for place in places if place.is_output]
        read = [place for place in places if not place.is_output and graph.constant(place.name) is None]
        if default_domain(visit.node.domain) or any(allowed not in place.parameter.types for place in places):
            return self._keeps(visit, dtype, wanted, f"it does not accept {type_name(wanted)}")
        if traits_of(visit.node).reads_bits:
            return self._keeps(visit, dtype, wanted, "it reinterprets the bits of its input")
        if is_narrower(dtype, wanted) and (why := self._why_wide(graph, visit, places, wanted)):
            return self._keeps(visit, dtype, wanted, why)
        outer = all(place.name in self.returned and graph.outer is None for place in outputs)
        single = visit.where in self.asked.at
        if outer and not single and (outputs or read) and all(graph.dtype(place.name) == dtype for place in read):
            return False  # a Cast would add a node, and the values of the old type exist anyway
        if (outputs and not _is_named(visit, places)) or not _is_exact(graph, visit, outputs, dtype, wanted):
            return False
        if self.runnable and not self._has_kernel(visit, places, wanted):
            return self._keeps(visit, dtype, wanted, f"onnxruntime has no kernel for {type_name(wanted)}")
        for place in places:
            known = graph.constant(place.name)
            if not place.is_output and known is not None and not _fits(known[1], wanted):
                for output in outputs if dtype in INTEGERS else ():
                    self.check(graph, visit, output, wanted)
                return False
        if single and dtype in INTEGERS:
            return all(self._holds(graph, place, wanted) for place in (*read, *outputs))
        if dtype in INTEGERS:
            fit = [self.check(graph, visit, place, wanted) for place in read]
            # If the inputs do not fit, the outputs do not fit either.
            for place in outputs if all(fit) else ():
                self.check(graph, visit, place, wanted)
        return True

    def _keeps(self, visit: Visit, dtype: int, wanted: int, why: str) -> bool:
        """Record the reason why a node keeps a wider float type, and return False."""
        if is_narrower(dtype, wanted):
            self.kept.setdefault(visit.where, why)
        return False

    def _why_wide(self, graph: RetypedGraph, visit: Visit, places: Sequence[Place], wanted: int) -> str | None:
        """Return the reason why the floats at a node do not become narrower, if any."""
        if visit.where in self.asked.wide:
            return self.asked.wide[visit.where]
        if (why := _why_large(graph, visit, wanted)) is not None:
            return why
        for attribute in visit.node.attribute:
            lost = next((one for one in (attribute.f, *attribute.floats) if _lost(one, wanted)), None)
            if lost is not None:
                return f"its {attribute.name} {lost:.6g} becomes 0 or infinity in {type_name(wanted)}"
        for place in places:
            if not place.is_output and (why := self._why_lost(graph, place.name, wanted)):
                return why
        return None

    def _why_lost(self, graph: RetypedGraph, name: str, wanted: int) -> str | None:
        """Return what a narrower type of floats does to a value, if that is a constant and it is more than rounding."""
        known = graph.constant(name)
        if known is None:
            return None
        key = name, wanted
        if key not in self.asked.lost:
            self.asked.lost[key] = _why_lost(known[1], wanted)
        why = self.asked.lost[key]
        return why and f"its constant {printable(name)} {why}"

    def returns(self, graph: RetypedGraph, visit: Visit, dtype: int, wanted: int | None, read: str) -> int | None:
        """Return the new type of an output of a node that holds graphs; None if it stays.

        `read` is the value that the node carries from one iteration to the next at first, if it does.
        """
        if wanted is None or f"tensor({type_name(wanted)})" not in visit.schema.outputs[-1].types:
            return None
        if not is_narrower(dtype, wanted):
            return wanted
        why = self.asked.wide.get(visit.where) or (self._why_lost(graph, read, wanted) if read else None)
        if why is None:
            return wanted
        self._keeps(visit, dtype, wanted, why)
        return None

    def _holds(self, graph: RetypedGraph, place: Place, wanted: int) -> bool:
        found = graph.ranges[place.name] or of_type(place.facts.dtype)
        return found in whole_numbers_of_type(wanted)

    def check(self, graph: RetypedGraph, visit: Visit, place: Place, wanted: int) -> bool:
        """Return whether a value is known, or assumed, to fit its new type; refuse it at its first misfit."""
        found = graph.ranges[place.name] or of_type(place.facts.dtype)
        if self._holds(graph, place, wanted):
            return True
        if self.asked.fits:
            self.assumed.add(visit.where)
            return True
        if not place.is_output and graph.dtype(place.name) == wanted:
            return False  # its producer was refused
        old, new = type_name(place.facts.dtype or 0), type_name(wanted)
        value = f"its {'output' if place.is_output else 'input'} {printable(place.name)}"
        reason = f"{value} has values in {found}, which {new} does not hold."
        hint = f"Fix dynamic shapes with --input-shape, or accept it with --assume {FITS}."
        if found == of_type(place.facts.dtype):
            reason = f"the range of {value} is unknown, and {new} does not hold all of {old}."
            hint = f"Accept it with --assume {FITS}, or change the inputs of the model too with --io-types."
        operator = f"{visit.node.op_type}-{visit.schema.since_version}"
        self.refusals.append(Refusal(Code.TYPE, visit.where, operator, reason, hint))
        return False

    def _has_kernel(self, visit: Visit, places: Sequence[Place], wanted: int) -> bool:
        """Return whether onnxruntime runs a node with the new type, or does not run it with the old one."""
        typed_node, schema = visit.typed_node, visit.schema
        types = {**visit.types, **{place.index: wanted for place in places if not place.is_output}}
        inputs = tuple(
            dataclasses.replace(facts, dtype=types[index], value=None)
            if facts is not None and index in types
            else facts
            for index, facts in enumerate(typed_node.inputs)
        )
        attributes = dict(typed_node.attributes)
        if any(place.is_output for place in places):
            attributes.update({name: wanted for name in NAMING & attributes.keys() if type(attributes[name]) is int})
        after = dataclasses.replace(typed_node, inputs=inputs, attributes=attributes)
        return has_kernel(after, schema, self.opset) or not has_kernel(typed_node, schema, self.opset)


def _why_large(graph: RetypedGraph, visit: Visit, wanted: int) -> str | None:
    """Return the reason if integers of a Cast may overflow a float type for other than the tried inputs."""
    before = visit.typed_node.inputs[0] if visit.typed_node.inputs else None
    if (
        traits_of(visit.node).value_range is not value_ranges.converted
        or before is None
        or before.dtype not in INTEGERS
    ):
        return None
    found = graph.ranges[visit.node.input[0]] or of_type(before.dtype)
    largest = float(ml_dtypes.finfo(onnx.helper.tensor_dtype_to_np_dtype(wanted)).max)  # type: ignore[no-untyped-call]
    if -largest <= found.low and found.high <= largest:
        return None
    return f"its input {printable(visit.node.input[0])} has values in {found}, which overflow in {type_name(wanted)}"


def _lost(number: float, dtype: int) -> bool:
    """Return whether a number other than 0 becomes 0, or a finite one infinite, in a type of floats."""
    with np.errstate(over="ignore"):
        narrow = float(np.asarray(number).astype(onnx.helper.tensor_dtype_to_np_dtype(dtype)))
    return (number != 0 and narrow == 0) or (np.isfinite(number) and not np.isfinite(narrow))


def _why_lost(tensor: TensorProto, dtype: int) -> str | None:
    """Return the effect of a float type on a constant, if it is more than rounding.

    A few of many elements may become 0: the effect is measured.
    """
    if tensor.data_location == TensorProto.EXTERNAL or not all(tensor.dims):
        return None
    array = np.asarray(array_of(tensor))
    sizes = np.abs(array[np.isfinite(array)].astype(np.float64))
    most = float(sizes.max(initial=0))
    if _lost(most, dtype):
        return f"has the element {most:.6g}, which is {'0' if most < 1 else 'infinite'} in {type_name(dtype)}"
    return None


def _fits(tensor: TensorProto, dtype: int) -> bool:
    """Return whether a type holds all elements of a constant; floats are rounded."""
    if tensor.data_location == TensorProto.EXTERNAL:
        return tensor.data_type in FLOATS
    if tensor.data_type in FLOATS:
        return True
    found = of_array(np.asarray(array_of(tensor)))
    return found is None or found in whole_numbers_of_type(dtype)


def _is_exact(graph: RetypedGraph, visit: Visit, outputs: Sequence[Place], dtype: int, wanted: int) -> bool:
    """Return whether a node computes the same numbers in the new type, as far as it can hold them.

    A wider integer type neither wraps nor saturates at the same values, and floats divide and shift differently.
    """
    if dtype in FLOATS:
        return True
    converts = traits_of(visit.node).value_range is value_ranges.converted
    if outputs and converts and _cuts(visit, dtype, wanted):
        return False
    if outputs and wanted in FLOATS and not converts and not _is_exact_in_floats(visit.node):
        return False
    if traits_of(visit.node).marks_quantization:
        return False  # an int32 has no zero point, and a float no scale
    wider = of_type(dtype) in whole_numbers_of_type(wanted)
    return not wider or not any(place.name in graph.ranges.wrapped for place in outputs)


def _cuts(visit: Visit, dtype: int, wanted: int) -> bool:
    """Return whether a Cast changes numbers that a Cast to the new type would keep.

    A Cast to integers truncates fractions, and a Cast to bool maps nonzero numbers to 1.
    """
    read = visit.typed_node.inputs[0]
    if dtype == TensorProto.BOOL:
        return read is None or read.dtype != TensorProto.BOOL
    return wanted in FLOATS and (read is None or read.dtype not in (*INTEGERS, TensorProto.BOOL))


def _is_exact_in_floats(node: onnx.NodeProto) -> bool:
    """Return whether a node computes the same with whole floats as with integers.

    The ranges of sums and products include the intermediate results.
    """
    traits = float_traits(node)
    sums = not traits.isdisjoint({Trait.SUMS, Trait.PRODUCTS}) and traits_of(node).value_range is not None
    return (
        not traits.isdisjoint({Trait.MOVES, Trait.SELECTS})
        or sums
        or traits_of(node).arithmetic
        in (
            Arithmetic.ADD,
            Arithmetic.SUBTRACT,
            Arithmetic.MULTIPLY,
            Arithmetic.NEGATE,
        )
    )


def _is_named(visit: Visit, places: Sequence[Place]) -> bool:
    """Return whether an input or an attribute determines the type of outputs, or the schema permits only one."""
    if any(not place.is_output for place in places):
        return True
    choice = any(len(place.parameter.types) > 1 for place in places)
    return not choice or _naming_attribute(visit) is not None


_NAMING_TYPES = frozenset({AttributeProto.INT, AttributeProto.TENSOR})


def _type_of(visit: Visit, attribute: str) -> int:
    attribute_type: Any = visit.schema.raw.attributes[attribute].type
    return int(attribute_type.value)


def _naming_attribute(visit: Visit) -> str | None:
    """Return the attribute that names the element type of outputs, if no input determines it."""
    found = {name for name in NAMING & visit.schema.attributes.keys() if _type_of(visit, name) in _NAMING_TYPES}
    return next(iter(sorted(found)), None)


def name_type(visit: Visit, places: Sequence[Place], dtype: int, wanted: int) -> None:
    """Set the attributes of a node that name the old type of an output, also by default, to the new type."""
    node = visit.node
    if not any(place.is_output for place in places):
        return
    for attribute in node.attribute:
        if attribute.name not in NAMING:
            continue
        if attribute.type == AttributeProto.INT and attribute.i == dtype:
            attribute.i = wanted
        elif attribute.type == AttributeProto.TENSOR and attribute.t.data_type == dtype:
            attribute.t.CopyFrom(converted(attribute.t, wanted, attribute.t.name))
    name = _naming_attribute(visit)
    if name is None or not all(place.is_output for place in places) or any(one.name == name for one in node.attribute):
        return
    if _type_of(visit, name) == AttributeProto.INT:
        node.attribute.append(onnx.helper.make_attribute(name, wanted))
    else:  # the default of ConstantOfShape: a zero
        zero = np.zeros(1, onnx.helper.tensor_dtype_to_np_dtype(wanted))
        node.attribute.append(onnx.helper.make_attribute(name, tensor_of(zero, wanted, "")))


def name_kept_type(visit: Visit, dtype: int) -> None:
    """Set an attribute to the unchanged type of the outputs, if it defaults to an input's type."""
    name = _naming_attribute(visit)
    if (
        name is None
        or _type_of(visit, name) != AttributeProto.INT
        or visit.schema.raw.attributes[name].default_value.name
    ):
        return
    if not any(one.name == name for one in visit.node.attribute):
        visit.node.attribute.append(onnx.helper.make_attribute(name, dtype))
