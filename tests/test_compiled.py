"""Bodies that were compiled beforehand are what onnxscript makes of the lowerings, else they are not taken."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from opshift.opsets.faster import every
from opshift.opsets.operators import hardmax
from opshift.opsets.registry import compiled
from opshift.opsets.registry.lowering import Lowering, lowering
from opshift.opsets.registry.operator import internal_operators, known_operators

OPERATORS = (*known_operators(), *internal_operators())
LOWERINGS = {f"{one.body.__module__}.{one.name}": one for operator in OPERATORS for one in every(operator)}


def comparable(function: onnx.FunctionProto) -> onnx.FunctionProto:
    """The function with its tensors in one of the several ways to hold them."""
    kept = compiled.plain(function)
    for node in kept.node:
        node.domain = node.domain or ""
        attributes = sorted(node.attribute, key=lambda attribute: attribute.name)
        for attribute in attributes:
            if attribute.HasField("t"):
                attribute.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(attribute.t), attribute.t.name))
        copies = [onnx.AttributeProto.FromString(attribute.SerializeToString()) for attribute in attributes]
        del node.attribute[:]
        node.attribute.extend(copies)
    return kept


@pytest.mark.parametrize("name", sorted(LOWERINGS))
def test_what_was_compiled_is_the_body(name: str) -> None:
    one = LOWERINGS[name]
    known = compiled.compiled(one.body, one.opset)
    assert known is not None
    assert comparable(known) == comparable(one.compile())


def test_tensors_are_compared() -> None:
    """The comparison above sees a constant that differs."""
    function = hardmax.index_equal.compile()
    other = onnx.FunctionProto()
    other.CopyFrom(function)
    constant = next(node for node in other.node if node.op_type == "Constant")
    constant.attribute[0].t.CopyFrom(numpy_helper.from_array(np.array([9], np.int64), constant.attribute[0].t.name))
    assert comparable(function) != comparable(other)


def test_of_a_module_that_has_changed_nothing_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = hardmax.index_equal.body
    source = Path(body.__code__.co_filename).read_text(encoding="utf-8")
    changed = tmp_path / "hardmax.py"
    moved = body.__code__.replace(co_filename=str(changed))
    for text, wanted in ((source.replace("\n", "\r\n"), True), (source + "# more\n", False)):
        changed.write_bytes(text.encode())
        compiled._digest.cache_clear()
        monkeypatch.setattr(body, "__code__", moved)
        assert (compiled.compiled(body, 18) is not None) is wanted
        monkeypatch.undo()
    compiled._digest.cache_clear()


def test_who_is_not_in_the_file_is_compiled() -> None:
    @lowering(18)
    def doubled(x):  # type: ignore[no-untyped-def]
        """Add it to itself."""
        return op.Add(x, x)  # type: ignore[name-defined] # noqa: F821

    assert compiled.compiled(doubled.body, 18) is None
    assert [node.op_type for node in doubled.function.node] == ["Add"]
    other = dataclasses.replace(hardmax.index_equal, opset=17)
    assert isinstance(other, Lowering)
    assert compiled.compiled(other.body, other.opset) is None


def test_a_run_that_lowers_does_not_import_onnxscript(tmp_path: Path) -> None:
    model = Path(__file__).parent.parent / "fixtures" / "all-three-opset13.onnxtxt"
    code = (
        "import sys, opshift\n"
        f"result = opshift.convert({str(model)!r}, opset=9, verify=False)\n"
        "assert any(step.lowerings for step in result.plan.steps)\n"
        "print(*sorted({'onnxscript', 'onnx_ir', 'sympy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
