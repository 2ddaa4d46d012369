"""OptionalHasElement and OptionalGetElement of tensors, which are no optional values, and of nothing."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from operators.harness import Case, Table, arr, text
from opshift.opsets.operators import optionalgetelement, optionalhaselement

UNRUN = {15: "it takes optional values only", 28: "onnxruntime does not load opset 28"}


class TestOptionalHasElement(Table):
    operator = optionalhaselement.OPERATOR
    unrun: ClassVar[dict[int, str]] = {15: UNRUN[15]}
    cases = (Case("a tensor", [arr([1, 2])]), Case("a string", [text("a")]), Case("nothing", [None]))


class TestOptionalGetElement(Table):
    operator = optionalgetelement.OPERATOR
    unrun: ClassVar[dict[int, str]] = {15: UNRUN[15]}
    cases = (Case("a tensor", [arr([1, 2])]), Case("int64", [np.array([3])]), Case("a string", [text("a")]))
