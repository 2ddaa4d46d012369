"""Read the operators that the installed onnxruntime can run from its own kernel table."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.native import onnx_process
from opshift.opsets.registry.facts import Facts, Tensor, constant, freeze, tensor_of, type_name
from opshift.opsets.registry.operator import Node, operator_for
from opshift.opsets.registry.schema import (
    NEWEST,
    Parameter,
    Schema,
    attribute_value,
    schema_at,
    schema_read_at,
)

OPEN_END = 2**31 - 1


@dataclass(frozen=True)
class Kernel:
    """A kernel of the CPU provider: its operator versions and element types."""

    start: int
    end: int
    types: Mapping[str, frozenset[str]]

    def serves(self, since_version: int) -> bool:
        """Return whether onnxruntime uses it for this version: an open range serves only its first version."""
        return self.start == since_version or (self.end != OPEN_END and self.start <= since_version <= self.end)


_UNWRITTEN = {name: frozenset({"tensor(double)"}) for name in ("GRU", "LSTM")}
"""Element types of kernels that onnxruntime 1.32.0 lists, and that raise once they run."""


@functools.cache
def kernel_table() -> Mapping[str, tuple[Kernel, ...]]:
    """Return the kernels of onnxruntime's CPU provider, by operator of the default domain."""
    from onnxruntime.capi import onnxruntime_pybind11_state as native

    found: dict[str, list[Kernel]] = {}
    for item in native.get_all_opkernel_def():
        if item.domain == "" and item.provider == "CPUExecutionProvider":
            unwritten = _UNWRITTEN.get(item.op_name, frozenset())
            types = {variable: frozenset(names) - unwritten for variable, names in item.type_constraints.items()}
            start, end = item.version_range
            found.setdefault(item.op_name, []).append(Kernel(start, end, types))
    return {name: tuple(kernels) for name, kernels in found.items()}


_Typed = tuple[int, Sequence[int]]


def _session(name: str, inputs: Mapping[str, _Typed], output: _Typed, opset: int, ir_version: int = 8) -> Any:
    """Open a single-node model with types and shapes by name in the installed onnxruntime (1 ms)."""
    import onnxruntime
    from onnx import helper

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    values = [helper.make_tensor_value_info(key, *typed) for key, typed in {**inputs, "y": output}.items()]
    graph = helper.make_graph([helper.make_node(name, list(inputs), ["y"])], "g", values[:-1], values[-1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _loads(opset: int, ir_version: int) -> bool:
    """Return whether the installed onnxruntime loads a single-node model."""
    # 1.31.1 has kernels for opset 27 but loads only 26, so only a session shows it.
    bools = TensorProto.BOOL, [1]
    try:
        _session("Not", {"x": bools}, bools, opset, ir_version)
    except Exception:  # onnxruntime raises its own exception classes, one for each status
        return False
    return True


def installed() -> bool:
    """Return whether onnxruntime is installed, without importing it."""
    return importlib.util.find_spec("onnxruntime") is not None


def version() -> str:
    """Return the version of the installed onnxruntime."""
    import onnxruntime

    return str(onnxruntime.__version__)


@functools.cache
def runs_by_body(name: str, opset: int) -> bool:
    """Return whether the installed onnxruntime runs a default-domain operator by ONNX's function body.

    It does so if it has no kernel for the opset's version; the body of Attention runs from 25 on. An operator with
    neither kernel nor body counts too, because it cannot run otherwise.
    """
    loaded = newest_opset()
    schema = schema_read_at("", name, min(opset, loaded or opset, NEWEST))
    return schema is None or not any(one.serves(schema.since_version) for one in kernel_table().get(name, ()))


@functools.cache
def newest_opset() -> int | None:
    """Return the newest opset that the installed onnxruntime loads; None if it is not installed."""
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        return None
    return next((opset for opset in range(NEWEST, 0, -1) if _loads(opset, 8)), None)


@functools.cache
def newest_ir_version() -> int:
    """Return the newest ir_version that the installed onnxruntime loads."""
    return next((version for version in range(int(onnx.IR_VERSION), 7, -1) if _loads(7, version)), 7)


@functools.cache
def cuts_sums_of_bytes() -> bool:
    """Return whether onnxruntime, on this processor, saturates sums of products of unsigned and signed bytes.

    Without VNNI, its kernels for AVX2 add two products in 16 bits, up to 32767 (1.32.0).
    """
    inputs = {"a": (TensorProto.UINT8, [4, 64]), "b": (TensorProto.INT8, [64, 4])}
    session = _session("MatMulInteger", inputs, (TensorProto.INT32, [4, 4]), 10)
    (y,) = session.run(None, {"a": np.full((4, 64), 255, np.uint8), "b": np.full((64, 4), 127, np.int8)})
    return bool((y != 64 * 255 * 127).any())


def _kernel_types(dtype: int) -> frozenset[str]:
    """Return the kernel types for an element type: onnxruntime casts float16 to float if it has no kernel for it."""
    name = f"tensor({type_name(dtype)})"
    return frozenset({name, "tensor(float)"}) if name == "tensor(float16)" else frozenset({name})


def _alone(dtype: int) -> frozenset[str]:
    return frozenset({f"tensor({type_name(dtype)})"})


_NEUTRAL = {"Add": 0, "Div": 1, "Mul": 1, "Sub": 0}
"""Operators that onnxruntime's optimizer drops for a constant operand; it compares doubles as floats."""


def computes_wrongly(node: Node) -> str | None:
    """Return the error of onnxruntime's kernels for a node, so that no lowering emits it; or None.

    All were seen in 1.31.1, and the dropped operators in 1.32.0, too.
    """
    if not node.inputs or node.inputs[0] is None:
        return None
    if node.name == "Clip" and node.inputs[0].dtype == TensorProto.INT64:
        return "Clip of int64 mistakes the order where upper halves are equal"
    if node.name == "Clip" and node.inputs[0].dtype in (TensorProto.INT16, TensorProto.UINT16, TensorProto.BFLOAT16):
        return "Clip of this type is a function, whose Where has no kernel"
    if node.name in _NEUTRAL and node.inputs[0].dtype == TensorProto.DOUBLE:
        neutral = _NEUTRAL[node.name]
        numbers = [facts.known for facts in node.inputs if facts is not None and facts.known is not None]
        with np.errstate(over="ignore"):
            taken = any(one.size == 1 and one != neutral and one.astype(np.float32) == neutral for one in numbers)
        if taken:
            return f"{node.name} of double is dropped where a constant is {neutral} as float"
    if node.name == "Gather" and node.inputs[0].dtype == TensorProto.STRING:
        axis, shape = node.attributes.get("axis", 0), node.inputs[0].shape
        behind = None if shape is None else shape[axis % len(shape) + 1 :] if shape else ()
        return None if behind is not None and set(behind) <= {1} else "Gather of strings fills one element of a slice"
    return None


@functools.cache
def is_inlined(name: str, opset: int) -> bool:
    """Return whether onnxruntime inlines an operator's body at an opset: not if an operator in it has a newer version.

    Seen for Swish in 1.31.1, which runs at 24 but not at 25, where Constant and CastLike changed.
    """
    schema = schema_at("", name, opset)
    if schema is None or not schema.has_body:
        return False
    raw: Any = schema.raw
    written = [version for version in raw.function_opset_versions if version <= opset]
    if not written:
        return bool(raw.has_context_dependent_function)
    function = onnx.FunctionProto.FromString(raw.get_function_with_opset_version(max(written)))
    pairs = [(schema_at("", item.op_type, max(written)), schema_at("", item.op_type, opset)) for item in function.node]
    return all(then and now and then.since_version == now.since_version for then, now in pairs)


@dataclass(frozen=True)
class WrongBody:
    """A function body that onnxruntime inlines without a kernel, and whose results differ from the operator's."""

    reason: str
    kernels: frozenset[str]
    """The types of the first input with a kernel, such as `tensor(float)`."""

    def of(self, dtype: int | None) -> bool:
        """Return whether a node with this element type is inlined; for an unknown type, whether all are.

        float16 runs in the same way before and after a conversion, with the same overflows, and is left to onnxruntime.
        """
        if not self.kernels or dtype is None:
            return not self.kernels
        return dtype != TensorProto.FLOAT16 and f"tensor({type_name(dtype)})" not in self.kernels


@functools.cache
def wrong_body(name: str, opset: int) -> WrongBody | None:
    """Return the body that onnxruntime inlines for an operator at an opset, if opshift never uses it as a lowering."""
    schema = schema_at("", name, opset)
    if not schema or not is_inlined(name, opset):
        return None
    operator = operator_for("", name)
    if not operator or not operator.body_unused:
        return None
    parameter = schema.input(0)
    variable = parameter.type_variable if parameter else ""
    serving = [kernel for kernel in kernel_table().get(name, ()) if kernel.serves(schema.since_version)]
    if not all(variable in kernel.types for kernel in serving):
        return None
    types = frozenset(one for kernel in serving for one in kernel.types[variable])
    complete = {"tensor(float16)", *types} >= set(parameter.types if parameter else ())
    return None if complete else WrongBody(operator.body_unused, types)


def loses(name: str, source_opset: int, target_opset: int) -> bool:
    """Return whether onnxruntime runs a kernel-less operator by its body at one opset, but not at another."""
    inlined_then_only = is_inlined(name, source_opset) and not is_inlined(name, target_opset)
    return inlined_then_only and newest_opset() is not None and name not in kernel_table()


@functools.cache
def lost_types(name: str, source_opset: int, target_opset: int) -> frozenset[str]:
    """Return the types for which onnxruntime runs an operator at the source's opset, but not at the target's.

    These are types such as `tensor(uint8)` of its first input, and of outputs whose type an attribute names (windows of
    float16). Types that the operator does not accept at the target are not included.
    """
    before, after = schema_at("", name, source_opset), schema_at("", name, target_opset)
    if source_opset == target_opset or before is None or after is None or newest_opset() is None:
        return frozenset()
    if before.since_version == after.since_version and not (
        is_inlined(name, source_opset) or is_inlined(name, target_opset)
    ):
        return frozenset()  # one version has the same kernels at all opsets, but a body only at some
    found: frozenset[str] = frozenset()
    for then, now in zip(_deciding(before), _deciding(after), strict=False):
        found |= (_served(before, then, source_opset) - _served(after, now, target_opset)) & now.types
    return found


def _deciding(schema: Schema) -> list[Parameter]:
    """Return the first input, and the outputs whose type no input has."""
    first = schema.input(0)
    bound = {parameter.type_variable for parameter in schema.inputs}
    others = [parameter for parameter in schema.outputs if parameter.type_variable not in bound]
    return others if first is None else [first, *others]


def _served(schema: Schema, parameter: Parameter, opset: int) -> frozenset[str]:
    """Return the types of a parameter for which onnxruntime has a kernel, or a body that runs, at an opset."""
    kernels = [kernel for kernel in kernel_table().get(schema.name, ()) if kernel.serves(schema.since_version)]
    types = frozenset().union(*(kernel.types.get(parameter.type_variable, parameter.types) for kernel in kernels))
    first = parameter is schema.input(0)
    if not is_inlined(schema.name, opset):
        return types | {"tensor(float16)"} if "tensor(float)" in types and first else types
    return (
        parameter.types
        if not first
        else types | frozenset(one for one in parameter.types - types if _body_of_type_runs(schema, opset, one))
    )


def _body_of_type_runs(schema: Schema, opset: int, type_text: str) -> bool:
    """Return whether onnxruntime has the kernels of a body for a type of the first input and its type variable."""
    element = type_text.removeprefix("tensor(").removesuffix(")")
    if element.upper() not in TensorProto.DataType.keys():  # noqa: SIM118 (it is not a mapping)
        return True
    first = schema.input(0)
    needed = [parameter for index in range(schema.raw.min_input) if (parameter := schema.input(index)) is not None]
    dtypes = tuple(
        TensorProto.DataType.Value(element.upper())
        if first and parameter.type_variable == first.type_variable
        else _usual(parameter.types)
        for parameter in needed
    )
    return _body_runs(schema.name, opset, (), dtypes, 1, rightly=False)


def _runs_as_body(node: Node, opset: int) -> bool:
    """Return whether onnxruntime correctly runs the body that it inlines for a node, as far as the types are known."""
    operator = operator_for("", node.name)
    if not is_inlined(node.name, opset) or (operator and operator.body_unused):
        return False
    dtypes = tuple(None if facts is None else facts.dtype or 0 for facts in node.inputs)
    return 0 in dtypes or _body_runs(node.name, opset, tuple(sorted(node.attributes.items())), dtypes, len(node.used))


@functools.lru_cache(4096)
def _body_runs(
    name: str,
    opset: int,
    attributes: tuple[tuple[str, Any], ...],
    dtypes: tuple[int | None, ...],
    outputs: int,
    *,
    rightly: bool = True,
) -> bool:
    """Return whether onnxruntime has the kernels of a body; `rightly`: without inner bodies that opshift never uses."""
    found = _typed_body(name, opset, attributes, dtypes, outputs)
    if found is None:
        return True
    nodes, known = found
    return all(_fits(one, known, opset) and _inner_runs(one, known, opset, rightly) for one in nodes)


@functools.lru_cache(4096)
def _typed_body(
    name: str, opset: int, attributes: tuple[tuple[str, Any], ...], dtypes: tuple[int | None, ...], outputs: int
) -> tuple[Sequence[onnx.NodeProto], Mapping[str, int]] | None:
    """Return the nodes of a body and the known types of their values; None if the body is unknown."""
    schema = schema_at("", name, opset)
    assert schema is not None
    types = [onnx.helper.make_tensor_type_proto(dtype, None) if dtype else onnx.TypeProto() for dtype in dtypes]
    names = ["" if dtype is None else f"i{index}" for index, dtype in enumerate(dtypes)]
    call = onnx.helper.make_node(name, names, [f"o{index}" for index in range(outputs)])
    call.attribute.extend(_attributes(schema, dict(attributes)))
    body = _body(schema, opset, call, types)
    if body is None:
        return None  # it depends on unknown facts
    model = onnx.helper.make_model(
        onnx.helper.make_graph([], "g", [], []), opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8
    )
    graph = model.graph
    graph.node.extend(_bound_nodes(body, call, schema))
    for place, formal in enumerate(body.input):
        if place < len(dtypes) and dtypes[place]:
            graph.input.add(name=formal).type.CopyFrom(types[place])
    try:
        inferred = onnx_process.infer_shapes(model).graph
    except Exception:  # any C++ exception for a body that does not accept these types
        return None
    known = {value.name: value.type.tensor_type.elem_type for value in (*inferred.value_info, *inferred.input)}
    absent = {formal for place, formal in enumerate(body.input) if place >= len(dtypes) or dtypes[place] is None}
    for one in graph.node:
        one.input[:] = ["" if name in absent else name for name in one.input]
    return list(graph.node), known


def _fits(one: onnx.NodeProto, known: Mapping[str, int], opset: int) -> bool:
    """Return whether inputs of a node that must have the same type do, as far as types are known.

    The bodies of MeanVarianceNormalization-9 and 13 violate this for float16, and onnxruntime 1.32.0 does not load
    them.
    """
    schema = schema_at("", one.op_type, opset)
    return schema is None or bool(one.domain) or schema.unlike([known.get(name) for name in one.input]) is None


def _misfits(node: Node, opset: int) -> bool:
    """Return whether onnxruntime inlines a body for a node whose types conflict."""
    dtypes = tuple(None if facts is None else facts.dtype or 0 for facts in node.inputs)
    if 0 in dtypes or not is_inlined(node.name, opset):
        return False
    found = _typed_body(node.name, opset, tuple(sorted(node.attributes.items())), dtypes, len(node.used))
    return found is not None and not all(_fits(one, found[1], opset) for one in found[0])


def _attributes(schema: Schema, known: Mapping[str, Any]) -> list[onnx.AttributeProto]:
    """Return the known attributes of a node, and a guess for each other required one."""
    attribute_types = onnx.defs.OpSchema.AttrType
    guesses = {
        attribute_types.INT: 1,
        attribute_types.FLOAT: 1.0,
        attribute_types.STRING: "a",
        attribute_types.INTS: (1,),
        attribute_types.FLOATS: (1.0,),
    }
    required = [key for key, (must, _) in schema.attributes.items() if must]
    values = {key: guesses.get(schema.raw.attributes[key].type) for key in required}
    values |= {key: value for key, value in known.items() if value is not None}
    return [
        onnx.helper.make_attribute(key, tensor_of(value.array, constant(value.array).dtype or 0, ""))
        if isinstance(value, Tensor)
        else onnx.helper.make_attribute(key, value)
        for key, value in values.items()
        if value is not None and value != ()
    ]


def _body(
    schema: Schema, opset: int, call: onnx.NodeProto, types: Sequence[onnx.TypeProto]
) -> onnx.FunctionProto | None:
    """Return the function body of an operator for a call of it; None if onnx has no body for these types."""
    raw: Any = schema.raw
    written = [version for version in raw.function_opset_versions if version <= opset]
    try:
        if written:
            found: onnx.FunctionProto = onnx.FunctionProto.FromString(raw.get_function_with_opset_version(max(written)))
            return found
        version = max(one for one in raw.context_dependent_function_opset_versions if one <= opset)
        serialized = [one.SerializeToString() for one in types]
        body: onnx.FunctionProto = onnx_process.function_body(schema, version, call.SerializeToString(), serialized)
        return body
    except (RuntimeError, ValueError, onnx.shape_inference.InferenceError):
        return None


def _bound_nodes(body: onnx.FunctionProto, call: onnx.NodeProto, schema: Schema) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a body with its parameters replaced by a call's attributes or their defaults."""
    values = {item.name: item for item in call.attribute}
    defaults = {key: default for key, (_, default) in schema.attributes.items() if default is not None}
    for one in body.node:
        bound = onnx.NodeProto()
        bound.CopyFrom(one)
        del bound.attribute[:]
        for item in one.attribute:
            name = item.ref_attr_name
            if not name:
                bound.attribute.append(item)
            elif name in values:
                bound.attribute.append(values[name])
                bound.attribute[-1].name = item.name
            elif name in defaults:
                bound.attribute.append(onnx.helper.make_attribute(item.name, defaults[name]))
        yield bound


def _inner_runs(one: onnx.NodeProto, known: Mapping[str, int], opset: int, rightly: bool) -> bool:
    """Return whether a node of a body has a kernel, or its types are unknown."""
    schema = schema_at("", one.op_type, opset)
    if schema is None or one.domain or any(not known.get(name) for name in one.input if name):
        return True
    inputs = tuple(Facts(known[name]) if name else None for name in one.input)
    attributes = {item.name: freeze(attribute_value(item)) for item in one.attribute}
    node = Node("", one.op_type, schema.since_version, attributes, inputs, (True,) * len(one.output))
    if has_kernel(node, schema, opset):
        return True
    if rightly or not is_inlined(one.op_type, opset):
        return False
    dtypes = tuple(None if facts is None else facts.dtype for facts in inputs)
    return _body_runs(one.op_type, opset, tuple(sorted(attributes.items())), dtypes, len(one.output), rightly=False)


@functools.cache
def runs(name: str, opset: int) -> bool:
    """Return whether the installed onnxruntime has a kernel for an operator's version at an opset, for any types."""
    loaded = newest_opset()
    if loaded is None or name == "Constant":
        return True  # it is unknown, or needs no kernel
    schema = schema_at("", name, min(opset, loaded, NEWEST))
    if schema is None:
        return schema_at("", name, opset) is None
    if any(one.serves(schema.since_version) for one in kernel_table().get(name, ())):
        return True
    if not is_inlined(name, min(opset, loaded)):
        return False
    # The body of Bernoulli has RandomUniformLike-22, for which onnxruntime 1.32.0 has no kernel.
    needed = [parameter for index in range(schema.raw.min_input) if (parameter := schema.input(index)) is not None]
    return _body_runs(name, min(opset, loaded), (), tuple(_usual(parameter.types) for parameter in needed), 1)


def _usual(types: Iterable[str]) -> int:
    """Return float if an input permits it, else int64, else 0 for unknown."""
    return next((one for one in (TensorProto.FLOAT, TensorProto.INT64) if f"tensor({type_name(one)})" in types), 0)


@functools.cache
def last_that_runs(name: str, source_opset: int, target_opset: int) -> int | None:
    """Return the opset nearest to the target, coming from the source, at which onnxruntime runs an operator.

    Return None if it runs the operator at the target, or does not run it at the source.
    """
    if runs(name, target_opset) or not runs(name, source_opset):
        return None
    between = (
        range(target_opset - 1, source_opset - 1, -1)
        if target_opset > source_opset
        else range(target_opset + 1, source_opset + 1)
    )
    return next(opset for opset in between if runs(name, opset))


def has_kernel(node: Node, schema: Schema, opset: int) -> bool:
    """Return whether onnxruntime runs this node; false if the kernels need certain types and a type is unknown."""
    loaded = newest_opset()
    if loaded is None:
        return True  # it is unknown
    # A version newer than the installed onnxruntime is assumed to run on the kernels of the previous version.
    newest = min(loaded, NEWEST)
    if node.name == "Constant" or _runs_as_body(node, min(opset, newest)):
        return True
    before = schema_at("", node.name, newest) if node.since_version > newest else None
    since_version = before.since_version if before else node.since_version
    kernel_types = _alone if _misfits(node, min(opset, newest)) else _kernel_types
    bound: dict[str, frozenset[str]] = {}
    for index, facts in enumerate(node.inputs):
        parameter = schema.input(index)
        if facts is not None and parameter is not None:
            types = kernel_types(facts.dtype) if facts.dtype else frozenset((facts.container,))
            bound[parameter.type_variable] = types
    named = named_output(node, opset)
    return any(
        kernel.serves(since_version)
        and (
            not named or f"tensor({named})" in kernel.types.get(schema.outputs[0].type_variable, (f"tensor({named})",))
        )
        and all(
            variable not in bound or not bound[variable].isdisjoint(types) for variable, types in kernel.types.items()
        )
        for kernel in kernel_table().get(node.name, ())
    )


def named_output(node: Node, opset: int) -> str:
    """Return the element type that an attribute names for the first output, if no input has it; else ""."""
    schema = schema_at("", node.name, opset)
    dtype = next((one for key in _NAMING if (one := node.attributes.get(key))), None)
    if schema is None or not isinstance(dtype, int) or not schema.outputs:
        return ""
    bound = {schema.inputs[min(index, len(schema.inputs) - 1)].type_variable for index in range(len(node.inputs))}
    return "" if schema.outputs[0].type_variable in bound else type_name(dtype)


_NAMING = ("dtype", "output_datatype", "output_dtype", "to")
"""Attributes that name the element type of the first output."""
