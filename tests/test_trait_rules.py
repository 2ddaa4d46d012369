"""The rules of traits take any node: attributes left out, or parameters of a function, and constants of any length.

Verification asks them about models that nothing has checked, and a rule that fails leaves the model unverified.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx.defs import OpSchema

import opshift
from opshift.opsets.registry.node_traits import traits
from opshift.opsets.registry.shape_hints import NodeShapes, hints_of

NODES = 400
"""Nodes that are drawn of each operator."""

NEWEST = {
    schema.name: schema for schema in onnx.defs.get_all_schemas_with_history() if schema.domain in ("", "ai.onnx.ml")
}
RULES = ("equal_dims", "likely_sizes", "floats_by", "integers_by", "miscomputed", "landmarks")
KIND = OpSchema.AttrType


def attribute(rng: np.random.Generator, schema: OpSchema, one: OpSchema.Attribute) -> Any:
    """Return a value of the attribute's type, or None for a parameter of a function."""
    if not rng.integers(4):
        return None
    many = int(rng.integers(0, 4))
    match one.type:
        case KIND.INT:
            return int(rng.integers(-2, 5))
        case KIND.INTS:
            return tuple(rng.integers(-1, 5, many).tolist())
        case KIND.FLOAT:
            return float(rng.choice([0, -1, 0.5, np.inf]))
        case KIND.FLOATS:
            return tuple(rng.normal(size=many).tolist())
        case KIND.STRING:
            default = onnx.helper.get_attribute_value(one.default_value) if one.default_value.name else b"x"
            return default.decode() if default else ""
        case KIND.STRINGS:
            return ("x",) * many
    return None


def constant(rng: np.random.Generator) -> np.ndarray[Any, Any] | None:
    if not rng.integers(3):
        return None
    count = int(rng.integers(0, 6))
    return rng.integers(-2, 6, count) if rng.integers(2) else rng.normal(size=count).astype(np.float32)


def shape(rng: np.random.Generator) -> tuple[int | str | None, ...] | None:
    if not rng.integers(5):
        return None
    dims = [0, 1, 2, 3, 7, "n", "m", None]
    return tuple(dims[at] for at in rng.integers(0, len(dims), int(rng.integers(0, 6))))


@pytest.mark.parametrize("name", [name for name in NEWEST if any(getattr(traits(name), rule) for rule in RULES)])
def test_no_rule_fails_on_a_node(name: str) -> None:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    schema, own = NEWEST[name], traits(name)
    for _ in range(NODES):
        most = min(schema.max_input, 8)
        inputs = int(rng.integers(min(schema.min_input, most), most + 1))
        given = {key: one for key, one in schema.attributes.items() if rng.integers(3) or one.required}
        attributes = {key: attribute(rng, schema, one) for key, one in given.items()}
        constants = [constant(rng) for _ in range(inputs)]
        seen = NodeShapes(
            inputs=tuple(shape(rng) for _ in range(inputs)),
            output=shape(rng),
            attributes=attributes,
            opset=schema.since_version,
            constant=lambda index, constants=constants: constants[index],  # type: ignore[misc]
        )
        for hint in filter(None, (own.equal_dims, own.likely_sizes)):
            hints_of(hint, seen)
        if own.landmarks:
            list(own.landmarks(attributes, constants))
        for rule in (own.floats_by, own.integers_by, own.miscomputed):
            if rule:
                rule(attributes)


def test_a_constant_is_a_vector_to_rules_whatever_made_it_one() -> None:
    """Unsqueeze has the elements of the scalar that it was given."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 18]>
        g (float[2,4,2] x) => (float[a,b,c] y) <int64 four = {4}, int64[1] zero = {0}, int64[1] two = {2}>
        { image = Unsqueeze (four, zero) y = Col2Im <strides = [2]> (x, image, two) }""")
    assert opshift.verify(model, model).whole.verdict is opshift.Verdict.EQUAL
