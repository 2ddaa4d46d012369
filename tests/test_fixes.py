"""The fix that a refusal names works: it is followed, and the refusal is gone."""

from __future__ import annotations

import re
from typing import Any

import pytest
from onnx.parser import parse_model

import opshift
from opshift.passes.base.errors import UsageError
from opshift.passes.base.plan import Refusal

LOOP = """y = Loop (n, , x) <body = b (int64 i, bool go, float[a,3] v) => (bool again, float[a,3] w)
    { again = Identity (go) w = Neg (v) }>"""
IF = """y = If (c) <then_branch = t () => (float[a,3] p) { p = Neg (x) },
    else_branch = e () => (float[a,3] q) { q = Exp (x) }>"""

# text of the model, opset, request
TABLE: dict[str, tuple[str, int, dict[str, Any]]] = {
    "a Loop over a length": (
        f"g (float[a,3] x) => (float[a,3] y) <int64 z = {{0}}> {{ s = Shape (x) n = Gather (s, z) {LOOP} }}",
        17,
        {"target": "opencv-4"},
    ),
    "a Loop to be decomposed": (
        f"g (float[2,3] x, int64 n) => (float[a,3] y) {{ {LOOP} }}",
        17,
        {"decompose": ["Loop"]},
    ),
    "an If of unknown shapes": (f"g (float[a,3] x, bool c) => (float[a,3] y) {{ {IF} }}", 17, {"target": "rknn"}),
    "an operator that is newer": ("g (string[2] x) => (string[2] y) { y = StringConcat (x, x) }", 20, {"opset": 17}),
    "an assumption": (
        "g (float[2,3] x) => (float[2,1] y) { i = ArgMax <axis = 1> (x) y = Cast <to = 1> (i) }",
        12,
        {"target": "ncnn"},
    ),
    "a sequence of unknown length": (
        "g (float[a,3] x) => (float[b,3] y) { q = SplitToSequence (x) y = ConcatFromSequence <axis = 0> (q) }",
        17,
        {"target": "tensorrt-8"},
    ),
    **{
        f"{kind} for {target}": (
            f"g ({kind}[2,3] x) => ({kind}[2,3] y) {{ y = Identity (x) }}",
            21,
            {"target": target},
        )
        for target, kinds in {
            "mnn": ("int8", "int16", "uint16", "uint32", "uint64", "bfloat16"),
            "ncnn": ("int8", "int64", "double", "float16", "bfloat16", "bool"),
            "opencv-4": ("uint32", "bfloat16"),
            "tensorrt-10": ("int16", "uint64"),
        }.items()
        for kind in kinds
    },
}


def followed(refusal: Refusal, request: dict[str, Any]) -> dict[str, Any]:
    """Return a request with the options that the fix of a refusal names."""
    hint, asked = refusal.hint, dict(request)
    if "--io-types" in hint:
        asked["io_types"] = True
    if types := re.findall(r"--types (\w+)=(\w+)", hint):
        asked["types"] = dict(types)
    if shapes := re.findall(r"--input-shape (\w+):([\d,]+)", hint):
        asked["input_shapes"] = {name: tuple(map(int, dims.split(","))) for name, dims in shapes}
    if assumed := re.findall(r"--assume ([\w-]+)", hint):
        asked["assume"] = assumed
    if removed := re.findall(r"Remove (\w+) from --decompose", hint):
        left = [name for name in request["decompose"] if name not in removed]
        asked.update({"decompose": left} if left else {"fold": True})
        if not left:
            del asked["decompose"]
    if opset := re.search(r"se opset (\d+)", hint):
        asked["opset"] = int(opset[1])
    assert asked != request, hint
    return asked


@pytest.mark.parametrize("name", TABLE)
def test_a_fix_that_is_named_works(name: str) -> None:
    text, opset, request = TABLE[name]
    model = parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {text}')
    refusals = opshift.plan(model, **request).refusals
    assert any(refusal.hint for refusal in refusals)
    for refusal in (one for one in refusals if one.hint):
        left = opshift.plan(model, **followed(refusal, request)).refusals
        assert refusal.node not in {one.node for one in left}, refusal.hint


@pytest.mark.slow
def test_a_target_that_lacks_an_operator_is_named_before_a_version_of_it() -> None:
    """Resize-11 needs regions and scales, which is of no interest where there is no Resize."""
    text = "g (float[1,3,h,w] x) => (float[a,b,c,d] y) <float[4] s = {1,1,2,2}> "
    text += '{ y = Resize <mode = "linear"> (x, "", s) }'
    model = parse_model(f'<ir_version: 8, opset_import: ["": 13]> {text}')
    (refusal,) = opshift.plan(model, target="ncnn").refusals
    assert refusal.reason.startswith("ncnn does not support Resize")
    assert not opshift.plan(model, target="ncnn", input_shapes={"x": (1, 3, 32, 32)}).refusals


def test_no_opset_is_named_that_the_target_does_not_load() -> None:
    text = "g (float[1,3,64,64] x) => (float[a,b,c,d] y) <int64[4] s = {1,3,300,300}> "
    text += '{ y = Resize <mode = "nearest"> (x, "", "", s) }'
    (refusal,) = opshift.plan(parse_model(f'<ir_version: 8, opset_import: ["": 13]> {text}'), target="ncnn").refusals
    assert "opset 13" not in refusal.hint  # ncnn loads 9 to 12


@pytest.mark.parametrize("given", [{"x": (1, 3)}, {"x": (1, 3), "z": (1, 3)}], ids=str)
def test_a_batch_beside_the_shapes_of_all_inputs_is_refused_with_both(given: dict[str, tuple[int, ...]]) -> None:
    inputs = ", ".join(f"float[{name}n,3] {name}" for name in given)
    nodes = " ".join(f"y{name} = Neg ({name})" for name in given)
    model = parse_model(f'<ir_version: 8, opset_import: ["": 13]> g ({inputs}) => (float[xn,3] yx) {{ {nodes} }}')
    with pytest.raises(UsageError, match="--input-shape x:1,3 makes the first dim of 'x' 1, and --batch 2 2"):
        opshift.plan(model, input_shapes=given, batch=2)


@pytest.mark.parametrize(
    ("inputs", "read", "shape"),
    [
        ("float[2,b,3] s", "s", "s:2,1,3"),  # a state of two layers
        ("float[b,3,h,w] s", "s", "s:1,3,64,64"),
        ("float[1,n,3] s", "s", "s:1,64,3"),  # tokens of one sequence
        ("float[2,n] s", "s", "s:2,64"),
        ("float[b,n] x, float[2,k,3] s", "s", "x:1,64 --input-shape s:2,1,3"),
    ],
)
def test_a_batch_of_one_is_suggested_also_for_states(inputs: str, read: str, shape: str) -> None:
    rank = ",".join("pqrs"[: inputs.split(", ")[-1].count(",") + 1])
    text = (
        f"g (bool c, {inputs}) => (float[{rank}] y) {{ y = If (c) <then_branch = t () => (float[{rank}] a) "
        f"{{ a = Relu ({read}) }}, else_branch = e () => (float[{rank}] b) {{ b = Neg ({read}) }}> }}"
    )
    (refusal,) = opshift.plan(parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}'), decompose=["If"]).refusals
    assert f"--input-shape {shape}." in refusal.hint
