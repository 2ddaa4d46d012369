"""Examine one case: run the original, convert it, run the result, and classify what happened."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto

from differential import check, judge, runtimes
from differential.embed import Embedded, load_tensor, tensors
from differential.exact import TRUSTED
from differential.generate import Case
from differential.runtimes import LoadError, NoKernelError, Outputs, RunError
from differential.values import numpy_type

Stage = Callable[[str], None]

FINDINGS = ("wrong", "broken", "invalid result", "crashing", "hanging", "valid called invalid", "rejected")
WEAK = ("suspect", "no kernel")
"""Not findings by themselves: what differs from one of onnxruntime and the reference evaluator, which disagree or of
which one alone ran, and what onnxruntime has no kernel for after the conversion and ran before, though opshift gave no
warning ("warned" with one). What is made for another runtime need not run there."""
CLASSES = ("right", *FINDINGS, *WEAK, "warned", "refused", "unjudged", "invalid original", "generator failed")


@dataclass
class Outcome:
    """What happened to one case."""

    seed: int
    index: int
    operator: str = ""
    opset: int = 0
    place: str = ""
    request: dict[str, Any] = field(default_factory=dict)
    kind: str = "right"
    """One of CLASSES."""
    message: str = ""
    oracle: str = ""
    """What ran the original: onnxruntime, the reference evaluator (weaker), or nothing."""
    unchanged: bool = False
    verified: bool = False
    unproven: str = ""
    """Why verification came to no verdict."""
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome for JSON."""
        return asdict(self)

    @property
    def name(self) -> str:
        """Return what reproduces the case."""
        return f"{self.seed}:{self.index}"


class Examiner:
    """Examines cases, in a directory of its own for models with external data."""

    def __init__(self, stage: Stage = lambda name: None, convert: Callable[..., Any] | None = None) -> None:
        """Prepare the directory; `convert` replaces opshift.convert in tests of the fuzzer itself."""
        self.stage = stage
        self.home = Path(tempfile.mkdtemp(prefix="differential-"))
        (self.home / "elsewhere").mkdir()
        self._convert = convert
        self._warned = False

    def close(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.home, ignore_errors=True)

    def examine(self, case: Case, outcome: Outcome) -> None:
        """Fill in the outcome of a case."""
        begun = time.perf_counter()
        outcome.operator, outcome.opset, outcome.place = case.operator, case.opset, case.embedded.place
        outcome.request = case.request
        try:
            self._examine(case, outcome)
        finally:
            outcome.seconds = time.perf_counter() - begun

    def _examine(self, case: Case, outcome: Outcome) -> None:
        embedded = case.embedded
        original = embedded.inline()
        self.stage("original")
        expected = self._original(original, embedded.feeds, outcome)
        self.stage("check")
        if not complete(case, original, expected):
            outcome.message = f"no rank of an output is known: {outcome.message}"
            outcome.kind = "invalid original"
            return
        if outcome.kind != "right":
            return
        if embedded.files:
            del embedded.model.graph.output[:]
            embedded.model.graph.output.extend(original.graph.output)
        invalid = check.checker_fault(original)
        if invalid is not None:
            outcome.kind, outcome.message = "invalid original", invalid
            return
        self.stage("convert")
        result = self._converted(case, outcome)
        if result is None:
            return
        outcome.unchanged = result.SerializeToString() == original.SerializeToString()
        if not outcome.unchanged:
            self.stage("result")
            self._judge(case, original, expected, result, outcome)
        if case.verify and outcome.kind == "right":
            self.stage("verify")
            self._verify(case, outcome)

    def _original(self, original: ModelProto, feeds: list[dict[str, Any]], outcome: Outcome) -> Outputs | None:
        try:
            outcome.oracle = "onnxruntime"
            return runtimes.run(original, feeds)
        except NoKernelError:
            pass
        except (LoadError, RunError) as error:
            outcome.kind, outcome.message = "invalid original", f"onnxruntime: {error}"
            return None
        try:
            outcome.oracle = "reference"
            return runtimes.reference(original, feeds)
        except RunError as error:
            outcome.oracle, outcome.message = "nothing", str(error)
            return None

    def _converted(self, case: Case, outcome: Outcome) -> ModelProto | None:
        import opshift

        try:
            result, _ = self._call(case, verify=False)
        except opshift.UnsupportedError as error:
            outcome.kind = "refused"
            outcome.message = f"{error.refusals[0].code}: {error.refusals[0]}"
        except opshift.UsageError as error:
            outcome.kind, outcome.message = "refused", f"usage: {error}"
        except opshift.InvalidModelError as error:
            outcome.kind = "unjudged" if outcome.oracle == "nothing" else "valid called invalid"
            outcome.message = str(error)
        except MemoryError:
            outcome.kind, outcome.message = "crashing", "MemoryError: more than the limit"
        except Exception as error:
            outcome.kind, outcome.message = "crashing", _where(error)
        else:
            return result
        return None

    def _call(self, case: Case, verify: bool) -> tuple[ModelProto, Any]:
        """Return the converted model and the report of its verification."""
        import opshift

        convert = self._convert or opshift.convert
        files = case.embedded.files
        if not files:
            found = convert(case.embedded.model, verify=verify, **case.request)
            assert isinstance(found.model, ModelProto)
            self._warned = bool(getattr(found, "plan", None) and found.plan.warnings)
            return found.model, found.report
        folder = self.home / "model"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        path = folder / "model.onnx"
        path.write_bytes(case.embedded.model.SerializeToString())
        for name, data in files.items():
            (folder / name).write_bytes(data)
            # A file of the same name in the working directory must not be read.
            (self.home / "elsewhere" / name).write_bytes(bytes(len(data)))
        before = Path.cwd()
        os.chdir(self.home / "elsewhere")
        try:
            found = convert(path, verify=verify, **case.request)
        finally:
            os.chdir(before)
        assert isinstance(found.model, ModelProto)
        self._warned = bool(getattr(found, "plan", None) and found.plan.warnings)
        inlined = ModelProto()
        inlined.CopyFrom(found.model)
        for tensor in tensors(inlined):
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                load_tensor(tensor, files)
        return inlined, found.report

    def _judge(
        self, case: Case, original: ModelProto, expected: Outputs | None, result: ModelProto, outcome: Outcome
    ) -> None:
        fault = check.fault(original, result, case.request, case.opset)
        if fault:
            outcome.kind, outcome.message = "invalid result", fault
            return
        runner = runtimes.run if outcome.oracle == "onnxruntime" else runtimes.reference
        elsewhere = not str(case.request.get("target", "onnxruntime")).startswith("onnxruntime")
        evaluated = False
        try:
            found = runtimes.run(result, case.embedded.feeds)
        except NoKernelError as error:
            if outcome.oracle == "onnxruntime" and not elsewhere:
                outcome.kind, outcome.message = "warned" if self._warned else "no kernel", str(error)
                return
            try:
                found, evaluated = runtimes.reference(result, case.embedded.feeds), True
            except RunError as failure:
                outcome.kind, outcome.message = "unjudged", f"no kernel for the result: {failure}"
                return
        except (LoadError, RunError) as error:
            outcome.kind, outcome.message = "broken", str(error)
            # A kernel of onnxruntime 1.32.0 normalizes no rows without elements, which the reference evaluator does.
            normalized = outcome.oracle != "onnxruntime" and "must be at least 1, got 0" in str(error)
            if isinstance(error, RunError) and (expected is None or normalized):
                outcome.kind = "unjudged"  # nothing shows that the original runs on these inputs
            if isinstance(error, LoadError) and _needs_its_defaults_fed(original):
                outcome.kind = "unjudged"
            return
        if expected is None:
            outcome.kind, outcome.message = "unjudged", "the original runs nowhere"
            return
        if case.random:
            expected, found = _shapes(expected), _shapes(found)
        used = check.operators(original)
        feeds = case.embedded.feeds
        chooses = "Where" in check.operators(result) - used
        message = judge.compare(used, original, feeds, expected, found, runner, chooses=chooses)
        if message:
            # onnxruntime 1.32.0 copies the first string alone of each slice that it gathers, adds up and multiplies
            # integers of 64 bits as doubles, and cuts sums of two products of bytes, signed and unsigned, to 16 bits
            # without VNNI.
            strings = elsewhere and " object" in message and "Gather" in check.operators(result)
            added = check.operators(result) - used
            sums = any(_beyond(feed, most) for name, most in _IN_DOUBLE.items() if name in added for feed in feeds)
            cut = check.operators(result) & _MULTIPLIES_BYTES and any(_has_both_bytes(original, one) for one in feeds)
            if strings or sums or cut:
                message = _by_reference_itself(used, original, feeds, expected, result) and message
        if message:
            outcome.message = message
            # onnxruntime 1.32.0 moves strings out of a value that an Identity in a Loop reads from outside.
            moved = "Loop" in used and " object" in message
            alone = (
                not moved
                and not (used & {"Shape", "Size"} and _pads_without_dilations(original))
                and (outcome.oracle == "onnxruntime" or used <= TRUSTED)
                and not (evaluated and elsewhere and not check.operators(result) <= TRUSTED)
                and not all(
                    judge.compare(used, original, [feed], [a], [b], runner, chooses=chooses) is None
                    or _as_by_reference(case, used, original, feed, b)
                    for feed, a, b in zip(feeds, expected, found, strict=True)
                )
            )
            outcome.kind = "wrong" if alone else "suspect"

    def _verify(self, case: Case, outcome: Outcome) -> None:
        import opshift

        outcome.verified = True
        try:
            _, report = self._call(case, verify=True)
            outcome.unproven = _unproven(report)
        except opshift.VerificationError as error:
            outcome.kind, outcome.message = "rejected", str(error)
        except MemoryError:
            outcome.kind, outcome.message = "crashing", "MemoryError in verification"
        except Exception as error:
            outcome.kind, outcome.message = "crashing", f"in verification: {_where(error)}"


def _as_by_reference(case: Case, used: set[str], original: ModelProto, feed: dict[str, Any], found: list[Any]) -> bool:
    """Return whether a result computes what the reference evaluator makes of the original: two against onnxruntime."""
    try:
        expected = runtimes.reference(original, [feed])
    except RunError:
        return False
    if case.random:
        expected = _shapes(expected)
    return judge.compare(used, original, [feed], expected, [found], runtimes.reference) is None


def _pads_without_dilations(model: ModelProto) -> bool:
    """Return whether a pool has dilations and automatic padding.

    onnxruntime 1.32.0 makes other sizes of it than the text, whose sizes a constant shape has.
    """
    pools = (node for node, _ in check.nodes(model) if node.op_type in ("AveragePool", "LpPool", "MaxPool"))
    attributes = ({one.name: one for one in node.attribute} for node in pools)
    return any("auto_pad" in one and set(one["dilations"].ints) - {1} for one in attributes if "dilations" in one)


def _needs_its_defaults_fed(model: ModelProto) -> bool:
    """Return whether onnxruntime does not open a model whose inputs with defaults are constants.

    The inference of onnxruntime 1.32.0 rejects STFT with a constant length and a window of unknown rank, for example.
    """
    frozen = ModelProto()
    frozen.CopyFrom(model)
    constants = {each.name for each in model.graph.initializer}
    kept = [each for each in frozen.graph.input if each.name not in constants]
    if frozen.ir_version < 4 or len(kept) == len(frozen.graph.input):
        return False
    del frozen.graph.input[:]
    frozen.graph.input.extend(kept)
    try:
        runtimes.run(frozen, [])
    except NoKernelError:
        return False
    except LoadError:
        return True
    return False


_MULTIPLIES_BYTES = frozenset(("ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"))


def _has_both_bytes(model: ModelProto, feed: dict[str, Any]) -> bool:
    """Return whether a model reads signed and unsigned bytes."""
    types = {value.dtype for value in feed.values() if isinstance(value, np.ndarray)}
    types |= {numpy_type(tensor.data_type) for tensor in tensors(model)}
    return types.issuperset((np.dtype(np.uint8), np.dtype(np.int8)))


_IN_DOUBLE = {"ReduceSum": 2**53, "ReduceProd": 2}
"""Operators that onnxruntime computes in double of integers of 64 bits, and from which integers on that may show."""


def _beyond(feed: dict[str, Any], most: int) -> bool:
    """Return whether integers of 64 bits are larger than that."""
    whole = (value for value in feed.values() if isinstance(value, np.ndarray) and value.dtype in (np.int64, np.uint64))
    return any(bool(((value > most) | (value < -most)).any()) for value in whole)


def _by_reference_itself(
    used: set[str], original: ModelProto, feeds: list[dict[str, Any]], expected: Outputs, result: ModelProto
) -> str | None:
    """Return how a result departs from what is expected where the reference evaluator runs it; None if it does not."""
    try:
        found = runtimes.reference(result, feeds)
    except RunError as error:
        return str(error)
    return judge.compare(used, original, feeds, expected, found, runtimes.reference)


def _unproven(report: Any) -> str:
    """Return which comparisons came to no verdict, and why; empty if all did."""
    from opshift import Verdict

    checks = [check for check in (*report.nodes, report.whole) if check.verdict is Verdict.UNCHECKED]
    return "; ".join(f"{check.operator or 'whole'}: {check.reason}" for check in checks)


def _where(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"
    return f"{type(error).__name__}: {error}{place}"


def _shapes(outputs: Outputs) -> Outputs:
    return [[np.zeros_like(value) if isinstance(value, np.ndarray) else value for value in each] for each in outputs]


def complete(case: Case, original: ModelProto, expected: Outputs | None) -> bool:
    """Declare ranks, and sometimes dims, of the outputs: the checker requires ranks; False if one is unknown."""
    rng = np.random.default_rng([case.seed, case.index, 1])
    inferred = {} if original.functions else _inferred(original)
    for index, output in enumerate(original.graph.output):
        if not output.type.HasField("tensor_type"):
            if not output.type.HasField("sequence_type") or output.type.sequence_type.elem_type.tensor_type.HasField(
                "shape"
            ):
                continue
            continue
        shape = inferred.get(output.name)
        if expected is not None and shape is not None and len(shape) != np.ndim(expected[0][index]):
            shape = None  # onnx 1.23.2 infers Attention's product to have one axis where outputs are left out before it
        if shape is not None and expected is not None:  # onnx 1.23.2 infers wrong dimensions of windows that start late
            shape = [
                None if isinstance(dim, int) and dim != size else dim
                for dim, size in zip(shape, np.shape(expected[0][index]), strict=True)
            ]
        if shape is None and expected is not None and isinstance(expected[0][index], np.ndarray | np.generic):
            shape = [None] * np.ndim(expected[0][index])
        if shape is None:
            return False
        for model in (original, case.embedded.model):  # whose constants may stand in files
            _declare_body(model, _source(model, output.name), len(shape))
        if rng.random() < 0.4:
            shape = [None] * len(shape)
        for dim in shape:
            added = output.type.tensor_type.shape.dim.add()
            if isinstance(dim, int):
                added.dim_value = dim
            elif dim:
                added.dim_param = dim
        if not shape:
            output.type.tensor_type.shape.SetInParent()
    _copy_outputs(original, case.embedded)
    return True


def _source(model: ModelProto, name: str) -> str:
    """Return the value that Identity passes on under this name."""
    return next(
        (node.input[0] for node in model.graph.node if node.op_type == "Identity" and name in node.output), name
    )


def _declare_body(model: ModelProto, output: str, rank: int) -> None:
    """Declare the rank of an output of a Scan's body: onnxruntime requires it, and may not infer it of a result."""
    for node in model.graph.node:
        if node.op_type != "Scan" or output not in node.output:
            continue
        body = next(each.g for each in node.attribute if each.name == "body")
        inner = body.output[list(node.output).index(output)].type.tensor_type
        if not inner.HasField("shape"):
            inner.shape.SetInParent()
            for _ in range(rank - 1):
                inner.shape.dim.add()


def _copy_outputs(original: ModelProto, embedded: Embedded) -> None:
    if embedded.model is not original:
        del embedded.model.graph.output[:]
        embedded.model.graph.output.extend(original.graph.output)


def _inferred(model: ModelProto) -> dict[str, list[Any] | None]:
    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except Exception:
        return {}
    return {
        output.name: [
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
            for dim in output.type.tensor_type.shape.dim
        ]
        for output in graph.output
        if output.type.tensor_type.HasField("shape")
    }
