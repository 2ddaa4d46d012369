"""ConvTranspose: every way to ask for padding, even and odd, in one to three dimensions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

import opshift
from operators.harness import F32, F64, Array, Case, Table, converted
from opshift.opsets.operators import convtranspose
from opshift.opsets.operators.convtranspose import ConvTranspose

RNG = np.random.default_rng(0)


def drawn(x: tuple[int, ...], weights: tuple[int, ...], bias: int = 0, dtype: Any = F32) -> list[Array | None]:
    """Return small whole numbers, which add up exactly in any order."""
    shapes = (x, weights, (bias,) if bias else None)
    return [None if shape is None else RNG.integers(-4, 5, shape).astype(dtype) for shape in shapes]


class TestConvTranspose(Table):
    operator = convtranspose.OPERATOR
    cases = (
        Case("plain", drawn((2, 2, 5), (2, 3, 3))),
        Case("bias, groups", drawn((1, 4, 4, 3), (4, 2, 3, 2), 4), ConvTranspose(group=2)),
        Case("pads", drawn((1, 1, 4, 5), (1, 1, 3, 3)), ConvTranspose(pads=(1, 0, 2, 1), strides=(2, 3))),
        Case("more", drawn((1, 1, 5), (1, 2, 3)), ConvTranspose(output_padding=(1,), strides=(2,), pads=(1, 0))),
        Case("groups, strides", drawn((2, 4, 3, 2), (4, 3, 2, 3), 6), ConvTranspose(group=2, strides=(2, 3))),
        Case("dilated", drawn((1, 2, 4, 5), (2, 3, 2, 3)), ConvTranspose(dilations=(3, 2), strides=(2, 1))),
        Case("pads beyond the kernel", drawn((1, 2, 6), (2, 1, 2)), ConvTranspose(pads=(3, 2))),
        Case("pads beyond a pixel", drawn((1, 2, 6), (2, 1, 1)), ConvTranspose(pads=(1, 3), strides=(2,))),
        Case("pads beyond, behind", drawn((1, 2, 6, 3), (2, 1, 2, 2)), ConvTranspose(pads=(0, 1, 4, 0))),
        Case("empty batch", drawn((0, 2, 5), (2, 1, 3)), ConvTranspose(strides=(2,))),
        Case(
            "more than the stride",
            drawn((1, 2, 4), (2, 1, 3)),
            ConvTranspose(output_padding=(2,), dilations=(3,), strides=(2,)),
            departs="output_padding may be too large for stride, says onnxruntime 1.32.0",
        ),
        *(
            Case(
                f"{pad} {size}, kernel {kernel}, stride {stride}, dilation {dilation}, {more} more",
                drawn((1, 2, size), (2, 1, kernel)),
                ConvTranspose(pad, strides=(stride,), dilations=(dilation,), output_padding=(more,) if more else None),
            )
            for pad in ("SAME_UPPER", "SAME_LOWER", "VALID")
            for size, kernel, stride, dilation, more in (
                (5, 3, 2, 1, 0),
                (5, 4, 2, 1, 0),
                (4, 3, 2, 2, 1),
                (5, 2, 3, 1, 0),
                (5, 2, 3, 1, 1),
                (1, 3, 1, 1, 0),
            )
        ),
        *(
            Case(
                f"{pad}, output_shape {wanted}, {more} more",
                drawn((1, 2, 5), (2, 1, 3)),
                ConvTranspose(pad, strides=(2,), output_shape=(wanted,), output_padding=(more,) if more else None),
            )
            for pad, wanted, more in itertools.product(
                ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"), (9, 10, 11), (0, 1)
            )
        ),
        Case("two axes", drawn((1, 1, 3, 4), (1, 1, 3, 2)), ConvTranspose("SAME_UPPER", strides=(2, 1))),
        Case(
            "three axes",
            drawn((1, 1, 2, 3, 2), (1, 1, 2, 3, 2)),
            ConvTranspose(strides=(2, 1, 1), output_shape=(3, 4, 2)),
        ),
        Case("double", drawn((1, 1, 5), (1, 1, 3), dtype=F64), ConvTranspose("SAME_LOWER", strides=(2,)), runs=99),
    )


@pytest.mark.parametrize(("source", "target"), [(7, 11), (11, 7), (22, 7)])
def test_padding_is_spelled_out_where_the_sizes_are_known(source: int, target: int) -> None:
    model = parse_model(
        f'<ir_version: 7, opset_import: ["": {source}]> g (float[1,1,5] x, float[1,1,3] w) => (float[1,1,10] y) '
        '{ y = ConvTranspose <auto_pad = "SAME_UPPER", strides = [2]> (x, w) }'
    )
    (node,) = converted(model, opset=target).graph.node
    given = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    assert given == {"strides": [2], "pads": [0, 1]}


def test_the_formula_of_version_1_pads_the_other_side_in_the_text() -> None:
    """ConvTranspose-1: "If (auto_pads != SAME_UPPER): pads[start_i] = total_padding[i]/2"."""
    model = parse_model(
        '<ir_version: 7, opset_import: ["": 7]> g (float[1,1,5] x, float[1,1,3] w) => (float[1,1,10] y) '
        "{ y = ConvTranspose <output_shape = [10], strides = [2]> (x, w) }"
    )
    pads = []
    for semantics in ("runtime", "spec"):
        there = opshift.convert(model, opset=11, semantics=semantics, verify=False).model
        assert isinstance(there, onnx.ModelProto)
        pads += [list(item.ints) for item in there.graph.node[0].attribute if item.name == "pads"]
    assert pads == [[1, 0], [0, 1]]
