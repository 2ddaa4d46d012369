"""Split: sizes given, computed or equal, a last part that is smaller, from both ends."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model
from running import nodes_of, run, same

import opshift
from operators.harness import BF16, F32, Array, Case, Table, converted
from opshift.opsets.operators import split
from opshift.opsets.operators.split import Split
from opshift.opsets.registry.operator import Lifted

CUBE = np.arange(60, dtype=F32).reshape(3, 4, 5)


def ints(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def sized(data: Array, axis: int, *sizes: int, known: bool = True) -> Case:
    how = "known" if known else "computed"
    return Case(
        f"{data.dtype}{data.shape} axis {axis}, {how} sizes {sizes}",
        [data, ints(*sizes)],
        Split(axis, len(sizes)),
        known=(1,) * known,
    )


def counted(data: Array, axis: int, count: int) -> Case:
    return Case(f"{data.dtype}{data.shape} axis {axis}, {count} parts", [data, None], Split(axis, count))


class TestSplit(Table):
    operator = split.OPERATOR
    cases = (
        *(sized(CUBE, axis, 1, 2) for axis in (0, -3)),
        *(sized(CUBE, axis, 2, 0, 3, known=known) for axis in (2, -1) for known in (True, False)),
        sized(CUBE, 1, 4),
        sized(CUBE, 1, 1, 1, 1, 1, known=False),
        sized(CUBE.astype(np.int64), 1, 3, 1),
        Case("sizes of floats", [CUBE, np.array([1, 2], F32)], Split(0, 2)),
        sized(np.zeros((0, 3), F32), 1, 1, 2),
        *(counted(CUBE, axis, count) for axis, count in ((0, 3), (1, 2), (-2, 4), (2, 1), (2, 5))),
        *(counted(CUBE, axis, count) for axis, count in ((0, 2), (2, 3), (-1, 2), (-1, 3))),
        counted(CUBE, 1, 3),
        counted(np.zeros((2, 0), F32), 1, 3),
        counted(CUBE.astype(bool), 2, 2),
        dataclasses.replace(counted(CUBE.astype(BF16), 2, 2), least=13),
    )

    def lifts_to(self, back: Lifted, whole: Lifted) -> bool:
        # Split-18 has one way to say that the last part is smaller and that there is none such.
        same = dataclasses.replace(back.meaning, last=whole.meaning.last) == whole.meaning
        return bool(same and back.operands == whole.operands)


OPSETS = (7, 11, 12, 13, 17, 18, 24)
NAMED = [named for count in (1, 2, 3) for named in itertools.product((True, False), repeat=count) if any(named)]


def partly_named(opset: int, named: tuple[bool, ...], length: int, sizes: list[int] | None) -> onnx.ModelProto:
    """Return a model of one Split of a (length, 2) tensor, of whose outputs some have no name."""
    attributes: dict[str, Any] = {}
    inputs = ["x"]
    if sizes is not None and opset < 13:
        attributes["split"] = sizes
    elif sizes is not None:
        inputs.append("sizes")
    elif opset >= 18:
        attributes["num_outputs"] = len(named)
    outputs = [f"y{place}" if one else "" for place, one in enumerate(named)]
    return helper.make_model(
        helper.make_graph(
            [helper.make_node("Split", inputs, outputs, name="node", **attributes)],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [length, 2])],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs if name],
            [numpy_helper.from_array(ints(*sizes or ()), "sizes")] if len(inputs) > 1 else [],
        ),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=max(8, helper.find_min_ir_version_for([helper.make_opsetid("", opset)])),
    )


@pytest.mark.fast(4)
@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(OPSETS, 2)))
def test_outputs_without_a_name_count(source: int, target: int) -> None:
    """Split-13 without sizes makes as many parts as the node has outputs, also of those that have no name."""
    for named, length, given in itertools.product(NAMED, (6, 7), (True, False)):
        count = len(named)
        first = [*range(1, count)] if given else [-(-length // count)] * (count - 1)
        sizes = [*first, length - sum(first)]
        if not given and source < 18 and length % count:
            continue  # "the tensor is split to equal sized parts"
        there = converted(partly_named(source, named, length, sizes if given else None), opset=target)
        for node in nodes_of(there):
            for place, name in enumerate(node.output):
                node.output[place] = name or f"unread{place}"  # onnxruntime 1.32.0 crashes on a part without a name
        x = np.arange(2 * length, dtype=F32).reshape(length, 2)
        wanted = itertools.compress(np.split(x, np.cumsum(sizes)[:-1]), named)
        found = run(there, [{"x": x}])[0]
        assert all(itertools.starmap(same, zip(wanted, found, strict=True))), (named, length, given)


@pytest.mark.parametrize("shape", ["7", "n", "7,3", "n,m"])
@pytest.mark.parametrize("axis", [0, -1])
def test_sizes_that_are_inputs_add_up_to_the_length(shape: str, axis: int) -> None:
    rank = shape.count(",") + 1
    parts = ", ".join(f"float[{','.join(f'{name}{place}' for place in range(rank))}] {name}" for name in "yz")
    model = parse_model(
        f'<ir_version: 8, opset_import: ["": 13]> g (float[{shape}] x, int64[2] s) => ({parts}) '
        f"{{ y, z = Split<axis = {axis}>(x, s) }}"
    )
    report = opshift.convert(model, opset=18).report
    assert report is not None
    assert report.verdict == "equal"
    assert report.whole.inputs > 10
