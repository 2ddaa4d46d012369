"""Run onnxruntime in a child process, as its main program: a crash there does not kill opshift.

It answers one request after the other until its input is closed. An answer has the number of its request, and the CPU
time that the process has used so far. It imports nothing else of opshift but its end of the pipes, to start quickly;
the first oracle imports the operators' files.
"""

from __future__ import annotations

import ctypes
import io
import os
import pickle
import queue
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from opshift.opsets.native import sandbox
from opshift.opsets.native.channel import Channel, LostError

Array = npt.NDArray[Any]

Part = bytes | tuple[str, int, int]
"""Bytes of a model, or a range of a file: the file, its offset and length."""

_CHUNK = 1 << 24

# numpy does not have these types. They are passed to onnxruntime as bytes, which several narrow elements share:
# TensorProto: "the first element is stored in the least significant bits".
PACKED_TYPES: dict[int, tuple[np.dtype[Any], int]] = {
    16: (np.dtype(ml_dtypes.bfloat16), 16),
    17: (np.dtype(ml_dtypes.float8_e4m3fn), 8),
    18: (np.dtype(ml_dtypes.float8_e4m3fnuz), 8),
    19: (np.dtype(ml_dtypes.float8_e5m2), 8),
    20: (np.dtype(ml_dtypes.float8_e5m2fnuz), 8),
    21: (np.dtype(ml_dtypes.uint4), 4),
    22: (np.dtype(ml_dtypes.int4), 4),
    23: (np.dtype(ml_dtypes.float4_e2m1fn), 4),
    24: (np.dtype(ml_dtypes.float8_e8m0fnu), 8),
    25: (np.dtype(ml_dtypes.uint2), 2),
    26: (np.dtype(ml_dtypes.int2), 2),
}
"""The dtype and the bits per element in onnxruntime, by the number of the element type in TensorProto."""

_BY_DTYPE = {dtype: (element_type, bits) for element_type, (dtype, bits) in PACKED_TYPES.items()}
_NATIVE = frozenset(
    f"tensor({name})"
    for name in (
        *("float", "double", "float16", "bool", "string", "int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64"),
    )
)


class _Model:
    """A session with one thread, graph optimizations all on or all off."""

    def __init__(
        self,
        model: str | bytes | list[Part],
        folder: str | None,
        optimised: bool,
        results: int | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        import onnxruntime  # after the limits are set

        self._ort = onnxruntime
        self.results = results
        level = onnxruntime.GraphOptimizationLevel
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level.ORT_ENABLE_ALL if optimised else level.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        # By default, a product with weights of 4 or 8 bits may round the other factor to 8 bits as well.
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
        for name, value in settings.items():
            options.add_session_config_entry(name, value)
        if folder is not None:
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        loaded = _joined(model) if isinstance(model, list) else model
        self._session = onnxruntime.InferenceSession(loaded, options, providers=["CPUExecutionProvider"])
        values = (*self._session.get_inputs(), *self._session.get_outputs())
        self._packs = any(value.type.startswith("tensor(") and value.type not in _NATIVE for value in values)
        self.outputs = [value.name for value in self._session.get_outputs()]

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Return the outputs: arrays, lists and dicts of them, None for an absent optional."""
        if not self._packs:
            return list(self._session.run(None, dict(feeds)))
        values, kept = {}, []
        for name, value in feeds.items():
            storage = _packed_array(np.asarray(value))
            kept.append(storage)
            values[name] = self._to_ort(np.asarray(value), storage)
        return [_from_ort(value) for value in self._session.run_with_ort_values(None, values)]

    def _to_ort(self, array: Array, storage: Array) -> Any:
        make = self._ort.OrtValue
        if array.dtype not in _BY_DTYPE:
            return make.ortvalue_from_numpy(array)
        return make.ortvalue_from_numpy_with_onnx_type(storage, _BY_DTYPE[array.dtype][0])


def _joined(parts: list[Part]) -> bytes:
    """Return the bytes of a model from its parts."""
    whole = io.BytesIO()
    for part in parts:
        if isinstance(part, bytes):
            whole.write(part)
            continue
        path, offset, length = part
        with Path(path).open("rb") as file:
            file.seek(offset)
            while length:
                data = file.read(min(length, _CHUNK))
                if not data:
                    raise ValueError(f"{path} is too short; was it changed in the meantime?")
                whole.write(data)
                length -= len(data)
    return whole.getvalue()


def _packed_array(array: Array) -> Array:
    """Return an array of unsigned integers of the same shape, whose first bytes hold the packed elements."""
    if array.dtype not in _BY_DTYPE:
        return array
    bits = _BY_DTYPE[array.dtype][1]
    whole = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)
    if bits >= 8:
        return whole.copy()
    per_byte = 8 // bits
    flat = (whole.reshape(-1) & ((1 << bits) - 1)).astype(np.uint8)
    flat = np.concatenate([flat, np.zeros(-len(flat) % per_byte, np.uint8)]).reshape(-1, per_byte)
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(bits)
    packed = np.bitwise_or.reduce(flat << shifts, axis=1)
    storage = np.zeros(array.shape, np.uint8)
    storage.reshape(-1)[: len(packed)] = packed
    return storage


def _from_ort(value: Any) -> Any:
    """Return the values of an OrtValue; types that OrtValue.numpy does not support are read from memory."""
    if not value.is_tensor():
        raise ValueError("sequences, maps and optionals beside tensors of types foreign to numpy cannot be read")
    element_type = value.element_type()
    if element_type not in PACKED_TYPES:
        return np.asarray(value.numpy())
    dtype, bits = PACKED_TYPES[element_type]
    shape = tuple(value.shape())
    size = value.tensor_size_in_bytes()
    raw = np.frombuffer(ctypes.string_at(value.data_ptr(), size) if size else b"", np.uint8)
    if bits >= 8:
        return raw.view(dtype).reshape(shape)
    shifts = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    unpacked = (raw[:, None] >> shifts).reshape(-1)[: int(np.prod(shape))] & np.uint8((1 << bits) - 1)
    if dtype in (np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.int2)):
        signed = (unpacked.astype(np.int8) ^ (1 << (bits - 1))) - (1 << (bits - 1))
        return signed.astype(dtype).reshape(shape)
    return unpacked.view(dtype).reshape(shape)


def _reason(error: BaseException) -> str:
    """Return the first line of an onnxruntime error, without codes and source locations."""
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    line = re.sub(r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ", "", line)
    line = re.sub(r"/onnxruntime_src/\S+ .*?\) (const )?", "", line)
    return line if len(line) <= 300 else line[:297] + "..."


_NOT_IMPLEMENTED = (
    "Unsupported value attribute datatype",
    "is not currently registered or supported",
    "of input parameter (_inlfunc_",
    "operator does not support double yet",
    "Dilation not supported for AutoPadType",
)
"""The messages of onnxruntime 1.32.0, under another exception, for a kernel without a type.

Examples are ConstantOfShape, nodes of an inlined body (SoftmaxCrossEntropyLoss of bfloat16), and GRU and LSTM at run
time. Conv and ConvInteger that choose pads with dilations have such messages, too.
"""
_MISSING = ("NotImplemented", "NotImplementedError")
"""The exceptions of onnxruntime, and of an oracle, for unsupported computations."""
_OUT_OF_MEMORY = ("Failed to allocate memory", "bad_alloc", "bad allocation", "Unable to allocate")


class _LargeError(Exception):
    """The outputs of a run are too large to send."""


class _FailedError(Exception):
    """An oracle failed because of a bug."""


def _bytes(value: Any) -> int:
    """Return the approximate size of an output in bytes; sequences and maps hold several arrays."""
    if isinstance(value, list | dict):
        return sum(map(_bytes, value.values() if isinstance(value, dict) else value))
    return int(getattr(value, "nbytes", 0))


def _answer(command: str, key: int, rest: Sequence[Any], models: dict[int, _Model]) -> Any:
    """Execute a request other than `run`."""
    if command == "unread":
        raise MemoryError("a request is too large")
    if command == "open":
        models[key] = _Model(*rest)
        return models[key].outputs
    assert command == "oracle"
    return computed(*rest)


_TOGETHER = 2**20
"""The bytes of outputs after which an answer ends early."""


def _ran(model: _Model, inputs: Sequence[tuple[int | None, Any]], kept: dict[int, Any]) -> list[tuple[str, Any]]:
    """Return the outcomes of a model on inputs, which are cached if they have a number.

    The list ends early after many outputs, and if memory is exhausted.
    """
    found: list[tuple[str, Any]] = []
    size = 0
    for number, feeds in inputs:
        if number is not None:
            feeds = kept.setdefault(number, feeds)
        found.append(outcome_of(_outputs, model, feeds))
        outcome, value = found[-1]
        size += _bytes(value) if outcome == "done" else 0
        if outcome == "memory" or size > _TOGETHER:
            break
    return found


def _outputs(model: _Model, feeds: Mapping[str, Any]) -> list[Any]:
    outputs = model.run(feeds)
    _check_size(outputs, model.results)
    return outputs


def _check_size(outputs: Sequence[Any], most: int | None) -> None:
    if most is not None and (size := sum(map(_bytes, outputs))) > most:
        raise _LargeError(f"its outputs have {size} bytes, and at most {most} are compared; --memory allows more")


def computed(domain: str, name: str, meaning: bytes, arrays: Sequence[Any], most: int | None) -> tuple[Array, ...]:
    """Return the outputs of an operator's oracle for these operands.

    `meaning` is a pickle of the meaning and the keyword arguments. Errors that do not concern the operands become
    _FailedError.
    """
    from opshift.opsets.registry.operator import operator_for  # this imports onnx

    operator = operator_for(domain, name)
    assert operator is not None
    try:
        with np.errstate(all="ignore"):
            what, keywords = pickle.loads(meaning)
            found = operator.oracle(what, *arrays, **keywords)
    except KeyError as error:  # from a table of element types
        raise NotImplementedError(f"the oracle of {name} computes no values of type {error}") from error
    except (ArithmeticError, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    except (MemoryError, NotImplementedError):
        raise
    except Exception as error:
        raise _FailedError(f"{type(error).__name__}: {error}") from error
    outputs = tuple(map(np.asarray, found if isinstance(found, tuple) else (found,)))
    _check_size(outputs, most)
    return outputs


def outcome_of(call: Callable[..., Any], *arguments: Any) -> tuple[str, Any]:
    """Return `done` with the result; or `memory`, `large`, `missing kernel`, `failed` or `rejected` with the reason."""
    try:
        return "done", call(*arguments)
    except Exception as error:  # onnxruntime's exceptions have no common base class except Exception
        reason = _reason(error)
        if isinstance(error, _LargeError):
            return "large", reason
        if isinstance(error, _FailedError):
            return "failed", reason
        if isinstance(error, MemoryError) or any(words in str(error) for words in _OUT_OF_MEMORY):
            return "memory", reason
        missing = type(error).__name__ in _MISSING or any(words in str(error) for words in _NOT_IMPLEMENTED)
        return ("missing kernel" if missing else "rejected"), reason


def _send(channel: Channel, number: int | None, outcome: str, value: Any) -> None:
    """Send an answer with the CPU seconds of this process so far, or a report that memory is exhausted."""
    try:
        channel.send_whole((number, outcome, value, time.process_time()))
    except MemoryError as error:
        channel.send_whole((number, "memory", _reason(error), time.process_time()))


def _take(channel: Channel, requests: queue.SimpleQueue[tuple[Any, ...]]) -> None:
    """Read requests into a queue; exit the process, even during a computation, when the parent closes the pipe."""
    while True:
        try:
            requests.put(channel.receive())
        except MemoryError:
            requests.put((None, "unread", 0))
            return  # in the middle of a request
        except LostError:
            os._exit(0)


def _watch(parent: int) -> None:
    """Exit when the parent has ended, even if a fork of the parent still holds the pipe open.

    Windows, where getppid never changes, has no fork.
    """
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


def main(mark: str, memory: int | None) -> None:
    """Answer requests; `memory` limits the bytes that this process may hold, where the system can."""
    channel = Channel(*sandbox.streams(mark))
    if memory is not None:
        sandbox.limit("RLIMIT_DATA", memory)
    sandbox.prefer_for_oom_kill()
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    sandbox.files()
    sandbox.calls()
    requests: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
    threading.Thread(target=_take, args=(channel, requests), daemon=True).start()
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()
    models: dict[int, _Model] = {}
    kept: dict[int, Any] = {}
    _send(channel, None, "done", None)
    while True:
        number, command, key, *rest = requests.get()
        if command in ("close", "forget"):
            (models if command == "close" else kept).pop(key, None)
            continue
        if command == "run":
            (inputs,) = rest
            answer = "done", _ran(models[key], inputs, kept)
        else:
            answer = outcome_of(_answer, command, key, rest, models)
        _send(channel, number, *answer)
