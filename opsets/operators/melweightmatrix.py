"""MelWeightMatrix: weights that add up frequencies to bands on the mel scale. Since version 17."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.registry.facts import FLOATS, Tensor
from opshift.opsets.registry.lowering import Reason, bounded, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Interval, Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class MelWeightMatrix:
    """The element type of the weights."""

    output_datatype: int = TensorProto.FLOAT


def oracle(what: MelWeightMatrix, bands: Array, length: Array, rate: Array, lower: Array, upper: Array) -> Array:
    """MelWeightMatrix-17: "mel(f) = 2595 * log10(1 + f/700)"; "all the triangles ... have a peak value of 1.0".

    Bands begin, peak and end at places that are rounded down, so the type that they are computed in matters: in float,
    as in onnxruntime 1.32.0, whatever the types are. A band without a rise has its peak of 1 all the same.
    """
    count, size, one = int(bands.item()), int(length.item()), np.float32
    if count < 1 or size < 1 or rate.item() < 1:
        raise ValueError("there are no bands, no frequencies, or no samples")
    low, high = (one(2595 * np.log10(1 + one(edge.item()) / one(700))) for edge in (lower, upper))
    step = (high - low) / one(count + 2)
    mels = np.arange(count + 2, dtype=np.float32) * step + low
    hertz = one(700) * (np.power(one(10), mels / one(2595)) - one(1))
    places = np.floor(one(size + 1) * hertz / one(rate.item())).astype(np.int64)
    numpy_type = np.float64 if what.output_datatype == TensorProto.DOUBLE else np.float32
    y = np.zeros((size // 2 + 1, count), numpy_type)
    if places.min() < 0 or places.max() >= len(y):
        raise ValueError("a band is beyond the frequencies")
    for band in range(count):
        begin, peak, end = places[band : band + 3].tolist()
        if begin == peak:
            y[peak, band] = 1
        else:
            y[begin : peak + 1, band] = np.arange(peak - begin + 1, dtype=numpy_type) / numpy_type(peak - begin)
        if end > peak:
            y[peak:end, band] = np.arange(end - peak, 0, -1, dtype=numpy_type) / numpy_type(end - peak)
    return y.astype(onnx.helper.tensor_dtype_to_np_dtype(what.output_datatype))


def _known(what: MelWeightMatrix, operands: Operands) -> Reason | None:
    if any(operand is None or operand.known is None for operand in operands):
        return Reason("bands, length, rate or edges are computed at run time", missing=True)
    return None if what.output_datatype in FLOATS else Reason("the weights are no floats")


def _table(what: MelWeightMatrix, operands: Operands) -> Mapping[str, Any]:
    arrays = [operand.known for operand in operands if operand is not None and operand.known is not None]
    bounded((int(arrays[1].item()) // 2 + 1) * int(arrays[0].item()))
    return {"table": Tensor(oracle(what, *arrays))}


@lowering(18, applies_if=_known, bind=_table)
def written(bands, length, rate, lower, upper, table: Sequence[int]):
    """Write the weights, which are constant, into the model."""
    return op.Identity(table)


OPERATOR = Operator(
    name="MelWeightMatrix",
    meaning=MelWeightMatrix,
    versions=(Version(17),),
    operands=("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz"),
    oracle=oracle,
    lowerings=(written,),
    dtype=lambda what: what.output_datatype,
    traits=Traits(
        floats=(Trait.IN_FLOAT,),
        counts=(0, 1),
        domains={2: Interval(2000, 16000), 3: Interval(0, 400), 4: Interval(400, 2000)},
        grows=True,
        heavy=True,
    ),
)
