"""Support targets without Identity, Constant or Cast: name outputs and set the type of indices without them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence

import onnx
from onnx import TensorProto

from opshift.opsets.operators.constant import gives
from opshift.opsets.registry.facts import FLOATS, INTEGERS, Facts, facts_of_attribute, type_name
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.node_traits import traits
from opshift.opsets.registry.operator import Lifted, Node
from opshift.opsets.registry.schema import NEWEST, default_domain, schema_at
from opshift.opsets.registry.structural import CAST, CONSTANT, IDENTITY
from opshift.opsets.registry.traits import Trait
from opshift.opsets.runtimes.target import Legality
from opshift.passes.analysis.inference import infer
from opshift.passes.graph.traversal import names_read, subgraphs
from opshift.passes.rewrite.edits import Change, Replace
from opshift.passes.rewrite.fragment import Constant, Failure, Fragment, Input, Output, ValueRef, operand_sources
from opshift.passes.rewrite.lowering_search import Deriver
from opshift.passes.rewrite.op_type_decisions import OpTypeDecisions


def without_core_ops(
    change: Replace,
    node: onnx.NodeProto,
    deriver: Deriver,
    fixed_names: Callable[[], frozenset[str]],
    *,
    constants: bool,
) -> Replace | Failure:
    """Replace the Identity or Constant that names an output, on a target that does not support them.

    If only nodes read the output, they are rewired to the source value; otherwise the Identity is lowered like any
    node. `fixed_names` returns the names that must stay; with `constants`, the target supports Constants of all types.
    """
    fragment = change.fragment
    nodes, outputs, renamed = list(fragment.nodes), list(fragment.outputs), []
    named = set[Output]()
    for place, (name, ref) in enumerate(zip(node.output, fragment.outputs, strict=True)):
        own = isinstance(ref, Output) and ref not in named
        named.update([ref] if isinstance(ref, Output) else ())
        if not name or own or (isinstance(ref, Constant) and constants):
            continue
        if isinstance(ref, Constant) and name not in fixed_names():
            renamed.append(place)  # after an Identity it would count as computed
            continue
        facts = Facts()
        if isinstance(ref, Constant):
            facts = Facts(ref.dtype, facts_of_attribute(ref.value).shape)
        elif isinstance(ref, Input):
            facts = change.lifted.operands[ref.operand] or facts
        found = _named(_without_elements(facts), deriver)
        if isinstance(found, Fragment) and not found.lowerings:
            continue
        if name not in fixed_names():
            renamed.append(place)
        elif constants and facts.known is not None and facts.value is not None and facts.dtype:
            outputs[place] = Constant(facts.value, facts.dtype)
        elif isinstance(found, Failure):
            return found
        else:
            nodes += [dataclasses.replace(leaf, inputs=_behind(leaf.inputs, len(nodes), ref)) for leaf in found.nodes]
            outputs[place] = Output(len(nodes) - 1, 0)
    fragment = dataclasses.replace(fragment, nodes=tuple(nodes), outputs=tuple(outputs))
    return change._replace(fragment=fragment, renamed=tuple(renamed))


def _without_elements(facts: Facts) -> Facts:
    """Return facts without elements: known elements would be folded, but a node must name the value.

    The dimensions of an empty tensor determine its elements.
    """
    shape = facts.shape
    dims = (None,) * len(shape) if facts.size == 0 and shape else shape
    return Facts(facts.dtype, dims, container=facts.container)


def _named(facts: Facts | None, deriver: Deriver) -> Fragment | Failure:
    """Derive the node that copies a value to another name."""
    schema = schema_at("", IDENTITY, deriver.legality.opset)
    node = Node("", IDENTITY, schema.since_version if schema else 1, {}, (facts,), (True,))
    lifted = deriver.lift(node)
    return Failure(lifted) if isinstance(lifted, Reason) else deriver.derive(lifted)


def _behind(inputs: Sequence[ValueRef], base: int, ref: ValueRef) -> tuple[ValueRef, ...]:
    """Shift the inputs of a node that follows `base` others, and whose operand is `ref`."""
    return tuple(
        Output(one.node + base, one.place) if isinstance(one, Output) else ref if isinstance(one, Input) else one
        for one in inputs
    )


def folded(
    typed_node: Node, derived: tuple[Lifted, Fragment] | Failure | None, deriver: Deriver
) -> tuple[Lifted, Fragment] | None:
    """Return known constants in place of a node that the target does not support unchanged."""
    if isinstance(derived, tuple) and not derived[1].lowerings:
        return None
    lifted, inferred = deriver.lift(typed_node), infer(typed_node)
    if isinstance(lifted, Reason) or isinstance(inferred, Reason):
        return None
    refs = [
        Constant(facts.value, facts.dtype) if facts.known is not None and facts.value and facts.dtype else None
        for facts in inferred
    ]
    if any(used and ref is None for used, ref in zip(typed_node.used, refs, strict=True)):
        return None
    rounds = {Trait.MOVES, Trait.SELECTS}.isdisjoint(traits(typed_node.name).floats) and any(
        facts is not None and facts.dtype in FLOATS for facts in inferred
    )
    return lifted, Fragment((), tuple(refs), ("folded",), 0.0, rounds=rounds)


def pin(
    fragment: Fragment, lifted: Lifted, typed_node: Node, legality: Legality
) -> tuple[tuple[int | Constant | None, ...], bool]:
    """Return the source of each operand: a constant if the target requires one for a computed operand.

    The second value is whether there is such an operand.
    """
    sources = list(operand_sources(lifted))
    pinned = False
    for leaf in fragment.nodes:
        facts = tuple(lifted.operands[ref.operand] if isinstance(ref, Input) else None for ref in leaf.inputs)
        node = Node("", leaf.name, 0, leaf.attributes, facts, (True,) * leaf.outputs)
        for index in legality.computed(node):
            ref, one = leaf.inputs[index], facts[index]
            if isinstance(ref, Input) and one is not None and one.value is not None:
                sources[ref.operand] = Constant(one.value, one.dtype or 0)
                pinned = True
    return tuple(sources), pinned


def is_folded(change: Change | None) -> bool:
    """Return whether a node becomes a constant, which the scope already knows."""
    return isinstance(change, Replace) and change.fragment.lowerings == ("folded",)


def fixed_names(graph: onnx.GraphProto | onnx.FunctionProto) -> frozenset[str]:
    """Return the names that must stay: outputs, also of subgraphs, and values that annotations name."""
    if isinstance(graph, onnx.FunctionProto):
        names = set(graph.output)
    else:
        names = {value.name for value in graph.output}
        for note in graph.quantization_annotation:
            names.add(note.tensor_name)
            names.update(entry.value for entry in note.quant_parameter_tensor_names)
    return frozenset(names).union(*(fixed_names(inner) for node in graph.node for inner in subgraphs(node)))


def casts_of_indices(graph: onnx.GraphProto | onnx.FunctionProto) -> dict[int, int]:
    """Return the Casts that are the only consumers of an index, with the ArgMax that computes it."""
    makers = {
        node.output[0]: index
        for index, node in enumerate(graph.node)
        if node.op_type == "ArgMax" and not default_domain(node.domain)
    }
    if not makers:
        return {}
    names = fixed_names(graph)
    readers = Counter(name for node in graph.node for name in names_read(node))
    found = {
        index: makers[node.input[0]]
        for index, node in enumerate(graph.node)
        if node.op_type == CAST and not default_domain(node.domain) and node.input[0] in makers
    }
    return {
        cast: maker
        for cast, maker in found.items()
        if readers[graph.node[cast].input[0]] == 1 and graph.node[cast].input[0] not in names
        if not any(item.ref_attr_name for place in (cast, maker) for item in graph.node[place].attribute)
    }


def constants_without_place(
    fragment: Fragment, legality: Legality, decisions: OpTypeDecisions, *, ir_version: int | None
) -> tuple[str, str] | None:
    """Return reason and fix if a graph at the target opset cannot hold a constant of the fragment.

    `ir_version` is the source model's, or None in a function, which has no initializers.
    """
    refs = [*fragment.outputs, *(ref for leaf in fragment.nodes for ref in leaf.inputs)]
    dtypes = {ref.dtype for ref in refs if isinstance(ref, Constant)}
    opset, target = legality.opset, legality.target
    if not dtypes:
        return None
    if TensorProto.BFLOAT16 in dtypes and opset < 13:
        return f"opset {opset} has no operator that accepts bfloat16.", "Use opset 13 or newer."
    # Functions have no initializers; below opset 9 they build constants by Cast from floats, 64-bit integers in two
    # halves.
    wide = dtypes & {TensorProto.INT64, TensorProto.UINT64}
    needed = (CONSTANT, CAST, "Mul", "Add") if wide and opset < 9 else (CONSTANT, CAST)[: 2 - (opset >= 9)]
    missing = next((name for name in needed if not decisions.has(name)), None)
    if ir_version is None and missing:
        reason = f"a function needs {missing} for a constant, and the target does not have it."
        return reason, "Inline the function."
    if ir_version is None and dtypes & INTEGERS and opset < 9 and target and target.needs_constants:
        reason = f"below opset 9 a function holds integers as Casts of floats, and {target.name} needs constants."
        return reason, "Inline the function, or use opset 9 or newer."
    if not decisions.has(CONSTANT) and target and target.ir_version and target.ir_version[1] < 4:
        return "constants are initializers only from ir_version 4 on, and the target has no Constant.", ""
    if ir_version is not None and ir_version >= 4:
        return None
    maker = CONSTANT if opset >= 9 else CAST
    if without := [dtype for dtype in sorted(dtypes) if not gives(maker, opset, dtype)]:
        element = type_name(without[0])
        since = next((one for one in range(opset, NEWEST + 1) if gives(CONSTANT, one, without[0])), None)
        holder = "a function" if ir_version is None else "a model of ir_version 3"
        reason = f"opset {opset} has no {maker} of {element}, by which {holder} holds a constant."
        return reason, f"Use opset {since} or newer." if since else ""
    uncastable = dtypes & {TensorProto.STRING, TensorProto.COMPLEX64, TensorProto.COMPLEX128}
    if uncastable and opset < 9:
        element = type_name(min(uncastable))
        reason = f"a function, or a model of ir_version 3, at opset {opset} cannot hold a constant of type {element}."
        return reason, "Inline the function, or use opset 9 or newer."
    return None
