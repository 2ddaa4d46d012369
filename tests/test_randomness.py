"""Random outputs are compared with nothing: neither refused for a difference by chance, nor called equal by chance."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

import opshift
from opshift.opsets.registry.node_traits import traits
from opshift.opsets.registry.traits import Trait
from opshift.passes.proof.randomness import random_outputs

DRAWS = {
    "Bernoulli": "y = Bernoulli (x)",
    "Bernoulli with a seed": "y = Bernoulli <seed = 3.0> (x)",
    "Dropout that trains": "y = Dropout (x, r, t)",
    "Dropout by an input": "y = Dropout (x, r, m)",
    "Multinomial": "w = Multinomial (x) y = Cast <to = 1> (w)",
    "RandomNormal": "y = RandomNormal <shape = [1,1]> ()",
    "RandomNormalLike": "y = RandomNormalLike (x)",
    "RandomUniform": "y = RandomUniform <shape = [1,1]> ()",
    "RandomUniformLike": "y = RandomUniformLike <seed = 1.0> (x)",
    "further nodes": "w = RandomUniformLike (x) v = Mul (w, x) y = Softplus (v)",
    "If": "y = If (m) <then_branch = a () => (float[1,1] u) {u = Bernoulli (x)}, "
    "else_branch = b () => (float[1,1] v) {v = Neg (x)}>",
    "Scan": "y = Scan <num_scan_inputs = 1, body = b (float[1] i) => (float[1] o) {o = Bernoulli (i)}> (x)",
    "a random value of outside": "w = Bernoulli (x) y = If (m) <then_branch = a () => (float[1,1] u) {u = Neg (w)}, "
    "else_branch = b () => (float[1,1] v) {v = Neg (x)}>",
    "a function": "y = f.Outer (x)",
}
STEADY = {
    "Dropout that infers": "y = Dropout (x, r, s)",
    "Dropout of a Constant": "c = Constant <value = bool {0}> () y = Dropout (x, r, c)",
    "Dropout without modes": "y = Dropout (x)",
    "Dropout of the ratio 0": "n = Constant <value = float {0}> () y = Dropout (x, n, m)",
    "the shape of what is random": "w = RandomUniformLike (x) v = Shape (w) y = Expand (x, v)",
}


FUNCTIONS = """<domain: "f", opset_import: ["": 15, "f": 1]> Outer (x) => (y) {y = f.Inner (x)}
<domain: "f", opset_import: ["": 15]> Inner (x) => (y) {y = Bernoulli (x)}"""


def model(nodes: str) -> onnx.ModelProto:
    return parse_model(
        '<ir_version: 8, opset_import: ["": 15, "f": 1]> '
        "g (float[1,1] x, bool m) => (float[1,1] y, float[1,1] z) <float r = {0.5}, bool t = {1}, bool s = {0}> "
        f"{{{nodes} z = Relu (x)}} {FUNCTIONS if 'Outer' in nodes else ''}"
    )


@pytest.mark.parametrize("nodes", DRAWS.values(), ids=DRAWS)
def test_what_random_numbers_reach_is_random(nodes: str) -> None:
    assert random_outputs(model(nodes)) == ("y",)


@pytest.mark.parametrize("nodes", STEADY.values(), ids=STEADY)
def test_what_they_do_not_reach_is_not(nodes: str) -> None:
    assert random_outputs(model(nodes)) == ()


ALWAYS = {name: nodes for name, nodes in DRAWS.items() if name != "Dropout by an input"}


@pytest.mark.parametrize("nodes", ALWAYS.values(), ids=ALWAYS)
def test_other_outputs_are_compared_whatever_is_drawn(nodes: str) -> None:
    for seed in range(3):
        report = opshift.convert(model(nodes), opset=16, seed=seed).report
        assert report is not None
        assert report.whole.verdict is opshift.Verdict.EQUAL
        assert "not compared, since they are random: y" in report.whole.reason


def test_a_wrong_output_beside_a_random_one_is_found() -> None:
    wrong = model(DRAWS["RandomUniformLike"])
    wrong.graph.node[-1].op_type = "Neg"
    report = opshift.verify(model(DRAWS["RandomUniformLike"]), wrong)
    assert report.whole.verdict is opshift.Verdict.DIFFERENT


@pytest.mark.parametrize("nodes", ALWAYS.values(), ids=ALWAYS)
def test_a_model_that_is_all_random_is_unchecked(nodes: str) -> None:
    random = model(nodes)
    del random.graph.output[1], random.graph.node[-1]
    for seed in range(4):
        report = opshift.convert(random, opset=16, seed=seed).report
        assert report is not None
        assert (report.whole.verdict, report.whole.reason) == (
            opshift.Verdict.UNCHECKED,
            "all outputs are random (y)",
        )


@pytest.mark.parametrize("seed", range(6))
def test_a_decomposed_node_that_draws_is_unchecked(seed: int) -> None:
    report = opshift.convert(model(DRAWS["Bernoulli"]), decompose=["Bernoulli"], seed=seed).report
    assert report is not None
    assert [(one.verdict, one.reason) for one in report.nodes] == [
        (opshift.Verdict.UNCHECKED, "it draws random numbers")
    ]


def test_all_operators_with_a_seed_have_the_trait() -> None:
    seeded = {one.name for one in onnx.defs.get_all_schemas() if not one.domain and "seed" in one.attributes}
    assert {name for name in seeded if Trait.RANDOM in traits(name).floats} == seeded


_MODE = "g (float[n,4] x, bool t) => (float[n,4] y) <float r = {{0.5}}> {{ h = Dropout(x, r, t) y = {} (h) }}"


@pytest.mark.parametrize(("after", "verdict"), [("Abs", "equal"), ("Relu", "different")])
def test_a_dropout_whose_mode_is_an_input_is_compared_where_it_does_not_train(after: str, verdict: str) -> None:
    before, rewritten = (
        parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {_MODE.format(name)}')
        for opset, name in ((13, "Abs"), (22, after))
    )
    whole = opshift.verify(before, rewritten).whole
    assert whole.verdict == verdict
    assert "compared where t is false" in whole.reason
    trained = opshift.verify(before, rewritten, inputs={"t": np.array(True)}).whole
    assert trained.verdict == "unchecked"


def test_a_mode_that_is_an_input_is_to_be_a_constant() -> None:
    model = parse_model(f'<ir_version: 8, opset_import: ["": 13]> {_MODE.format("Abs")}')
    with pytest.raises(opshift.UnsupportedError) as caught:
        opshift.convert(model, opset=11)
    (refusal,) = caught.value.refusals
    assert refusal.code == "missing-fact"
    assert refusal.hint.startswith("Make it a constant, or use opset 12")
