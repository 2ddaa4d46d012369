"""BatchNormalization: scale and shift each channel. Below 14, the number of outputs determines whether it trains."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.merged_axes import Stages, images
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import channels
from opshift.opsets.registry.traits import Interval, Trait, Traits, Undefined
from opshift.opsets.registry.wider_types import SUMMED


@dataclass(frozen=True)
class BatchNormalization:
    """The attributes of version 15, `spatial` of version 7, and whether running and saved statistics are outputs.

    Without `spatial`, each element of a sample has a mean and a variance of its own. `training_mode` is None where that
    is what the outputs tell; `tests` says that a version below 7 must not train.
    """

    epsilon: float = float(np.float32(1e-5))
    momentum: float = float(np.float32(0.9))
    training_mode: int | None = 0
    spatial: int = 1
    running: int = 0
    saved: int = 0
    tests: int = 0


def oracle(
    what: BatchNormalization,
    x: np.ndarray[Any, Any],
    scale: np.ndarray[Any, Any],
    bias: np.ndarray[Any, Any],
    mean: np.ndarray[Any, Any],
    var: np.ndarray[Any, Any],
) -> tuple[np.ndarray[Any, Any], ...]:
    """BatchNormalization-14: "Y = (X - input_mean) / sqrt(input_var + epsilon) * scale + B"; training, "current_mean"
    and "current_var", and "running_mean = input_mean * momentum + current_mean * (1 - momentum)".
    """
    channels = x.shape[1:2] or (1,)
    if what.spatial and any(one.shape != channels for one in (scale, bias, mean, var)):
        raise ValueError("scale, B, input_mean and input_var have one element for each channel")
    wide = x.astype(np.float64)
    axes = tuple(axis for axis in range(x.ndim) if axis != 1) if what.spatial else (0,)
    if what.training_mode and not all(x.shape[axis] for axis in axes):
        # ReduceMean-18, by which the current mean is defined: "Reduction over an empty set of values yields undefined".
        raise ValueError("a channel without elements has no mean")
    of_channel = (-1, *[1] * (x.ndim - 2)) if what.spatial else x.shape[1:]
    current = (wide.mean(axes), wide.var(axes)) if what.training_mode else (mean.astype(float), var.astype(float))
    at = [one.astype(np.float64).reshape(of_channel) for one in (*current, scale, bias)]
    y = ((wide - at[0]) / np.sqrt(at[1] + what.epsilon) * at[2] + at[3]).astype(x.dtype)
    if not what.training_mode:
        return (y,)
    keep = what.momentum
    running = (old * keep + new * (1 - keep) for old, new in zip((mean, var), current, strict=True))
    return (y, *(one.astype(mean.dtype) for one in running))


def _lift_by_outputs(attributes: Mapping[str, Any]) -> BatchNormalization:
    # BatchNormalization-7: "Output case #1: Y, mean, var, saved_mean, saved_var (training mode)"; "#2: Y (test mode)".
    spatial = attributes.get("spatial", 1)
    return BatchNormalization(attributes["epsilon"], attributes["momentum"], None, int(bool(spatial)))


def _lift_by_flag(attributes: Mapping[str, Any]) -> BatchNormalization:
    """BatchNormalization-6: "Output case #1: Y, mean, var, saved_mean, saved_var (training mode)"; "#2: Y (test mode)".

    `is_test` tells the same, and exporters leave it at its default 0 in models of one output: there it does not count.
    """
    return dataclasses.replace(_lift_by_outputs(attributes), tests=int(bool(attributes["is_test"])))


def _fault(what: BatchNormalization, operands: Operands) -> str | None:
    if what.tests and what.training_mode:
        return "its is_test is set, and it has outputs of training"
    return None


def _adjusted_to_outputs(what: BatchNormalization, used: tuple[bool, ...]) -> BatchNormalization:
    running, saved = int(any(used[1:3])), int(any(used[3:]))
    trains = int(any(used[1:])) if what.training_mode is None else what.training_mode
    return dataclasses.replace(what, training_mode=trains, running=running, saved=saved)


def _written(*names: str) -> Callable[[BatchNormalization, Operands], Mapping[str, Any]]:
    def write(what: BatchNormalization, operands: Operands) -> Mapping[str, Any]:
        values = {name: getattr(what, name) for name in ("epsilon", "momentum", *names)}
        return {name: value for name, value in values.items() if value != getattr(BatchNormalization, name)}

    return write


def _dtypes(operands: Operands) -> list[int | None]:
    return [facts.dtype if facts else None for facts in operands]


def _one_type(operands: Operands) -> Reason | None:
    dtypes = set(_dtypes(operands))
    if len(dtypes) == 1 and None not in dtypes:
        return None
    return Reason("it has one element type, and those of the inputs differ or are unknown", None in dtypes)


def _by_outputs(what: BatchNormalization, operands: Operands) -> Reason | None:
    if what.training_mode and not what.running:
        return Reason("it trains where running statistics are asked for, and here they are not")
    return None if what.spatial else Reason("it has one mean a channel")


def _of_7(what: BatchNormalization, operands: Operands) -> Reason | None:
    if first(operands).rank == 1:
        return Reason("the input has a channel axis")
    return _one_type(operands) or _by_outputs(dataclasses.replace(what, spatial=1), operands)


def _of_9(what: BatchNormalization, operands: Operands) -> Reason | None:
    return _one_type(operands) or _by_outputs(what, operands)


def _of_15(what: BatchNormalization, operands: Operands) -> Reason | None:
    if what.saved:
        return Reason("it does not give the mean and variance that training saves")
    return None if what.spatial else Reason("it has one mean a channel")


def _of_14(what: BatchNormalization, operands: Operands) -> Reason | None:
    x, scale, bias, mean, var = operands
    return _one_type((x, scale, bias)) or _one_type((mean, var)) or _of_15(what, operands)


# --- to one mean a channel ----------------------------------------------------------------------------------------


def _each(what: BatchNormalization, operands: Operands) -> Reason | None:
    if what.spatial:
        return Reason("there is one mean a channel")
    return Reason("the statistics of training have the shape of a sample") if what.training_mode else None


@lowering(18, applies_if=_each, bind=lambda what, operands: {"epsilon": what.epsilon})
def flattened(x, scale, bias, mean, var, epsilon: float):
    """Make each element of a sample a channel; BatchNormalization-9: "flatten the input shape"."""
    y = meaning.Itself(
        op.Flatten(x, axis=1),
        op.Reshape(scale, [-1]),
        op.Reshape(bias, [-1]),
        op.Reshape(mean, [-1]),
        op.Reshape(var, [-1]),
        epsilon=epsilon,
    )
    return op.Reshape(y, op.Shape(x), allowzero=1)


# --- to one element type ------------------------------------------------------------------------------------------


def _mixed(what: BatchNormalization, operands: Operands) -> Reason | None:
    dtypes = _dtypes(operands)
    if None in dtypes:
        return Reason("the element types are unknown", missing=True)
    if what.training_mode:
        return Reason("the statistics of training have a type of their own")
    return None if len(set(dtypes)) > 1 else Reason("the inputs have one element type")


def _widest(what: BatchNormalization, operands: Operands) -> Mapping[str, Any]:
    double = TensorProto.DOUBLE in _dtypes(operands)
    return {
        "to": TensorProto.DOUBLE if double else TensorProto.FLOAT,
        "like": first(operands).dtype,
        "epsilon": what.epsilon,
    }


@lowering(18, applies_if=_mixed, bind=_widest, rounds=True)
def in_one_type(x, scale, bias, mean, var, to: int, like: int, epsilon: float):
    """Compute in a type that holds the values of all inputs, and round once."""
    y = meaning.Itself(
        op.Cast(x, to=to),
        op.Cast(scale, to=to),
        op.Cast(bias, to=to),
        op.Cast(mean, to=to),
        op.Cast(var, to=to),
        epsilon=epsilon,
    )
    return op.Cast(y, to=like)


# --- training -----------------------------------------------------------------------------------------------------


def _wide(operands: Operands) -> Reason | None:
    """Require a type that holds small epsilons and squares; float16 is computed in float."""
    if reason := _one_type(operands):
        return reason
    wide = first(operands).dtype in {TensorProto.FLOAT, TensorProto.DOUBLE}
    return None if wide else Reason("it is not of float or double")


def _trains(what: BatchNormalization, operands: Operands) -> Reason | None:
    if not (what.training_mode and what.spatial) or what.saved:
        return Reason("it does not train, or saves what later versions do not have")
    rank = first(operands).rank
    if rank is None:
        return Reason("the rank is unknown", missing=True)
    if rank < 2:
        return Reason("the input has no channel axis")
    return _wide(operands)


def _over_all_but_channels(what: BatchNormalization, operands: Operands) -> Mapping[str, Any]:
    rank = first(operands).rank or 0
    return {
        "axes": tuple(axis for axis in range(rank) if axis != 1),
        "epsilon": what.epsilon,
        "momentum": what.momentum,
        "rest": 1 - what.momentum,
    }


@lowering(18, applies_if=_trains, bind=_over_all_but_channels, rounds=True)
def measured(x, scale, bias, mean, var, axes: Sequence[int], epsilon: float, momentum: float, rest: float):
    """Compute mean and variance of each channel, and normalise with these."""
    current = op.ReduceMean(x, axes, keepdims=0)
    away = x - op.ReduceMean(x, axes, keepdims=1)
    spread = op.ReduceMean(away * away, axes, keepdims=0)
    y = meaning.Itself(x, scale, bias, current, spread, epsilon=epsilon)
    keep = op.CastLike(momentum, mean)
    take = op.CastLike(rest, mean)
    return y, mean * keep + current * take, var * keep + spread * take


# --- by arithmetic ------------------------------------------------------------------------------------------------


def _infers(what: BatchNormalization, operands: Operands) -> Reason | None:
    if what.training_mode or not what.spatial:
        return Reason("it trains, or has more than one mean a channel")
    rank = first(operands).rank
    if rank is None:
        return Reason("the rank is unknown", missing=True)
    return _wide(operands)


def _along_channels(what: BatchNormalization, operands: Operands) -> Mapping[str, Any]:
    return {"along": (-1, *[1] * ((first(operands).rank or 0) - 2)), "epsilon": what.epsilon}


@lowering(18, applies_if=_infers, bind=_along_channels, rounds=True)
def computed(x, scale, bias, mean, var, along: Sequence[int], epsilon: float):
    """Compute one factor a channel first, as kernels do: a quotient by a small deviation may overflow."""
    factor = scale / op.Sqrt(var + op.CastLike(epsilon, var))
    return (x - op.Reshape(mean, along)) * op.Reshape(factor, along) + op.Reshape(bias, along)


def _with_fewer_axes(what: BatchNormalization, operands: Operands, most: int) -> Stages | None:
    """Merge the axes behind the channels, if each channel has one mean."""
    return images(what, operands, most) if what.spatial else None


OPERATOR = Operator(
    name="BatchNormalization",
    meaning=BatchNormalization,
    versions=(
        *(Version(since, lift=_lift_by_flag) for since in (1, 6)),
        Version(7, lift=_lift_by_outputs, write=_written("spatial"), applies_if=_of_7),
        Version(9, lift=_lift_by_outputs, write=_written(), applies_if=_of_9),
        Version(14, write=_written("training_mode"), applies_if=_of_14),
        Version(15, write=_written("training_mode"), applies_if=_of_15),
    ),
    operands=("X", "scale", "B", "input_mean", "input_var"),
    oracle=oracle,
    outputs=_adjusted_to_outputs,
    normal=lambda what, operands: (dataclasses.replace(what, tests=0), operands),
    fault=_fault,
    lowerings=(flattened, in_one_type, measured, computed),
    wider_types=SUMMED,
    traits=Traits(
        merges=_with_fewer_axes,
        floats=(Trait.SUMS, Trait.WEIGHS),
        domains={4: Interval(0)},
        equal_dims=channels,
        undefined=Undefined.NO_BATCH,
    ),
)
