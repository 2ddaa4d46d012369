"""The differential fuzzer: a bounded run, and planted faults that it must find."""

from __future__ import annotations

import ast
import copy
import functools
import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from differential import check, draw, judge, run
from differential.embed import Embedded
from differential.examine import FINDINGS, Examiner, Outcome
from differential.generate import TARGETS, Case, draw_case
from differential.recipes import draw_node
from differential.saving import load, save

import opshift
from opshift.opsets.registry.schema import NEWEST

pytestmark = pytest.mark.slow

_HOME = Path(__file__).parent / "differential"
_SEED, _CASES = 17, 1500
"""About a minute of one core."""


def _nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    found = []
    queue = [*model.graph.node, *itertools.chain.from_iterable(function.node for function in model.functions)]
    while queue:
        node = queue.pop()
        found.append(node)
        for attribute in node.attribute:
            queue.extend(attribute.g.node)
    return found


def _copy(model: Any) -> onnx.ModelProto:
    copied = onnx.ModelProto()
    copied.CopyFrom(model if isinstance(model, onnx.ModelProto) else onnx.load(model))
    return copied


def _with_request(model: onnx.ModelProto, request: dict[str, Any]) -> SimpleNamespace:
    for held in (model, *model.functions):
        for imported in held.opset_import:
            if imported.domain == "" and "opset" in request:
                imported.version = request["opset"]
    return SimpleNamespace(model=model, report=None)


def swaps_operators(model: Any, verify: bool, **request: Any) -> SimpleNamespace:
    """Convert by the number alone, and put Sub in the place of Add."""
    copied = _copy(model)
    for node in _nodes(copied):
        node.op_type = {"Add": "Sub", "Max": "Min", "And": "Or"}.get(node.op_type, node.op_type)
    return _with_request(copied, request)


def changes_an_attribute(model: Any, verify: bool, **request: Any) -> SimpleNamespace:
    """Change alpha by a thousandth."""
    copied = _copy(model)
    for node in _nodes(copied):
        for attribute in node.attribute:
            if attribute.name == "alpha":
                attribute.f *= 1.001
    return _with_request(copied, request)


def renumbers(model: Any, verify: bool, **request: Any) -> SimpleNamespace:
    """Change the opset alone, as the naive do."""
    return _with_request(_copy(model), request)


def renames_an_output(model: Any, verify: bool, **request: Any) -> SimpleNamespace:
    copied = _copy(model)
    copied.graph.node.add(op_type="Identity", input=[copied.graph.output[0].name], output=["renamed"])
    copied.graph.output[0].name = "renamed"
    return _with_request(copied, request)


def raises(model: Any, verify: bool, **request: Any) -> SimpleNamespace:
    raise RuntimeError("planted")


def refuses_valid_models(model: Any, verify: bool, **request: Any) -> SimpleNamespace:
    raise opshift.InvalidModelError("planted")


def aborts(model: Any, verify: bool, **request: Any) -> SimpleNamespace:
    os.abort()


def hangs(model: Any, verify: bool, **request: Any) -> SimpleNamespace:
    time.sleep(1000)
    raise AssertionError


def takes_all_memory(model: Any, verify: bool, **request: Any) -> SimpleNamespace:
    return SimpleNamespace(model=bytearray(6 << 30))


def rejects(model: Any, verify: bool, **request: Any) -> SimpleNamespace:
    if verify:
        raise opshift.VerificationError("planted", None)  # type: ignore[arg-type]
    copied = _copy(model)
    copied.producer_name = "changed"
    return _with_request(copied, request)


def _examined(convert: Callable[..., Any], cases: list[Case]) -> list[Outcome]:
    examiner = Examiner(convert=convert)
    try:
        outcomes = []
        for case in cases:
            outcomes.append(Outcome(case.seed, case.index))
            examiner.examine(case, outcomes[-1])
        return outcomes
    finally:
        examiner.close()


def _cases(operator: str, count: int, request: str = "opset", verify_share: float = 0.0) -> list[Case]:
    drawn = (draw_case(5, index, [operator], verify_share) for index in itertools.count())
    return list(itertools.islice((case for case in drawn if [*case.request] == [request] and not case.random), count))


def _kinds(outcomes: list[Outcome]) -> set[str]:
    return {outcome.kind for outcome in outcomes} - {"right", "invalid original", "suspect"}


@pytest.mark.parametrize("place", ["graph", "if", "loop", "scan", "function", "function in if"])
def test_a_swapped_operator_is_found_wherever_it_is(place: str) -> None:
    cases = [case for case in _cases("Add", 400) if case.embedded.place == place and not case.embedded.files][:8]
    assert cases
    assert any(outcome.kind == "wrong" for outcome in _examined(swaps_operators, cases))


@pytest.mark.parametrize("operator", ["Max", "And"])
def test_a_swapped_operator_of_another_type_is_found(operator: str) -> None:
    cases = [case for case in _cases(operator, 40) if not case.embedded.files]
    assert "wrong" in _kinds(_examined(swaps_operators, cases))


@pytest.mark.parametrize("operator", ["LeakyRelu", "Elu", "Celu", "Gemm", "LRN"])
def test_an_attribute_off_by_a_thousandth_is_found(operator: str) -> None:
    cases = [case for case in _cases(operator, 120) if not case.embedded.files and "alpha" in str(case.embedded.model)]
    same_version = [case for case in cases if _version(operator, case) == _version(operator, case, new=True)]
    assert "wrong" in _kinds(_examined(changes_an_attribute, same_version))


def _version(operator: str, case: Case, new: bool = False) -> int:
    opset = case.request["opset"] if new else case.opset
    return int(onnx.defs.get_schema(operator, opset, "").since_version) if draw.exists(operator, opset) else -1


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
def test_a_changed_number_alone_is_found_where_the_meaning_changed(operator: str) -> None:
    cases = [
        case
        for case in _cases(operator, 60)
        if (case.opset < 13) != (case.request["opset"] < 13) and not case.embedded.files and case.request["opset"] >= 11
    ]
    assert "wrong" in _kinds(_examined(renumbers, cases))


def _keeps_versions(case: Case) -> bool:
    """Whether the model means the same under the number asked for."""
    names = {node.op_type for node in _nodes(case.embedded.model) if not node.domain}
    return all(_version(name, case) == _version(name, case, new=True) != -1 for name in names)


def test_operators_that_the_opset_lacks_are_found() -> None:
    cases = [case for case in _cases("Trilu", 60) if case.request["opset"] < 14 and not case.embedded.files]
    assert _kinds(_examined(renumbers, cases)) == {"invalid result"}


def test_a_decomposed_operator_that_is_left_is_found() -> None:
    cases = [case for case in _cases("Hardmax", 30, "decompose") if not case.embedded.files]
    changed = [case for case in cases if case.embedded.place != "graph"]
    assert _kinds(_examined(rejects, cases + changed)) == {"invalid result"}


def test_a_renamed_output_is_found() -> None:
    cases = [case for case in _cases("Abs", 20) if not case.embedded.files]
    assert _kinds(_examined(renames_an_output, cases)) == {"invalid result"}


@pytest.mark.parametrize(("target", "fault"), [("opencv-4", None), ("openvino", "other inputs")])
def test_inputs_are_dropped_only_for_targets_that_run_none_unread(target: str, fault: str | None) -> None:
    text = '<ir_version: 8, opset_import: ["": 13]> g (float[2] x%s) => (float[2] y) { y = Relu (x) }'
    original, result = (onnx.parser.parse_model(text % inputs) for inputs in (", float[2] z", ""))
    assert check.fault(original, result, {"target": target}, 13) == fault


def test_an_input_that_is_read_is_not_dropped() -> None:
    text = '<ir_version: 8, opset_import: ["": 13]> g (float[2] x%s) => (float[2] y) %s { y = Add (x, z) }'
    original = onnx.parser.parse_model(text % (", float[2] z", ""))
    result = onnx.parser.parse_model(text % ("", "<float[2] z = {1, 2}>"))
    assert check.fault(original, result, {"target": "opencv-4"}, 13) == "other inputs"


@pytest.mark.parametrize(("convert", "kind"), [(raises, "crashing"), (refuses_valid_models, "valid called invalid")])
def test_errors_are_classified(convert: Callable[..., Any], kind: str) -> None:
    assert _kinds(_examined(convert, _cases("Abs", 5))) == {kind}


def test_a_right_result_that_verification_rejects_is_found() -> None:
    cases = [case for case in _cases("Abs", 20, verify_share=1.0) if not case.embedded.files]
    same = [case for case in cases if _keeps_versions(case)]
    assert same
    assert _kinds(_examined(rejects, same)) == {"rejected"}


@pytest.mark.parametrize(
    ("convert", "kind"), [(aborts, "crashing"), (hangs, "hanging"), (takes_all_memory, "crashing")]
)
def test_crashes_hangs_and_lack_of_memory_are_contained(
    convert: Callable[..., Any], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "SECONDS_PER_STAGE", 20.0 if convert is not hangs else 8.0)
    settings = run.Settings(5, ("Abs",), convert=convert)
    outcomes = list(run.outcomes(settings, iter(range(2)), 1, time.monotonic() + 60))
    assert [outcome.index for outcome in outcomes] == [0, 1]
    assert {outcome.kind for outcome in outcomes} - {"invalid original"} == {kind}


def test_one_unit_is_right_and_a_thousandth_is_wrong() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 13]> g (float[2,3] x) => (float[2,3] y) {y = Softmax <axis = 1> (x)}'
    )
    feeds = [{"x": np.array([[1, 2, 3], [-1, 0, 5]], np.float32)}]
    from differential.runtimes import run as runner

    expected = runner(model, feeds)
    near = [[np.nextafter(expected[0][0], np.float32(2))]]
    far = [[expected[0][0] * np.float32(1.001)]]
    assert judge.compare({"Softmax"}, model, feeds, expected, near, runner) is None
    assert judge.compare({"Softmax"}, model, feeds, expected, far, runner) is not None
    assert judge.compare({"Transpose"}, model, feeds, expected, near, runner) is not None


def _compared(text: str, feeds: dict[str, Any], change: Callable[[Any], Any], opset: int = 17) -> str | None:
    """Return what the judge says of a model's first output, changed."""
    from differential import runtimes

    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": {opset}, "local": 1]> {text}')
    runner: Any = runtimes.run
    try:
        expected = runner(model, [feeds])
    except runtimes.NoKernelError:
        runner = runtimes.reference
        expected = runner(model, [feeds])
    found = [[change(expected[0][0]), *expected[0][1:]]]
    return judge.compare(check.operators(model), model, [feeds], expected, found, runner)


def test_a_jump_beside_a_rounded_value_is_right_and_another_one_is_wrong() -> None:
    """The window is 0, or nearly, at its ends alone."""
    text = "g () => (float[n] y) <int64 c = {9}> {w = BlackmanWindow (c) y = Floor (w)}"

    def at(place: int) -> Callable[[Any], Any]:
        return lambda value: np.where(np.arange(value.size) == place, value - 1, value).astype(value.dtype)

    assert _compared(text, {}, at(0)) is None
    assert _compared(text, {}, at(3)) is not None
    assert _compared("g (float[n] x) => (float[n] y) {y = Floor (x)}", {"x": np.ones(9, np.float32)}, at(0)) is not None


def test_an_empty_shape_beside_a_batch_does_not_drop_the_bound() -> None:
    text = """g (float[2,2] x, float[2] s, int64[n] d, bool[m] z) => (float[2,2] y, bool b)
        {y = BatchNormalization (x, s, s, s, s) b = Reshape (z, d)}"""
    feeds = {"x": np.array([[1, 2], [3, 5]], np.float32), "s": np.array([0.3, 0.7], np.float32)}
    feeds |= {"d": np.zeros(0, np.int64), "z": np.ones(1, np.bool_)}
    assert _compared(text, feeds, lambda value: np.nextafter(value, np.float32(9))) is None
    assert _compared(text, feeds, lambda value: value * np.float32(1.001)) is not None


@pytest.mark.parametrize("kind", ["uint8", "float8e4m3fn"])
def test_a_neighbour_is_right_where_halves_are_divided_and_two_steps_are_wrong(kind: str) -> None:
    text = f"g (T[n] x, T s) => ({kind}[n] y) <{kind} z = {{0}}> {{y = QuantizeLinear (x, s, z)}}"
    values = np.array([20.0, 9, 100])

    def steps(count: int) -> Callable[[Any], Any]:
        return lambda value: (value.view(np.uint8) + np.uint8(count)).view(value.dtype)

    for element, right in (("float16", True), ("float", False)):
        dtype = np.float16 if right else np.float32
        feeds = {"x": values.astype(dtype), "s": np.array(0.5, dtype)}
        whole = text.replace("T", element)
        assert (_compared(whole, feeds, steps(1), 23) is None) is right
        assert _compared(whole, feeds, steps(3), 23) is not None


@pytest.mark.parametrize("to", ["11", "10"], ids=["wider", "narrower"])
@pytest.mark.parametrize("other", ["z = Neg (b)", ""], ids=["read outside too", "read inside"])
def test_what_is_cast_to_and_fro_is_there_in_a_subgraph(to: str, other: str) -> None:
    from differential import runtimes

    text = f"""g (float[2] x, bool c) => (float[2] y) {{a = Cast <to = {to}> (x) b = Cast <to = 1> (a) {other}
        y = If (c) <then_branch = t () => (float[2] p) {{p = Neg (b)}},
        else_branch = e () => (float[2] q) {{q = Abs (b)}}>}}"""
    model = onnx.parser.parse_model(f'<ir_version: 7, opset_import: ["": 17]> {text}')
    feed = {"x": np.array([0.1, -2], np.float32), "c": np.array(True)}
    assert runtimes.run(model, [feed])[0][0].tolist() == runtimes.reference(model, [feed])[0][0].tolist()


def test_the_evaluator_clamps_the_axes_of_shape() -> None:
    from differential.runtimes import reference

    text = "g (complex64[4,17,2,3] x) => (int64[n] y) {y = Shape <end = -6> (x)}"
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 21]> {text}')
    assert reference(model, [{"x": np.zeros((4, 17, 2, 3), np.complex64)}])[0][0].shape == (0,)


_NUMBERS = {
    "float": np.array([-2, 0.1, 1e10, 1e-10, np.inf, -np.inf, np.nan, -0.0, 123456789], np.float32),
    "float16": np.array([1 / 3, -2, 65504], np.float16),
    "double": np.array([1 / 3, -2, 1e10, -0.0]),
    "bool": np.array([True, False]),
    "int64": np.array([2**62, -5]),
    "uint8": np.array([200, 0], np.uint8),
}


@pytest.mark.parametrize("kind", _NUMBERS)
@pytest.mark.parametrize(
    ("node", "opset"), [("Cast <to = 8> (x)", 9), ("Cast <to = 8> (x)", 23), ("CastLike (x, s)", 19)]
)
def test_the_evaluator_writes_numbers_as_onnxruntime(node: str, opset: int, kind: str) -> None:
    from differential import runtimes

    text = f"g ({kind}[n] x, string[1] s) => (string[n] y, string[1] z) {{y = {node} z = Identity (s)}}"
    model = onnx.parser.parse_model(f'<ir_version: 4, opset_import: ["": {opset}]> {text}')
    feeds = [{"x": _NUMBERS[kind], "s": np.array(["a"], object)}]
    assert list(runtimes.reference(model, feeds)[0][0]) == list(runtimes.run(model, feeds)[0][0])


def test_the_evaluator_reads_bools_as_onnxruntime() -> None:
    from differential import runtimes

    text = "g (string[n] x) => (bool[n] y) {y = Cast <to = 9> (x)}"
    model = onnx.parser.parse_model(f'<ir_version: 4, opset_import: ["": 9]> {text}')
    feeds = [{"x": np.array(["0", "1", "-0.5", "2.5", "-3", "17", "1e2"], object)}]
    assert list(runtimes.reference(model, feeds)[0][0]) == list(runtimes.run(model, feeds)[0][0])


def test_the_evaluator_casts_to_other_types_than_strings_as_before() -> None:
    from differential.runtimes import reference

    text = """g (float[n] x, float8e4m3fn[1] t) => (float8e4m3fn[n] y, int32[n] z)
        {y = CastLike (x, t) z = Cast <to = 6> (x)}"""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 23]> {text}')
    kind = onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.FLOAT8E4M3FN)
    found = reference(model, [{"x": np.array([-2.5, 1e6], np.float32), "t": np.zeros(1, kind)}])[0]
    assert [float(each) for each in found[0]] == [-2.5, 448]
    assert found[1][0] == -2


@pytest.mark.parametrize("operator", ["ScatterElements", "ScatterND"])
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("in_function", [False, True])
def test_nan_counts_where_updates_are_not_ordered(operator: str, reduction: str, in_function: bool) -> None:
    where = np.array([[2]])
    text = f"""g (float[4] x, int64[k] i, float[1] u) => (float[4] y)
        {{y = {operator} <reduction = '{reduction}'> (x, i, u)}}"""
    if in_function:
        text = f"""g (float[4] x, int64[k] i, float[1] u) => (float[4] y) {{y = local.F <r = '{reduction}'> (x, i, u)}}
            <domain: "local", opset_import: ["": 18]> F <r> (x, i, u) => (y)
            {{y = {operator} <reduction: string = @r> (x, i, u)}}"""
    text = text.replace("'", '"').replace("int64[k]", "int64[1,1]" if operator == "ScatterND" else "int64[1]")
    feeds = {"x": np.array([np.nan, 1, 2, 3], np.float32), "i": where if operator == "ScatterND" else where[0]}
    for value, ignored in ((np.nan, reduction in ("max", "min")), (1.0, False)):
        held = {**feeds, "x": np.array([value, 1, 2, 3], np.float32), "u": np.array([4], np.float32)}
        assert (_compared(text, held, lambda array: array + np.float32(1), 18) is None) is ignored


def _moved(value: Any, by: float) -> Any:
    return (value.astype(np.float32) + by).astype(value.dtype)


def test_sums_in_the_type_of_statistics_are_right_and_others_wrong() -> None:
    """The mean of 0.001, -1 and 1 is 0 where sums are rounded to bfloat16, and 0.00033 where they are not."""
    text = """g (float16[3] x, float16[3] s) => (bfloat16[1] m, float16[3] y, bfloat16[1] i)
        {y, m, i = LayerNormalization <stash_type = STASH> (x, s)}"""
    for stash, shift, right in ((16, 0.00033, True), (16, 0.5, False), (1, 0.00033, False)):
        dtype = np.float16 if stash == 16 else np.float32
        feeds = {"x": np.array([0.001, -1, 1], dtype), "s": np.ones(3, dtype)}
        whole = text.replace("STASH", str(stash))
        if stash == 1:
            whole = whole.replace("bfloat16", "float").replace("float16", "float")
        changed = _compared(whole, feeds, functools.partial(_moved, by=shift))
        assert (changed is None) is right


def test_the_evaluator_normalizes_a_row_with_nan_to_nan() -> None:
    from differential import runtimes

    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 23]> g (float[2,3] x, float[3] s) =>
        (float[2,3] y) {y = RMSNormalization <epsilon = 0.0> (x, s)}""")
    feeds = [{"x": np.array([[1, np.nan, 2], [1, 2, 3e38]], np.float32), "s": np.ones(3, np.float32)}]
    for runner in (runtimes.run, runtimes.reference):
        found = runner(model, feeds)[0][0]
        assert np.isnan(found[0]).all()
        assert (found[1] == 0).all()


@pytest.mark.parametrize("opens", [True, False])
def test_models_that_open_with_fed_defaults_alone_are_not_judged(opens: bool) -> None:
    from differential import runtimes
    from differential.examine import _needs_its_defaults_fed

    window = "float[4] w" if opens else "float[4] v, int64[?] d"
    shaped = "" if opens else "w = Reshape (v, d)"
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17, "local": 1]>
        g (float[1,12,1] x, {window}, int32 n) => (float[?,?,?,?] y)
        <int32 n = {{4}}> {{{shaped} y = local.F (x, w, n)}}
        <domain: "local", opset_import: ["": 17]> F (x, w, n) => (y)
        {{step = Constant <value = int32 {{2}}> () y = STFT (x, step, w, n)}}""")
    runtimes.run(model, [])
    assert _needs_its_defaults_fed(model) is not opens


def test_sums_of_the_largest_numbers_may_overflow_on_the_way_and_others_may_not() -> None:
    text = """g (float[1,1,4,4] x, float[4] s) => (float[?,?,?,?] y) <float[4] s = {1, 1, 2, 2}>
        {y = Resize <mode = "cubic"> (x, "", s)}"""

    def changed(to: float) -> Callable[[Any], Any]:
        return lambda value: np.where(np.arange(value.size).reshape(value.shape) == 0, np.float32(to), value)

    for size, to, right in ((3e38, np.inf, True), (3e38, 1e37, False), (1.0, np.inf, False), (1.0, 0.5, False)):
        feeds = {"x": np.ones((1, 1, 4, 4), np.float32) * np.array([1, 2, 3, size], np.float32)}
        assert (_compared(text, feeds, changed(to)) is None) is right, (size, to)


def drops_zero_points(model: Any, verify: bool, **request: Any) -> SimpleNamespace:
    """Convert rightly, but for the zero points of what is multiplied."""
    found = opshift.convert(model, verify=False, **request)
    assert isinstance(found.model, onnx.ModelProto)
    for node in _nodes(found.model):
        if node.op_type in ("MatMulInteger", "ConvInteger"):
            del node.input[2:]
    return SimpleNamespace(model=found.model, report=None)


@pytest.mark.parametrize("kinds", list(itertools.product(("uint8", "int8"), repeat=2)), ids=" ".join)
def test_sums_of_bytes_that_a_kernel_cuts_are_right_and_lost_zero_points_wrong(kinds: Any) -> None:
    """Sums of two products of bytes are beyond 16 bits here, as onnxruntime holds them on processors without VNNI."""
    ends = {"uint8": [254, 254, 255, 255], "int8": [126, 126, -127, 1]}
    feed = {"a": np.array([ends[kinds[0]]], kinds[0]), "b": np.array([ends[kinds[1]]], kinds[1]).T}
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 20]>
        g ({kinds[0]}[1,4] a, {kinds[1]}[4,1] b) => (int8[] y)
        <float s = {{1}}, float t = {{4096}}, {kinds[0]} p = {{0}}, {kinds[1]} q = {{64}}, int8 r = {{3}}>
        {{y = QLinearMatMul (a, s, p, b, s, q, t, r)}}""")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    request = {"decompose": ["QLinearMatMul"]}
    case = Case(0, 0, "QLinearMatMul", 20, Embedded(model, [feed], "graph"), request, False, False)
    for convert, kind in ((opshift.convert, "right"), (drops_zero_points, "wrong")):
        outcome = _examined(convert, [copy.deepcopy(case)])[0]
        assert outcome.kind == kind, outcome.message


def test_signs_of_zero_count_where_data_is_moved() -> None:
    plus, minus = np.zeros(1, np.float32), -np.zeros(1, np.float32)
    model = onnx.ModelProto()
    for operator, equal in (("Relu", True), ("Identity", False), ("Max", True), ("Gather", False)):
        message = judge.compare({operator}, model, [{}], [[plus]], [[minus]], lambda *_: [])
        assert (message is None) is equal


def test_types_and_shapes_count() -> None:
    model = onnx.ModelProto()
    value = np.zeros((1, 2), np.float32)
    for other in (np.zeros((2,), np.float32), np.zeros((1, 2), np.float64)):
        assert judge.compare({"Softmax"}, model, [{}], [[value]], [[other]], lambda *_: []) is not None


@pytest.mark.parametrize("operator", ["QuantizeLinear", "DequantizeLinear", "Cast", "CastLike", "QLinearMatMul"])
def test_types_of_outputs_are_those_of_the_schema(operator: str) -> None:
    """DequantizeLinear-28: y has the type of x_scale without output_dtype, and may not be float8e8m0 as that may."""
    kinds = set[int]()
    for index in range(600):
        opset = int(np.random.default_rng(index).integers(onnx.defs.get_schema(operator).since_version - 3, NEWEST + 1))
        node = draw_node(draw.Draw(np.random.default_rng([7, index]), operator, opset))
        formal = onnx.defs.get_schema(operator, opset).outputs[0]
        kind = node.output_types[0].tensor_type.elem_type
        name = onnx.TensorProto.DataType.Name(kind).lower()
        assert f"tensor({name})" in formal.types, (index, node.attributes)
        scales = [one.elem_type for one in node.inputs[1:2] if one is not None]
        if operator == "DequantizeLinear" and "output_dtype" not in node.attributes and opset >= 19:
            assert kind in scales
        kinds.update(scales)
    assert operator != "DequantizeLinear" or onnx.TensorProto.FLOAT8E8M0 in kinds


def test_a_case_is_reproducible() -> None:
    for index in range(30):
        first, second = draw_case(3, index), draw_case(3, index)
        assert first.embedded.model.SerializeToString() == second.embedded.model.SerializeToString()
        assert first.request == second.request
        assert str(first.embedded.feeds) == str(second.embedded.feeds)


def test_a_saved_finding_replays(tmp_path: Path) -> None:
    cases = [case for case in _cases("Add", 60) if not case.embedded.files]
    outcomes = _examined(swaps_operators, cases)
    found = next(number for number, outcome in enumerate(outcomes) if outcome.kind == "wrong")
    again = load(save(tmp_path, cases[found], outcomes[found]))
    replayed = _examined(swaps_operators, [again])[0]
    assert (replayed.kind, replayed.message) == ("wrong", outcomes[found].message)


def test_every_operator_and_every_version_is_drawn() -> None:
    operators = draw.operators()
    assert len(operators) >= 202
    for operator in operators:
        for index in range(4):
            assert draw_case(9, index, [operator]).operator == operator
    versions = {case.opset for case in (draw_case(9, index, ["Resize"]) for index in range(300))}
    assert versions == set(range(10, NEWEST + 1))


def test_every_built_in_profile_is_requested() -> None:
    drawn = {draw_case(9, index, ["Abs"]).request.get("target") for index in range(600)}
    assert drawn - {None} == set(TARGETS)


def test_the_fuzzer_uses_nothing_of_opshift_but_its_public_face() -> None:
    for path in _HOME.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not [name for name in names if name.startswith("opshift.")], path


def test_a_bounded_run_finds_nothing() -> None:
    settings = run.Settings(_SEED, verify_share=0.1)
    summary = run.Summary()
    for outcome in run.outcomes(settings, iter(range(_CASES)), 1, time.monotonic() + 600):
        summary.add(outcome)
    assert not summary.findings, summary.text(verbose=False)
    assert summary.kinds["right"] > _CASES * 0.5
    assert summary.kinds["invalid original"] < _CASES * 0.06
    assert set(FINDINGS).isdisjoint(kind for kind, count in summary.kinds.items() if count)
