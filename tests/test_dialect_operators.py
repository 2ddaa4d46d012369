"""onnxruntime's own operators in, ONNX out: each case is converted, verified, and compared with the oracle."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from dialect_cases import CASES, DECOMPOSE, Case, drawn
from onnx import helper

import opshift
from opshift.opsets.microsoft import fastgelu, fusedconv
from opshift.opsets.registry import dialect
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.node_traits import traits_of
from opshift.opsets.registry.operator import Lifted, Operator, dialect_operators, lift, operator_for
from opshift.opsets.registry.traits import Trait
from opshift.opsets.runtimes.profiles import parse_target
from opshift.passes.analysis.inference import typed
from opshift.passes.base.limits import Limits
from opshift.passes.base.plan import Code
from opshift.passes.base.report import Verdict
from opshift.passes.proof.kernel_faults import miscomputed
from opshift.passes.runtime import oracles
from opshift.passes.runtime.node_evaluator import registry_node
from opshift.passes.runtime.ort_models import RejectedError, Runnable
from opshift.passes.runtime.ort_session import Runner

NAMES = [operator.name for operator in dialect_operators() if operator.domain]


def test_every_operator_has_cases() -> None:
    assert {case.name for case in CASES} >= set(NAMES)
    assert set(NAMES) <= set(dialect.operators(MICROSOFT))


@pytest.mark.fast(4)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_node_is_replaced_and_verified(case: Case) -> None:
    for opset in case.opsets:
        result = opshift.convert(case.model, opset=opset, decompose=DECOMPOSE, require_proof=True)
        model = result.model
        assert isinstance(model, onnx.ModelProto)
        assert not [node for node in model.graph.node if node.domain]
        assert [item.domain for item in model.opset_import] == [""]
        assert result.report is not None
        assert {check.verdict for check in (*result.report.nodes, result.report.whole)} == {Verdict.EQUAL}
        assert len(result.report.nodes) == 1
        runs = case.runs and not miscomputed(case.model)
        assert result.report.nodes[0].judge.startswith("onnxruntime" if runs else "numpy oracle")


def node_of(case: Case, feeds: dict[str, Any]) -> tuple[Any, list[Any]]:
    node = case.model.graph.node[0]
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in case.model.graph.initializer}
    values = {**constants, **feeds}
    inputs = [values[name] if name else None for name in node.input]
    return registry_node(node, node.domain, inputs, case.model.opset_import), inputs


@pytest.mark.parametrize("case", CASES, ids=str)
def test_oracle_and_inference_agree_with_the_kernel(case: Case) -> None:
    """Within 64 units of the largest result: the oracle rounds once, and no case adds up more than 64 products."""
    feeds = drawn(case, 0)
    seen, inputs = node_of(case, feeds)
    (operator,) = (one for one in dialect_operators() if one.name == case.name and one.domain)
    lifted = lift(operator, seen, "runtime")
    assert isinstance(lifted, Lifted)
    arrays = [inputs[source] if source is not None else None for source in lifted.sources]
    with np.errstate(all="ignore"):
        results = lifted.operator.oracle(lifted.meaning, *arrays)
    results = results if isinstance(results, tuple) else (results,)
    fed = [name in feeds for name in case.model.graph.node[0].input]
    known = tuple(
        dataclasses.replace(one, value=None) if one and is_fed else one
        for one, is_fed in zip(seen.inputs, fed, strict=True)
    )
    facts = typed(dataclasses.replace(seen, inputs=known))
    assert isinstance(facts, tuple)
    runner = Runner(Runnable(case.model))
    refuses = traits_of(case.model.graph.node[0]).refuses
    if case.runs and not (refuses and refuses(case.model.graph.node[0].input)):
        runner.open(optimised=False)
        made = runner.run(feeds, False)
    else:
        with pytest.raises(RejectedError):
            runner.run(feeds, False)
        made = tuple(result for result, used in zip(results, seen.used, strict=False) if used)
    wanted = [(result, fact) for result, fact, used in zip(results, facts, seen.used, strict=False) if used]
    for (result, fact), got in zip(wanted, made, strict=True):
        assert got.dtype == result.dtype
        assert fact.dtype == helper.np_dtype_to_tensor_dtype(got.dtype)
        if fact.shape is None:  # nor does onnx infer what a past becomes where there is none
            assert operator.name in ("Attention", "GroupQueryAttention", "MultiHeadAttention")
            assert got is not made[0]
            continue
        assert all(dim in (None, size) for dim, size in zip(fact.shape, got.shape, strict=True))
        if got.dtype.kind in "iub":
            apart = np.abs(got.astype(np.int64) - result.astype(np.int64)).max(initial=0)
            assert apart <= (Trait.QUANTIZES in operator.traits.floats if operator.traits else 0)
        else:
            wide = got.astype(np.float64)
            unit = float(ml_dtypes.finfo(got.dtype).eps) * max(np.abs(wide).max(initial=0), 1)  # type: ignore[no-untyped-call]
            assert np.abs(wide - result.astype(np.float64)).max(initial=0) <= 64 * unit


# --- a wrong lowering is found ----------------------------------------------------------------------------------------


def test_a_wrong_lowering_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """FastGelu without its bias, in the place of the sum."""
    wrong = dataclasses.replace(fastgelu.by_gelu, applies_if=None)
    monkeypatch.setattr(fastgelu, "OPERATOR", dataclasses.replace(fastgelu.OPERATOR, lowerings=(wrong,)))
    operator_for.cache_clear()
    case = next(case for case in CASES if case.node == "y = com.microsoft.FastGelu (x, b)")
    try:
        with pytest.raises(opshift.VerificationError):
            opshift.convert(case.model, opset=17, decompose=DECOMPOSE)
    finally:
        monkeypatch.undo()
        operator_for.cache_clear()


def test_an_oracle_that_is_wrong_alike_hides_no_wrong_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wide run of FusedConv is the oracle's: here it is a thousandth too large, as the other model is."""
    meant = fusedconv.OPERATOR.oracle

    def larger(what: Any, x: Any, w: Any, *more: Any) -> Any:
        return meant(what, x, w, *more) * x.dtype.type(1.001)

    monkeypatch.setattr(fusedconv, "OPERATOR", dataclasses.replace(fusedconv.OPERATOR, oracle=larger))
    monkeypatch.setattr(oracles, "computed", _here)
    operator_for.cache_clear()
    head = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        g (float[1,2,5] x, float[4,2,3] w) => (float[1,4,3] y)"""
    original = onnx.parser.parse_model(f"{head} {{ y = com.microsoft.FusedConv (x, w) }}")
    texts = ("{ y = Conv (x, w) }", "<float k = {1.001}> { z = Conv (x, w) y = Mul (z, k) }")
    try:
        verdicts = [opshift.verify(original, onnx.parser.parse_model(f"{head} {one}")).whole.verdict for one in texts]
    finally:
        monkeypatch.undo()
        operator_for.cache_clear()
    assert verdicts == [Verdict.EQUAL, Verdict.DIFFERENT]


def _here(operator: Operator, meaning: object, operands: Sequence[Any], limits: Limits) -> tuple[Any, ...]:
    """Compute an oracle in this process, whose operators a test has replaced."""
    results = operator.oracle(meaning, *operands)
    return results if isinstance(results, tuple) else (results,)


ADDED = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
g (uint8[40,50] a, uint8[40,50] b) => (uint8[40,50] y)
  <float s = {0.013}, float t = {0.021}, float u = {0.027}, uint8 p = {3}, uint8 q = {7}, uint8 r = {100},
   uint8 z = {101}, float half = {0.5}, float m = {101.0}> {"""


def test_one_step_of_a_quantized_value_counts_unless_rounding_decides_it() -> None:
    """A sum in the middle between two steps may become either; another step is found everywhere else."""
    verdicts = []
    for body in (
        "v = Add (c, d) y = QuantizeLinear (v, u, r)",
        "v = Add (c, d) y = QuantizeLinear (v, u, z)",
        "v = Add (c, d) w = Div (v, u) f = Floor (w) g = Add (f, m) h = Clip (g) y = Cast <to = 2> (h)",
    ):
        text = f"{ADDED} c = DequantizeLinear (a, s, p) d = DequantizeLinear (b, t, q) {body} }}"
        original = onnx.parser.parse_model(f"{ADDED} y = com.microsoft.QLinearAdd (a, s, p, b, t, q, u, r) }}")
        verdicts.append(opshift.verify(original, onnx.parser.parse_model(text)).whole.verdict)
    assert verdicts == [Verdict.EQUAL, Verdict.DIFFERENT, Verdict.DIFFERENT]


CHAINED = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
g (uint8[1,8,8,8] a) => (float[1,5] y)
  <float s = {0.013}, float t = {0.011}, float u = {0.02}, uint8 p = {3}, uint8 q = {0}, uint8 m = {128},
   uint8 n = {129}, float[8,5] w = {WEIGHTS}> {
  BODY
  e = DequantizeLinear (b, s, p) f = ReduceMean <axes = [2, 3], keepdims = 0> (e)
  h = QuantizeLinear (f, t, q) i = DequantizeLinear (h, t, q) j = MatMul (i, w)
  k = QuantizeLinear (j, u, m) y = DequantizeLinear (k, u, m) }"""
POOL = "AveragePool <kernel_shape = [2, 2], strides = [2, 2]>"


@pytest.mark.slow
def test_steps_are_decided_by_rounding_where_both_scales_are_one_constant() -> None:
    """A quarter of the means of four lies in the middle of two steps, and the kernel adds the zero point first."""
    weights = ", ".join(f"{weight:.3f}" for weight in np.random.default_rng(3).normal(size=40))
    text = CHAINED.replace("WEIGHTS", weights)
    original = onnx.parser.parse_model(text.replace("BODY", f"b = com.microsoft.QLinear{POOL} (a, s, p, s, p)"))
    right = text.replace("BODY", f"c = DequantizeLinear (a, s, p) d = {POOL} (c) b = QuantizeLinear (d, s, p)")
    wrong = [
        right.replace("QuantizeLinear (j, u, m)", "QuantizeLinear (j, u, n)"),
        right.replace("DequantizeLinear (k, u, m)", "DequantizeLinear (k, u, n)"),
        right.replace("DequantizeLinear (k, u, m)", "DequantizeLinear (k, s, m)"),
    ]
    verdicts = [opshift.verify(original, onnx.parser.parse_model(one)).whole.verdict for one in (right, *wrong)]
    assert verdicts == [Verdict.EQUAL, *[Verdict.DIFFERENT] * 3]


STEPS = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> g (uint8[1,4,4,4] a) => (uint8[1,4,4,4] y)
  <float s = {0.02}, float t = {0.04}, float u = {0.0035}, uint8 p = {121}, uint8 q = {130},
   uint8[4,4,3,3] w = {WEIGHTS}, uint8 m = {128}, uint8 n = {122}, float r = {0.025}> { BODY }"""
WINDOWS = "AveragePool <kernel_shape = [2, 2], pads = [0, 0, 1, 1]>"
SUMMED = "e = DequantizeLinear (b, t, q) f = Add (e, e) c = QuantizeLinear (f, t, p)"
CONVOLVED = "y = QLinearConv <pads = [1, 1, 1, 1]> (c, t, p, w, u, m, t, q)"


@pytest.mark.slow
def test_a_tie_at_an_early_step_moves_the_sums_of_later_ones() -> None:
    """Each mean in the middle of two steps has a direction of its own, and a convolution adds several of them."""
    weights = ", ".join(str(weight) for weight in np.random.default_rng(29).integers(0, 255, 144))
    steps = STEPS.replace("WEIGHTS", weights)
    added = "c = com.microsoft.QLinearAdd (b, t, q, b, t, q, t, p)"
    original = steps.replace("BODY", f"b = com.microsoft.QLinear{WINDOWS} (a, s, p, t, q) {added} {CONVOLVED}")
    right = steps.replace(
        "BODY", f"d = DequantizeLinear (a, s, p) x = {WINDOWS} (d) b = QuantizeLinear (x, t, q) {SUMMED} {CONVOLVED}"
    )
    wrong = [
        right.replace("DequantizeLinear (a, s, p)", "DequantizeLinear (a, s, n)"),
        right.replace("DequantizeLinear (a, s, p)", "DequantizeLinear (a, r, p)"),
        right.replace("QuantizeLinear (f, t, p)", "QuantizeLinear (f, t, n)"),
        right.replace(SUMMED, f"{SUMMED.replace('c =', 'g =')} c = Mod (g, m)"),
    ]
    models = [onnx.parser.parse_model(text) for text in (original, right, *wrong)]
    verdicts = [opshift.verify(models[0], one).whole.verdict for one in models[1:]]
    assert verdicts == [Verdict.EQUAL, *[Verdict.DIFFERENT] * 4]


def test_a_zero_point_that_is_one_too_high_behind_a_pool_is_different() -> None:
    """Every result is a step too high, and only some means are in the middle of two steps."""
    weights = ", ".join(str(weight) for weight in np.random.default_rng(3).integers(0, 255, 576))
    text = f"""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> g (uint8[1,8,6,6] a) => (uint8[1,8,6,6] y)
        <float s = {{0.015625}}, uint8 z = {{128}}, uint8 o = {{120}}, float u = {{0.00268}},
         uint8[8,8,3,3] w = {{{weights}}}> {{
            b = com.microsoft.QLinear{WINDOWS} (a, s, z, s, z)
            y = QLinearConv <pads = [1, 1, 1, 1]> (b, s, z, w, u, z, s, o)
        }}"""
    original = onnx.parser.parse_model(text)
    right = opshift.convert(original, decompose=["com.microsoft"])
    assert right.report is not None
    assert right.report.verdict is Verdict.EQUAL
    wrong = onnx.ModelProto()
    wrong.CopyFrom(right.rewritten)
    (point,) = (tensor for tensor in wrong.graph.initializer if tensor.name == "o")
    point.CopyFrom(onnx.numpy_helper.from_array(np.array(121, np.uint8), "o"))
    assert opshift.verify(original, wrong).whole.verdict is Verdict.DIFFERENT


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "inputs", "reason"),
    [
        ('y = com.microsoft.FusedConv <activation = "Mish"> (x, w)', "float[1,2,5] x, float[4,2,3] w", "Mish"),
        ('y = com.microsoft.FusedConv <activation = "Clip"> (x, w)', "float[1,2,5] x, float[4,2,3] w", "2 parameters"),
        ("y = com.microsoft.FusedMatMul <transA = 1> (x, w)", "float x, float[3,4] w", "rank"),
        ("y = com.microsoft.BiasDropout (x, w, , , t)", "float[2] x, float[2] w, bool t", "training_mode"),
        (
            "y = com.microsoft.BiasSoftmax <axis = 1, is_inner_broadcast = 1> (x, w)",
            "float[2,3,4] x, float[2,4] w",
            "another rank",
        ),
        (
            "y = com.microsoft.Attention <num_heads = 2, do_rotary = 1> (x, w, b)",
            "float[2,5,6] x, float[6,24] w, float[24] b",
            "do_rotary",
        ),
        (
            "y = com.microsoft.MatMulNBits <K = 32, N = 3, block_size = 16> (x, w, s, z, g)",
            "float[2,32] x, uint8[3,2,8] w, float[6] s, uint8[3] z, int32[32] g",
            "ignores packed zero points",
        ),
        (
            "y = com.microsoft.MatMulNBits <K = 32, N = 3, bits = 8, block_size = 16> (x, w, s, , g)",
            "float[2,32] x, uint8[3,2,16] w, float[6] s, int32[32] g",
            "8 bits",
        ),
        (
            "y = com.microsoft.MatMulNBits <K = 32, N = 3, block_size = 16> (x, w, s, , g)",
            "float[2,32] x, uint8[3,2,8] w, float[6] s, int32[32] g",
            "computed",
        ),
    ],
)
def test_what_has_no_replacement_is_refused_with_the_reason(node: str, inputs: str, reason: str) -> None:
    text = f'<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> g ({inputs}) => (float y) {{ {node} }}'
    model = onnx.parser.parse_model(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    if reason == "rank":
        model.graph.input[0].type.tensor_type.ClearField("shape")
    (refusal,) = opshift.plan(model, decompose=DECOMPOSE).refusals
    assert reason in refusal.reason
    known = Code.MISSING_FACT if reason in ("rank", "training_mode") else Code.FOREIGN_OPERATOR
    assert refusal.code is known
    assert refusal.hint


@pytest.mark.parametrize("bits", [2, 8])
def test_groups_of_other_bits_are_refused_in_any_order(bits: int) -> None:
    """onnxruntime's kernels do not ignore them."""
    order = ", ".join(str(column // 16) for column in range(32))
    text = (
        f"y = com.microsoft.MatMulNBits <K = 32, N = 3, bits = {bits}, block_size = 16> (x, w, s, , g)",
        f"g (float[2,32] x, uint8[3,2,{2 * bits}] w, float[6] s) => (float[2,3] y) <int32[32] g = {{{order}}}>",
    )
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> {text[1]} {{ {text[0]} }}'
    )
    (refusal,) = opshift.plan(model, decompose=DECOMPOSE).refusals
    assert f"{bits} bits" in refusal.reason


@pytest.mark.parametrize(
    ("node", "what"),
    [
        ("y = com.microsoft.Gelu <flavour = 1> (x)", "attribute flavour"),
        ("y = com.microsoft.Gelu (x, x)", "input 1"),
        ("y, z = com.microsoft.Gelu (x)", "output 1"),
    ],
)
def test_what_the_known_version_does_not_have_is_refused(node: str, what: str) -> None:
    model = Case(node, X, "float[2,3] y").model
    (refusal,) = opshift.plan(model, decompose=DECOMPOSE).refusals
    assert refusal.code is Code.FOREIGN_OPERATOR
    assert what in refusal.reason
    assert dialect.version() in refusal.reason


X = "float[2,3] x"


def test_a_target_that_lists_an_operator_keeps_it() -> None:
    case = next(case for case in CASES if case.name == "FusedGemm")
    for listed, kept in (('["FusedGemm"]', True), ("[]", False)):
        target = parse_target(f'name = "m"\nopset = [7, 17]\ndomains = {{ "com.microsoft" = {listed} }}', "m.toml")
        model = opshift.convert(case.model, target=target).model
        assert isinstance(model, onnx.ModelProto)
        assert (model.graph.node[0].op_type == "FusedGemm") is kept


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_weights_are_unpacked_without_shifts(bits: int) -> None:
    """Some runtimes shift bytes in wider integers: OpenVINO 2026.4.1."""
    bytes_of_a_block = 16 * bits // 8
    case = Case(
        f"y = com.microsoft.MatMulNBits <K = 40, N = 3, bits = {bits}, block_size = 16> (x, w, s)",
        f"float[2,40] x, uint8[3,3,{bytes_of_a_block}] w, float[9] s",
        "float[2,3] y",
    )
    for decompose, shifts in ((DECOMPOSE, True), ((*DECOMPOSE, "BitShift"), False)):
        result = opshift.convert(case.model, opset=17, decompose=decompose, require_proof=True)
        assert isinstance(result.model, onnx.ModelProto)
        assert ("BitShift" in [node.op_type for node in result.model.graph.node]) is (shifts and bits < 8)


def test_values_after_a_foreign_node_have_types_and_shapes() -> None:
    """Hardmax-11 needs the rank, which only the meaning of the node before tells."""
    text = """<ir_version: 8, opset_import: ["": 11, "com.microsoft": 1]>
    g (float[2,3,4] x, float[4] b) => (float[2,3,4] y) {
        h = com.microsoft.BiasGelu (x, b)
        y = Hardmax <axis = 2> (h)
    }"""
    result = opshift.convert(onnx.parser.parse_model(text), opset=13)
    assert result.report is not None
    assert result.report.whole.verdict is Verdict.EQUAL
    assert [node.op_type for node in result.model.graph.node] == ["BiasGelu", "Hardmax"]  # type: ignore[union-attr]


@pytest.mark.parametrize("operator", ["Attention", "QAttention"])
def test_a_mask_of_one_column_masks_nothing(operator: str) -> None:
    """The kernels repeat it for all keys, and add the same to each of them."""
    byte, scales, call = ("uint8", "s, s, ", "<float s = {0.01}>") if operator == "QAttention" else ("float", "", "")
    text = (
        f"g ({byte}[2,3,8] x, int32[2,1] m, {byte}[8,24] w, float[24] b) => (float[2,3,8] y) {call} "
        f"{{ y = com.microsoft.{operator} <num_heads = 2> (x, w, b, {scales}m) }}"
    )
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> {text}')
    result = opshift.convert(model, decompose=["com.microsoft"], verify=False)
    rng = np.random.default_rng(0)
    feeds: dict[str, Any] = {"m": np.array([[1], [0]], np.int32), "b": rng.standard_normal(24).astype(np.float32)}
    for name, shape in {"x": (2, 3, 8), "w": (8, 24)}.items():
        whole = rng.integers(0, 255, shape)
        feeds[name] = whole.astype(np.uint8) if operator == "QAttention" else (whole / 128 - 1).astype(np.float32)
    one, other = (Runner(Runnable(each)).run(feeds, False)[0] for each in (model, result.rewritten))
    np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)  # sums of 8 products below 4, in another order


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["Attention", "MultiHeadAttention", "GroupQueryAttention"])
def test_a_mask_of_several_layers_is_written_once(operator: str) -> None:
    inputs, node = {
        "Attention": ("int32[1,4] m, float[16,48] w, float[48] b", "Attention <num_heads = 2> (X, w, b, m)"),
        "MultiHeadAttention": ("int32[1,4] m", "MultiHeadAttention <num_heads = 2> (X, X, X, , m)"),
        "GroupQueryAttention": (
            "int32[1] m",
            "GroupQueryAttention <num_heads = 2, kv_num_heads = 2> (X, X, X, , , m, t)",
        ),
    }[operator]
    bodies = (
        f"y = com.microsoft.{node.replace('X', 'x')}",
        f"h = com.microsoft.{node.replace('X', 'x')} y = com.microsoft.{node.replace('X', 'h')}",
    )
    one, two = (
        opshift.convert(
            onnx.parser.parse_model(
                f'<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> '
                f"g (float[1,4,16] x, {inputs}) => (float[1,4,16] y) <int32 t = {{4}}> {{ {body} }}"
            ),
            opset=17,
            decompose=DECOMPOSE,
        )
        for body in bodies
    )
    assert two.report is not None
    assert two.report.whole.verdict is Verdict.EQUAL
    masks = [
        [node for node in result.rewritten.graph.node if node.op_type in ("Greater", "Less", "LessOrEqual")]
        for result in (one, two)
    ]
    assert len(masks[0]) == len(masks[1]) > 0


FORMS = ("lengths", "ends and starts", "lengths and their sums", "keys", "one column", "one number", "pairs")


def mask_of(form: str, batch: int, tokens: int, keys: int) -> Any:
    """Return a mask of a form that onnxruntime's schemas define, which leaves each row a key, or stands for none."""
    rng = np.random.default_rng(batch)
    lengths = rng.integers(1, keys + 1, batch)
    sums = np.concatenate([[0], np.cumsum(lengths)])
    kept = rng.integers(0, 2, (batch, tokens, keys))
    kept[..., 0] = 1
    made = {
        "lengths": lengths,
        "ends and starts": np.concatenate([np.full(batch, keys), rng.integers(0, keys, batch)]),
        "lengths and their sums": np.concatenate([lengths, sums, sums]),
        "keys": kept[:, 0],
        "one column": np.zeros((batch, 1)),
        "one number": np.zeros((1, 1)),
        "pairs": kept,
    }
    return made[form].astype(np.int32)


@pytest.mark.parametrize("past", [0, 2])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("operator", ["Attention", "QAttention", "MultiHeadAttention"])
def test_the_form_of_a_mask_is_found_at_run_time(operator: str, form: str, past: int) -> None:
    """A mask of unknown dims has one form for some inputs, and another for others; the kernel is the reference."""
    if operator == "MultiHeadAttention" and form in ("ends and starts", "one column", "one number"):
        return  # its kernel refuses them
    rank = mask_of(form, 1, 1, 1).ndim
    mask = f"int32[{','.join('kmn'[:rank])}] m"
    byte = "uint8" if operator == "QAttention" else "float"
    inputs, given, outputs, held = {
        "Attention": (f"float[b,t,8] x, {mask}, float[8,24] w, float[24] c", "x, w, c, m, p", "y, n", ""),
        "QAttention": (f"{byte}[b,t,8] x, {mask}, {byte}[8,24] w, float[24] c", "x, w, c, s, s, m, , , p", "y, n", ""),
        "MultiHeadAttention": (f"float[b,t,8] x, {mask}", "x, x, x, , m, , p, p", "y, n, o", ""),
    }[operator]
    held = "<float s = {0.01}>" if operator == "QAttention" else held
    heads = "float[b,2,q,4] p" if operator == "MultiHeadAttention" else "float[2,b,2,q,4] p"
    if not past:
        inputs, given, outputs, heads = inputs, given.split(", p")[0].removesuffix(", ,").removesuffix(", "), "y", ""
    types = ", ".join(f"float {name}" for name in outputs.split(", "))
    text = (
        f'<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> g ({inputs}{heads and ", " + heads}) => ({types})'
        f" {held} {{ {outputs} = com.microsoft.{operator} <num_heads = 2> ({given}) }}"
    )
    model = onnx.parser.parse_model(text)
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    result = opshift.convert(model, decompose=DECOMPOSE, verify=False).model
    assert isinstance(result, onnx.ModelProto)
    rng = np.random.default_rng(0)
    for batch, tokens in ((1, 3), (2, 3), (4, 1)):
        shapes = {"x": (batch, tokens, 8), "w": (8, 24), "c": (24,)}
        shapes["p"] = (batch, 2, past, 4) if operator == "MultiHeadAttention" else (2, batch, 2, past, 4)
        feeds: dict[str, Any] = {"m": mask_of(form, batch, tokens, past + tokens)}
        for value in model.graph.input:
            if value.name != "m":
                drawn = rng.uniform(-1, 1, shapes[value.name]).astype(np.float32)
                feeds[value.name] = drawn
                if value.type.tensor_type.elem_type == onnx.TensorProto.UINT8:
                    feeds[value.name] = ((drawn + 1) * 127).astype(np.uint8)
        wanted, got = (Runner(Runnable(each)).run(feeds, False) for each in (model, result))
        for one, other in zip(wanted, got, strict=True):
            # Sums of at most 8 products and 5 weights, in another order; bytes multiply up to 41 and more.
            np.testing.assert_allclose(other, one, rtol=2e-5, atol=2e-5)


def _decoder_keys(key: str) -> onnx.ModelProto:
    text = f"""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
    g (float[b,1,16] q, float[{key}] k, float[{key}] v) => (float[b,1,16] y) {{
        y = com.microsoft.DecoderMaskedMultiHeadAttention <num_heads = 2> (q, k, v)
    }}"""
    return onnx.parser.parse_model(text)


@pytest.mark.slow
def test_keys_in_rows_of_a_decoder_are_those_of_one_token() -> None:
    """The kernel of onnxruntime 1.32.0 takes rows of more tokens for keys of heads, which is another result."""
    with pytest.raises(opshift.UnsupportedError) as caught:
        opshift.convert(_decoder_keys("b,5,16"), decompose=DECOMPOSE)
    assert "there are 5" in caught.value.refusals[0].reason
    for key in ("b,1,16", "b,t,16", "b,2,5,8"):
        assert opshift.convert(_decoder_keys(key), decompose=DECOMPOSE, effort="quick").report is not None


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
@pytest.mark.parametrize("dtype", ["float", "float16"])
def test_skip_may_have_a_batch_of_another_name(operator: str, dtype: str) -> None:
    """One that is larger than that of the input has no result that is defined: kernels cut it off."""
    text = f"""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
    g ({dtype}[b,s,8] x, {dtype}[c,s,8] k, {dtype}[8] g) => ({dtype}[b,s,8] y) {{
        y = com.microsoft.{operator} (x, k, g)
    }}"""
    result = opshift.convert(onnx.parser.parse_model(text), opset=17, decompose=DECOMPOSE)
    assert result.report is not None
    assert result.report.whole.verdict is Verdict.EQUAL


@pytest.mark.slow
@pytest.mark.parametrize("bias", ["c", "24"])
def test_a_large_bias_takes_the_digits_of_each_row(bias: str) -> None:
    """Products of rows that share it are rounded apart, though no change of the bias tells them apart."""
    text = f"""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
    g (float[n,s,w] q, float[n,t,w] k, float[n,t,w] v, float[{bias}] b) => (float[n,s,w] y) {{
        y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v, b)
    }}"""
    result = opshift.convert(onnx.parser.parse_model(text), opset=17, decompose=DECOMPOSE)
    assert result.report is not None
    assert result.report.whole.verdict is Verdict.EQUAL


def test_the_ones_of_a_mask_are_counted() -> None:
    """Not added up: a mask may hold other numbers."""
    import onnxruntime

    text = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
    g (int32[1,5] i, float[7,4] w, float[5,4] p, float[4] g, int32[1,5] m) => (float[1,5,4] y, int32[1] c) {
        y, c = com.microsoft.EmbedLayerNormalization (i, , w, p, , g, g, m)
    }"""
    model = onnx.parser.parse_model(text)
    converted = opshift.convert(model, opset=17, decompose=DECOMPOSE, verify=False).model
    assert isinstance(converted, onnx.ModelProto)
    feeds: dict[str, np.ndarray[Any, Any]] = {
        "i": np.zeros((1, 5), np.int32),
        "w": np.ones((7, 4), np.float32),
        "p": np.ones((5, 4), np.float32),
    }
    feeds |= {"g": np.ones(4, np.float32)}
    for mask in ([1, 1, 1, 0, 0], [2, 1, -1, 0, 0], [3, 3, 0, 0, 0]):
        given = {**feeds, "m": np.array([mask], np.int32)}
        counts = [
            onnxruntime.InferenceSession(one.SerializeToString(), providers=["CPUExecutionProvider"]).run(["c"], given)
            for one in (model, converted)
        ]
        assert counts[0] == counts[1] == [mask.count(1)]
