"""Resize and Upsample: modes, coordinates, scales and sizes, of all axes and of some."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model
from running import run

import opshift
from operators.harness import F32, Array, Case, Code, Refused, Table, arr
from opshift.opsets.operators import resize, upsample
from opshift.opsets.operators.resize import Resize
from opshift.opsets.operators.upsample import Upsample

IMAGE = np.random.default_rng(6).integers(-9, 9, (1, 2, 4, 5)).astype(F32)
EMPTY = np.zeros(0, F32)
CORNER = "asymmetric"


def scaled(name: str, what: Resize, *scales: float, roi: Array | None = None, known: bool = True, **more: Any) -> Case:
    places = tuple(index for index, one in enumerate((IMAGE, roi, scales)) if index and one is not None)
    return Case(f"{name} {scales}", [IMAGE, roi, arr(scales), None], what, known=places if known else (), **more)


def sized(name: str, what: Resize, *sizes: int, known: bool = True, **more: Any) -> Case:
    return Case(f"{name} to {sizes}", [IMAGE, None, None, np.array(sizes)], what, known=(3,) * known, **more)


class TestResize(Table):
    operator = resize.OPERATOR
    tolerance = 1e-6
    cases = (
        *(
            scaled(f"{mode} {coordinates} {nearest}", Resize(mode, coordinates, nearest), *scales)
            for mode, nearest in (("nearest", "round_prefer_floor"), ("nearest", "ceil"), ("linear", ""), ("cubic", ""))
            for coordinates in ("half_pixel", "pytorch_half_pixel", "align_corners")
            for scales in ((1, 1, 2, 2), (1, 1, 0.6, 1.7))
        ),
        scaled("round up", Resize("nearest", "half_pixel", "round_prefer_ceil"), 1, 1, 2, 0.5),
        scaled("cubic, outside excluded", Resize("cubic", cubic_coeff_a=-0.5, exclude_outside=1), 1, 1, 2, 2),
        scaled("symmetric", Resize("linear", "half_pixel_symmetric"), 1, 1, 2.3, 1.7),
        *(
            scaled("linear from the corner", Resize("linear", CORNER), *scales)
            for scales in ((1, 1, 2, 3), (1, 1, 1.5, 2.4), (1, 1, 0.5, 0.6))
        ),
        *(
            scaled(f"{nearest} from the corner", Resize("nearest", CORNER, nearest), *scales)
            for nearest, scales in (
                ("floor", (1, 1, 2, 3)),
                ("floor", (2, 1.5, 2.4, 1.7)),
                ("ceil", (1, 1, 0.6, 0.5)),
                ("floor", (1, 1, 0.6, 0.5)),
                ("simple", (1, 1, 0.6, 0.5)),
                ("simple", (1, 1, 0.6, 2.4)),
            )
        ),
        scaled("computed", Resize("linear", CORNER), 1, 1, 2, 3, known=False),
        scaled("computed, cubic", Resize("cubic"), 1, 1, 2, 3, known=False),
        scaled("empty roi", Resize("linear", CORNER), 1, 1, 2, 3, roi=EMPTY),
        sized("linear from the corner", Resize("linear", CORNER), 1, 2, 8, 7),
        sized("nearest from the corner", Resize("nearest", CORNER, "floor"), 1, 2, 8, 7),
        Case("empty scales", [IMAGE, EMPTY, EMPTY, np.array([1, 2, 8, 7])], Resize("cubic"), known=(1, 2, 3)),
        Case("empty scales, computed sizes", [IMAGE, EMPTY, EMPTY, np.array([1, 2, 8, 7])], known=(1, 2)),
        Case(
            "no sizes",
            [IMAGE, EMPTY, arr([1, 1, 2, 3]), np.zeros(0, np.int64)],
            Resize("linear", CORNER),
            least=11,
        ),
        sized("linear", Resize("linear"), 1, 2, 8, 7),
        sized("computed, linear", Resize("linear"), 1, 2, 8, 7, known=False),
        Case(
            "cropped",
            [IMAGE, arr([0, 0, 0.2, -0.3, 1, 1, 0.9, 1.2]), None, np.array([1, 2, 3, 6])],
            Resize("linear", "tf_crop_and_resize", extrapolation_value=7.0),
            known=(1, 3),
            least=11,
        ),
        scaled("some axes", Resize("linear", CORNER, axes=(-1, 2)), 2, 3),
        scaled("some axes, computed", Resize("linear", axes=(2, 3)), 2, 3, known=False),
        sized("some axes", Resize("linear", axes=(3, 2)), 7, 8),
        *(
            scaled(
                f"{mode} {coordinates}, no aliases", Resize(mode, coordinates, antialias=1), 1, 1, *scales, symbolic=18
            )
            for mode in ("linear", "cubic")
            for coordinates, scales in (
                ("half_pixel", (0.5, 0.4)),
                ("align_corners", (0.6, 1.5)),
                (CORNER, (0.3, 0.8)),
                ("half_pixel", (2, 1.7)),
            )
        ),
        scaled(
            "no aliases, outside excluded",
            Resize("cubic", antialias=1, exclude_outside=1, cubic_coeff_a=-0.5),
            1,
            1,
            0.5,
            0.4,
            symbolic=18,
        ),
        scaled(
            "no aliases, outside excluded, linear",
            Resize("linear", antialias=1, exclude_outside=1),
            1,
            1,
            0.4,
            0.7,
            symbolic=18,
        ),
        sized(
            "kept ratio of 1", Resize("linear", keep_aspect_ratio_policy="not_larger", axes=(2, 3)), 4, 30, symbolic=18
        ),
        sized("no aliases", Resize("linear", antialias=1, axes=(3, 2)), 3, 2, symbolic=18),
        *(
            sized(f"{mode} {policy}", Resize(mode, keep_aspect_ratio_policy=policy, axes=(2, 3)), *sizes, symbolic=18)
            for mode, policy in itertools.product(("nearest", "linear", "cubic"), ("not_larger", "not_smaller"))
            for sizes in ((3, 3), (9, 7))
        ),
        # Of scales, onnxruntime 1.32.0 leaves the length of the region out of the size; here it is 1.
        *(
            Case(
                f"cropped along some axes, {mode}, {'scales' if sizes is None else 'sizes'}",
                [IMAGE, arr([-0.25, 0.25, 0.75, 1.25]), scales, sizes],
                Resize(mode, "tf_crop_and_resize", axes=(3, 2), extrapolation_value=7.0),
                known=known,
                least=11,
            )
            for mode, known in (("nearest", (1, 2, 3)), ("linear", ()))
            for scales, sizes in ((arr([1.5, 0.6]), None), (None, np.array([6, 3])))
        ),
    )
    refusals = (
        Refused(
            '<ir_version: 8, opset_import: ["": 12]> g (float[1,1,4,4] x, float[n] scales, int64[m] sizes) =>'
            " (float[1,1,a,b] y) <float[0] roi = {}> { y = Resize (x, roi, scales, sizes) }",
            Code.MISSING_FACT,
            "how many of each there are is unknown",
            {"opset": 13},
        ),
        Refused(
            '<ir_version: 8, opset_import: ["": 18]> g (float[1,1,4,4] x, float[4] scales) => (float[1,1,a,b] y)'
            ' { y = Resize<mode="linear", antialias=1>(x, "", scales) }',
            Code.MISSING_FACT,
            "computed at run time",
            {"opset": 13},
        ),
    )


class TestUpsample(Table):
    operator = upsample.OPERATOR
    tolerance = 1e-6
    unrun: ClassVar[dict[int, str]] = {}
    cases = (
        *(
            Case(f"{mode} {scales}", [IMAGE, arr(scales)], Upsample(mode), known=(1,))
            for mode, scales in itertools.product(("nearest", "linear"), ((1, 1, 2, 3), (1, 1, 2.4, 1.7)))
        ),
    )


@pytest.mark.parametrize("target", [13, 16, 18, 23])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("place", ["", "function", "branch"])
@pytest.mark.parametrize(
    ("inputs", "values", "feed"),
    [
        ("float[0] scales", "<int64[4] sizes = {1,2,6,5}>", {"scales": EMPTY}),
        ("float[n] scales", "<int64[4] sizes = {1,2,6,5}>", {"scales": EMPTY}),
        ("float[n] scales, int64[4] sizes", "", {"scales": EMPTY, "sizes": np.array([1, 2, 6, 5])}),
        ("int64[4] sizes", "<float[0] scales = {}>", {"sizes": np.array([1, 2, 6, 5])}),
    ],
)
def test_of_scales_and_sizes_those_that_are_empty_are_left_out(
    target: int, mode: str, place: str, inputs: str, values: str, feed: dict[str, Any]
) -> None:
    """Resize-13: "it is an error if both 'scales' and 'sizes' are specified"; Resize-11 has one of them empty."""
    node = f'y = Resize <mode = "{mode}"> (x, roi, scales, sizes)'
    within = values.replace("<", "<float[0] roi = {}, ") or "<float[0] roi = {}>"
    head = f"g (float[1,2,4,5] x, {inputs}, bool b) => (float[p,q,r,s] y) {within}"
    call = "y = local.F (x, roi, scales, sizes)"
    body = f"""<domain: "local", opset_import: ["": 12]> F (x, roi, scales, sizes) => (y) {{ {node} }}"""
    branch = f"t () => (float[p,q,r,s] z) {{ {node.replace('y', 'z', 1)} }}"
    graphs = {
        "": f"{head} {{ {node} }}",
        "function": f"{head} {{ {call} }} {body}",
        "branch": f"{head} {{ y = If (b) <then_branch = {branch}, else_branch = {branch}> }}",
    }
    model = parse_model(f'<ir_version: 8, opset_import: ["": 12, "local": 1]> {graphs[place]}')
    result = opshift.convert(model, opset=target, verify=False).rewritten
    onnx.checker.check_model(result, full_check=True)
    feeds = [{"x": IMAGE, "b": np.array(True), **feed}]
    (before,), (after,) = run(model, feeds)[0], run(result, feeds)[0]
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("mode", ["cubic", "linear", "nearest"])
def test_an_axis_that_keeps_its_size_is_left_alone(mode: str) -> None:
    """By the text, tf_half_pixel_for_nn shifts along batches too; onnxruntime shifts along what changes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 1, 2, 3)).astype(np.float32)
    sizes = np.array([2, 1, 1, 5])
    model = onnx.parser.parse_model(
        '<ir_version: 7, opset_import: ["": 12]> g (float[2,1,2,3] x) => (float[2,1,1,5] y) '
        f'<int64[4] s = {{2,1,1,5}}, float[0] none = {{}}> {{y = Resize <mode = "{mode}", '
        'coordinate_transformation_mode = "tf_half_pixel_for_nn", exclude_outside = 1> (x, none, none, s)}'
    )
    if mode != "cubic":
        del model.graph.node[0].attribute[-1]
    (expected,) = run(model, [{"x": x}])[0]
    exclude = int(mode == "cubic")
    found = resize.oracle(Resize(mode, "tf_half_pixel_for_nn", exclude_outside=exclude), x, None, None, sizes)
    # Two passes of four products each are rounded to half a unit of the largest; weights of cubic make it 1.5 as large.
    np.testing.assert_allclose(found, expected, rtol=0, atol=8 * 2.0**-23 * float(np.abs(x).max()))


@pytest.mark.parametrize("exclude", [0, 1])
@pytest.mark.parametrize("mode", ["asymmetric", "half_pixel", "align_corners"])
def test_weights_of_cubic_convolution_are_the_bits_of_the_kernel(mode: str, exclude: int) -> None:
    for length, size, free in itertools.product((5, 7, 8), (3, 9, 11), (-0.75, -0.5)):
        attributes = f'mode = "cubic", exclude_outside = {exclude}, cubic_coeff_a = {free}'
        model = parse_model(
            f'<ir_version: 8, opset_import: ["": 13]> g (float[1,1,n,{length}] x) => (float[a,b,c,d] y) '
            f"<int64[4] s = {{1, 1, {length}, {size}}}> "
            f'{{ y = Resize<{attributes}, coordinate_transformation_mode = "{mode}">(x, , , s) }}'
        )
        (found,) = run(model, [{"x": np.eye(length, dtype=F32)[None, None]}])[0]
        what = Resize(mode="cubic", exclude_outside=exclude, cubic_coeff_a=free, coordinate_transformation_mode=mode)
        scale = np.float32(size) / np.float32(length)
        weights = [resize._weights(what, at, size, length, float(scale), 0.0, 1.0)[:length] for at in range(size)]
        np.testing.assert_array_equal(found[0, 0].T, np.array(weights, F32))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"])
@pytest.mark.parametrize(
    ("before", "after"), [((4, 5), (3, 3)), ((6, 7), (10, 9)), ((8, 8), (3, 5)), ((5, 5), (9, 11))]
)
def test_cubic_convolution_is_verified_equal(before: tuple[int, int], after: tuple[int, int], mode: str) -> None:
    model = parse_model(
        f'<ir_version: 8, opset_import: ["": 13]> g (float[1,1,{before[0]},{before[1]}] x) => (float[a,b,c,d] y) '
        f"<int64[4] s = {{1, 1, {after[0]}, {after[1]}}}> "
        f'{{ y = Resize<mode = "cubic", coordinate_transformation_mode = "{mode}">(x, , , s) }}'
    )
    for seed in (0, 1):
        report = opshift.convert(model, opset=10, seed=seed).report
        assert report is not None
        assert report.verdict == "equal"


@pytest.mark.parametrize(
    ("mode", "coordinates", "target"),
    [
        ("nearest", "half_pixel", 7),
        ("linear", "align_corners", 10),
        pytest.param("linear", "half_pixel_symmetric", 18, marks=pytest.mark.slow),
        pytest.param("cubic", "half_pixel", 10, marks=pytest.mark.slow),
        pytest.param("cubic", "align_corners", 18, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("given", ["scales", "sizes"])
def test_sizes_may_be_known_at_run_time_only(mode: str, coordinates: str, target: int, given: str) -> None:
    """As PyTorch exports an interpolation to a height and a width, or by factors, of images of any size."""
    inputs = {"scales": "float[4] by", "sizes": "int64[2] to"}[given]
    spelled = f'mode = "{mode}", coordinate_transformation_mode = "{coordinates}"'
    nodes = {
        "scales": f"y = Resize<{spelled}> (x, , by)",
        "sizes": f"shape = Shape<end = 2> (x) by = Concat<axis = 0> (shape, to) y = Resize<{spelled}> (x, , , by)",
    }[given]
    model = parse_model(
        '<ir_version: 9, opset_import: ["": 19]> '
        f"g (float[n, c, h, w] x, {inputs}) => (float[n, c, p, q] y) {{ {nodes} }}"
    )
    decompose = ["Resize"] if target > 10 else []
    result = opshift.convert(model, opset=target, decompose=decompose, verify=False).rewritten
    assert not {"Resize", "Upsample"} & {node.op_type for node in result.graph.node}
    rng = np.random.default_rng(5)
    for size, ratios in (((4, 5), (2, 0.6)), ((1, 7), (3, 1)), ((9, 3), (0.4, 2.5)), ((6, 6), (1, 1))):
        x = rng.normal(size=(2, 3, *size)).astype(F32)
        by = arr([1, 1, *ratios])
        to = np.array([int(ratio * length) for ratio, length in zip(ratios, size, strict=True)])
        feed = {"x": x, **({"by": by} if given == "scales" else {"to": np.maximum(to, 1)})}
        (expected,), (found,) = run(model, [feed])[0], run(result, [feed])[0]
        if mode == "nearest":
            np.testing.assert_array_equal(found, expected)
        else:
            # Two passes of up to four products each; the weights of cubic add up to 1.5 in size.
            np.testing.assert_allclose(found, expected, rtol=0, atol=8 * 2.0**-23 * float(np.abs(x).max()))
