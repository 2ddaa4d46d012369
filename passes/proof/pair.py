"""Hold a lowered node and its replacement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import onnx

from opshift.passes.base.limits import Limits
from opshift.passes.proof.inputs.generator import Rng
from opshift.passes.runtime.ort_models import Array, Feeds

Oracle = Callable[[Feeds, Limits], Mapping[str, Array]]
Adversarial = Callable[[Rng, Feeds], Feeds]


@dataclass(frozen=True)
class Pair:
    """A lowered node and its replacement, each as a separate model.

    Attributes:
        node: the node's path, for users.
        operator: such as `Hardmax-13`.
        original: a model of that one node. Graph inputs have the known types: the element type may be UNDEFINED, the
            shape absent (unknown rank) or partly symbolic; constants are initializers.
        rewritten: the replacement, with the same inputs and outputs, at any opset.
        oracle: the operator's meaning in numpy: from values by input name, including constants, to values by output
            name, within limits. It is the reference if onnxruntime has no kernel for the original, and always under
            "spec". It raises RejectedError, ValueError, IndexError or TypeError for inputs that the operator does not
            accept.
        adversarial: the operator's own inputs: from a generator and a draft of all values, returns adversarial values
            for this operator. Constants are included as read-only arrays, and must not change. None: the generic draft
            is fed.
        exclude_nan: the result on NaN is undefined, or not preserved: no NaN is fed.
        finite: the same for the infinities.
        whole: the same for floats that are not whole numbers, in the first input.
        exact: outputs must be bit-identical, apart from differences between onnxruntime's own kernels
            (kernel_drift.py); otherwise within the original's own rounding (tolerance.py).
        longest: the maximum dim that is fed: the replacement needs memory that grows with its square, or the oracle
            takes as many steps.
        approximate: the replacement's error is permitted by the operator's traits and `approximate`.
    """

    node: str
    operator: str
    original: onnx.ModelProto
    rewritten: onnx.ModelProto
    oracle: Oracle | None = None
    adversarial: Adversarial | None = None
    exclude_nan: bool = False
    finite: bool = False
    whole: bool = False
    exact: bool = True
    longest: int | None = None
    approximate: bool = False


def constants_of(model: onnx.ModelProto) -> dict[str, Array]:
    """Return the values of the initializers, read-only."""
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for array in constants.values():
        array.flags.writeable = False
    return constants
