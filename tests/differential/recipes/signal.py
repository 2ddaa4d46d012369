"""Signal processing."""

from __future__ import annotations

import numpy as np

from differential import values
from differential.draw import Draw
from differential.recipes.registry import recipe
from differential.values import FLOAT


@recipe("HannWindow", "HammingWindow", "BlackmanWindow")
def window(draw: Draw) -> None:
    draw.add(draw.fixed(draw.integer(1, 9), draw.input_type(0)))
    draw.option("periodic", draw.integer(0, 1))
    target = draw.type(draw.schema.outputs[0].type_str)
    if draw.chance(0.6):
        draw.set(output_datatype=target)
        draw.output_type(target)
    else:
        draw.output_type(FLOAT)


@recipe("MelWeightMatrix")
def mel_weight_matrix(draw: Draw) -> None:
    for value in (draw.integer(2, 6), draw.pick((16, 32)), 8192):
        draw.add(draw.fixed(value, draw.input_type(0)))
    kind = draw.input_type(3)
    draw.add(draw.fixed(draw.pick((0.0, 100.0)), kind), draw.fixed(draw.pick((4000.0, 2000.0)), kind))
    target = draw.type(draw.schema.outputs[0].type_str)
    if draw.chance(0.6):
        draw.set(output_datatype=target)
        draw.output_type(target)
    else:
        draw.output_type(FLOAT)


@recipe("DFT")
def dft(draw: Draw) -> None:
    shape = draw.shape(1, 3, empty=False)
    inverse = draw.option("inverse", draw.integer(0, 1))
    complex_ = bool(inverse) or draw.chance(0.5)
    if not complex_:
        draw.option("onesided", draw.integer(0, 1))
    if draw.version >= 20 and inverse and draw.chance(0.2):
        draw.set(onesided=1)
    draw.tensor(0, (draw.integer(1, 2), *shape, 2 if complex_ else 1), "finite")
    rank = len(shape) + 2
    axis = draw.integer(1, rank - 2)
    axis = axis - rank if draw.chance(0.4) else axis
    length = draw.fixed(draw.integer(1, 6), draw.input_type(1)) if draw.chance(0.4) else None
    if draw.version < 20:
        draw.option("axis", axis)
        draw.add(length)
    else:
        draw.add(length, draw.fixed(axis) if draw.chance(0.6) else None)


@recipe("STFT")
def stft(draw: Draw) -> None:
    length, frame = draw.integer(6, 16), draw.pick((2, 4, 5))
    complex_ = draw.chance(0.3)
    onesided = draw.option("onesided", draw.integer(0, 1))
    if complex_ and onesided:
        draw.set(onesided=0)
    draw.tensor(0, (draw.integer(1, 2), length, 2 if complex_ else 1), "finite")
    kind = draw.input_type(1)
    draw.add(draw.fixed(draw.integer(1, 4), kind))
    with_window = draw.chance(0.6)
    draw.add(draw.data(draw.input_type(0), (frame,), "unit") if with_window else None)
    draw.add(draw.fixed(frame, kind) if not with_window or draw.chance(0.5) else None)


@recipe("ImageDecoder")
def image_decoder(draw: Draw) -> None:
    image = (draw.rng.random((2, 3, 3)) * 255).astype(np.uint8)
    header = b"P6\n3 2\n255\n"
    draw.add(draw.fixed(np.frombuffer(header + image.tobytes(), np.uint8), values.UINT8))
    draw.option("pixel_format", draw.pick(("RGB", "BGR", "Grayscale")))
