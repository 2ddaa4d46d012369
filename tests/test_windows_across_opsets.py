"""Pools across opsets: automatic padding, ceil_mode, dilations and strides together, of known and unknown sizes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from onnx import ModelProto
from onnx.parser import parse_model
from running import run

import opshift

SIZES = [(7, 6), (5, 4), (8, 9), (3, 3)]
JUMPS = [(26, 17), (17, 26), (19, 21), (21, 22), (12, 22), (22, 12)]


def serves(name: str, before: int, after: int, dilation: int, ceil_mode: int) -> bool:
    """Whether both versions have the attributes."""
    oldest = min(before, after)
    return name == "MaxPool" or (oldest >= {"AveragePool": 19, "LpPool": 18}[name]) or dilation == 1 > ceil_mode


@pytest.mark.parametrize("name", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize(("before", "after"), JUMPS)
def test_the_same_windows_whatever_the_attributes(name: str, before: int, after: int) -> None:
    compared = 0
    cases = itertools.product(("SAME_LOWER", "SAME_UPPER", "VALID"), (0, 1), (1, 2), (1, 2, 3), (True, False))
    for padding, ceil_mode, dilation, stride, known in cases:
        if not serves(name, before, after, dilation, ceil_mode):
            continue
        attributes = f'strides = [{stride}, {stride}], auto_pad = "{padding}", kernel_shape = [2, 3]'
        attributes += f", dilations = [{dilation}, {dilation}]" * (dilation > 1) + ", ceil_mode = 1" * ceil_mode
        model = parse_model(
            f'<ir_version: 8, opset_import: ["": {before}]> g (float[{"1,2,7,6" if known else "n,2,h,w"}] x) => '
            f"(float[a,b,c,d] y) {{ y = {name} <{attributes}> (x) }}"
        )
        try:
            result = opshift.convert(model, opset=after, verify=False).model
        except opshift.UnsupportedError:
            continue
        for size in SIZES[:1] if known else SIZES:
            feed = {"x": np.random.default_rng(0).standard_normal((1, 2, *size)).astype(np.float32)}
            try:
                ((wanted,),) = run(model, [feed])
            except Exception:  # onnxruntime raises classes of its own: negative padding
                continue
            assert isinstance(result, ModelProto)
            ((found,),) = run(result, [feed])
            assert wanted.shape == found.shape, (attributes, size)
            np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)
            compared += 1
    assert compared > 20
