"""Wrong models never leave: models of all known operators, composed or changed at random, that onnxruntime runs.

Every other one is composed, of operators in branches, loops, scans and functions. Each goes to a random opset. It is
refused, or what comes out computes the same in onnxruntime. The judge is not the one of the conversion, which is made
without proof. `OPSHIFT_RANDOM=20000 OPSHIFT_SEED=1` tries more.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from typing import Any

import fuzz
import numpy as np
import onnx
import pytest
from composed import composed
from google.protobuf.message import DecodeError
from running import OPSETS, nodes_of, opset_of

import opshift
from opshift.passes.base.limits import Limits
from opshift.passes.io.reader import load
from opshift.passes.runtime.ort_models import RejectedError, RejectionKind, Runnable
from opshift.passes.runtime.ort_opsets import fit
from opshift.passes.runtime.ort_session import Session

pytestmark = pytest.mark.slow

CASES = int(os.environ.get("OPSHIFT_RANDOM", "700"))
SEED = int(os.environ.get("OPSHIFT_SEED", "0"))
LIMITS = Limits(timeout=10, memory=2**31)
RANDOM = {
    "Bernoulli",
    "Dropout",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}
LARGEST = 100_000
"""Elements of an input."""


class OtherError(Exception):
    """A case that is none: nothing that onnxruntime runs, or nothing to compare."""


def feeds(model: onnx.ModelProto, draw: random.Random) -> dict[str, Any]:
    """Draw inputs of a model; small integers, so that some are indices and shapes that fit."""
    numbers = np.random.default_rng(draw.getrandbits(32))
    known = {tensor.name for tensor in model.graph.initializer}
    found = {}
    for value in model.graph.input:
        if value.name in known:
            continue
        kind = value.type.tensor_type
        if not value.type.HasField("tensor_type") or not kind.HasField("shape"):
            raise OtherError
        dims = [_size(dim) for dim in kind.shape.dim]
        if np.prod([float(dim) for dim in dims]) > LARGEST or len(dims) > 8:
            raise OtherError
        try:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        except KeyError:
            raise OtherError from None
        if dtype.kind == "f":
            drawn = numbers.choice((-2.0, -0.5, 0.0, 0.25, 0.5, 1.0, 3.0), dims)
        elif dtype.kind in "iub":
            drawn = numbers.integers(0, 3, dims)
        else:
            raise OtherError
        found[value.name] = drawn.astype(dtype)
    return found


def _size(dim: onnx.TensorShapeProto.Dimension) -> int:
    """Return the size of a dimension; the name of a symbol may end in it."""
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return dim.dim_value
    return int(found[1]) if (found := re.fullmatch(r"n(\d{1,6})", dim.dim_param)) else 2


def run(model: onnx.ModelProto, inputs: dict[str, Any]) -> tuple[Any, ...]:
    source, _ = fit(Runnable(model))
    return Session(source, optimised=False, limits=LIMITS).run(inputs)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    if one is None or other is None:
        return one is other
    a, b = np.asarray(one), np.asarray(other)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind not in "fcV":
        return bool(np.array_equal(a, b))
    # Bodies of functions and kernels of other versions add up in another order: float16 has 11 bits.
    coarse = 2e-2 if a.dtype.itemsize <= 2 else 1e-4
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    return bool(np.allclose(a.astype(wide), b.astype(wide), coarse, coarse, equal_nan=True))


def judged(data: bytes, draw: random.Random) -> str:
    """Convert a model without proof; return what became of it, "wrong: ..." among others."""
    try:
        model = load(onnx.ModelProto.FromString(data)).model
        if any(node.op_type in RANDOM for node in nodes_of(model)) or not 7 <= opset_of(model) <= 26:
            return "other"
        inputs = feeds(model, draw)
        wanted = run(model, inputs)
    except (DecodeError, opshift.OpshiftError, RejectedError, OtherError):
        return "other"
    opset = draw.choice([opset for opset in OPSETS if opset <= 26])
    try:
        result = opshift.convert(model, opset=opset, verify=False).rewritten
    except opshift.OpshiftError:
        return "refused"
    try:
        found = run(result, inputs)
    except RejectedError as error:
        if error.why in (RejectionKind.MISSING_KERNEL, RejectionKind.TOO_NEW, RejectionKind.LIMIT):
            return "cannot be run"
        return f"wrong: from {opset_of(model)} to {opset}: {error}"
    if len(wanted) == len(found) and all(map(same, wanted, found)):
        return "equal"
    return f"wrong: from {opset_of(model)} to {opset}: {wanted} became {found}"[:600]


def test_random_models_are_refused_or_equal(capsys: pytest.CaptureFixture[str]) -> None:
    draw = random.Random(SEED)
    counts: Counter[str] = Counter()
    wrong = []
    for number in range(CASES):
        case = random.Random(f"{SEED}:{number}")
        data = composed(case).SerializeToString() if number % 2 else fuzz.mutated(draw.choice(fuzz.seeds()), case)
        became = judged(data, case)
        counts[became.partition(":")[0]] += 1
        if became.startswith("wrong"):
            wrong.append(f"{became}\n{onnx.printer.to_text(onnx.ModelProto.FromString(data))}")
            if kept := os.environ.get("OPSHIFT_KEEP"):
                with open(f"{kept}-{number}.onnx", "wb") as file:  # noqa: PTH123
                    file.write(data)
    with capsys.disabled():
        print("\nrandom models:", dict(counts))
    assert not wrong, "\n\n".join(wrong)
    assert counts["equal"] > CASES / 10
