"""RoiAlign: both ways to place pixels, regions over the border and narrower than a pixel, points given and counted."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import onnx.parser
import pytest

import opshift
from operators.harness import F32, F64, Case, Table, arr
from opshift.opsets.operators import regionpixels, regionpoints, roialign
from opshift.opsets.operators.regionpoints import RegionPoints
from opshift.opsets.operators.roialign import RoiAlign

IMAGE = np.random.default_rng(3).normal(size=(2, 3, 6, 7)).astype(F32)
REGIONS = arr([[0, 0, 5, 4], [1.5, 2, 1.75, 2.5], [-3, 2, 9, 12], [2, 1, 6.5, 5]])
BATCHES = np.array([0, 1, 1, 0], np.int64)
SIZES = arr([[0, 0, 5, 4], [1.5, 2, 0, 0.5], [-3, 2, 12, 10], [2, 1, 4.5, 4]])
SHIFTED, OLD = "half_pixel", "output_half_pixel"
TEXT = """<ir_version: 8, opset_import: ["": 16]>
g (float[1,1,6,7] x, float[n,4] r, int64[n] b) => (float[n,1,1,1] y) { y = RoiAlign (x, r, b) }"""


def case(how: RoiAlign) -> Case:
    # onnxruntime 1.31.1 has no kernel of version 22.
    return Case(str(how), [IMAGE, REGIONS, BATCHES], how, least=7, runs=27)


class TestRoiAlign(Table):
    operator = roialign.OPERATOR
    tolerance = 1e-5
    unrun: ClassVar[dict[int, str]] = {22: "no kernel"}
    cases = (
        *(case(RoiAlign(where, "avg", 2, 3, points, 0.5)) for where in (SHIFTED, OLD) for points in (0, 2)),
        *(case(RoiAlign(where, "avg", 1, 1, 3)) for where in (SHIFTED, OLD)),
        case(RoiAlign(OLD)),
        Case(
            "double",
            [IMAGE.astype(F64), REGIONS.astype(F64), BATCHES],
            RoiAlign(OLD, sampling_ratio=2),
            least=7,
            runs=27,
        ),
        *(case(RoiAlign(where, "max", 2, 3, points, 0.5, True)) for where in (SHIFTED, OLD) for points in (0, 2)),
        Case(
            "the largest point",
            [IMAGE, REGIONS, BATCHES],
            RoiAlign(SHIFTED, "max", 2, 3, 2),
            least=7,
            runs=27,
            departs="it takes the largest product of a pixel and its weight",
        ),
        *(
            Case(
                f"{mode} of sizes, {corners}",
                [IMAGE, SIZES, BATCHES],
                RoiAlign("sizes", mode, 2, 3, 2, 1, corners),
                runs=27,
            )
            for mode, corners in (("avg", False), ("max", True), ("max", False))
        ),
        Case("no region", [IMAGE, REGIONS[:0], BATCHES[:0]], RoiAlign(SHIFTED, "avg", 2, 3), least=7, runs=27),
        Case("no channel", [IMAGE[:, :0], REGIONS, BATCHES], RoiAlign(SHIFTED, "avg", 2, 3), least=7, runs=27),
    )


class TestRegionPoints(Table):
    operator = regionpoints.OPERATOR
    cases = tuple(
        Case(f"{how}", [SIZES], how)
        for how in (RegionPoints(2, 3, points, mean) for points in (0, 1, 3) for mean in (True, False))
    )


class TestRegionPixels(Table):
    operator = regionpixels.OPERATOR
    cases = tuple(
        Case(f"{how}", [IMAGE, SIZES, BATCHES], how)
        for how in (RegionPoints(2, 3, points, mean) for points in (0, 3) for mean in (True, False))
    )


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("points", [0, 2])
def test_images_of_unknown_sizes_are_converted(mode: str, points: int) -> None:
    how = f'mode = "{mode}", sampling_ratio = {points}, output_height = 2, output_width = 3'
    text = f"""<ir_version: 8, opset_import: ["": 16]>
        g (float[b,c,h,w] x, float[n,4] r, int64[n] i) => (float[n,c,2,3] y) {{ y = RoiAlign <{how}> (x, r, i) }}"""
    report = opshift.convert(onnx.parser.parse_model(text), opset=13).report
    assert report is not None
    assert report.verdict == "equal"


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("far", [1e6, 1e9, 1e38])
def test_a_region_of_any_size_is_sampled_at_once(mode: str, far: float) -> None:
    """Outside of the image all is zero, so that billions of points average to nothing, and have a maximum."""
    what = RoiAlign(mode=mode, output_height=2)
    found = roialign.oracle(what, IMAGE + np.float32(9), arr([[-far, -far, far, far]]), np.zeros(1, np.int64))
    assert found.shape == (1, 3, 2, 1)
    assert (np.abs(found) < 1e-3).all() if mode == "avg" else (found >= 0).all()


def test_an_infinite_region_is_no_input() -> None:
    with pytest.raises(ValueError, match="infinite"):
        roialign.oracle(RoiAlign(), IMAGE, arr([[0, 0, np.inf, 1]]), np.zeros(1, np.int64))


@pytest.mark.parametrize("region", [[0, 4, 1, 0], [4, 0, 0, 1]])
def test_a_region_that_ends_before_it_begins_has_no_number_of_points(region: list[float]) -> None:
    """The number that follows from the size is negative, and onnxruntime 1.32.0 fails."""
    one, batch = arr([region]), np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="ends before it begins"):
        roialign.oracle(RoiAlign(), IMAGE, one, batch)
    assert roialign.oracle(RoiAlign(sampling_ratio=2), IMAGE, one, batch).shape == (1, 3, 1, 1)
    assert roialign.oracle(RoiAlign(OLD), IMAGE, one, batch).shape == (1, 3, 1, 1)
