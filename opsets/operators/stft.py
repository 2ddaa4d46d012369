"""STFT: the Fourier transform of frames of a signal, each multiplied by a window. Since version 17."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Dim, Facts, Tensor
from opshift.opsets.registry.lowering import Reason, bounded, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class STFT:
    """Whether only the first half of each transform is returned, and the element in its middle."""

    onesided: int = 1


def oracle(what: STFT, signal: Array, step: Array, window: Array | None = None, length: Array | None = None) -> Array:
    """STFT-17: "sliding a window of length `frame_length` over the signal ..., computing a DFT of each windowed frame".

    onnxruntime 1.32.0 also accepts a real signal without its last axis, which has length 1.
    """
    x = signal if signal.ndim > 2 else signal[..., None]
    numbers = x[..., 0].astype(np.float64) + (1j * x[..., 1] if x.shape[2] == 2 else 0)
    default = x.shape[1] if window is None else len(window)
    count = default if length is None else int(length.item())
    if not 0 < count <= x.shape[1] or step.item() < 1 or (window is not None and len(window) != count):
        raise ValueError(f"no frames of {count} fit the signal of {x.shape[1]}, or the window")
    starts = range(0, x.shape[1] - count + 1, int(step.item()))
    frames = np.stack([numbers[:, start : start + count] for start in starts], axis=1)
    y = np.fft.fft(frames if window is None else frames * window)
    y = y[..., : count // 2 + 1] if what.onesided else y
    return np.stack([y.real, y.imag], axis=-1).astype(signal.dtype)


def shape(what: STFT, operands: Operands) -> tuple[Dim, ...] | None:
    """Return the dimensions where onnx infers none: those of a signal of unknown length."""
    _, step, window, length = operands
    batch, size = first(operands).dim(0), first(operands).dim(1)
    count = size if window is None else window.dim(0)
    if length is not None:
        count = int(length.known.item()) if length.known is not None and length.known.size == 1 else None
    by = int(step.known.item()) if step is not None and step.known is not None and step.known.size == 1 else 0
    frames = (size - count) // by + 1 if isinstance(size, int) and isinstance(count, int) and by > 0 else None
    bins = count // 2 + 1 if what.onesided and isinstance(count, int) else None if what.onesided else count
    return batch, frames if frames is None or frames > 0 else None, bins, 2


# --- by a transform of each frame ---------------------------------------------------------------------------------


def _ranked(operands: Operands) -> Reason | None:
    rank = first(operands).rank
    if rank is None:
        return Reason("the rank is unknown", missing=True)
    return None if rank == 3 else Reason("the signal has no axis of real and imaginary parts")


def _without_parts(what: STFT, operands: Operands) -> Reason | None:
    return None if first(operands).rank == 2 else Reason("")


@lowering(18, applies_if=_without_parts)
def with_parts(signal, step, window, length):
    """Give each number of a real signal an axis of length 1."""
    return meaning.Same(op.Unsqueeze(signal, [2]), step, window, length)


def _length_of_window(what: STFT, operands: Operands) -> Reason | None:
    if operands[2] is None or operands[3] is not None:
        return Reason("")
    return _ranked(operands)


@lowering(18, applies_if=_length_of_window)
def as_long_as_window(signal, step, window, length):
    """Compute the length of frames, which is that of the window."""
    return meaning.Same(signal, step, window, op.Size(window))


def _length_of_signal(what: STFT, operands: Operands) -> Reason | None:
    if operands[2] is not None or operands[3] is not None:
        return Reason("")
    return _ranked(operands)


@lowering(18, applies_if=_length_of_signal)
def as_long_as_signal(signal, step, window, length):
    """Compute the length of the one frame, which is that of the signal."""
    return meaning.Same(signal, step, window, op.Squeeze(op.Shape(signal, start=1, end=2), [0]))


def _half(what: STFT, operands: Operands) -> Reason | None:
    if not what.onesided or first(operands).dim(2) == 1:
        return Reason("")
    return _ranked(operands)


@lowering(18, applies_if=_half)
def half_of_whole(signal, step, window, length):
    """Transform whole frames, and drop the second half: half a transform is defined for real numbers only."""
    whole = meaning.Same(signal, step, window, length, onesided=0)
    return op.Slice(whole, [0], op.Shape(whole, start=2, end=3) / 2 + 1, [2])


def _plain(what: STFT, operands: Operands) -> Reason | None:
    if operands[3] is None or (what.onesided and first(operands).dim(2) != 1):
        return Reason("")
    return _ranked(operands)


def _unwindowed(what: STFT, operands: Operands) -> Reason | None:
    return _plain(what, operands) if operands[2] is None else Reason("")


def _windowed(what: STFT, operands: Operands) -> Reason | None:
    return Reason("") if operands[2] is None else _plain(what, operands)


def _sides(what: STFT, operands: Operands) -> Mapping[str, Any]:
    return {"onesided": what.onesided}


@lowering(18, applies_if=_unwindowed, bind=_sides, rounds=True)
def framed(signal, step, window, length, onesided: int):
    """Gather the frames, and transform each."""
    count = op.Reshape(op.Cast(length, to=7), [1])
    last = op.Squeeze(op.Shape(signal, start=1, end=2) - count + 1, [0])
    starts = op.Range(0, last, op.Squeeze(op.Reshape(op.Cast(step, to=7), [1]), [0]))
    places = op.Unsqueeze(starts, [1]) + op.Range(0, op.Squeeze(count, [0]), 1)
    return meaning.DFT(op.Gather(signal, places, axis=1), op.Squeeze(count, [0]), 2, onesided=onesided)


@lowering(18, applies_if=_windowed, bind=_sides, rounds=True)
def windowed(signal, step, window, length, onesided: int):
    """Gather the frames, multiply each by the window, and transform it."""
    count = op.Reshape(op.Cast(length, to=7), [1])
    last = op.Squeeze(op.Shape(signal, start=1, end=2) - count + 1, [0])
    starts = op.Range(0, last, op.Squeeze(op.Reshape(op.Cast(step, to=7), [1]), [0]))
    places = op.Unsqueeze(starts, [1]) + op.Range(0, op.Squeeze(count, [0]), 1)
    frames = op.Gather(signal, places, axis=1) * op.Unsqueeze(window, [1])
    return meaning.DFT(frames, op.Squeeze(count, [0]), 2, onesided=onesided)


# --- by one convolution ---------------------------------------------------------------------------------------------


def _constants(operands: Operands) -> tuple[int, Array] | Reason:
    """Return the step, and the window as long as the frames, where both are constants and the signal is of float."""
    _, step, window, length = operands
    if first(operands).dtype != TensorProto.FLOAT:
        return Reason("onnxruntime 1.32.0 has no Conv of this type", missing=first(operands).dtype is None)
    if step is None or step.known is None or step.known.size != 1 or (window is not None and window.known is None):
        return Reason("the step or the window is computed at run time", missing=True)
    if window is not None and window.known is not None:
        return int(step.known.item()), window.known.astype(np.float64)
    if length is None or length.known is None or length.known.size != 1:
        return Reason("the length of frames is computed at run time", missing=True)
    return int(step.known.item()), np.ones(bounded(int(length.known.item())))


def _convolved(rank: int) -> Callable[[STFT, Operands], Reason | None]:
    def applies_if(what: STFT, operands: Operands) -> Reason | None:
        signal = first(operands)
        if signal.rank != rank or (rank == 3 and signal.dim(2) != 1):
            return Reason("")
        found = _constants(operands)
        return found if isinstance(found, Reason) else None

    return applies_if


def _kernel(what: STFT, operands: Operands) -> Mapping[str, Any]:
    """Bind cosines and sines of each frequency in turn, multiplied by the window."""
    found = _constants(operands)
    assert not isinstance(found, Reason)
    step, window = found
    bins = len(window) // 2 + 1 if what.onesided else len(window)
    bounded(2 * bins * len(window))
    # Whole turns are left out before the angle is rounded.
    turns = np.outer(np.arange(bins), np.arange(len(window))) % len(window) / len(window)
    parts = np.stack([np.cos(2 * np.pi * turns), -np.sin(2 * np.pi * turns)], axis=1) * window
    kernel = parts.reshape(2 * bins, 1, len(window)).astype(np.float32)
    return {"kernel": Tensor(kernel), "strides": (step,), "dims": (0, 0, bins, 2)}


@lowering(13, applies_if=_convolved(3), bind=_kernel, rounds=True)
def convolved(signal, step, window, length, kernel: Sequence[int], strides: Sequence[int], dims: Sequence[int]):
    """Convolve the signal with cosines and sines under the window, one for each frequency."""
    rows = op.Conv(op.Transpose(signal, perm=[0, 2, 1]), kernel, strides=strides)
    return op.Reshape(op.Transpose(rows, perm=[0, 2, 1]), dims)


@lowering(13, applies_if=_convolved(2), bind=_kernel, rounds=True)
def convolved_alone(signal, step, window, length, kernel: Sequence[int], strides: Sequence[int], dims: Sequence[int]):
    """Do the same with a signal that has no axis of real and imaginary parts."""
    rows = op.Conv(op.Unsqueeze(signal, [1]), kernel, strides=strides)
    return op.Reshape(op.Transpose(rows, perm=[0, 2, 1]), dims)


# --- inputs for verification --------------------------------------------------------------------------------------


def likely_sizes(node: NodeShapes) -> Iterable[int]:
    """Yield lengths of a signal that has some frames, where their length is known."""
    length = node.constant(3) if len(node.inputs) > 3 else None
    window = node.constant(2) if len(node.inputs) > 2 else None
    if length is None and window is None:
        return
    count = int(np.asarray(length).item()) if length is not None else np.asarray(window).size
    yield from (count, count + 3, 2 * count + 1)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Have frames that fit the signal and the window, some steps of any size apart."""
    drawn = dict(feeds)
    signal, window = feeds["signal"], feeds.get("window")
    size = signal.shape[1] if signal.ndim > 1 else 0
    step, length = feeds.get("frame_step"), feeds.get("frame_length")
    if length is not None and length.flags.writeable:
        count = int(rng.integers(1, size + 1)) if size else 0
        drawn["frame_length"] = np.full_like(length, count if window is None else len(window))
    if step is not None and step.flags.writeable:
        drawn["frame_step"] = np.full_like(step, rng.integers(1, max(size, 1) + 1))
    return drawn


def _fault(what: STFT, operands: Operands) -> str | None:
    window, length = operands[2] or Facts(), operands[3] or Facts()
    known, count = window.dim(0) if window.rank == 1 else None, length.known
    if isinstance(known, int) and count is not None and count.size == 1 and int(count.item()) != known:
        return f"its window has {known} elements, and its frames {int(count.item())}"
    return None


OPERATOR = Operator(
    name="STFT",
    meaning=STFT,
    versions=(Version(17),),
    operands=("signal", "frame_step", "window", "frame_length"),
    oracle=oracle,
    shape=shape,
    lowerings=(
        convolved,
        convolved_alone,
        framed,
        windowed,
        half_of_whole,
        as_long_as_window,
        as_long_as_signal,
        with_parts,
    ),
    adversarial=adversarial,
    fault=_fault,
    # Of an infinity by a root of unity with a part that is 0, that part is NaN or is not computed.
    nan_defined=lambda what, operands: False,
    infinity_defined=lambda what, operands: False,
    # Like DFT, whose roots of unity onnxruntime 1.32.0 computes by products: one that is 0 is 3e-16.
    traits=Traits(
        floats=(Trait.SUMS, Trait.WEIGHS, Trait.IN_FLOAT), counts=(1, 3), likely_sizes=likely_sizes, rounds_angles=True
    ),
)
