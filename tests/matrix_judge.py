"""Judges one conversion: what the model looks like, then what it computes, bit for bit against the oracles."""

from __future__ import annotations

import collections
import ctypes
import dataclasses
import functools
import re
import unittest.mock
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import onnx
import onnx.inliner
import onnxruntime
import oracles
from matrix_cases import OPERATORS, Case, least_ir_version
from matrix_draw import Array
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, defs, helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

Convert: TypeAlias = Callable[..., Any]
Outputs: TypeAlias = dict[str, Array]

ORT_OPSET, ORT_IR = 26, 13
SAME_BEFORE_27 = {"Cast", "Compress", "OneHot", "Range"}
"""Operators whose versions 27 and 28 only add element types (and to Range an attribute for just those)."""

CONTROL = ("If", "Loop", "Scan")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FINE = ("ok", "refused-rightly", "refused-unchecked", "kept", "as-source")
"""`refused-unchecked`: called invalid, and ONNX's checker refuses the source too (a graph input without a shape).
`kept`: onnxruntime has no kernel, and the node is the source's own; the numbers are right by reference.
`as-source`: onnxruntime computes the source itself wrongly, in just this way."""
FAILING = ("wrong", "crash", "refused", "invalid", "norun-native", "norun", "unjudged")
"""`norun-native`: rewritten around an operator under test without a kernel; `norun`: what was written has no kernel;
`unjudged`: neither onnxruntime nor the reference runs it."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of one case."""

    category: str
    detail: str = ""


class InvalidError(Exception):
    """The converted model breaks a rule that needs no numbers."""


def judge(case: Case, convert: Convert, optimise: bool) -> Outcome:
    """Convert and look at the result; only faults of the harness itself raise."""
    before = case.model.SerializeToString(deterministic=True)
    try:
        result = ask(case, convert)
        again = ask(case, convert) if sum(case.name.encode()) % 16 == 0 else result
    except Exception as error:
        return _outcome_of(error, case)
    try:
        if case.model.SerializeToString(deterministic=True) != before:
            raise InvalidError("the model given was changed")
        if again.model.SerializeToString() != result.model.SerializeToString():
            raise InvalidError("the same conversion gave other bytes")
        if nothing_to_do(case) and result.model.SerializeToString(deterministic=True) != before:
            raise InvalidError("nothing was to be done, and the model is not the same")
        check(case, result.model)
    except InvalidError as error:
        return Outcome("invalid", str(error))
    return compute(case, result.model, optimise)


def ask(case: Case, convert: Convert) -> Any:
    """Convert; initializers that the cases feed stay inputs, as elsewhere nothing is fed that could be left out."""
    given = {tensor.name for tensor in case.model.graph.initializer}
    kept = {"keep_initializers_as_inputs": True} if any(v.name in given for v in case.model.graph.input) else {}
    return convert(case.model, opset=case.goal.opset, decompose=case.goal.decompose, verify=False, **kept)


def nothing_to_do(case: Case) -> bool:
    unwanted = set(case.goal.decompose)
    nodes = list(walk(case.model))
    return case.target == case.source_opset and not any(n.domain == "opshift" or n.op_type in unwanted for n in nodes)


def _outcome_of(error: Exception, case: Case) -> Outcome:
    from opshift.passes.base.errors import InvalidModelError, OpshiftError, UnsupportedError

    if not isinstance(error, OpshiftError):
        return Outcome("crash", f"{type(error).__name__}: {error}\n{_where(error)}")
    if isinstance(error, UnsupportedError):
        if case.impossible:
            return Outcome("refused-rightly", case.impossible)
        if case.target < 9 and "cannot hold a constant of type" in str(error):
            return Outcome("refused-rightly", "below 9 a Constant holds floats, and no Cast makes strings of them")
        return Outcome("refused", "; ".join(f"[{refusal.code}] {refusal}" for refusal in error.refusals))
    if isinstance(error, InvalidModelError) and _checker_says(case.model, full=False):
        return Outcome("refused-unchecked", str(error))
    return Outcome("refused", f"{type(error).__name__}: {error}")


def _where(error: Exception) -> str:
    """The innermost frame, so that equal faults fall into one group."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"


def validate(case: Case, optimise: bool) -> Outcome:
    """Judge the source itself: generator, oracles and onnxruntime have to agree before anything is converted."""
    if any(node.domain == "opshift" for node in walk(case.model)):
        return Outcome("skipped", "no runtime has the domain opshift")
    fault = _checker_says(case.model, full=True)
    if fault and "shapeless" not in case.kinds:
        return Outcome("invalid", fault)
    for node in walk(case.model):
        if not node.domain:
            check_axes(node, case.source_opset)
    return compute(case, case.model, optimise)


# -- What the model looks like


def check(case: Case, model: ModelProto) -> None:
    """Everything that is wrong without running it."""
    check_opsets(case, model)
    check_operators(case, model)
    check_interface(case.model, model)
    names = [node.name for node in model.graph.node if node.name]
    if len(set(names)) < len(names):
        raise InvalidError("two nodes of one name")
    check_by_onnx(case, model)


def check_opsets(case: Case, model: ModelProto) -> None:
    for holder in (model, *model.functions):
        versions = [entry.version for entry in holder.opset_import if entry.domain in ("", "ai.onnx")]
        if versions != [case.target] and (versions or holder is model):
            raise InvalidError(f"opset is {versions}, not {case.target}")
    if model.ir_version < least_ir_version(case.target):
        raise InvalidError(f"ir_version {model.ir_version} is too low for opset {case.target}")


def check_operators(case: Case, model: ModelProto) -> None:
    for node in walk(model):
        if node.domain == "opshift":
            raise InvalidError(f"{node.op_type} of the domain opshift is left")
        if node.domain in ("", "ai.onnx"):
            if node.op_type in case.goal.decompose:
                raise InvalidError(f"{node.op_type} is left")
            check_axes(node, case.target)
    had = {node.op_type for node in walk(case.model)}
    new = {node.op_type for node in walk(model)} & set(CONTROL) - had
    if new:
        raise InvalidError(f"{sorted(new)} was not there before")


def check_axes(node: NodeProto, opset: int) -> None:
    """No negative axis where the version's text does not define it (its own default apart)."""
    for attribute in node.attribute:
        if attribute.name in ("axis", "axes") and min([attribute.i, *attribute.ints]) < 0:
            allowed, default = _negative_axis(node.op_type, opset, attribute.name)
            if not allowed and attribute.i != default:
                raise InvalidError(f"{node.op_type} at opset {opset} has a negative {attribute.name}")


@functools.cache
def _negative_axis(op: str, opset: int, name: str) -> tuple[bool, int | None]:
    try:
        attribute = defs.get_schema(op, opset).attributes[name]
    except (KeyError, defs.SchemaError) as error:
        raise InvalidError(f"{op} with {name} does not exist at opset {opset}") from error
    default = attribute.default_value.i if attribute.default_value.type == AttributeProto.INT else None
    return bool(re.search(r"negative|\[-r", attribute.description, re.IGNORECASE)), default


def check_interface(before: ModelProto, after: ModelProto) -> None:
    """What callers feed and read is the same; below ir_version 4 initializers are inputs as well, behind the others."""
    given = {tensor.name for tensor in after.graph.initializer} if after.ir_version < 4 else set[str]()
    inputs = {value.name for value in after.graph.input}
    if not given <= inputs:
        raise InvalidError(f"no inputs below ir_version 4: {sorted(given - inputs)}")
    added = given - {value.name for value in before.graph.input}
    for what in ("input", "output"):
        old = list(getattr(before.graph, what))
        new = [value for value in getattr(after.graph, what) if what == "output" or value.name not in added]
        if [value.name for value in old] != [value.name for value in new]:
            raise InvalidError(f"graph {what}s are {[v.name for v in new]}, were {[v.name for v in old]}")
        for one, other in zip(old, new, strict=True):
            if one.type != other.type:
                raise InvalidError(f"the type of the graph {what} {one.name} changed")


def check_by_onnx(case: Case, model: ModelProto) -> None:
    """The checker, and its full check, as far as the source passes them."""
    for full in (False, True):
        fault = _checker_says(model, full)
        if fault and not _checker_says(case.model, full):
            raise InvalidError(f"checker (full_check={full}): {fault}")
        if fault:
            return


def _checker_says(model: ModelProto, full: bool) -> str:
    try:
        onnx.checker.check_model(model, full_check=full)
    except Exception as error:
        return str(error)
    return ""


def walk(model: ModelProto) -> Iterator[NodeProto]:
    """All nodes, those of subgraphs and functions too."""
    yield from _walk(model.graph.node)
    for function in model.functions:
        yield from _walk(function.node)


def _walk(nodes: Sequence[NodeProto]) -> Iterator[NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
                graphs: list[GraphProto] = [attribute.g, *attribute.graphs]
                for graph in graphs:
                    yield from _walk(graph.node)


# -- What the model computes


def compute(case: Case, model: ModelProto, optimise: bool) -> Outcome:
    """Run in onnxruntime; where that cannot, in the reference with the oracles as kernels."""
    try:
        fault = compare(case, run_in_onnxruntime(model, case.feeds, optimise))
        if fault and (as_the_source(case, model, optimise) or by_a_kept_argmax(case, model)):
            return Outcome("as-source", fault)
        return Outcome("wrong", f"in onnxruntime: {fault}") if fault else Outcome("ok")
    except NoOnnxruntimeError as error:
        no_runtime, reason = True, str(error)
    except Exception as error:
        no_runtime, reason = False, str(error)
    try:
        fault = compare(case, run_in_reference(model, case.feeds))
    except Exception as error:
        return Outcome("unjudged", f"onnxruntime: {reason}; reference: {type(error).__name__}: {error}")
    if fault:
        return Outcome("wrong", f"in the reference, as onnxruntime says {reason}: {fault}")
    return Outcome("ok") if no_runtime else Outcome(_norun(case, model, reason, optimise), reason)


def as_the_source(case: Case, model: ModelProto, optimise: bool) -> bool:
    """Whether the source, in onnxruntime, computes just what the converted model does: then the fault is its own."""
    try:
        before = list(run_in_onnxruntime(case.model, case.feeds, optimise))
    except Exception:
        return False
    after = list(run_in_onnxruntime(model, case.feeds, optimise))
    return all(same(one[name], other[name]) for one, other in zip(before, after, strict=True) for name in one)


def by_a_kept_argmax(case: Case, model: ModelProto) -> bool:
    """Whether the only fault is that of onnxruntime's ArgMax over a negative axis of an empty tensor.

    So it is if the model is right with the oracle in the kernel's place, and the node is one that the source has.
    """

    def negative(one: ModelProto) -> set[tuple[Any, ...]]:
        nodes = [node for node in walk(one) if node.op_type == "ArgMax"]
        found = [
            {a.name: helper.get_attribute_value(a) for a in node.attribute if not a.ref_attr_name} for node in nodes
        ]
        return {tuple(sorted(given.items())) for given in found if given.get("axis", -1) < 0}

    kept = negative(model)
    bound = any(a.ref_attr_name for node in walk(case.model) for a in node.attribute)
    if not kept or not (kept <= negative(case.model) or bound):
        return False
    try:
        return not compare(case, run_in_reference(model, case.feeds))
    except Exception:
        return False


def _norun(case: Case, model: ModelProto, reason: str, optimise: bool) -> str:
    """Whether onnxruntime stumbled over a node of the source, a native one that was made, or something else."""
    if "non-string numpy arrays" in reason:
        return "kept"  # strings and bfloat16 cannot be fed to one session from Python
    found = re.search(r"(?:implementation|kernel) for (\w+)\(|running (\w+) node", reason)
    op = (found.group(1) or found.group(2)) if found else ""
    if op not in OPERATORS:
        before, after = (_kind_of_failure(m, case.feeds, optimise) for m in (case.model, model))
        alike = before == after != ""
        return "as-source" if alike or by_a_kept_argmax(case, model) else "norun"
    if case.target == case.source_opset and op not in case.goal.decompose:
        return "kept"  # nobody asked for this operator to go, nor for another opset
    had, has = (collections.Counter(_signature(n) for n in walk(m) if n.op_type == op) for m in (case.model, model))
    return "kept" if has <= had else "norun-native"


def _kind_of_failure(model: ModelProto, feeds: Sequence[Outputs], optimise: bool) -> str:
    """How onnxruntime fails on a model, without names and numbers."""
    try:
        list(run_in_onnxruntime(model, feeds, optimise))
    except Exception as error:
        return " ".join(re.findall(r"running \w+ node|[A-Z]{2,}_[A-Z_]+", str(error)))
    return ""


def _signature(node: NodeProto) -> tuple[Any, ...]:
    """A node without its name."""
    attributes = sorted(attribute.SerializeToString() for attribute in node.attribute)
    return (*node.input, *node.output, *attributes)


def compare(case: Case, runs: Iterator[Outputs]) -> str:
    """The first difference, or nothing."""
    for feed, (expected, actual) in enumerate(zip(case.expected, runs, strict=True)):
        for name, wanted in expected.items():
            if not same(oracles.chosen(wanted, actual[name]), actual[name]):
                return f"feed {feed}, {name}: expected {show(wanted)}, got {show(actual[name])}"
    return ""


def same(wanted: Array, got: Array) -> bool:
    """Equal bit for bit; any NaN equals any other."""
    if wanted.shape != got.shape or (wanted.dtype != got.dtype and wanted.dtype.kind not in "OTU"):
        return False
    if wanted.dtype.kind in "OTU":
        return bool((wanted.astype(object) == got.astype(object)).all())
    if np.ascontiguousarray(wanted).tobytes() == np.ascontiguousarray(got).tobytes():
        return True
    if wanted.dtype.kind not in "fc" and wanted.dtype != BFLOAT16:
        return False
    differ = np.frombuffer(wanted.tobytes(), np.uint8) != np.frombuffer(got.tobytes(), np.uint8)
    places = differ.reshape(-1, wanted.dtype.itemsize).any(axis=1)
    return bool((np.isnan(wanted.reshape(-1)[places]) & np.isnan(got.reshape(-1)[places])).all())


def show(array: Array) -> str:
    text = np.array2string(array, threshold=24, edgeitems=4, separator=",").replace("\n", "")
    return f"{array.dtype}{list(array.shape)} {text[:160]}"


class NoOnnxruntimeError(Exception):
    """No version of onnxruntime could run this: its opset or its element types are beyond it, whatever is written."""


def interface_types(model: ModelProto) -> set[int]:
    return {value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)}


def run_in_onnxruntime(model: ModelProto, feeds: Sequence[Outputs], optimise: bool) -> Iterator[Outputs]:
    session = open_session(model, optimise)
    names = [value.name for value in model.graph.output]
    for feed in feeds:
        if TensorProto.BFLOAT16 in interface_types(model):
            values = {name: _ort_value(array) for name, array in feed.items()}
            outputs = [_array(value) for value in session.run_with_ort_values(names, values)]
        else:
            outputs = session.run(names, feed)
        yield dict(zip(names, outputs, strict=True))


def open_session(model: ModelProto, optimise: bool) -> Any:
    if interface_types(model) & {TensorProto.COMPLEX64, TensorProto.COMPLEX128}:
        raise NoOnnxruntimeError("no complex numbers")
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimise else levels.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    data = restamped(model).SerializeToString()
    try:
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        if opset_of(model) > ORT_OPSET and "bfloat16" in str(error):
            raise NoOnnxruntimeError(f"bfloat16 in an operator newer than opset {ORT_OPSET}") from error
        raise


def restamped(model: ModelProto) -> ModelProto:
    """The same model at an opset and ir_version that onnxruntime loads."""
    if opset_of(model) <= ORT_OPSET and model.ir_version <= ORT_IR:
        return model
    opset = opset_of(model)
    changed = {
        node.op_type for node in walk(model) if node.domain in ("", "ai.onnx") and not _same_before_27(node, opset)
    }
    if changed:
        raise NoOnnxruntimeError(f"{sorted(changed)} is newer than opset {ORT_OPSET}")
    copy = ModelProto()
    copy.CopyFrom(model)
    copy.ir_version = min(model.ir_version, ORT_IR)
    for holder in (copy, *copy.functions):
        for entry in holder.opset_import:
            if entry.domain in ("", "ai.onnx"):
                entry.version = min(entry.version, ORT_OPSET)
    return copy


def _same_before_27(node: NodeProto, opset: int) -> bool:
    return node.op_type in SAME_BEFORE_27 or _since(node.op_type, opset) == _since(node.op_type, ORT_OPSET)


@functools.cache
def _since(op: str, opset: int) -> int | None:
    return int(defs.get_schema(op, opset).since_version) if defs.has(op) else None


def opset_of(model: ModelProto) -> int:
    return next(int(entry.version) for entry in model.opset_import if entry.domain in ("", "ai.onnx"))


def _ort_value(array: Array) -> Any:
    if array.dtype == BFLOAT16:
        flat = np.ascontiguousarray(array).reshape(array.shape).view(np.uint16)
        value = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(flat, TensorProto.BFLOAT16)
        value.held = flat  # onnxruntime reads its memory, and does not hold it
        return value
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def _array(value: Any) -> Array:
    """An OrtValue as numpy; onnxruntime itself cannot give bfloat16."""
    if value.data_type() != "tensor(bfloat16)":
        return np.asarray(value.numpy())
    shape = tuple(value.shape())
    count = int(np.prod(shape, dtype=np.int64))
    data = ctypes.string_at(value.data_ptr(), 2 * count) if count else b""
    return np.frombuffer(data, BFLOAT16).reshape(shape)


def run_in_reference(model: ModelProto, feeds: Sequence[Outputs]) -> Iterator[Outputs]:
    evaluator = ReferenceEvaluator(prepared(model), new_ops=list(_kernels(opset_of(model) < 13)))
    names = [value.name for value in model.graph.output]
    for feed in feeds:
        # onnx.reference concatenates a Loop's scan outputs instead of stacking them.
        with unittest.mock.patch.object(np, "vstack", np.stack):
            outputs = evaluator.run(names, feed)
        yield dict(zip(names, (np.asarray(output) for output in outputs), strict=True))


def prepared(model: ModelProto) -> ModelProto:
    """The model as onnx.reference needs it: no functions, and no default that it takes from a newer version."""
    copy = ModelProto()
    copy.CopyFrom(model)
    defaults = {(f.domain, f.name): f.attribute_proto for f in copy.functions}
    for node in walk(copy):
        given = {attribute.name for attribute in node.attribute}
        # onnx.inliner forgets the defaults of a function's attributes.
        node.attribute.extend(d for d in defaults.get((node.domain, node.op_type), ()) if d.name not in given)
        if node.op_type == "Hardmax" and "axis" not in given:
            node.attribute.append(helper.make_attribute("axis", 1 if opset_of(model) < 13 else -1))
    return onnx.inliner.inline_local_functions(copy) if copy.functions else copy


@functools.cache
def _kernels(coerced: bool) -> tuple[type[OpRun], ...]:
    """The oracles as kernels of onnx.reference, whose own are wrong for Hardmax below 13 and for OneHot."""

    class Hardmax(OpRun):
        op_domain = ""

        def _run(self, x: Array, axis: int | None = None) -> tuple[Array]:
            if coerced:
                return (oracles.hardmax_1(x, 1 if axis is None else axis),)
            return (oracles.hardmax_13(x, -1 if axis is None else axis),)

    class ArgMax(OpRun):
        op_domain = ""

        def _run(
            self, x: Array, axis: int | None = None, keepdims: int | None = None, select_last_index: int | None = None
        ) -> tuple[Array]:
            return (oracles.argmax(x, axis or 0, 1 if keepdims is None else keepdims, select_last_index or 0),)

    class OneHot(OpRun):
        op_domain = ""

        def _run(self, indices: Array, depth: Array, values: Array, axis: int | None = None) -> tuple[Array]:
            return (oracles.one_hot(indices, np.asarray(depth), values, -1 if axis is None else axis),)

    return (Hardmax, ArgMax, OneHot)
