"""ResizedAxes and its steps: where elements lie in each mode of coordinates, and what is taken of their neighbors."""

from __future__ import annotations

import itertools

import numpy as np

from operators.harness import F32, F64, INF, Case, Table, arr
from opshift.opsets.operators import resizedaxes, resizedpoints, sampled
from opshift.opsets.operators.resizedaxes import ResizedAxes
from opshift.opsets.operators.resizedpoints import ResizedPoints
from opshift.opsets.operators.sampled import Sampled

COORDINATES = (
    "asymmetric",
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "tf_half_pixel_for_nn",
)
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
GRID = np.random.default_rng(3).integers(-9, 9, (2, 3, 4)).astype(F32)
POINTS = arr([-1.5, -0.5, 0, 0.25, 0.5, 1, 1.5, 2.75, 3, 3.5, 9])


class TestResizedPoints(Table):
    operator = resizedpoints.OPERATOR
    cases = tuple(
        Case(
            f"{mode} {length} to {size} by {float(scale):.2}",
            [np.array([length]), np.array([size]), arr([scale])],
            ResizedPoints(mode),
        )
        for mode in COORDINATES
        for length, size, scale in (
            (3, 7, 2.4),
            (5, 1, 0.3),
            (4, 4, 1),
            (4, 4, 1.1),
            (7, 3, F32(3) / F32(7)),
            (3, 0, 0.2),
        )
    )


class TestSampled(Table):
    operator = sampled.OPERATOR
    tolerance = 1e-6
    cases = (
        *(Case(f"nearest by {one}", [GRID, POINTS], Sampled(2, 0, "nearest", one)) for one in NEAREST),
        *(
            Case(f"{mode} along {axis}, {np.dtype(dtype).name}", [GRID.astype(dtype), POINTS], Sampled(axis, 0, mode))
            for mode, axis, dtype in itertools.product(("linear", "cubic"), (0, 2), (F32, F64))
        ),
        Case("cubic, outside excluded", [GRID, arr([-0.5, 0.25, 2.75, 3.5])], Sampled(2, 0, "cubic", "", -0.5, 1)),
        *(
            Case(f"{mode}, alone", [arr([1, INF, 3, -2]), arr([0, 0.5, 1, 2, 2.25, 3])], Sampled(0, 1, mode))
            for mode in ("linear", "cubic")
        ),
        Case("of one element", [GRID[..., :1], POINTS], Sampled(2, 0, "linear")),
        Case("no points", [GRID, POINTS[:0]], Sampled(1, 0, "linear")),
        Case("integers", [GRID.astype(np.int64), POINTS], Sampled(1)),
    )


class TestResizedAxes(Table):
    operator = resizedaxes.OPERATOR
    tolerance = 1e-6
    cases = (
        *(
            Case(
                f"{mode} {coordinates}",
                [GRID, arr([2, 0.5]), np.array([6, 2])],
                ResizedAxes((1, 2), 0, mode, coordinates),
            )
            for mode, coordinates in itertools.product(("nearest", "linear", "cubic"), COORDINATES)
        ),
        Case(
            "simple",
            [GRID, arr([1.5, 0.5]), np.array([4, 2])],
            ResizedAxes((1, 2), 0, "nearest", "asymmetric", "simple"),
        ),
    )
