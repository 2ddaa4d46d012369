"""Run a model node by node: in onnxruntime if it has a kernel, otherwise with the operator's numpy oracle.

This is slow, but it supports nodes without an onnxruntime kernel, the oracle as the reference, and access to all
intermediate values.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from opshift.opsets.native import onnx_process
from opshift.opsets.registry.facts import SMALL, Facts, constant, freeze
from opshift.opsets.registry.inner_rounding import InnerRounding
from opshift.opsets.registry.operator import Lifted, Node, lift, operator_for
from opshift.opsets.registry.schema import default_domain, schema_at, schema_read_at
from opshift.opsets.registry.structural import IF, LOOP, SCAN
from opshift.opsets.runtimes.kernels import runs_by_body
from opshift.passes.analysis.scopes import inlined, versions
from opshift.passes.base.limits import Limits
from opshift.passes.graph.traversal import graph_views, nested_nodes, outer_names, subgraphs, tensors
from opshift.passes.io.external_data import embedded, is_external
from opshift.passes.runtime import oracles, ort_models
from opshift.passes.runtime.control_flow import control_flow
from opshift.passes.runtime.ort_models import (
    Array,
    ExcludedError,
    Feeds,
    RejectedError,
    RejectionKind,
    Runnable,
    name,
    nodes,
    result_or_rejection,
)
from opshift.passes.runtime.ort_opsets import fit
from opshift.passes.runtime.ort_session import Session

Values = Sequence[Any]
Evaluator = Callable[[Values, Mapping[str, Any]], Values]


def _nameless(node: onnx.NodeProto) -> tuple[onnx.NodeProto, dict[str, str]]:
    """Return a node with canonical value names, and the map from the old names to these."""
    plain = copy.deepcopy(node)
    plain.name = plain.doc_string = ""
    del plain.metadata_props[:]
    names: dict[str, str] = {}
    for value in (*node.input, *node.output):
        if value:
            names.setdefault(value, f"v{len(names)}")
    plain.input[:] = [names.get(name, "") for name in node.input]
    plain.output[:] = [names.get(name, "") for name in node.output]
    return plain, names


def type_of(value: Any) -> onnx.TypeProto:
    """Return the type of a value without its shape; an empty list counts as a list of floats."""
    if isinstance(value, np.ndarray):
        element = TensorProto.STRING if value.dtype == object else helper.np_dtype_to_tensor_dtype(value.dtype)
        return helper.make_tensor_type_proto(element, None)
    if isinstance(value, list):
        return helper.make_sequence_type_proto(
            type_of(value[0]) if value else helper.make_tensor_type_proto(TensorProto.FLOAT, None)
        )
    raise RejectedError(
        f"a {type(value).__name__} between two nodes has no type that is known", RejectionKind.MISSING_KERNEL
    )


def single(
    node: onnx.NodeProto, feeds: Mapping[str, Any], imports: Sequence[onnx.OperatorSetIdProto], like: onnx.ModelProto
) -> onnx.ModelProto:
    """Return a model of this node alone, with another model's functions and inputs of these values' types."""
    optional = _optionals(node, imports)
    types = {name: type_of(value) for name, value in feeds.items()}
    inputs = [
        helper.make_value_info(name, helper.make_optional_type_proto(type_str) if name in optional else type_str)
        for name, type_str in types.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "node", inputs, outputs)
    return helper.make_model(
        graph, opset_imports=imports, ir_version=max(like.ir_version, 8), functions=list(like.functions)
    )


def _optionals(node: onnx.NodeProto, imports: Sequence[onnx.OperatorSetIdProto]) -> frozenset[str]:
    """Return the inputs of a node that must be optionals.

    OptionalGetElement also accepts their contents since opset 18.
    """
    opset = next((entry.version for entry in imports if entry.domain in ("", "ai.onnx")), 0)
    schema = schema_at("", node.op_type, opset) if node.domain in ("", "ai.onnx") else None
    formal = ((name, schema.input(index)) for index, name in enumerate(node.input)) if schema else ()
    return frozenset(
        name for name, one in formal if one and all(type_str.startswith("optional(") for type_str in one.types)
    )


class Interpreter:
    """A model that runs node by node.

    `by_oracle` are operators whose oracle runs instead of onnxruntime, also inside an If or a Loop. If an oracle or
    onnx rejects inputs, they are rejected with `strict`; otherwise onnxruntime runs the node. `oracles` collects the
    used oracles.
    """

    modes = (False,)

    def __init__(
        self,
        runnable: Runnable,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
        by_oracle: frozenset[str] = frozenset(),
        semantics: str = "runtime",
        *,
        strict: bool = True,
    ) -> None:
        """Store the model; a node's session is opened when it is first reached."""
        self.model = inlined(runnable.proto)
        self._limits = limits
        self._by_oracle = by_oracle
        self._semantics = semantics
        self._strict = strict
        self._directory = runnable.directory or (runnable.path.parent if runnable.path else None)
        self.model = _with_attributes(self.model, self._directory)
        self.oracles: dict[str, None] = {}
        self._rounding: InnerRounding | None = None
        self._evaluators: dict[tuple[Any, ...], Evaluator] = {}
        self._alike: dict[bytes, Session | RejectedError] = {}
        """The sessions of nodes that differ only in names, or the reasons why onnxruntime does not load them."""
        # A protobuf keeps its id only while it is referenced.
        self._held = list(nodes(self.model))

    @property
    def name(self) -> str:
        """Return the name of the reference for a report."""
        oracles = f", the numpy oracle of {', '.join(self.oracles)}" if self.oracles else ""
        return f"{name()} node by node{oracles}"

    def run(self, feeds: Feeds, optimised: bool = False) -> tuple[Any, ...]:
        """Return the outputs in the model's order.

        Raises:
            RejectedError: neither onnxruntime nor an oracle computes a node on its inputs.
        """
        values = self.values(feeds)
        return tuple(values[value.name] for value in self.model.graph.output)

    def run_all(self, batch: Sequence[Feeds], optimised: bool = False) -> list[tuple[Any, ...] | RejectedError]:
        """Return, for each input, the outputs of `run` or the error that it raises."""
        return [result_or_rejection(self.run, feeds) for feeds in batch]

    def close(self) -> None:
        """Release the open nodes."""
        self._evaluators.clear()
        self._alike.clear()

    def values(self, feeds: Feeds) -> dict[str, Any]:
        """Return every value of the main graph by name, including constants.

        Raises:
            RejectedError: as for `run`.
        """
        values = {**self.constants, **feeds}
        self._run_nodes(self.model.graph, values)
        return values

    @functools.cached_property
    def constants(self) -> Mapping[str, Array]:
        """The initializers of the main graph."""
        return _constants(self.model.graph, self._directory)

    def node(
        self, node: onnx.NodeProto, values: Mapping[str, Any], rounding: InnerRounding | None = None
    ) -> Mapping[str, Any]:
        """Return the outputs of one node by name, given the values of its graph by name.

        `rounding` perturbs results inside oracles, also in its subgraphs.

        Raises:
            RejectedError: as for `run`.
        """
        outside, self._rounding = self._rounding, rounding
        try:
            return self._computed(node, values)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise RejectedError(f"{node.op_type} rejects its input: {error}") from error
        finally:
            self._rounding = outside

    def _computed(self, node: onnx.NodeProto, values: Mapping[str, Any]) -> Mapping[str, Any]:
        inputs = [values[name] if name else None for name in node.input]
        outer = {name: values[name] for name in outer_names(node)}
        key = (id(node), *(_key(value) for value in (*inputs, *outer.values())))
        if key not in self._evaluators:
            self._evaluators[key] = self._evaluator(node, inputs, outer)
        outputs = self._evaluators[key](inputs, outer)
        return dict(zip((name for name in node.output if name), outputs, strict=True))

    def _run_nodes(self, graph: onnx.GraphProto, values: dict[str, Any]) -> None:
        for node in graph.node:
            values.update(self.node(node, values, self._rounding))

    def _evaluator(self, node: onnx.NodeProto, inputs: Values, outer: Mapping[str, Any]) -> Evaluator:
        oracle = self._oracle(node, inputs)
        # Kernels of onnxruntime 1.31.1 are wrong on some empty tensors: ArgMax along axis -1 keeps that axis.
        empty = any(isinstance(value, np.ndarray) and not value.size for value in inputs)
        # A node without a kernel runs by its body, which may need shapes that a single node lacks (LinearAttention).
        foreign = bool(default_domain(node.domain))
        by_body = not foreign and runs_by_body(node.op_type, ort_models.opset(self.model))
        if oracle is not None and (empty or node.op_type in self._by_oracle or by_body):
            return oracle if self._strict else self._kernel_after_oracle(oracle, node)
        inside = (inner for graph in subgraphs(node) for inner in nested_nodes(graph))
        if self._by_oracle and any(inner.op_type in self._by_oracle for inner in inside):
            return self._subgraph_evaluator(node)
        if not any(isinstance(value, np.ndarray) and value.dtype.kind == "c" for value in inputs):
            try:
                run = self._session(node, inputs, outer)
                if _has_control_flow(node):
                    return _graphs_after_kernel(run, lambda *read: self._subgraph_evaluator(node)(*read))
                if oracle is None:
                    return run
                run = _oracle_without_kernel(run, oracle)
                return self._checked(node, run) if self._strict else run
            except RejectedError as error:
                if error.why in (RejectionKind.LIMIT, RejectionKind.DEATH):
                    raise
                refusal = error
        else:
            refusal = RejectedError("onnxruntime knows no complex numbers")
        if _has_control_flow(node):
            return self._subgraph_evaluator(node)
        if (
            oracle is None
            and refusal.why is RejectionKind.MISSING_KERNEL
            and any(map(_is_bfloat16, (*inputs, *outer.values())))
        ):
            return self._in_float(node, inputs, outer)
        if oracle is None:
            raise RejectedError(f"{node.op_type} has no numpy oracle, and in onnxruntime: {refusal}", refusal.why)
        return oracle

    def _subgraph_evaluator(self, node: onnx.NodeProto) -> Evaluator:
        """Return an evaluator that runs the subgraphs of a node.

        Raises:
            RejectedError: it is not an If, a Loop or a Scan, or it is a Scan with batches.
        """
        return functools.partial(control_flow(node.op_type, ort_models.opset(self.model)), self._body, node)

    def _kernel_after_oracle(self, oracle: Evaluator, node: onnx.NodeProto) -> Evaluator:
        """Return an evaluator that runs onnxruntime if the oracle rejects the inputs."""

        def run(inputs: Values, outer: Mapping[str, Any]) -> Values:
            try:
                return oracle(inputs, outer)
            except RejectedError as error:
                with contextlib.suppress(RejectedError):
                    return self._session(node, inputs, outer)(inputs, outer)
                raise error

        return run

    def _session(self, node: onnx.NodeProto, inputs: Values, outer: Mapping[str, Any]) -> Evaluator:
        feeds = {name: value for name, value in zip(node.input, inputs, strict=True) if name} | dict(outer)
        if any(subgraphs(node)) or any(node.op_type == function.name for function in self.model.functions):
            model = single(node, feeds, self.model.opset_import, self.model)
            session, names = self._opened(model), {name: name for name in feeds}
        else:
            plain, names = _nameless(node)
            typed = {names[name]: value for name, value in feeds.items()}
            like = onnx.ModelProto(ir_version=self.model.ir_version)
            model = single(plain, typed, self.model.opset_import, like)
            key = model.SerializeToString(deterministic=True)
            if key not in self._alike:
                try:
                    self._alike[key] = self._opened(model)
                except RejectedError as error:
                    if error.why in (RejectionKind.LIMIT, RejectionKind.DEATH):
                        raise
                    self._alike[key] = error
            found = self._alike[key]
            if isinstance(found, RejectedError):
                raise RejectedError(str(found), found.why)
            session = found
        read = list(node.input)

        def run(inputs: Values, outer: Mapping[str, Any]) -> Values:
            fed = {name: value for name, value in zip(read, inputs, strict=True) if name}
            return session.run({names[name]: value for name, value in (*fed.items(), *outer.items())})

        return run

    def _opened(self, model: onnx.ModelProto) -> Session:
        return Session(fit(Runnable(model))[0], optimised=False, limits=self._limits)

    def _in_float(self, node: onnx.NodeProto, inputs: Values, outer: Mapping[str, Any]) -> Evaluator:
        """Return an evaluator that computes a node of bfloat16 in float, and rounds the outputs once.

        Raises:
            RejectedError: onnxruntime does not run it in float either.
        """
        feeds = {name: value for name, value in zip(node.input, inputs, strict=True) if name} | dict(outer)
        typed = single(node, feeds, self.model.opset_import, self.model)
        made = _inferred(typed)
        wide = copy.deepcopy(node)
        for attribute in wide.attribute:
            if attribute.name in ("to", "dtype", "output_datatype", "output_dtype", "stash_type"):
                attribute.i = TensorProto.FLOAT if attribute.i == TensorProto.BFLOAT16 else attribute.i
        run = self._session(wide, [_float(value) for value in inputs], {name: _float(outer[name]) for name in outer})
        narrow = [made.get(name) == TensorProto.BFLOAT16 for name in node.output if name]

        def computed(inputs: Values, outer: Mapping[str, Any]) -> Values:
            found = run([_float(value) for value in inputs], {name: _float(value) for name, value in outer.items()})
            return tuple(one.astype(_BFLOAT16) if back else one for one, back in zip(found, narrow, strict=True))

        return computed

    def _oracle(self, node: onnx.NodeProto, inputs: Values) -> Evaluator | None:
        domain = "" if node.domain == "ai.onnx" else node.domain
        operator = operator_for(domain, node.op_type)
        if operator is None or not all(value is None or isinstance(value, np.ndarray) for value in inputs):
            return None
        typed_node = registry_node(node, domain, inputs, self.model.opset_import)
        if typed_node is None or isinstance(lift(operator, typed_node, self._semantics), str):
            return None
        label = f"{node.op_type}-{typed_node.since_version}"
        used = [index for index, output in enumerate(node.output) if output]

        def run(inputs: Values, outer: Mapping[str, Any]) -> Values:
            typed_node = registry_node(node, domain, inputs, self.model.opset_import)
            assert typed_node is not None
            self._check(node, inputs)
            self.oracles[label] = None
            try:
                lifted = lift(operator, typed_node, self._semantics)
            except NotImplementedError as error:
                raise RejectedError(str(error), RejectionKind.MISSING_KERNEL) from error
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                raise ExcludedError(f"{type(error).__name__}: {error}") from error
            if not isinstance(lifted, Lifted):
                raise ExcludedError(f"{label}: {lifted}")
            operands = list(_operands(lifted, inputs))
            results = oracles.computed(lifted.operator, lifted.meaning, operands, self._limits, self._rounding)
            return tuple(results[index] for index in used)

        return run

    def _checked(self, node: onnx.NodeProto, run: Evaluator) -> Evaluator:
        """Return an evaluator that rejects scalars if onnx does: onnxruntime accepts any axis of a scalar."""

        def checked(inputs: Values, outer: Mapping[str, Any]) -> Values:
            if any(isinstance(value, np.ndarray) and not value.ndim for value in inputs):
                self._check(node, inputs)
            return run(inputs, outer)

        return checked

    def _check(self, node: onnx.NodeProto, inputs: Values) -> None:
        """Raise RejectedError for inputs that onnx's inference rejects, such as an axis out of range."""
        feeds = {name: value for name, value in zip(node.input, inputs, strict=True) if name}
        like = onnx.ModelProto(ir_version=self.model.ir_version)
        model = single(self._with_defaults(node), feeds, self.model.opset_import, like)
        for declared in model.graph.input:
            value_type = declared.type
            value_type = value_type.optional_type.elem_type if value_type.HasField("optional_type") else value_type
            value_type.tensor_type.shape.dim.extend(
                onnx.TensorShapeProto.Dimension(dim_value=size) for size in feeds[declared.name].shape
            )
            value_type.tensor_type.shape.SetInParent()
        try:
            onnx_process.infer_shapes(model, strict_mode=True)
        except onnx.shape_inference.InferenceError as error:
            raise ExcludedError(f"onnx: {error}") from error

    def _with_defaults(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """Return a node that runs by a function body, with all its attributes.

        onnx 1.23.2 infers the body of MeanVarianceNormalization-13 without the default of `axes`.
        """
        domain = default_domain(node.domain)
        found = schema_at(domain, node.op_type, versions(self.model).get(domain, 0))
        if found is None or not found.has_body:
            return node
        whole = copy.deepcopy(node)
        held = {attribute.name for attribute in node.attribute}
        attributes = ((name, formal.default_value) for name, formal in found.raw.attributes.items())
        whole.attribute.extend(value for name, value in attributes if value.type and name not in held)
        return whole

    def _body(self, graph: onnx.GraphProto, inputs: Mapping[str, Any], outer: Mapping[str, Any]) -> Values:
        if late := ort_models.time_is_over(self._limits):
            raise late
        values = {**outer, **_constants(graph, self._directory), **inputs}
        self._run_nodes(graph, values)
        return tuple(values[value.name] for value in graph.output)


def _constants(graph: onnx.GraphProto, directory: Path | None) -> Mapping[str, Array]:
    return {tensor.name: numpy_helper.to_array(embedded(tensor, directory)) for tensor in graph.initializer}


def _with_attributes(model: onnx.ModelProto, directory: Path | None) -> onnx.ModelProto:
    """Return a model whose attributes hold the elements of their tensors; the model itself if they do already.

    Raises:
        RejectedError: elements are in another file, and the folder is unknown.
    """
    if not any(map(is_external, tensors(graph_views(model)))):
        return model
    if directory is None:
        raise RejectedError("the model has external data, and its folder is unknown")
    if not any(map(is_external, _held(model))):
        return model
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    for tensor in filter(is_external, _held(whole)):
        tensor.CopyFrom(embedded(tensor, directory))
    return whole


def _held(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """Yield the tensors in attributes."""
    for view in graph_views(model):
        for attribute in view.holders:
            yield from (attribute.t, *attribute.tensors)


def registry_node(
    node: onnx.NodeProto, domain: str, inputs: Values, imports: Sequence[onnx.OperatorSetIdProto]
) -> Node | None:
    """Return a node with its values as an operator's file sees it; None if onnx has no such operator."""
    if any(True for _ in subgraphs(node)):
        return None
    opset = next((entry.version for entry in imports if entry.domain in (domain, domain or "ai.onnx")), 0)
    schema = schema_read_at(domain, node.op_type, opset)
    if schema is None:
        return None
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    frozen = {key: freeze(_decoded(value)) for key, value in attributes.items()}
    facts = tuple(None if value is None else _facts(np.asarray(value)) for value in inputs)
    return Node(
        domain, node.op_type, schema.since_version, frozen, facts, tuple(bool(output) for output in node.output)
    )


def _decoded(value: Any) -> Any:
    """Return an attribute's value with text in place of bytes, and tuples in place of lists."""
    if isinstance(value, list):
        return tuple(map(_decoded, value))
    return value.decode() if isinstance(value, bytes) else value


def _facts(array: Array) -> Facts:
    element = TensorProto.STRING if array.dtype == object else helper.np_dtype_to_tensor_dtype(array.dtype)
    return constant(array, element) if array.nbytes <= SMALL else Facts(element, array.shape)


def _operands(lifted: Lifted, inputs: Values) -> Iterator[Array | None]:
    """Yield the value of each operand: an input, or a constant from an attribute."""
    for index, facts in zip(lifted.sources, lifted.operands, strict=True):
        known = facts.known if facts else None
        yield known if index is None else inputs[index]


_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def _oracle_without_kernel(run: Evaluator, oracle: Evaluator) -> Evaluator:
    """Return an evaluator that runs the oracle if a kernel fails at run time: that of GRU for double, say."""

    def served(inputs: Values, outer: Mapping[str, Any]) -> Values:
        try:
            return run(inputs, outer)
        except RejectedError as error:
            if error.why is not RejectionKind.MISSING_KERNEL:
                raise
            return oracle(inputs, outer)

    return served


def _graphs_after_kernel(run: Evaluator, graphs: Evaluator) -> Evaluator:
    """Return an evaluator that goes through the graphs of a node where onnxruntime rejects it.

    What has no kernel runs by its body, which may ask for shapes that an If alone lacks (LinearAttention).
    """

    def served(inputs: Values, outer: Mapping[str, Any]) -> Values:
        try:
            return run(inputs, outer)
        except RejectedError as error:
            if error.why in (RejectionKind.LIMIT, RejectionKind.DEATH):
                raise
            with contextlib.suppress(RejectedError):
                return graphs(inputs, outer)
            raise

    return served


def _has_control_flow(node: onnx.NodeProto) -> bool:
    return node.domain in ("", "ai.onnx") and node.op_type in (IF, LOOP, SCAN)


def _is_bfloat16(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == _BFLOAT16


def _float(value: Any) -> Any:
    """Return a bfloat16 tensor as float, and any other value unchanged."""
    return value.astype(np.float32) if _is_bfloat16(value) else value


def _inferred(model: onnx.ModelProto) -> Mapping[str, int]:
    """Return the element types of a model's outputs, as far as onnx infers them."""
    try:
        outputs = onnx_process.infer_shapes(model).graph.output
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        return {}
    return {value.name: value.type.tensor_type.elem_type for value in outputs}


def _key(value: Any) -> Any:
    """Return the properties of a value that determine its one-node model."""
    if isinstance(value, np.ndarray):
        return value.dtype, not value.size
    return ("seq", _key(value[0]) if value else None) if isinstance(value, list) else None
