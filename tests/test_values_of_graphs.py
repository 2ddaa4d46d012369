"""What the graphs inside of If, Loop and Scan return has a type that the target's version of these operators has."""

from __future__ import annotations

import onnx
import onnx.parser
import pytest

import opshift
from opshift.opsets.registry.schema import NEWEST, OLDEST, schema_at

VALUES = {
    "float[2]": "{0} = Identity (x)",
    "bfloat16[2]": "{0} = Cast <to = 16> (x)",
    "float8e5m2[2]": "{0} = Cast <to = 19> (x)",
    "int4[2]": "{0} = Cast <to = 22> (x)",
    "int2[2]": "{0} = Cast <to = 26> (x)",
    "seq(float[2])": "{0} = SequenceConstruct (x)",
    "seq(bool[2])": "{0}b = Cast <to = 9> (x) {0} = SequenceConstruct ({0}b)",
    "optional(float[2])": "{0} = Optional (x)",
    "optional(seq(float[2]))": "{0}s = SequenceConstruct (x) {0} = Optional ({0}s)",
}
"""A type, and nodes that make a value of it."""

SEQUENCES = 11
"""The opset that brought sequences."""

NODES = {
    "If": "y = If (c) <then_branch = t () => ({kind} v) {{ {v} }}, else_branch = e () => ({kind} w) {{ {w} }}>",
    "Loop": "{i} y = Loop (n, c, i) <body = b (int64 k, bool d, {kind} a) => (bool o, {kind} v) "
    "{{ o = Identity (d) {v} }}>",
    "Scan": "y = Scan <num_scan_inputs = 1, body = b (float z) => ({kind} v) {{ {v} }}> (x)",
}


def written(operator: str, kind: str, *, function: bool) -> onnx.ModelProto:
    """Return a model with one such node, in its graph or in a function."""
    values = {name: VALUES[kind].format(name) for name in ("v", "w", "i")}
    body = NODES[operator].format(kind=kind, **values)
    made = "[2,2]".join(kind.split("[2]")) if operator == "Scan" else kind
    imports = f'"": {NEWEST - 3}' + (', "local": 1' if function else "")
    called = "y = local.F (x, n, c)" if function else body
    text = f"<ir_version: 10, opset_import: [{imports}]> g (float[2] x, int64 n, bool c) => ({made} y) {{ {called} }}"
    if function:
        text += f'<domain: "local", opset_import: ["": {NEWEST - 3}]> F (x, n, c) => (y) {{ {body} }}'
    return onnx.parser.parse_model(text)


def has(operator: str, kind: str, opset: int) -> bool:
    """Whether an operator returns values of a type at an opset, by its schema."""
    schema = schema_at("", operator, opset)
    element = kind.replace("[2]", "")
    for name in ("float8e5m2", "bfloat16", "float", "int4", "int2", "bool"):
        if element.endswith(name + ")" * element.count("(")):
            element = element.replace(name, f"tensor({name})")
            break
    return schema is not None and element in schema.outputs[-1].types


def returned(model: onnx.ModelProto, operator: str) -> set[str | None]:
    """Return the forms of type that the graphs of an operator's nodes return, wherever such nodes are."""
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    graphs = [attribute.g for node in nodes if node.op_type == operator for attribute in node.attribute]
    return {output.type.WhichOneof("value") for graph in graphs for output in graph.output}


@pytest.mark.parametrize("function", [False, True])
@pytest.mark.parametrize("operator", ["If", "Loop", "Scan"])
@pytest.mark.parametrize("kind", list(VALUES))
def test_a_node_stays_only_where_its_target_version_returns_the_type(operator: str, kind: str, function: bool) -> None:
    """An accepted result passes the checker, and what the older version lacks is refused at the node."""
    if not has(operator, kind, NEWEST - 3):
        pytest.skip(f"{operator} never returns {kind}")
    model = written(operator, kind, function=function)
    onnx.checker.check_model(model, full_check=True)
    sinces = {schema.since_version for opset in range(OLDEST, NEWEST - 3) if (schema := schema_at("", operator, opset))}
    for opset in sorted({*sinces, *(since - 1 for since in sinces), 8, 10, 12, 15, 18, 20} - {OLDEST - 1, *range(7)}):
        if schema_at("", operator, opset) is None or opset < OLDEST:
            continue
        refused = {refusal.operator.partition("-")[0] for refusal in opshift.plan(model, opset=opset).refusals}
        # An If and a Loop of known elements return these, and what holds them after it is refused in its place. So are
        # the nodes that join the iterations of a Scan, which is unrolled below opset 9.
        holders = {"SequenceConstruct", "Optional"}
        in_its_place = {"If": holders, "Loop": holders, "Scan": {"Concat", "Unsqueeze", "Cast"}}
        elements = kind.startswith("seq") and opset >= SEQUENCES
        assert not refused.isdisjoint({operator, *in_its_place[operator]}) or has(operator, kind, opset) or elements
        assert not refused or kind != "float[2]" or operator == "Scan"
        if not refused:
            result = opshift.convert(model, opset=opset, verify=False)
            assert isinstance(result.model, onnx.ModelProto)
            onnx.checker.check_model(result.model, full_check=True)
            assert has(operator, kind, opset) or not returned(result.model, operator) & {"sequence_type"}


CONTAINERS = {kind: made.format("s") for kind, made in VALUES.items() if "(" in kind}
HEAD = '<ir_version: 8, opset_import: ["": 18]> g (float[2] x)'


@pytest.mark.parametrize("kind", CONTAINERS)
def test_no_identity_names_a_container_below_its_version(kind: str) -> None:
    """Identity-13 accepts tensors alone, and Identity-14 no optional; of a sequence there are other copies."""
    named = onnx.parser.parse_model(f"{HEAD} => ({kind} t) {{ {CONTAINERS[kind]} t = Identity (s) }}")
    if kind.startswith("optional"):
        with pytest.raises(opshift.UnsupportedError) as caught:
            opshift.convert(named, opset=15, verify=False)
        assert [one.operator.partition("-")[0] for one in caught.value.refusals] == ["Identity"]
    else:
        result = opshift.convert(named, opset=13)
        assert result.report is not None
        assert result.report.verdict is opshift.Verdict.EQUAL
        assert "Identity" not in {node.op_type for node in result.rewritten.graph.node}


@pytest.mark.parametrize("kind", [kind for kind in CONTAINERS if kind.startswith("seq")])
def test_an_identity_of_a_sequence_that_only_nodes_read_is_left_out(kind: str) -> None:
    read = onnx.parser.parse_model(
        f"{HEAD} => ({kind[4:-1]} y) <int64 z = {{0}}> {{ {CONTAINERS[kind]} t = Identity (s) y = SequenceAt (t, z) }}"
    )
    converted = opshift.convert(read, opset=13, verify=False).model
    assert isinstance(converted, onnx.ModelProto)
    assert "Identity" not in {node.op_type for node in converted.graph.node}
    onnx.checker.check_model(converted, full_check=True)
