"""The options of a conversion: the one definition of their defaults, spellings and descriptions.

`Options` has its defaults from here, the docstrings of the public functions their descriptions, and the command line
its options. This module imports little, because `opshift --help` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, NamedTuple

from opshift.passes.base import arguments
from opshift.passes.base.arguments import EFFORTS, QUANTIZED, SEMANTICS, is_one_of
from opshift.passes.base.assumptions import TENSOR_OUTPUT


class Option(NamedTuple):
    """One option of a conversion.

    `meaning` describes the argument in Python, and `help` the option of the command line. `check` is called with the
    argument's name and value, and raises UsageError; it is None if other modules check the value. `flags` are the
    spellings of the command line, none for an option of Python alone, and `value` is the placeholder in its help.
    `is_request` marks an option that requests a change of the model without any other option.
    """

    default: Any
    meaning: str
    check: Callable[[str, Any], None] | None = None
    flags: tuple[str, ...] = ()
    value: str = ""
    help: str = ""
    choices: tuple[str, ...] = ()
    is_request: bool = False


OPTIONS: Mapping[str, Option] = {
    "opset": Option(
        default=None,
        meaning="the target opset of the default domain, from 7 to the installed onnx's newest; None keeps the "
        "model's.",
        flags=("--opset", "--target-opset"),
        value="N",
        help="the opset to convert to, or `latest` (default: the model's own)",
        is_request=True,
    ),
    "decompose": Option(
        default=(),
        meaning='operators to replace: "Hardmax", "com.microsoft::FastGelu", or "com.microsoft" for all of a domain.',
        check=arguments.check_names,
        flags=("--decompose",),
        value="A,B",
        help="operators to replace by others: Hardmax,ArgMax, or all of a domain: com.microsoft; and functions of the "
        "model to inline, by name or domain (default: none)",
        is_request=True,
    ),
    "target": Option(
        default=None,
        meaning="a runtime's profile: a built-in name, a TOML file or a Target.",
        flags=("--target",),
        value="NAME|FILE",
        help="a runtime profile, from `opshift targets` or a TOML file (default: none)",
        is_request=True,
    ),
    "verify": Option(
        default=True,
        meaning='compare with the original in onnxruntime, each rewritten node and the whole models; "nodes" skips the '
        "whole models and reads no weights.",
        check=arguments.check_verify,
    ),
    "semantics": Option(
        default="runtime",
        meaning='if onnxruntime and the specification differ, preserve onnxruntime\'s results ("runtime") or the '
        'specified ones ("spec").',
        check=is_one_of(SEMANTICS),
        flags=("--semantics",),
        help="if onnxruntime and the ONNX specification differ, preserve onnxruntime's results (runtime) or the "
        "specified results (spec) (default: runtime)",
        choices=SEMANTICS,
    ),
    "assume": Option(
        default=(),
        meaning='assumptions that the result may need: "no-nan", "finite-inputs", "whole-indices". With "approximate", '
        'Erf may be off by 2^-21 of each result. With "tensor-output", outputs that are maps (ZipMap of ai.onnx.ml) '
        'become tensors of scores. With "fits-int32", integers of unknown range get the narrower type that `types` '
        "requests.",
        check=arguments.check_names,
        flags=("--assume",),
        value="A,B",
        help="accept a result that is valid only under an assumption: no-nan (no input contains NaN), finite-inputs "
        "(no infinities either), whole-indices (floating-point indices of OneHot are finite integers), approximate "
        "(Erf becomes a quotient of polynomials, off by at most 2^-21 of each result), tensor-output (outputs that are "
        "maps, by ZipMap of ai.onnx.ml, become tensors of scores), fits-int32 (integers whose range is unknown fit the "
        "narrower type of --types)",
    ),
    "assume_opset": Option(
        default=None,
        meaning="read the model at this opset instead of the declared one, for models that declare a wrong one.",
        flags=("--assume-opset",),
        value="N",
        help="read the model as one of opset N, whatever it declares (default: the declared opset)",
        is_request=True,
    ),
    "ir_version": Option(
        default=None,
        meaning="the target ir_version; None selects that of the first onnx release with a lower opset, or the model's "
        "own if that is lower, and raises it only if the opset or the model's contents need more.",
        flags=("--ir-version",),
        value="N",
        help="the ir_version to write (default: that of the first onnx release with a lower opset, or the model's own)",
        is_request=True,
    ),
    "optimize": Option(
        default=False,
        meaning="also replace supported Hardmax, ArgMax and OneHot nodes if the result is faster in onnxruntime.",
        check=arguments.check_flag,
        flags=("--optimize",),
        help="also replace supported Hardmax, ArgMax and OneHot nodes if the result is faster in onnxruntime",
        is_request=True,
    ),
    "keep_initializers_as_inputs": Option(
        default=False,
        meaning="keep inputs that have an initializer; by default they become constants of the result, from ir_version "
        "4 on.",
        check=arguments.check_flag,
        flags=("--keep-initializers-as-inputs",),
        help="keep graph inputs that have an initializer (default: they become constants)",
    ),
    "input_shapes": Option(
        default=None,
        meaning="the new shapes of inputs, by name; they are declared in the model, and nodes that depend only on them "
        "are folded. -1 keeps a declared dim.",
        check=arguments.check_input_shapes,
        flags=("--input-shape",),
        value="NAME:1,3,224",
        help="give an input this shape, and fold constants; -1 keeps a dim; repeatable (default: dynamic dims stay)",
        is_request=True,
    ),
    "dims": Option(
        default=None,
        meaning="the sizes of symbolic dims of inputs, by the name of the dim.",
        check=arguments.check_dims,
        flags=("--dim",),
        value="NAME=N",
        help="give a symbolic dim of the inputs this size, such as seq=128, and fold the resulting constants; "
        "repeatable",
        is_request=True,
    ),
    "batch": Option(
        default=None,
        meaning="the size of the first dim of each input that has two or more, unless the model fixes it.",
        check=arguments.check_batch,
        flags=("--batch",),
        value="N",
        help="give the first dim of each input that has two or more this size, unless the model fixes it, and fold "
        "the resulting constants",
        is_request=True,
    ),
    "fold": Option(
        default=False,
        meaning="replace nodes whose outputs follow from shapes and constants by constants, an If whose condition "
        "follows by its branch, and drop unused nodes; also done for fixed shapes, and for a target that needs it.",
        check=arguments.check_flag,
        flags=("--fold",),
        help="replace what follows from shapes and constants by constants, and an If whose condition follows by its "
        "branch; drop unused nodes (default: if shapes are fixed or the target needs it)",
        is_request=True,
    ),
    "types": Option(
        default=None,
        meaning='the element types to change, such as {"int64": "int32"}: values inside the model get the new type '
        "where that is exact, and a Cast is inserted where an operator requires the old type. For narrower floats "
        '({"float": "float16"}), opshift runs the model on `inputs`, or generated ones, to choose the nodes.',
        check=arguments.check_type_names,
        flags=("--types",),
        value="OLD=NEW,...",
        help="change element types inside the model, such as int64=int32 or bfloat16=float, where that is exact, and "
        "float=float16 within a bound",
        is_request=True,
    ),
    "io_types": Option(
        default=False,
        meaning="give inputs and outputs of the model the new types too; by default they keep theirs.",
        check=arguments.check_flag,
        flags=("--io-types",),
        help="change the types of inputs and outputs too (default: they keep theirs, and Casts are added)",
    ),
    "quantized": Option(
        default=None,
        meaning='the form of quantized operators. "qdq": replace QLinearConv, QLinearMatMul etc. by float operators '
        'between DequantizeLinear and QuantizeLinear. "qoperator": the reverse, where results change by one step of '
        "the quantized output at most.",
        check=is_one_of(QUANTIZED),
        flags=("--quantized",),
        help="the form of quantized operators; qdq: replace QLinearConv, QLinearMatMul etc. by float operators between "
        "DequantizeLinear and QuantizeLinear; qoperator: the reverse (default: unchanged)",
        choices=QUANTIZED,
        is_request=True,
    ),
    "allow_paths": Option(
        default=(),
        meaning="directories to which links of external data may lead, in addition to the model's own.",
        check=arguments.check_names,
        flags=("--allow-path",),
        value="DIR",
        help="permit symbolic links of external data to this folder, in addition to the model's own; repeatable",
    ),
    "require_proof": Option(
        default=False,
        meaning="raise also if a node or the whole models could not be compared.",
        check=arguments.check_flag,
        flags=("--require-proof",),
        help="write nothing unless all outputs are verified",
    ),
    "inputs": Option(
        default=None,
        meaning="input values for verification: an .npz file, a test_data_set directory, values by name, or several "
        "such mappings; in the types of the input model.",
        check=arguments.check_inputs,
        flags=("--inputs",),
        value="FILE|DIR",
        help="your own input values: an .npz file, a test_data_set_N, or a folder of several (default: adversarial "
        "inputs are generated)",
    ),
    "seed": Option(
        default=0,
        meaning="the seed of the generated inputs; the same seed produces the same report.",
        check=arguments.check_seed,
        flags=("--seed",),
        value="N",
        help="the seed of the generated inputs (default: 0)",
    ),
    "timeout": Option(
        default=None,
        meaning="the time limit of planning, and of the verification after it, in seconds (None: ten minutes each; "
        "longer for the verification of large models).",
        check=arguments.check_seconds,
        flags=("--timeout",),
        value="SECONDS",
        help="the time limit of planning, and of verification (default: 600 each, more for large models)",
    ),
    "memory": Option(
        default=None,
        meaning="the memory limit of onnxruntime in bytes (None: 1 GiB, and more for large models; see `verify`).",
        check=arguments.check_memory,
        flags=("--memory",),
        value="SIZE",
        help="the memory limit of onnxruntime, such as 500M or 8G (Linux; default: 1G, more for large models)",
    ),
    "effort": Option(
        default="normal",
        meaning='the CPU time of the verification: "quick", "normal" or "thorough"; see `verify`.',
        check=is_one_of(tuple(EFFORTS)),
        flags=("--effort",),
        help="the CPU time for comparing the whole models: 9 times the time in which onnxruntime opens both models "
        "and runs each once (normal, the default), a third of that (quick), or ten times as much (thorough)",
        choices=tuple(EFFORTS),
    ),
    "max_time": Option(
        default=None,
        meaning="stop the verification after this many seconds once the minimum number of inputs is tried.",
        check=arguments.check_seconds,
        flags=("--max-time",),
        value="SECONDS",
        help="stop after this time once the minimum number of inputs is tried; the comparisons up to then count",
    ),
    "save_repro": Option(
        default=None,
        meaning="a directory for two small models and the input on which they differ, if they do.",
        check=arguments.check_folder,
        flags=("--save-repro",),
        value="DIR",
        help="if the models differ, write the differing part of each model, and an input, to this folder",
    ),
    "progress": Option(
        default=None,
        meaning="called with a stage, the steps done and all steps.",
        check=arguments.check_progress,
    ),
}
"""The options by the name of their argument in Python, in the order in which the documentation lists them."""


def check_arguments(asked: Mapping[str, Any]) -> None:
    """Raise UsageError, with a sentence, for an argument of `convert` with an unsupported type or value.

    An argument that is None by default accepts None.
    """
    for name, value in asked.items():
        option = OPTIONS[name]
        if option.check is not None and (value is not None or option.default is not None):
            option.check(name, value)


def requests_nothing(asked: Mapping[str, Any]) -> bool:
    """Return whether these arguments request no change of a model, only how to read, verify or write it."""
    changes = (value for name, value in asked.items() if OPTIONS[name].is_request)
    return all(map(_is_empty, changes)) and TENSOR_OUTPUT not in asked["assume"]


def _is_empty(value: Any) -> bool:
    """Return whether a value is None, False or an empty collection."""
    if isinstance(value, Sequence | Set | Mapping):
        return value != "" and not value
    return value is None or value is False
