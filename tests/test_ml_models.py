"""Whole models with operators of ai.onnx.ml: ZipMap at the end, and pipelines of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model
from running import run

import opshift
from opshift.passes.base.plan import Code
from opshift.passes.base.report import Verdict

ML = "ai.onnx.ml"
HEAD = '<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 1]>'


def zipped(
    body: str, labels: str = "classlabels_int64s = [4, 7]", key: int = onnx.TensorProto.INT64
) -> onnx.ModelProto:
    """A model whose output z is a list of maps; the parser has no such type."""
    model = parse_model(f"{HEAD} g (float[n,3] x) => (float z) {{ {body} z = ai.onnx.ml.ZipMap <{labels}> (s) }}")
    kind = model.graph.output[0].type
    kind.Clear()
    kind.sequence_type.elem_type.map_type.key_type = key
    kind.sequence_type.elem_type.map_type.value_type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return model


SCORES = "s = ai.onnx.ml.LinearRegressor <coefficients = [1.0, 2.0, 3.0, -1.0, 0.5, 0.25], targets = 2> (x)"


def test_zip_map_is_refused_with_what_to_do() -> None:
    (refusal,) = opshift.plan(zipped(SCORES), decompose=[ML]).refusals
    assert refusal.code is Code.FOREIGN_OPERATOR
    assert "--assume tensor-output" in refusal.hint


@pytest.mark.parametrize("target", [None, "openvino"])
def test_an_output_of_maps_becomes_a_tensor(target: str | None) -> None:
    result = opshift.convert(
        zipped(SCORES), decompose=[] if target else [ML], target=target, assume=["tensor-output"], require_proof=True
    )
    model = result.model
    assert isinstance(model, onnx.ModelProto)
    assert result.repairs == ("The output 'z' is a tensor of scores, a column for each label: 4, 7.",)
    assert [value.name for value in model.graph.output] == ["z"]
    assert model.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    x = np.array([[1, 2, 3], [0, -1, 0.5]], np.float32)
    maps = run(zipped(SCORES), [{"x": x}])[0][0]
    assert np.allclose([[one[4], one[7]] for one in maps], run(model, [{"x": x}])[0][0])


def test_a_model_whose_map_was_dropped_is_no_copy() -> None:
    report = opshift.convert(zipped(SCORES), assume=["tensor-output"], require_proof=True).report
    assert report is not None
    assert report.whole.reason == "the two models are the same, apart from the changes that the notes name"


def test_labels_that_are_strings_are_named() -> None:
    model = zipped(SCORES, 'classlabels_strings = ["no", "yes"]', onnx.TensorProto.STRING)
    result = opshift.convert(model, decompose=[ML], assume=["tensor-output"], require_proof=True)
    assert result.repairs == ("The output 'z' is a tensor of scores, a column for each label: 'no', 'yes'.",)


def test_scores_that_are_an_input_stay_one() -> None:
    model = zipped("")
    model.graph.input[0].CopyFrom(onnx.helper.make_tensor_value_info("s", onnx.TensorProto.FLOAT, ["n", 2]))
    result = opshift.convert(model, decompose=[ML], assume=["tensor-output"], require_proof=True)
    assert [node.op_type for node in result.model.graph.node] == ["Identity"]  # type: ignore[union-attr]


def test_scores_that_others_read_get_the_name_of_the_output() -> None:
    model = zipped(f"{SCORES} r = Relu (s)")
    model.graph.output.append(onnx.helper.make_tensor_value_info("r", onnx.TensorProto.FLOAT, ["n", 2]))
    result = opshift.convert(model, decompose=[ML], assume=["tensor-output"], require_proof=True)
    assert [value.name for value in result.model.graph.output] == ["z", "r"]  # type: ignore[union-attr]


def test_without_maps_the_assumption_changes_nothing() -> None:
    model = parse_model(f"{HEAD} g (float[n,3] x) => (float[n,2] s) {{ {SCORES} }}")
    result = opshift.convert(model, decompose=[ML], assume=["tensor-output"], require_proof=True)
    assert result.repairs == ()


def test_nodes_in_branches_are_read_at_the_version_imported() -> None:
    """LabelEncoder-1 accepts no floats; a branch with one of version 2 is not one that fails."""
    text = """<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 2]>
    g (float[n] x, bool c) => (int64[n] y) {
        y = If (c) <
            then_branch = a () => (int64[n] p) {
                p = ai.onnx.ml.LabelEncoder <keys_floats = [1.0, 2.0], values_int64s = [3, 4]> (x)
            },
            else_branch = b () => (int64[n] q) { q = Cast <to = 7> (x) }
        >
    }"""
    source = parse_model(text)
    made = opshift.convert(source, target="tensorrt-8", verify=False).model
    assert isinstance(made, onnx.ModelProto)
    for c in (True, False):
        feeds = {"x": np.array([1, 2, 3], np.float32), "c": np.array(c)}
        assert np.array_equal(run(source, [feeds])[0][0], run(made, [feeds])[0][0])


# --- pipelines --------------------------------------------------------------------------------------------------------


def estimators() -> dict[str, Any]:
    """Estimators with their targets: three classes, two of them, or numbers."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    from sklearn import impute, linear_model, pipeline, preprocessing, svm, tree

    logistic = linear_model.LogisticRegression
    return {
        "logistic": (logistic(max_iter=500), "classes"),
        "scaled": (pipeline.make_pipeline(preprocessing.StandardScaler(), logistic()), "two"),
        "forest": (ensemble.RandomForestClassifier(5, random_state=0), "classes"),
        "forest of two": (ensemble.RandomForestClassifier(5, random_state=0), "two"),
        "boosted": (ensemble.GradientBoostingClassifier(n_estimators=3, random_state=0), "classes"),
        "boosted two": (ensemble.GradientBoostingClassifier(n_estimators=3, random_state=0), "two"),
        "tree": (tree.DecisionTreeClassifier(random_state=0), "classes"),
        "regressors": (ensemble.RandomForestRegressor(5, random_state=0), "numbers"),
        "support vectors": (svm.SVC(), "classes"),
        "support": (svm.SVR(), "numbers"),
        "imputed": (pipeline.make_pipeline(impute.SimpleImputer(), linear_model.Ridge()), "numbers"),
        "normalized": (pipeline.make_pipeline(preprocessing.Normalizer(), logistic()), "classes"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["logistic", "scaled", "forest", "forest of two", "boosted", "boosted two", "tree"])
def test_classifiers_become_tensor_operators(name: str) -> None:
    check(name, 17)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["regressors", "support vectors", "support", "imputed", "normalized"])
def test_other_pipelines_become_tensor_operators(name: str) -> None:
    check(name, 11)


def check(name: str, opset: int) -> None:
    skl2onnx = pytest.importorskip("skl2onnx")
    from sklearn.datasets import load_iris

    estimator, kind = estimators()[name]
    rows, classes = load_iris(return_X_y=True)
    rows = rows.astype(np.float32)
    wanted = {"classes": classes, "two": classes > 0, "numbers": classes.astype(np.float32)}[kind]
    estimator.fit(rows, wanted.astype(np.int64) if kind == "two" else wanted)
    model = skl2onnx.to_onnx(estimator, rows[:1], target_opset={"": 17, ML: 3})
    result = opshift.convert(model, opset=opset, decompose=[ML], assume=["tensor-output"], require_proof=True)
    made = result.model
    assert isinstance(made, onnx.ModelProto)
    assert not [node for node in made.graph.node if node.domain]
    assert result.report is not None
    assert result.report is not None
    assert result.report.whole.verdict is Verdict.EQUAL
    feeds = {model.graph.input[0].name: rows[::7]}
    for before, after in zip(run(model, [feeds])[0], run(made, [feeds])[0], strict=True):
        one = np.array([list(row.values()) for row in before]) if isinstance(before, list) else before
        assert np.allclose(one, after, rtol=1e-4, atol=1e-5)


ENCODERS = {
    "tensors": (
        "string",
        'keys_tensor = string[2] {"a", "b"}, values_tensor = int64[2] {3, 4}',
        "int64",
        ["a", "z"],
        0,
    ),
    "tensors of double": ("double", "keys_tensor = double[1] {1}, values_tensor = double[1] {3}", "double", [1, 2], 0),
    "a NaN": ("float", "keys_floats = [nan, 1.0], values_int64s = [3, 4]", "int64", [np.nan, 1], 0),
    "lists": ("string", 'keys_strings = ["a", "b"], values_floats = [0.5, 1.5]', "float", ["b", ""], 1),
    "numbers": ("int64", 'keys_int64s = [1, 2], values_strings = ["a", "b"]', "string", [2, 7], 1),
    "twice": ("int64", "keys_int64s = [1, 1], values_int64s = [5, 6]", "int64", [1, 2], 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", ENCODERS)
def test_a_release_with_an_older_ai_onnx_ml_gets_no_newer_operator(what: str) -> None:
    """onnxruntime 1.14 loads ai.onnx.ml 3, whose LabelEncoder-2 has lists alone, and finds no NaN."""
    dtype, attributes, found, values, count = ENCODERS[what]
    model = parse_model(
        f'<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 4]> g ({dtype}[n] x) => ({found}[n] y) '
        f"{{ y = ai.onnx.ml.LabelEncoder <{attributes.replace('nan', '9.0')}> (x) }}"
    )
    for attribute in model.graph.node[0].attribute:
        attribute.floats[:] = [np.nan if number == 9 else number for number in attribute.floats]
    result = opshift.convert(model, target="onnxruntime-1.14")
    assert isinstance(result.model, onnx.ModelProto)
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    assert [node.op_type for node in result.model.graph.node].count("LabelEncoder") == count
    assert {entry.domain: entry.version for entry in result.model.opset_import}.get(ML, 3) == 3
    kinds = {"string": object, "float": np.float32, "double": np.float64, "int64": np.int64}
    feeds = [{"x": np.array(values, kinds[dtype])}]
    assert run(result.model, feeds)[0][0].tolist() == run(model, feeds)[0][0].tolist()
    kept = opshift.convert(model, target="onnxruntime-1.17").model
    assert isinstance(kept, onnx.ModelProto)
    assert [node.op_type for node in kept.graph.node] == ["LabelEncoder"]
