"""`convert` and `plan`: the steps of a conversion, in order."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from opshift.opsets.native import onnx_process
from opshift.opsets.runtimes.target import Target
from opshift.passes.base.arguments import Progress
from opshift.passes.base.errors import UnsupportedError
from opshift.passes.base.options import Options
from opshift.passes.base.plan import Plan
from opshift.passes.conversion.plan_search import plan_nearest
from opshift.passes.conversion.request import Request, assumed, read_request
from opshift.passes.conversion.result import Result
from opshift.passes.conversion.rewriting import rewrite
from opshift.passes.conversion.verification import verified
from opshift.passes.io.model_forms import Model
from opshift.passes.rewrite.edits import Planned


def plan(
    model: Model,
    *,
    opset: int | None = None,
    decompose: Collection[str] = (),
    target: str | os.PathLike[str] | Target | None = None,
    semantics: str = "runtime",
    assume: Collection[str] = (),
    allow: Collection[str] | None = None,
    assume_opset: int | None = None,
    ir_version: int | None = None,
    optimize: bool = False,
    keep_initializers_as_inputs: bool = False,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    dims: Mapping[str, int] | None = None,
    batch: int | None = None,
    fold: bool = False,
    types: Mapping[str, str] | None = None,
    io_types: bool = False,
    quantized: str | None = None,
    allow_paths: Collection[str | os.PathLike[str]] = (),
    progress: Progress | None = None,
) -> Plan:
    """Return the changes that `convert` would make with the same arguments, and the blockers; nothing is modified.

    The conversion is tried on a copy, because some blockers appear only then (such as an ir_version).

    Raises:
        InvalidModelError: the model is missing, unreadable or invalid.
        UsageError: the request is invalid.
    """
    assume = assume if allow is None else assumed(assume, allow)
    options = dataclasses.replace(Options.of(locals()), verify=False)
    try:
        return _rewritten(model, options)[2].plan
    except UnsupportedError as error:
        return cast("Plan", error.plan)


def convert(
    model: Model,
    *,
    opset: int | None = None,
    decompose: Collection[str] = (),
    target: str | os.PathLike[str] | Target | None = None,
    verify: bool | Literal["nodes"] = True,
    semantics: str = "runtime",
    assume: Collection[str] = (),
    allow: Collection[str] | None = None,
    assume_opset: int | None = None,
    ir_version: int | None = None,
    optimize: bool = False,
    keep_initializers_as_inputs: bool = False,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    dims: Mapping[str, int] | None = None,
    batch: int | None = None,
    fold: bool = False,
    types: Mapping[str, str] | None = None,
    io_types: bool = False,
    quantized: str | None = None,
    allow_paths: Collection[str | os.PathLike[str]] = (),
    require_proof: bool = False,
    inputs: str | os.PathLike[str] | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    seed: int = 0,
    timeout: float | None = None,
    memory: int | None = None,
    effort: str = "normal",
    max_time: float | None = None,
    save_repro: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Result:
    """Convert a model to an opset, replace operators, or fit it to a runtime, and verify the outputs.

    Args:
        model: a path, bytes, a file opened in binary mode, an onnx.ModelProto, an onnx_ir.Model or an object with
            `.model_proto` (torch.onnx.ONNXProgram); it is not modified.
        opset: the target opset of the default domain, from 7 to the installed onnx's newest; None keeps the model's.
        decompose: operators to replace: "Hardmax", "com.microsoft::FastGelu", or "com.microsoft" for all of a domain.
        target: a runtime's profile: a built-in name, a TOML file or a Target.
        verify: compare with the original in onnxruntime, each rewritten node and the whole models; "nodes" skips the
            whole models and reads no weights.
        semantics: if onnxruntime and the specification differ, preserve onnxruntime's results ("runtime") or the
            specified ones ("spec").
        assume: assumptions that the result may need: "no-nan", "finite-inputs", "whole-indices". With "approximate",
            Erf may be off by 2^-21 of each result. With "tensor-output", outputs that are maps (ZipMap of ai.onnx.ml)
            become tensors of scores. With "fits-int32", integers of unknown range get the narrower type that `types`
            requests.
        allow: the former name of `assume`; deprecated.
        assume_opset: read the model at this opset instead of the declared one, for models that declare a wrong one.
        ir_version: the target ir_version; None selects that of the first onnx release with a lower opset, or the
            model's own if that is lower, and raises it only if the opset or the model's contents need more.
        optimize: also replace supported Hardmax, ArgMax and OneHot nodes if the result is faster in onnxruntime.
        keep_initializers_as_inputs: keep inputs that have an initializer; by default they become constants of the
            result, from ir_version 4 on.
        input_shapes: the new shapes of inputs, by name; they are declared in the model, and nodes that depend only on
            them are folded. -1 keeps a declared dim.
        dims: the sizes of symbolic dims of inputs, by the name of the dim.
        batch: the size of the first dim of each input that has two or more, unless the model fixes it.
        fold: replace nodes whose outputs follow from shapes and constants by constants, an If whose condition follows
            by its branch, and drop unused nodes; also done for fixed shapes, and for a target that needs it.
        types: the element types to change, such as {"int64": "int32"}: values inside the model get the new type where
            that is exact, and a Cast is inserted where an operator requires the old type. For narrower floats
            ({"float": "float16"}), opshift runs the model on `inputs`, or generated ones, to choose the nodes.
        io_types: give inputs and outputs of the model the new types too; by default they keep theirs.
        quantized: the form of quantized operators. "qdq": replace QLinearConv, QLinearMatMul etc. by float operators
            between DequantizeLinear and QuantizeLinear. "qoperator": the reverse, where results change by one step of
            the quantized output at most.
        allow_paths: directories to which links of external data may lead, in addition to the model's own.
        require_proof: raise also if a node or the whole models could not be compared.
        inputs: input values for verification: an .npz file, a test_data_set directory, values by name, or several such
            mappings; in the types of the input model.
        seed: the seed of the generated inputs; the same seed produces the same report.
        timeout: the time limit of planning, and of the verification after it, in seconds (None: ten minutes each;
            longer for the verification of large models).
        memory: the memory limit of onnxruntime in bytes (None: 1 GiB, and more for large models; see `verify`).
        effort: the CPU time of the verification: "quick", "normal" or "thorough"; see `verify`.
        max_time: stop the verification after this many seconds once the minimum number of inputs is tried.
        save_repro: a directory for two small models and the input on which they differ, if they do.
        progress: called with a stage, the steps done and all steps.

    Raises:
        InvalidModelError: the model is missing, unreadable or invalid.
        UsageError: the request is invalid, or onnxruntime is missing.
        UnsupportedError: the model cannot be converted; it names every blocking node.
        VerificationError: the result was not verified as equal.
    """
    assume = assume if allow is None else assumed(assume, allow)
    options = Options.of(locals())
    request, planned, result = _rewritten(model, options)
    return verified(request, planned, result, options) if verify else result


def _rewritten(model: Model, options: Options) -> tuple[Request, Planned, Result]:
    """Run all steps except the verification: read, plan, rewrite.

    No intermediate result is kept, so that each step can free memory.
    """
    with without_collection(), onnx_process.limited(options.timeout, options.memory):
        return rewrite(*_planned(read_request(model, options), options), options)


def _planned(request: Request, options: Options) -> tuple[Request, Planned]:
    """Plan, and release the data that only planning needs."""
    try:
        return plan_nearest(request, options)
    finally:
        request.known.forget()


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Disable Python's garbage collector meanwhile: there are no cycles, and it would scan many objects often."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
