"""Reports of every verdict, made by the real commands; the tests of reports and those of the browser read them."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
from onnx import TensorProto
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

import opshift
from opshift.cli.main import main
from opshift.opsets.operators import argmax
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import operator_for
from opshift.passes.base.plan import Action, Plan, Step

FIXTURES = Path(__file__).parent.parent / "fixtures"

HOSTILE = (
    "</script><img src=x onerror=\"document.title='taken'\">",
    '" onmouseover="alert(1)" x="',
    "'><svg/onload=alert(1)>",
    "]]></style><b>&lt;",
    "{{ 7 * 7 }}{% for x in y %}",
    "\u202etxt.exe\u202c\u2066",
    "\x1b[31mred\x07\x00\r\nnew line",
    "a|b`c``d\\|e| @everyone #1 www.example.org [x](javascript:alert(1)) <!-- ",
)
"""Names that mean something to HTML, SVG, templates, Markdown, terminals, or to who reads from right to left."""


def fixture(name: str) -> str:
    return str(FIXTURES / f"{name}.onnxtxt")


def hostile_model() -> onnx.ModelProto:
    """A model whose every name is hostile: each name once for a node that is rewritten, and for its output."""
    nodes = [make_node("Hardmax", [HOSTILE[0]], [f"y{name}"], name=name, axis=1) for name in HOSTILE]
    ends = [make_tensor_value_info(f"y{name}", TensorProto.FLOAT, [2, HOSTILE[3], 3]) for name in HOSTILE]
    start = make_tensor_value_info(HOSTILE[0], TensorProto.FLOAT, [2, HOSTILE[3], 3])
    # What no runtime knows makes the whole model unproven, and the reason names it.
    nodes.append(make_node(HOSTILE[1], [HOSTILE[0]], ["other"], name=f"{HOSTILE[2]} 2", domain=HOSTILE[7]))
    ends.append(make_tensor_value_info("other", TensorProto.FLOAT, [2]))
    graph = make_graph(nodes, HOSTILE[4], [start], ends)
    return make_model(graph, opset_imports=[make_opsetid("", 13), make_opsetid(HOSTILE[7], 1)], ir_version=8)


def hostile_refused_model() -> onnx.ModelProto:
    """A model with hostile names that is refused: bfloat16 below opset 13."""
    model = onnx.parser.parse_model(Path(fixture("onehot-bfloat16-opset28")).read_text(encoding="utf-8"))
    model.graph.node[0].name = HOSTILE[0]
    return model


def many_nodes(number: int) -> onnx.ModelProto:
    """A model of so many Hardmax nodes, of five kinds."""
    nodes = [
        make_node("Hardmax", [f"x{index % 5}"], [f"y{index}"], name=f"layer_{index // 100}/head_{index % 100}", axis=1)
        for index in range(number)
    ]
    starts = [make_tensor_value_info(f"x{kind}", TensorProto.FLOAT, [2, 3, 4 + kind]) for kind in range(5)]
    ends = [make_tensor_value_info(f"y{index}", TensorProto.FLOAT, [2, 3, 4 + index % 5]) for index in range(number)]
    return make_model(make_graph(nodes, "many", starts, ends), opset_imports=[make_opsetid("", 13)], ir_version=8)


def different_nodes(number: int) -> dict[str, Any]:
    """The document of a plan of so many nodes, each of a kind of its own; to plan them would take minutes."""
    plans = [opshift.plan(fixture("all-three-opset13"), opset=7), opshift.plan(fixture("onehot-opset28"), opset=8)]
    found = [kind for plan in plans for kind in plan.kinds if kind.action is Action.LOWER]
    kinds, steps = [], []
    for index in range(number):
        kind, name = found[index % len(found)], f"main/layer_{index // 100}/head_{index % 100}"
        shape = f"float[{index},{index % 7},4]"
        graphs = [
            dataclasses.replace(one, inputs=tuple(dataclasses.replace(value, type=shape) for value in one.inputs))
            for one in (kind.before, kind.after)
        ]
        kinds.append(dataclasses.replace(kind, before=graphs[0], after=graphs[1], nodes=(name,)))
        steps.append(Step(kind.action, name, kind.operator, kind.since_version, "", kind.lowerings, kind.becomes))
    plan = Plan(13, 7, "", (), 0, tuple(steps), (), rewrites=lambda: tuple(kinds))
    return {"command": "plan", "model": "m", "nothing_to_do": False, "plan": plan, "timings": [], "versions": {}}


@lowering(18, bind=lambda meaning, operands: {"axis": meaning.axis})
def least(data, axis: int):  # type: ignore[no-untyped-def]
    """Take the index of the smallest: a lowering that is wrong."""
    _, index = op.TopK(data, [1], axis=axis, largest=0)
    return index


@contextlib.contextmanager
def wrong_lowering() -> Iterator[None]:
    """Have ArgMax lowered to what gives another index."""
    right = argmax.OPERATOR
    argmax.OPERATOR = dataclasses.replace(right, lowerings=(least,))
    operator_for.cache_clear()
    try:
        yield
    finally:
        argmax.OPERATOR = right
        operator_for.cache_clear()


@dataclasses.dataclass(frozen=True)
class Case:
    """A command and the exit status that it has; `model` is saved as in.onnx first, `around` is what it runs in."""

    arguments: tuple[str, ...]
    status: int = 0
    model: Callable[[], onnx.ModelProto] | None = None
    around: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext


THREE = "Hardmax,ArgMax,OneHot"
CASES = {
    "equal": Case(("convert", fixture("all-three-opset13"), "-o", "out.onnx", "--decompose", THREE)),
    "lowered": Case(("convert", fixture("segmenter-opset13"), "-o", "out.onnx", "--opset", "8")),
    "nothing": Case(("convert", fixture("hardmax-opset13"), "-o", "out.onnxtxt", "--opset", "13")),
    "unchecked": Case(("convert", fixture("all-three-opset13"), "-o", "out.onnx", "--opset", "9", "--no-verify")),
    "nodes-only": Case(
        ("convert", fixture("classifier-opset18"), "-o", "out.onnx", "--opset", "9", "--verify", "nodes")
    ),
    "different": Case(
        ("convert", fixture("argmax-opset13"), "-o", "out.onnx", "--decompose", "ArgMax"), 1, None, wrong_lowering
    ),
    "refused": Case(("convert", fixture("onehot-bfloat16-opset28"), "-o", "out.onnx", "--opset", "11"), 1),
    "ancient": Case(("convert", fixture("hardmax-opset13"), "-o", "out.onnx", "--opset", "5"), 1),
    "plan": Case(("plan", fixture("segmenter-opset13"), "--opset", "8")),
    "plan-refused": Case(("plan", fixture("onehot-bfloat16-opset28"), "--opset", "11"), 1),
    "plan-nothing": Case(("plan", fixture("hardmax-opset13"), "--opset", "13")),
    "verify-equal": Case(("verify", fixture("argmax-opset12"), fixture("argmax-opset13"))),
    "verify-different": Case(("verify", fixture("hardmax-opset12"), fixture("hardmax-opset13")), 1),
    "many": Case(("convert", str(FIXTURES / "argmax-*.onnxtxt"), "-o", "out", "--opset", "12", "--no-verify")),
    "hostile": Case(("convert", "in.onnx", "-o", "out.onnx", "--decompose", "Hardmax"), 0, hostile_model),
    "hostile-refused": Case(("convert", "in.onnx", "-o", "out.onnx", "--opset", "11"), 1, hostile_refused_model),
    "hostile-plan": Case(("plan", "in.onnx", "--decompose", "Hardmax"), 0, hostile_model),
}


def report(case: Case, folder: Path, suffix: str) -> Path:
    """Run a case in a folder and return the report that it wrote."""
    place = folder / f"report{suffix}"
    with contextlib.chdir(folder), case.around():
        if case.model:
            Path("in.onnx").write_bytes(case.model().SerializeToString())
        assert main([*case.arguments, "--quiet", "--report", str(place)]) == case.status
    return place
