"""onnxruntime behind a few names: which models it loads, how one is opened, how it runs.

onnxruntime is imported on first use, so that opshift runs without it where nothing is verified.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
from google.protobuf.message import EncodeError

from opshift.opsets import kernels
from opshift.opsets.facts import Facts
from opshift.opsets.operator import Lifted, Node, freeze, lift, operator_for
from opshift.opsets.same_meaning import same_meaning
from opshift.passes import load
from opshift.passes.errors import UsageError

Array = npt.NDArray[Any]
Feeds = Mapping[str, Array]

# numpy has no such types of its own: they cross into onnxruntime as unsigned integers of the same width.
_CARRIED: dict[int, np.dtype[Any]] = {
    onnx.TensorProto.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    onnx.TensorProto.FLOAT8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    onnx.TensorProto.FLOAT8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    onnx.TensorProto.FLOAT8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    onnx.TensorProto.FLOAT8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
}
_CARRIED_BY_DTYPE = {dtype: element_type for element_type, dtype in _CARRIED.items()}


class RejectedError(Exception):
    """onnxruntime does not load a model, or does not run it on an input; the text says why, in one line."""

    def __init__(self, reason: str, *, missing_kernel: bool = False) -> None:
        """Keep the reason, and whether it is that no kernel exists for an operator with these element types."""
        self.missing_kernel = missing_kernel
        super().__init__(reason)


@dataclass(frozen=True)
class Source:
    """A model to open: the protobuf, whose weights may be external, and where those weights are.

    `path` is set where onnxruntime can read the file itself, `directory` where external data are relative to one.
    """

    proto: onnx.ModelProto
    path: Path | None = None
    directory: Path | None = None


def read(model: str | os.PathLike[str] | onnx.ModelProto, directory: str | os.PathLike[str] | None = None) -> Source:
    """Return the source for a path (.onnx or ONNX text) or a protobuf; the weights of a file stay on disk.

    Raises:
        InvalidModelError: the file is missing, unreadable, not ONNX, or its external data are unsafe to open.
    """
    folder = None if directory is None else Path(directory)
    if isinstance(model, onnx.ModelProto):
        return Source(model, directory=folder)
    loaded = load.load(model)
    binary = loaded.path is not None and not load.is_text(loaded.path)
    return Source(loaded.model, loaded.path if binary else None, loaded.directory)


@functools.cache
def runtime() -> Any:
    """Return the module onnxruntime.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise UsageError(
            'Verification runs the models in onnxruntime, which is not installed: pip install "opshift[verify]", '
            "or switch verification off."
        ) from error
    return onnxruntime


def name() -> str:
    """Return onnxruntime's name with its version, as a judge is named in a report."""
    return f"onnxruntime {runtime().__version__}"


def _probe(ir_version: int) -> bool:
    """Return whether onnxruntime loads a model of one Relu with this ir_version."""
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "probe", [value], [result])
    imports = [onnx.helper.make_opsetid("", 7)]
    try:
        Session(Source(onnx.helper.make_model(graph, opset_imports=imports, ir_version=ir_version)), optimised=False)
    except RejectedError:
        return False
    return True


def newest_opset() -> int:
    """Return the newest opset of the default domain that the installed onnxruntime loads."""
    return kernels.newest_opset() or 7


@functools.cache
def newest_ir_version() -> int:
    """Return the newest ir_version that the installed onnxruntime loads."""
    return next((version for version in range(int(onnx.IR_VERSION), 7, -1) if _probe(version)), 7)


def _nodes(graphs: Iterable[onnx.GraphProto | onnx.FunctionProto]) -> Iterable[onnx.NodeProto]:
    """Yield every node of these graphs and of the graphs in their attributes."""
    pending = list(graphs)
    while pending:
        for node in pending.pop().node:
            yield node
            for attribute in node.attribute:
                pending.extend(attribute.graphs)
                if attribute.HasField("g"):
                    pending.append(attribute.g)


def nodes(model: onnx.ModelProto) -> Iterable[onnx.NodeProto]:
    """Yield every node of a model: of its graph, of the graphs in attributes and of its functions."""
    return _nodes([model.graph, *model.functions])


def opset(model: onnx.ModelProto) -> int:
    """Return the opset of the default domain that a model imports; 0 where it imports none."""
    return next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)


def _relabelled(node: onnx.NodeProto, old: int, new: int) -> bool:
    """Make a node of the default domain mean at opset `new` what it means at `old`; return whether that can be.

    It can where the operator has the same version at both, where the two texts differ in nothing but the types, where
    the reviewed table joins the versions for what the node has, and where the operator's own file gives the node one
    meaning at both. Attributes that only the old opset knows, and that add nothing, are dropped.
    """
    try:
        before, after = (onnx.defs.get_schema(node.op_type, version, "") for version in (old, new))
    except onnx.defs.SchemaError:
        return False
    if before.since_version == after.since_version or _text(before) == _text(after):
        return True
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    only_before = {name: value for name, value in attributes.items() if name not in after.attributes}
    reviewed = same_meaning(node.op_type, before.since_version, after.since_version)
    if reviewed is not None:
        same = not reviewed.lost(attributes, len(node.input), len(node.output))
    else:
        defaults = {name: before.attributes[name].default_value for name in only_before}
        same = _one_meaning(node, attributes, before.since_version, after.since_version) and all(
            value == onnx.helper.get_attribute_value(defaults[name]) for name, value in only_before.items()
        )
    if same:
        kept = [attribute for attribute in node.attribute if attribute.name not in only_before]
        del node.attribute[:]
        node.attribute.extend(kept)
    return same


def _one_meaning(node: onnx.NodeProto, attributes: Mapping[str, Any], *versions: int) -> bool:
    """Return whether the operator has a file in which these versions of the node have the same meaning."""
    operator = operator_for("", node.op_type)
    if operator is None:
        return False
    given = {key: freeze(value.decode() if isinstance(value, bytes) else value) for key, value in attributes.items()}
    facts = tuple(Facts() if name else None for name in node.input)
    used = tuple(bool(name) for name in node.output)
    lifted = [lift(operator, Node("", node.op_type, version, given, facts, used), "runtime") for version in versions]
    meanings = {one.meaning for one in lifted if isinstance(one, Lifted)}
    return len(meanings) == 1 and all(isinstance(one, Lifted) for one in lifted)


def _text(schema: Any) -> tuple[Any, ...]:
    """Return what a schema says, but for the types that it allows."""
    attributes = {
        name: (one.type, one.required, one.description, one.default_value.SerializeToString())
        for name, one in schema.attributes.items()
    }
    parameters = [(one.name, one.type_str, one.option, one.description) for one in (*schema.inputs, *schema.outputs)]
    return schema.doc, attributes, parameters


def fit(source: Source) -> tuple[Source, str]:
    """Return a source that onnxruntime loads, and what was relabelled for that (empty if nothing).

    A model newer than onnxruntime is read at the newest opset and ir_version that it loads, which changes nothing
    where every operator means the same at both.

    Raises:
        RejectedError: some operator differs between the model's opset and the newest one that onnxruntime loads.
    """
    old, newest = opset(source.proto), newest_opset()
    oldest_ir = min(source.proto.ir_version, newest_ir_version())
    if old <= newest and oldest_ir == source.proto.ir_version:
        return source, ""
    notes = []
    proto = onnx.ModelProto()
    proto.CopyFrom(source.proto)
    if old > newest:
        for node in nodes(proto):
            if node.domain in ("", "ai.onnx") and not _relabelled(node, old, newest):
                version = onnx.defs.get_schema(node.op_type, old, "").since_version
                raise RejectedError(f"{name()} loads opsets up to {newest} and has no {node.op_type}-{version}")
        for entry in (entry for holder in (proto, *proto.functions) for entry in holder.opset_import):
            if entry.domain in ("", "ai.onnx"):
                entry.version = newest
        notes.append(f"opset {old} was read as {newest}, where every operator means the same")
    if oldest_ir != proto.ir_version:
        notes.append(f"ir_version {proto.ir_version} was read as {oldest_ir}")
        proto.ir_version = oldest_ir
    return replace(source, proto=proto, path=None), ", ".join(notes)


def _reason(error: Exception) -> str:
    """Return the first line of an error of onnxruntime, without its codes and source locations."""
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    line = re.sub(r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ", "", line)
    line = re.sub(r"/onnxruntime_src/\S+ .*?\) (const )?", "", line)
    return line if len(line) <= 300 else line[:297] + "..."


class Session:
    """A model opened in onnxruntime on the CPU with one thread, graph optimisations all on or all off."""

    def __init__(self, source: Source, *, optimised: bool) -> None:
        """Load the model, from its file where there is one.

        External data of a protobuf are read from the source's directory, through the session option that names it:
        nothing is written there.

        Raises:
            RejectedError: onnxruntime does not load it.
        """
        ort = runtime()
        level = ort.GraphOptimizationLevel
        options = ort.SessionOptions()
        options.graph_optimization_level = level.ORT_ENABLE_ALL if optimised else level.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            if source.path is not None:
                model: str | bytes = str(source.path)
            else:
                model = source.proto.SerializeToString()
                if source.directory is not None:
                    folder = str(source.directory.resolve())
                    options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
            self._session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except (EncodeError, ValueError) as error:
            raise RejectedError(f"the model is too large to hand over without a file: {_reason(error)}") from error
        except Exception as error:  # its exceptions share no base class but Exception
            raise RejectedError(_reason(error), missing_kernel=type(error).__name__ == "NotImplemented") from error
        self.outputs: tuple[str, ...] = tuple(value.name for value in self._session.get_outputs())
        types = [value.type for value in (*self._session.get_inputs(), *self._session.get_outputs())]
        self._carried = any("bfloat16" in kind or "float8" in kind for kind in types)

    def run(self, feeds: Feeds) -> tuple[Any, ...]:
        """Return the outputs in the model's order: arrays, or for sequences and maps lists and dicts of them.

        Raises:
            RejectedError: onnxruntime does not run the model on these inputs.
        """
        try:
            if self._carried:
                values = {key: _to_ort(value) for key, value in feeds.items()}
                return tuple(_from_ort(value) for value in self._session.run_with_ort_values(None, values))
            return tuple(self._session.run(None, dict(feeds)))
        except RejectedError:
            raise
        except Exception as error:  # its exceptions share no base class but Exception
            raise RejectedError(_reason(error), missing_kernel=type(error).__name__ == "NotImplemented") from error


def _to_ort(array: Array) -> Any:
    """Return an OrtValue with the array's values."""
    value = runtime().OrtValue
    element_type = _CARRIED_BY_DTYPE.get(array.dtype)
    if element_type is None:
        return value.ortvalue_from_numpy(array)
    carrier = np.dtype(f"u{array.dtype.itemsize}")
    return value.ortvalue_from_numpy_with_onnx_type(array.copy(order="C").view(carrier), element_type)


def _from_ort(value: Any) -> Array:
    """Return the values of an OrtValue; OrtValue.numpy knows no bfloat16, so those are read from memory."""
    if not value.is_tensor():
        raise RejectedError(
            "sequences, maps and optionals beside bfloat16 or float8 tensors cannot be read from Python"
        )
    dtype = _CARRIED.get(value.element_type())
    if dtype is None:
        return np.asarray(value.numpy())
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()) if value.tensor_size_in_bytes() else b""
    return np.frombuffer(raw, dtype).reshape(value.shape())


class Runner:
    """A model that runs with graph optimisations off or on; each way is opened when it is first asked for.

    `lean` keeps one of the two open at a time, for models whose weights fill the memory.
    """

    def __init__(self, source: Source, *, lean: bool = False) -> None:
        """Keep the source; nothing is opened yet."""
        self._source = source
        self._lean = lean
        self._opened: dict[bool, Session] = {}

    def open(self, optimised: bool) -> Session:
        """Return the session.

        Raises:
            RejectedError: onnxruntime does not load the model.
        """
        if optimised not in self._opened:
            if self._lean:
                self._opened.clear()
            self._opened[optimised] = Session(self._source, optimised=optimised)
        return self._opened[optimised]

    def run(self, feeds: Feeds, optimised: bool) -> tuple[Any, ...]:
        """Return the outputs in the model's order.

        Raises:
            RejectedError: onnxruntime does not load the model, or does not run it on these inputs.
        """
        return self.open(optimised).run(feeds)

    def close(self) -> None:
        """Let go of what is open; it is opened again when it is asked for."""
        self._opened.clear()
