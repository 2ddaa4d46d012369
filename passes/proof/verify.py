"""Verify that a rewritten model computes the original's outputs: both run on the same adversarial inputs.

Each rewritten node is compared separately first (node_pairs.py), then the whole models (whole_model.py). All generated
values depend only on the seed; their number depends on the CPU time.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import os
import platform
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from opshift.opsets.native import onnx_process
from opshift.passes.analysis.element_type_checks import check_element_types
from opshift.passes.base.arguments import Progress, check_input_shapes
from opshift.passes.base.effort import LARGE, LEAST, Allowance
from opshift.passes.base.errors import InvalidModelError, OpshiftError
from opshift.passes.base.limits import limits as within
from opshift.passes.base.option_table import OPTIONS, check_arguments
from opshift.passes.base.report import Check, Report, Verdict
from opshift.passes.base.version_numbers import check_opset
from opshift.passes.graph.traversal import graph_views
from opshift.passes.io.model_forms import Model
from opshift.passes.io.reader import check_unchanged
from opshift.passes.proof import repro
from opshift.passes.proof.kernel_faults import unequal
from opshift.passes.proof.model_variants import decided_as, departing_operators, weights, with_own_names
from opshift.passes.proof.node_pairs import ENOUGH, compare_pairs, failed, out_of_memory
from opshift.passes.proof.pair import Pair
from opshift.passes.proof.whole_model import WholeModels
from opshift.passes.runtime import ort_models, ort_process
from opshift.passes.runtime.ort_models import RejectedError, Runnable


def verify(
    original: Model | Runnable,
    rewritten: Model | Runnable,
    *,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    inputs: str | os.PathLike[str] | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    seed: int = 0,
    pairs: Sequence[Pair] = (),
    whole: bool = True,
    semantics: str = "runtime",
    exact: bool = False,
    drift: bool = False,
    timeout: float | None = None,
    memory: int | None = None,
    effort: str = "normal",
    max_time: float | None = None,
    save_repro: str | os.PathLike[str] | None = None,
    original_dir: str | os.PathLike[str] | None = None,
    rewritten_dir: str | os.PathLike[str] | None = None,
    assume_opset: int | None = None,
    allow_paths: Collection[str | os.PathLike[str]] = (),
    progress: Progress | None = None,
) -> Report:
    """Compare two models node by node and as wholes, and return a report.

    Args:
        original: a path (.onnx or ONNX text), bytes, a file opened in binary mode, a protobuf, an onnx_ir.Model, an
            object with `.model_proto`, or a result of `ort_models.read`.
        rewritten: the model to compare with it.
        input_shapes: shapes of inputs of the whole models, by name, instead of several sizes.
        inputs: input values of the whole models instead of generated ones: an .npz file, a directory test_data_set_N
            or one that contains several, values by name, or several such mappings. Missing inputs are still generated.
        seed: the same seed and versions produce the same report.
        pairs: the rewritten nodes.
        whole: False compares only the pairs, and reports this.
        semantics: the reference is onnxruntime ("runtime"), or the numpy oracles of operators for which onnxruntime
            and the specification differ ("spec").
        exact: True: the whole models must be equal bit for bit with graph optimizations off. With them on, a float
            output may differ from the original's by 8 times the original's own difference between optimizations on and
            off on that input, since a rewrite changes which nodes are fused. False: with either, floats may differ by 8
            times the original's rounding error on that input (tolerance.py), which is zero if its arithmetic is exact.
            Integers, booleans and strings must be equal exactly, unless rounding decides them.
        drift: with `exact`, ignore onnxruntime's own differences on nodes that are the same in both models, and the
            sign of a zero whose sign no specification defines (kernel_drift.py).
        timeout: the time limit of the comparison in seconds (None: ten minutes, and longer for large models).
        memory: the memory limit of onnxruntime in bytes, if the system supports limits (None: 1 GiB, and more for
            weights and for large declared inputs and outputs, up to three quarters of the machine's).
        effort: the CPU time budget of the whole models: "normal" is 9 times the time in which onnxruntime opens both
            models and runs each once, 2.5 times with more than 100 MB of weights, and at least 1.8 seconds; "quick"
            is a third of that, "thorough" ten times as much.
        max_time: stop after this many seconds once the minimum number of inputs is tried; the comparisons up to then
            count.
        save_repro: a directory for two small models and an input on which they differ, if they do.
        original_dir: the directory of the original's external data, for a protobuf.
        rewritten_dir: the same for the rewritten model.
        assume_opset: read the original at this opset, whatever it declares.
        allow_paths: directories in which links of external data may end.
        progress: called with a stage ("nodes" or "whole"), the steps done and all steps.

    Raises:
        UsageError: onnxruntime is not installed, or `input_shapes`, `inputs`, `semantics`, `seed`, `timeout`,
            `memory`, `effort` or `max_time` does not fit.
        InvalidModelError: a path is not an ONNX model, the types of a model's values contradict each other, or the file
            changed during the comparison.
    """
    check_arguments({name: value for name, value in locals().items() if name in OPTIONS})
    if input_shapes is not None:
        check_input_shapes("input_shapes", input_shapes, kept=False)  # there is no declared dim to keep
    check_opset("assume_opset", assume_opset)
    ort_models.runtime()
    allowance = Allowance(ort_process.seconds, effort, max_time)
    if save_repro is not None:
        repro.refuse_used(Path(save_repro))
    with onnx_process.limited(timeout, memory):
        before = with_own_names(ort_models.read(original, original_dir, allow_paths, assume_opset))
        after = with_own_names(ort_models.read(rewritten, rewritten_dir, allow_paths))
        for label, given, read in (("the original", original, before), ("the rewritten model", rewritten, after)):
            if not isinstance(given, Runnable):  # a conversion has checked these
                _check(label, read.proto)
        if (proto := decided_as(before.proto, after.proto)) is not before.proto:
            before = dataclasses.replace(before, proto=proto, path=None)
        pairs = [dataclasses.replace(pair, original=decided_as(pair.original, pair.rewritten)) for pair in pairs]
        limits = within(timeout, memory, (before.proto, after.proto))
        report = progress or (lambda stage, done, total: None)
        options = _options(exact, semantics, timeout, memory, effort, allow_paths, assume_opset)
        command = repro.verify_command(before, after, seed, input_shapes, inputs, options)
        shown = repro.Reproduction(save_repro, command, options)
        checks = compare_pairs(
            pairs, seed=seed, semantics=semantics, limits=limits, allowance=allowance, progress=report, shown=shown
        )
        if not whole:
            check = _unchecked("only the rewritten nodes were compared, as requested")
        elif sum(check.verdict is Verdict.DIFFERENT for check in checks) >= (1 if semantics == "spec" else ENOUGH):
            check = _unchecked("it was not compared, since nodes differ")
        else:
            models = WholeModels(
                before,
                after,
                shapes=input_shapes or {},
                inputs=inputs,
                seed=seed,
                pairs=pairs,
                exact=exact,
                drift=drift,
                by_oracle=unequal(before.proto, after.proto, exact=exact)
                | (departing_operators(before.proto) if semantics == "spec" else frozenset()),
                limits=limits,
                allowance=allowance.part(LEAST, large=max(map(weights, (before, after))) >= LARGE),
                shown=shown,
                progress=report,
            )
            check = _compared(models)
        for runnable in (before, after):
            if runnable.origin is not None:
                check_unchanged(runnable.origin)
        return Report(checks, check, seed, _versions(), effort, max_time, functools.partial(_about, before, after))


def _about(before: Runnable, after: Runnable) -> dict[str, Any]:
    """Return the data of a report about the comparison, apart from the verdict."""
    sides = {"before": (before.proto, None), "after": (after.proto, None)}
    return {"command": "verify", "model": before.named, "other": after.named, **sides}


def _check(label: str, model: onnx.ModelProto) -> None:
    """Refuse a model that runs nowhere, since the element types of its values contradict each other."""
    try:
        check_element_types(model, tuple(graph_views(model)))
    except InvalidModelError as error:
        raise InvalidModelError(f"{label}: {error}") from None


def _options(
    exact: bool,
    semantics: str,
    timeout: float | None,
    memory: int | None,
    effort: str,
    allow_paths: Iterable[str | os.PathLike[str]],
    assume_opset: int | None,
) -> list[str]:
    """Return the command options that affect the comparison."""
    asked = {"--semantics": semantics if semantics != "runtime" else None, "--timeout": timeout, "--memory": memory}
    asked |= {"--effort": effort if effort != "normal" else None, "--assume-opset": assume_opset}
    options = [part for name, value in asked.items() if value is not None for part in (name, f"{value}")]
    permitted = [part for path in allow_paths for part in ("--allow-path", os.fspath(path))]
    return ["--exact"] * exact + options + permitted


def _compared(models: WholeModels) -> Check:
    """Compare two whole models; without a verdict if that fails, except for an invalid request."""
    try:
        return models.check()
    except RejectedError as error:
        return _unchecked(str(error))
    except MemoryError as error:
        return _unchecked(out_of_memory("the two models", error))
    except OpshiftError:
        raise
    except Exception as error:
        return _unchecked(failed(error))


def _unchecked(reason: str) -> Check:
    return Check("", "", Verdict.UNCHECKED, reason, "", 0)


def _versions() -> dict[str, str]:
    """Return the versions of the packages involved."""
    try:
        own = importlib.metadata.version("opshift")
    except importlib.metadata.PackageNotFoundError:
        own = "unknown"
    return {
        "opshift": own,
        "onnx": onnx.__version__,
        "onnxruntime": str(ort_models.runtime().__version__),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
