"""Infer the facts about a node's outputs: onnx infers types and shapes, the operators' oracles fold constants."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from opshift.opsets.operators import constant as constants
from opshift.opsets.registry.facts import (
    SMALL,
    Dim,
    ExternalTensor,
    Facts,
    FrozenType,
    Tensor,
    constant,
    exact,
    facts_of_attribute,
    partly_known,
    tensor_of,
    type_name,
)
from opshift.opsets.registry.inference_gaps import (
    DEFAULTS,
    INFERRED_AS,
    fatal,
    is_absent,
    rounded,
    typed_as_output,
    without_late,
    without_padded,
)
from opshift.opsets.registry.lowering import Body, Reason
from opshift.opsets.registry.node_traits import traits
from opshift.opsets.registry.operator import (
    SPELLING,
    Lifted,
    Node,
    Operator,
    Outputs,
    bound,
    lift,
    operator_for,
    write_native,
)
from opshift.opsets.registry.schema import NEWEST, OLDEST, Schema, is_dialect, schema_at, schema_read_at
from opshift.opsets.registry.structural import CONSTANT
from opshift.passes.analysis.node_inference import NodeInference
from opshift.passes.base.cache import Cache
from opshift.passes.graph import limits

POSITIONS = 8 * 2**20
"""The maximum size in bytes of a folded Range."""


def make_node(
    name: str, domain: str, inputs: Sequence[str], outputs: Sequence[str], attributes: Mapping[str, Any]
) -> onnx.NodeProto:
    """Build a node; a Tensor among the attributes becomes a TensorProto."""
    node = helper.make_node(name, inputs, outputs, domain=domain)
    node.attribute.extend(
        make_attribute(key, value, _list_type(name, domain, key) if value == () else 0)
        for key, value in sorted(attributes.items())
    )
    return node


def _list_type(name: str, domain: str, key: str) -> int:
    """Return the type of an attribute with an empty list, which has no elements to infer it from.

    Constant has three.
    """
    if not onnx.defs.has(name, domain):
        return 0
    known = onnx.defs.get_schema(name, domain).attributes
    return int(known[key].type.value) if key in known else 0  # type: ignore[attr-defined]


def form(name: str, attributes: Mapping[str, Any]) -> tuple[onnx.NodeProto, Any, Any]:
    """Return a node of the default domain without names, and its lists of inputs and outputs.

    Getting the lists from protobuf takes as long as filling them.
    """
    node = make_node(name, "", (), (), attributes)
    return node, node.input, node.output


_LISTS = frozenset({onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS, onnx.AttributeProto.STRINGS})


def make_attribute(name: str, value: Any, list_type: int = 0) -> onnx.AttributeProto:
    """Build an attribute. A Tensor becomes a TensorProto; an empty tuple is of `list_type`, by default INTS."""
    if isinstance(value, FrozenType):
        value = onnx.TypeProto.FromString(value)
    elif isinstance(value, ExternalTensor):
        value = value.proto
    elif isinstance(value, Tensor):
        value = tensor_of(value.array, constant(value.array).dtype or 0, "")
    known = list_type if list_type in _LISTS else onnx.AttributeProto.INTS
    empty_type = known if isinstance(value, tuple) and not value else None
    if isinstance(value, tuple):
        value = tuple(map(_as_bytes, value))
    return helper.make_attribute(name, _as_bytes(value), attr_type=empty_type)


def _as_bytes(value: Any) -> Any:
    """Return a string as its original bytes, including invalid UTF-8."""
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def infer(node: Node, most: int = SMALL) -> tuple[Facts, ...] | Reason:
    """Return the facts about each output, elements included, or why the schema does not accept the node.

    `most` is the maximum size in bytes of elements computed from smaller inputs.
    """
    facts = typed(node)
    if isinstance(facts, Reason) or (node.name == CONSTANT and not node.domain):
        return facts
    value = _fold(node, facts, most)
    if value is not None:
        return value
    return tuple(
        constant(np.zeros(one.shape, helper.tensor_dtype_to_np_dtype(one.dtype)), one.dtype)
        if one.size == 0 and one.dtype and one.shape and one.holdable and all(isinstance(dim, int) for dim in one.shape)
        else one
        for one in facts
    )


def typed(node: Node, *, written: bool = False) -> tuple[Facts, ...] | Reason:
    """Return the type and shape of each output of a node, or why the operator's schema does not accept it.

    A node that will be `written` must pass with the known facts: onnxruntime (1.32.0) runs onnx's inference when it
    loads a model. It then refuses a valid node if onnx treats an unknown number as zero (Resize-13, sizes of unknown
    number).
    """
    if node.name == CONSTANT and not node.domain:
        return (_constant(node.attributes),)
    if any(isinstance(value, Outputs) for value in node.attributes.values()):
        return tuple(Facts() for _ in node.used)
    schema = (
        schema_at("", node.name, NEWEST)
        if node.domain == SPELLING
        else schema_read_at(node.domain, node.name, node.since_version)
    )
    if schema is not None and is_dialect(schema):
        return _by_replacement(node, schema, " of onnxruntime")
    if schema is not None and not schema.raw.has_type_and_shape_inference_function and schema.since_version < OLDEST:
        return _by_replacement(node, schema)
    if schema is None:
        step = operator_for(node.domain, node.name)
        lifted = (
            Reason("") if step is None or not (step.facts or node.domain == SPELLING) else lift(step, node, "runtime")
        )
        if isinstance(lifted, Reason):
            return lifted if lifted else tuple(Facts() for _ in node.used)
        facts = lifted.operator.facts
        return facts(lifted.meaning, lifted.operands) if facts else _by_meaning(lifted)
    return _typed_once(node, schema, written=written)


_KEPT = 1024
"""The maximum number of elements of a constant in the key of a cached node, which keeps it in memory."""

_TYPED = Cache[tuple[Facts, ...] | Reason]()
"""The inference of nodes: plans for several targets infer the same ones."""


def _typed_once(node: Node, schema: Schema, *, written: bool) -> tuple[Facts, ...] | Reason:
    """Infer types and shapes, or return those of an equal node."""
    if any(facts is not None and facts.value is not None and facts.value.size > _KEPT for facts in node.inputs):
        return _typed(node, schema, written=written)
    key = (
        node.domain,
        node.name,
        node.since_version,
        schema.raw,
        exact(node.attributes),
        node.inputs,
        node.used,
        written,
    )
    return _TYPED.get(key, lambda: _typed(node, schema, written=written), _is_known)


def _is_known(found: tuple[Facts, ...] | Reason) -> bool:
    """Return whether anything is known: if not, onnx may have died at the node, or had no time left."""
    return isinstance(found, Reason) or any(facts != Facts() for facts in found)


def _constant(attributes: Mapping[str, Any]) -> Facts:
    value = constants.tensor(attributes)
    return Facts() if value is None else facts_of_attribute(value)


def _typed(node: Node, schema: Schema, *, written: bool) -> tuple[Facts, ...] | Reason:
    """Infer types and shapes with onnx, then with the operator's own rule, which also uses partly known shapes."""
    if any(required and name not in node.attributes for name, (required, _) in schema.attributes.items()):
        return tuple(Facts() for _ in node.used)  # a parameter of a function, whose value each call defines
    label = f"{node.name}-{node.since_version} does not take this"
    position = limits.SHAPED.get(node.name, len(node.inputs))
    wanted = node.inputs[position] if position < len(node.inputs) else None
    axes = wanted.shape[0] if wanted and wanted.shape else 0
    if isinstance(axes, int) and axes > limits.MOST_AXES:
        return Reason(f"{label}: its shape has {axes} axes")
    inputs = tuple(
        None if facts is not None and _is_optional(schema, index) and is_absent(node.name, index, facts.size) else facts
        for index, facts in enumerate(node.inputs)
    )
    inputs = typed_as_output(node.name, inputs)
    names = [f"i{index}" if facts is not None else "" for index, facts in enumerate(inputs)]
    # Attention with nonpad_kv_seqlen is valid only if it returns neither present_key nor present_value.
    outputs = [f"o{index}" if used else "" for index, used in enumerate(node.used)]
    unread = {"ceil_mode"} if rounded(node.name, node.attributes) else set()
    given_or_default = {**DEFAULTS.get(node.name, {}), **node.attributes}
    attributes = {name: value for name, value in given_or_default.items() if name in schema.attributes.keys() - unread}
    proto = make_node(schema.raw.name, schema.domain, names, outputs, attributes)
    newer = INFERRED_AS.get((node.name, schema.since_version))
    known_schema = schema if newer is None or node.domain else schema_at("", node.name, newer) or schema
    inference = NodeInference(dataclasses.replace(node, inputs=inputs), known_schema, proto)
    found = _fault(node, schema) or inference.facts(strict=written)
    if isinstance(found, str):
        if node.domain == SPELLING:
            return tuple(Facts() for _ in node.used)  # the meaning is checked when the node is emitted
        return Reason(f"{label}: {found}")
    data = node.inputs[0] if node.inputs else None
    inferred = [
        without_padded(node.name, node.attributes, without_late(node.name, node.attributes, facts, data))
        for facts in found
    ]
    operator = operator_for(node.domain, node.name)
    if operator is not None and operator.shape is not None:
        lifted = lift(operator, node, "runtime")
        if not isinstance(lifted, Reason):
            inferred[0] = _refined(inferred[0], operator.shape(lifted.meaning, lifted.operands))
    if operator is not None and operator.domain and any(facts.shape is None for facts in inferred):
        inferred = _filled(inferred, lift(operator, node, "runtime"))
    if operator is not None and operator.dtype is not None and node.domain == SPELLING:
        inferred[0] = dataclasses.replace(inferred[0], dtype=operator.dtype(operator.meaning(**node.attributes)))
    return _with_types_of_inputs(node, schema, inferred)


def _filled(inferred: list[Facts], lifted: Lifted | Reason) -> list[Facts]:
    """Return the facts about outputs, with shapes inferred from the node's replacement."""
    found = lifted if isinstance(lifted, Reason) else _by_meaning(lifted)
    if isinstance(found, Reason):
        return inferred
    pairs = itertools.zip_longest(inferred, found[: len(inferred)], fillvalue=Facts())
    return [Facts(one.dtype or more.dtype, more.shape if one.shape is None else one.shape) for one, more in pairs]


def _by_replacement(node: Node, schema: Schema, owner: str = "") -> tuple[Facts, ...] | Reason:
    """Infer through a node's replacement: onnx infers neither onnxruntime's own operators nor many of opset 1."""
    if wrong := _fault(node, schema):
        return Reason(f"{node.name}-{node.since_version}{owner} does not take this: {wrong}")
    operator = operator_for(node.domain, node.name)
    lifted = Reason("") if operator is None else lift(operator, node, "runtime")
    if isinstance(lifted, Reason):
        found: tuple[Facts, ...] | Reason = lifted if lifted.invalid else tuple(Facts() for _ in node.used)
    else:
        found = _by_meaning(lifted)
    if isinstance(found, Reason):
        return found
    if not isinstance(lifted, Reason) and lifted.operator.domain and lifted.operator.shape is not None and found:
        found = (_refined(found[0], lifted.operator.shape(lifted.meaning, lifted.operands)), *found[1:])
    return _with_types_of_inputs(node, schema, found)


def _with_types_of_inputs(node: Node, schema: Schema, found: Sequence[Facts]) -> tuple[Facts, ...]:
    """Return the facts about outputs, with the element types that inputs of the same type variable have."""
    if all(facts.type for facts in found):
        return tuple(found)
    bound_types = {
        parameter.type_variable: facts.dtype
        for index, facts in enumerate(node.inputs)
        if facts is not None
        and facts.dtype
        and (parameter := schema.input(index)) is not None
        and parameter.homogeneous
    }
    formal = [schema.outputs[min(index, len(schema.outputs) - 1)] for index in range(len(found))]
    return tuple(
        facts
        if facts.type or not parameter.homogeneous
        else dataclasses.replace(facts, dtype=bound_types.get(parameter.type_variable))
        for facts, parameter in zip(found, formal, strict=True)
    )


def _by_meaning(lifted: Lifted) -> tuple[Facts, ...] | Reason:
    """Infer the outputs of a meaning: from the operator at the newest opset, or from the first applicable lowering."""
    if not lifted.operator.domain:
        native = write_native(lifted, NEWEST)
        if not isinstance(native, Reason):
            inputs = tuple(None if index is None else lifted.operands[index] for index in native.inputs)
            return typed(Node("", lifted.operator.name, native.since_version, native.attributes, inputs, lifted.used))
    for lowering in lifted.operator.lowerings:
        body = lowering.body_for(lifted.meaning, lifted.operands)
        if not isinstance(body, Reason):
            return _by_body(body, lifted)
    return tuple(Facts() for _ in lifted.used)


def _by_body(body: Body, lifted: Lifted) -> tuple[Facts, ...] | Reason:
    """Infer the outputs of a lowering's body, node by node."""
    operands = (None if index is None else lifted.operands[index] for index in body.inputs)
    values: dict[str, Facts | None] = {"": None, **dict(zip(body.function.inputs, operands, strict=False))}
    for call in body.function.calls:
        if call.inputs and values[call.inputs[0]] is None:
            values.update(dict.fromkeys(call.outputs, None))  # an omitted operand has no outputs
            continue
        name, attributes = bound(call, body, lifted)
        schema = None if call.domain else schema_at("", name, body.opset) or schema_at("", name, NEWEST)
        inputs = tuple(values[one] for one in call.inputs)
        since = schema.since_version if schema else 1
        found = infer(Node(call.domain, name, since, attributes, inputs, (True,) * len(call.outputs)))
        if isinstance(found, Reason):
            return found
        values.update(zip(call.outputs, found, strict=True))
    return tuple(values[name] or Facts() for name in body.function.outputs[: len(lifted.used)])


def _is_optional(schema: Schema, index: int) -> bool:
    parameter = schema.input(index)
    return parameter is not None and parameter.optional


_OUTPUT_TYPES = frozenset(("dtype", "output_datatype", "output_dtype", "to"))
"""Attributes with the output's element type; 0 leaves it to the inputs."""


def _fault(node: Node, schema: Schema) -> str | None:
    """Return the reason why a node is invalid whatever its unknown inputs are, such as their types."""
    if not schema.domain and (wrong := fatal(node.name, node.attributes, len(node.used))):
        return wrong
    for name in _OUTPUT_TYPES & node.attributes.keys() & schema.attributes.keys():
        if isinstance(node.attributes[name], str):
            continue  # the name of a type, as in Cast-1
        type_text = f"tensor({type_name(node.attributes[name])})"
        if node.attributes[name] and not any(type_text in allowed for allowed in schema.outputs[0].types):
            return f"its output {schema.outputs[0].name!r} is a {type_text}"
    raw = schema.raw
    if not raw.min_input <= len(node.inputs) <= raw.max_input:
        return f"it has {len(node.inputs)} inputs"
    if not raw.min_output <= len(node.used) <= raw.max_output:
        return f"it has {len(node.used)} outputs"
    for index, facts in enumerate(node.inputs):
        parameter = schema.input(index)
        if parameter is None:
            continue
        if facts is None:
            if not parameter.optional and not parameter.variadic:
                return f"its input {parameter.name!r} is left out"
            continue
        if facts.dtype and f"tensor({type_name(facts.dtype)})" not in parameter.types:
            return f"its input {parameter.name!r} is a tensor({type_name(facts.dtype)})"
    return schema.unlike([None if facts is None else facts.dtype for facts in node.inputs])


def _refined(facts: Facts, shape: tuple[Dim, ...] | None) -> Facts:
    if shape is None:
        return facts
    if facts.shape is not None and len(facts.shape) == len(shape):
        shape = tuple(new if old is None else old for old, new in zip(facts.shape, shape, strict=True))
    return Facts(facts.dtype, shape)


def _fold(node: Node, outputs: tuple[Facts, ...], most: int) -> tuple[Facts, ...] | None:
    """Compute the outputs from known inputs: wholly known, or partly if elements are only moved."""
    operator = operator_for(node.domain, node.name)
    if operator and operator.by_facts:
        found = _computed(operator.by_facts, node.attributes, node.inputs)
        return None if found is None else (found,)
    if operator is None or any(facts is not None and facts.value is None for facts in node.inputs):
        return None
    if operator.traits is not None and operator.traits.heavy:
        return None
    # The moved elements may be partly known; their positions must be known.
    moved = len(node.inputs) if operator.variadic else 1
    unknown = [index for index, facts in enumerate(node.inputs) if facts is not None and facts.known is None]
    if unknown and not (operator.moves_data and unknown[-1] < moved):
        return _of_dims(node, operator, outputs)
    if len(outputs) != 1 or outputs[0].dtype is None or not is_bounded(node, outputs, most := _most(node, most)):
        return None
    lifted = lift(operator, node, "runtime")
    if isinstance(lifted, Reason):
        return None
    arrays = [None if facts is None or facts.value is None else facts.value.array for facts in lifted.operands]
    computed = _computed(operator.oracle, lifted.meaning, *arrays)
    if computed is None:
        return None
    # An operator with several outputs may have one output here. A symbol alone is not a string.
    result = np.asarray(computed[0] if isinstance(computed, tuple) else computed, object if unknown else None)
    if result.nbytes > most:
        return None
    if result.dtype == object and outputs[0].dtype != TensorProto.STRING:
        return (partly_known(result, outputs[0].dtype),)
    return (constant(result, outputs[0].dtype),)


_DIMS = frozenset({TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL})
"""The element types of values computed from shapes with some known dims."""


def _of_dims(node: Node, operator: Operator, outputs: tuple[Facts, ...]) -> tuple[Facts, ...] | None:
    """Compute the elements of one output from elements of the inputs, some of which are unknown."""
    rule, output = operator.of_dims, outputs[0]
    if rule is None or len(outputs) != 1 or output.dtype not in _DIMS or (output.size or 0) > limits.MOST_AXES:
        return None
    lifted = lift(operator, node, "runtime")
    if isinstance(lifted, Reason) or getattr(lifted.meaning, "axis", None) is not None:
        return None  # below opset 7, an axis aligns the elements differently
    if any(facts is None or facts.value is None for facts in lifted.operands):
        return None
    arrays = [facts.value.array.astype(object) for facts in lifted.operands if facts and facts.value]
    filled = [
        np.where(_is_number(array), array, 1).astype(helper.tensor_dtype_to_np_dtype(facts.dtype or 0))
        for array, facts in zip(arrays, lifted.operands, strict=True)
        if facts
    ]
    computed = _computed(operator.oracle, lifted.meaning, *filled)
    if computed is None:
        return None
    found = np.asarray(computed).astype(object)
    spread = np.broadcast_arrays(*arrays)
    for place in np.ndindex(found.shape):
        elements = [array[place] for array in spread]
        if not all(map(_is_number, elements)):
            dim = rule(*elements)
            found[place] = dim if _is_number(dim) or output.dtype != TensorProto.BOOL else None
    return (partly_known(found, output.dtype),)


_is_number = np.frompyfunc(lambda element: isinstance(element, int), 1, 1)
"""Whether elements are known numbers instead of symbols."""


def is_bounded(node: Node, outputs: Sequence[Facts], most: int) -> bool:
    """Whether outputs have at most `most` bytes, eight for each element; unknown sizes count as those of the inputs.

    An output whose size is an input's value can have any size: onnx infers it if that value is known.
    """
    known = traits(node.name, node.domain)
    grows = bool(known.counts) or known.grows
    return all(not grows if facts.size is None else facts.size * 8 <= most for facts in outputs)


def _most(node: Node, most: int) -> int:
    """Return the maximum bytes of a folded result: more than `most` only for positions and values computed from them.

    A runtime without Range needs them as a constant, which is as large as an axis is long.
    """
    if node.name == "Range":
        return POSITIONS
    return max(
        [most, *(facts.known.size * 8 for facts in node.inputs if facts is not None and facts.known is not None)]
    )


def _computed(oracle: Callable[..., Any], meaning: Any, *arrays: Any) -> Any:
    """Return an oracle's result for constants; None for values that the operator does not accept.

    onnx's inference may miss these: a string that is not a number, as input of Cast.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return oracle(meaning, *arrays)
        except Exception:
            return None
