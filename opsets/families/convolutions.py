"""Convolutions: the attributes that Conv, ConvInteger, QLinearConv, FusedConv and NhwcConv share, and their sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Convolution:
    """The position of the kernel, and the groups of channels: the attributes of Conv."""

    auto_pad: str = "NOTSET"
    dilations: tuple[int, ...] | None = None
    group: int = 1
    kernel_shape: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


def conv_attributes(what: Convolution) -> Mapping[str, Any]:
    """Return the attributes of a Conv at the same position; its pads are absent if they are automatic."""
    attributes = {field.name: getattr(what, field.name) for field in fields(Convolution)}
    return attributes if what.auto_pad == "NOTSET" else {**attributes, "pads": None}


def padding(what: Convolution, sizes: Sequence[int], kernel: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return how much goes before and behind each axis; SAME pads so that output = ceil(input / stride)."""
    count = len(sizes)
    strides, dilations = what.strides or (1,) * count, what.dilations or (1,) * count
    if what.auto_pad in ("NOTSET", ""):
        pads = what.pads or (0,) * (2 * count)
        return list(pads[:count]), list(pads[count:])
    if what.auto_pad == "VALID":
        return [0] * count, [0] * count
    spans = [(one - 1) * by + 1 for one, by in zip(kernel, dilations, strict=True)]
    total = [max((-(-n // s) - 1) * s + k - n, 0) for n, s, k in zip(sizes, strides, spans, strict=True)]
    less, more = [one // 2 for one in total], [one - one // 2 for one in total]
    return (less, more) if what.auto_pad == "SAME_UPPER" else (more, less)


def sums(what: Convolution, x: Array, w: Array) -> Array:
    """ConvInteger-10: "performs the convolution", here of 64-bit integers or of doubles."""
    if x.shape[1] != w.shape[1] * what.group or w.shape[0] % what.group:
        raise ValueError(
            f"{x.shape[1]} channels in {what.group} groups do not fit kernels of the shape {list(w.shape)}"
        )
    if what.kernel_shape and tuple(what.kernel_shape) != w.shape[2:]:
        raise ValueError(f"kernels of the shape {list(w.shape[2:])} do not fit kernel_shape")
    count = x.ndim - 2
    strides, dilations = what.strides or (1,) * count, what.dilations or (1,) * count
    before, behind = padding(what, x.shape[2:], w.shape[2:])
    x = np.pad(x, [(0, 0), (0, 0), *zip(before, behind, strict=True)])
    spans = [(one - 1) * by + 1 for one, by in zip(w.shape[2:], dilations, strict=True)]
    if any(n < k for n, k in zip(x.shape[2:], spans, strict=True)):
        raise ValueError(f"a kernel that spans {spans} does not fit in {list(x.shape[2:])}, padding included")
    out = [(n - k) // s + 1 for n, k, s in zip(x.shape[2:], spans, strides, strict=True)]
    y = np.zeros((x.shape[0], w.shape[0], *out), np.result_type(x, w))
    each = w.shape[0] // what.group
    for group in range(what.group):
        data = x[:, group * w.shape[1] : (group + 1) * w.shape[1]]
        kernels = w[group * each : (group + 1) * each]
        for place in np.ndindex(*w.shape[2:]):
            steps = zip(place, dilations, strides, out, strict=True)
            index: tuple[Any, ...] = (..., *(slice(p * d, p * d + s * (n - 1) + 1, s) for p, d, s, n in steps))
            part = data[index]
            product = np.tensordot(kernels[..., *place], part, (1, 1))
            y[:, group * each : (group + 1) * each] += np.moveaxis(product, 0, 1)
    return y


def by_channel(one: Array, rank: int) -> Array:
    """Return numbers for all channels, or for each kernel, so that they broadcast with the kernels."""
    return one.reshape(-1, *(1,) * (rank - 1)) if one.size > 1 else one.reshape(())
