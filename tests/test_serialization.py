"""A model in pieces is the model as protobuf writes it, byte for byte."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

from opshift.passes.base.errors import InvalidModelError
from opshift.passes.io.external_data import LARGE, Span
from opshift.passes.io.serialization import RawData, data_of, length, serialized_chunks

TEXT = """<ir_version: 10, opset_import: ["": 18, "l": 1], producer_name: "somebody">
    g (float[2] x) => (float[2] y) <float[2] small = {1.0, 2.0}> { z = l.f(x) y = Add(z, small) }
    <domain: "l", opset_import: ["": 18]> f (a) => (b) { b = Relu(a) }"""


def model(*sizes: int) -> onnx.ModelProto:
    made = parse_model(TEXT)
    for place, size in enumerate(sizes):
        made.graph.initializer.append(numpy_helper.from_array(np.arange(size, dtype=np.uint8), f"w{place}"))
        made.graph.initializer[-1].doc_string = "behind the elements"
    made.graph.doc_string = "behind the initializers"
    made.metadata_props.add(key="behind", value="the graph")
    return made


def joined(made: onnx.ModelProto) -> bytes:
    parts = serialized_chunks(made)
    data = b"".join(data_of(part) for part in parts if not isinstance(part, Span))
    assert length(parts) == len(data)
    return data


@pytest.mark.parametrize("sizes", [(), (5,), (LARGE,), (LARGE - 1, LARGE), (LARGE, 3, 3 * LARGE + 1)])
def test_pieces_are_what_protobuf_writes(sizes: tuple[int, ...]) -> None:
    made = model(*sizes)
    assert joined(made) == made.SerializeToString()
    assert sum(isinstance(part, RawData) for part in serialized_chunks(made)) == sum(size >= LARGE for size in sizes)


def test_numbers_that_are_no_raw_data_stay_with_what_is_around_them() -> None:
    made = model(LARGE)
    made.graph.initializer.append(onnx.helper.make_tensor("floats", 1, [LARGE], [0.5] * LARGE))
    assert joined(made) == made.SerializeToString()


def test_what_nobody_knows_is_written() -> None:
    """A field of a later version of ONNX, in the model, the graph or a tensor."""
    unknown = bytes([0xFA, 0x3E, 1, 7])  # field 1007
    for inside in ("model", "graph", "tensor"):
        made = model(LARGE)
        part = {"model": made, "graph": made.graph, "tensor": made.graph.initializer[-1]}[inside]
        part.MergeFromString(unknown)
        assert joined(made) == made.SerializeToString()
        assert unknown in joined(made)


def test_data_that_a_shape_does_not_need_are_not_written() -> None:
    made = model(LARGE)
    made.graph.initializer[-1].raw_data += b"!"
    with pytest.raises(
        InvalidModelError, match=f"has {LARGE + 1} bytes of data; its shape and element type need {LARGE}"
    ):
        joined(made)


@pytest.mark.slow
def test_embedded_weights_are_held_twice_at_most(tmp_path: Path) -> None:
    """The model that was given, which nobody changes, and the result: nothing is held a third time to write it."""
    size = 192
    code = f"""
import opshift
from onnx.parser import parse_model
from resident import peak
def model():
    values = "(float[2,3,4] x) => (float[2,3,4] y)"
    return parse_model(f'<ir_version: 8, opset_import: ["": 12]> g {{values}} {{{{ y = Hardmax <axis = 1> (x) }}}}')
opshift.convert(model(), opset=13, verify=False)
made = model()
for place in range({size // 16}):
    made.graph.initializer.add(name=f"w{{place}}", data_type=2, dims=[2**24], raw_data=bytes(2**24))
before = peak()
opshift.convert(made, opset=13, verify=False).save({str(tmp_path / "out.onnx")!r})
print(peak() - before)
"""
    here = Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", code], cwd=here, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 1.5 * size * 2**20
    assert (tmp_path / "out.onnx").stat().st_size > size * 2**20
