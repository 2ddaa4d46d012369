"""Save a finding as a model, its inputs and a request, and load it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, TypeProto, numpy_helper

from differential import values
from differential.embed import Embedded
from differential.examine import Outcome
from differential.generate import Case
from differential.values import FEEDS


def save(folder: Path, case: Case, outcome: Outcome) -> Path:
    """Write a finding into a folder of its own below `folder`."""
    own = folder / f"{outcome.kind.replace(' ', '-')}-{case.operator}-{case.seed}-{case.index}"
    own.mkdir(parents=True, exist_ok=True)
    embedded = case.embedded
    (own / "model.onnx").write_bytes(embedded.model.SerializeToString())
    (own / "model.onnxtxt").write_text(onnx.printer.to_text(embedded.model), encoding="utf-8")
    for name, data in embedded.files.items():
        (own / name).write_bytes(data)
    types = {each.name: each.type for each in embedded.model.graph.input}
    for number, feed in enumerate(embedded.feeds):
        data_set = own / f"test_data_set_{number}"
        data_set.mkdir(exist_ok=True)
        for position, (name, value) in enumerate(feed.items()):
            (data_set / f"input_{position}.pb").write_bytes(_written(name, value, types[name]))
    record = outcome.as_dict() | {"random": case.random, "verify": case.verify, "files": sorted(embedded.files)}
    (own / "case.json").write_text(json.dumps(record, indent=1, default=str))
    return own


def load(folder: Path) -> Case:
    """Read a finding."""
    record = json.loads((folder / "case.json").read_text())
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    types = {each.name: each.type for each in model.graph.input}
    feeds = []
    for number in range(FEEDS):
        paths = sorted((folder / f"test_data_set_{number}").glob("*.pb"), key=lambda path: int(path.stem[6:]))
        feeds.append(dict(_read(path.read_bytes(), types) for path in paths))
    files = {name: (folder / name).read_bytes() for name in record["files"]}
    for output in model.graph.output:  # `complete` declares them again
        output.type.tensor_type.ClearField("shape") if output.type.HasField("tensor_type") else None
    embedded = Embedded(model, feeds, record["place"], files, types)
    return Case(
        record["seed"],
        record["index"],
        record["operator"],
        record["opset"],
        embedded,
        record["request"],
        record["random"],
        record["verify"],
    )


def _written(name: str, value: Any, kind: TypeProto) -> bytes:
    if kind.HasField("sequence_type"):
        elem_type = kind.sequence_type.elem_type.tensor_type.elem_type
        held = onnx.SequenceProto(name=name, elem_type=onnx.SequenceProto.TENSOR)
        held.tensor_values.extend(values.tensor(each, elem_type) for each in value)
        return bytes(held.SerializeToString())
    if value is None:
        return bytes(TensorProto(name=name).SerializeToString())
    inner = kind.optional_type.elem_type if kind.HasField("optional_type") else kind
    return bytes(values.tensor(np.asarray(value), inner.tensor_type.elem_type, name).SerializeToString())


def _read(data: bytes, types: dict[str, TypeProto]) -> tuple[str, Any]:
    tensor = TensorProto.FromString(data)
    if tensor.name in types and not types[tensor.name].HasField("sequence_type"):
        return tensor.name, numpy_helper.to_array(tensor) if tensor.data_type else None
    held = onnx.SequenceProto.FromString(data)
    return held.name, [numpy_helper.to_array(each) for each in held.tensor_values]
