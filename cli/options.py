"""Options that several commands share."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterable
from typing import Any, NoReturn, TextIO

from opshift.cli.terminal import message, write
from opshift.passes.base.arguments import EFFORTS, QUANTIZED
from opshift.passes.base.errors import UsageError
from opshift.passes.base.memory import LEAST_ASKED

REPORTS = (".html", ".json", ".md")
"""The formats of a report, by the suffix of its file."""

PAGE_NEEDS = "jinja2"
"""The package that an HTML report needs, from the extra `report`."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises instead of exiting, so that errors are printed in one place."""

    def __init__(self, **settings: Any) -> None:
        """Reject abbreviated options: a new option would change their meaning."""
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **settings)

    def error(self, message: str) -> NoReturn:
        """Raise argparse's message as a usage error."""
        end = "" if message.endswith((".", "?")) else "."
        raise UsageError(f"{message}{end} See `{self.prog} --help`.")

    def _print_message(self, message: str, file: TextIO | None = None) -> None:  # type: ignore[override]
        """Print help or a version through the escaping writer."""
        write(file or sys.stderr, message)

    def refuse(self, unknown: list[str]) -> NoReturn:
        """Raise for unknown arguments, with the nearest option."""
        word = unknown[0].split("=")[0]
        known = [name for name in self._option_string_actions if name.startswith("--")]
        self.error(f"unknown argument {word!r}{did_you_mean(word, known)}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `. Did you mean X?` if a known word is similar, otherwise a full stop."""
    import difflib

    by_folded = {name.casefold().lstrip("-"): name for name in known}
    near = difflib.get_close_matches(word.casefold().lstrip("-"), by_folded, n=1)
    return f". Did you mean {by_folded[near[0]]!r}?" if near else "."


def whole_number(text: str, wanted: str = "a whole number") -> int:
    """Read a number that is not negative."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{wanted} is needed, not {text!r}")
    return int(text)


def opset(text: str) -> int:
    """Read an opset; `latest` is the newest one that opshift supports."""
    if text != "latest":
        return whole_number(text, "a whole number, or latest,")
    from opshift.opsets.registry.schema import NEWEST

    return NEWEST


def seconds(text: str) -> float:
    """Read a positive number of seconds."""
    import threading

    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(f"a number of seconds is needed, such as 30, not {text!r}")
    return found


_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def size(text: str) -> int:
    """Read a number of bytes: `500M`, `8G`. At least 64 MiB: with less, libraries crash the process."""
    number = text.rstrip("kKmMgGtT")
    unit = text[len(number) :].upper()
    if not (number.isascii() and number.isdigit() and unit in _UNITS):
        raise argparse.ArgumentTypeError(f"a size is needed, such as 500M or 8G, not {text!r}")
    if int(number) * _UNITS[unit] < LEAST_ASKED:
        raise argparse.ArgumentTypeError(f"a size such as 500M or 8G is needed, 64M or more, not {text!r}")
    return int(number) * _UNITS[unit]


def names(text: str) -> list[str]:
    """Read names separated by commas."""
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"names between commas are needed, such as Hardmax,ArgMax, not {text!r}")
    return found


def assumptions(text: str) -> list[str]:
    """Read assumptions separated by commas."""
    from opshift.passes.base.results import ACCEPTED

    found = names(text)
    for name in found:
        if name not in ACCEPTED:
            meant = did_you_mean(name, ACCEPTED)
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(ACCEPTED)}{meant}")
    return found


def formerly_allowed(text: str) -> list[str]:
    """Read the values of the former option `--allow`: assumptions, and `nan`, which is obsolete."""
    message("--allow is now called --assume" + ", and nan is no longer needed" * ("nan" in names(text)) + ".")
    kept = [name for name in names(text) if name != "nan"]
    return assumptions(",".join(kept)) if kept else []


def input_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Read `x:1,3,224,224`; the name may contain colons, `x:` is a scalar, and -1 keeps a dim."""
    name, colon, dims = text.rpartition(":")
    sizes = dims.split(",") if dims else []
    if not name or not colon or not all(size == "-1" or (size.isascii() and size.isdigit()) for size in sizes):
        raise argparse.ArgumentTypeError(
            f"a name and sizes are needed, such as x:1,3,224,224, or x:-1,3,224,224 to keep a dim, not {text!r}"
        )
    return name, tuple(int(size) for size in sizes)


def dim(text: str) -> tuple[str, int]:
    """Read `seq=128`; the name may contain equals signs."""
    name, equals, number = text.rpartition("=")
    if not name or not equals or not (number.isascii() and number.isdigit()):
        raise argparse.ArgumentTypeError(f"a name and a size are needed, such as seq=128, not {text!r}")
    return name, int(number)


def type_changes(text: str) -> list[tuple[str, str]]:
    """Read `int64=int32,double=float`; the type names are checked later."""
    pairs = [tuple(pair.partition("=")[::2]) for pair in text.split(",")]
    if not all(old and new for old, new in pairs):
        raise argparse.ArgumentTypeError(f"old and new element types are needed, such as int64=int32, not {text!r}")
    return [(old, new) for old, new in pairs]


def add_output_options(parser: argparse._ActionsContainer) -> None:
    """Add the options of every command."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--debug", action="store_true", help="print a traceback on errors")


def add_run_options(
    parser: argparse.ArgumentParser,
    group: argparse._ActionsContainer | None = None,
    verbose: str = "list every node with its lowerings, all operators, and the stages",
) -> None:
    """Add the output options of commands that read models, by default in a separate group."""
    group = group or parser.add_argument_group("output")
    group.add_argument(
        "--report",
        metavar="FILE",
        help="write a report to this file: an HTML page (.html), Markdown (.md), or the --json output (.json)",
    )
    amount = group.add_mutually_exclusive_group()
    amount.add_argument("-v", "--verbose", action="store_true", help=verbose)
    amount.add_argument("-q", "--quiet", action="store_true", help="print only the last line of the result")
    add_output_options(group)


def add_request_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that define a conversion."""
    group = parser.add_argument_group("request")
    group.add_argument(
        "--opset",
        "--target-opset",
        metavar="N",
        type=opset,
        help="the opset to convert to, or `latest` (default: the model's own)",
    )
    group.add_argument(
        "--decompose",
        metavar="A,B",
        type=names,
        action="extend",
        default=[],
        help="operators to replace by others: Hardmax,ArgMax, or all of a domain: com.microsoft; and functions of the "
        "model to inline, by name or domain (default: none)",
    )
    group.add_argument(
        "--target", metavar="NAME|FILE", help="a runtime profile, from `opshift targets` or a TOML file (default: none)"
    )
    group.add_argument(
        "--optimize",
        action="store_true",
        help="also replace supported Hardmax, ArgMax and OneHot nodes if the result is faster in onnxruntime",
    )
    group.add_argument(
        "--ir-version",
        metavar="N",
        type=whole_number,
        help="the ir_version to write (default: that of the first onnx release with a lower opset, or the model's own)",
    )
    group.add_argument(
        "--keep-initializers-as-inputs",
        action="store_true",
        help="keep graph inputs that have an initializer (default: they become constants)",
    )
    add_shape_options(group)
    _add_type_options(group)
    group.add_argument(
        "--quantized",
        choices=QUANTIZED,
        help="the form of quantized operators; qdq: replace QLinearConv, QLinearMatMul etc. by float operators between "
        "DequantizeLinear and QuantizeLinear; qoperator: the reverse (default: unchanged)",
    )
    add_allow_path(group)
    add_assume(group)
    group.add_argument(
        "--allow", dest="assume", metavar="A,B", type=formerly_allowed, action="extend", help=argparse.SUPPRESS
    )
    add_assume_opset(group)
    group.add_argument(
        "--semantics",
        choices=("runtime", "spec"),
        default="runtime",
        help="if onnxruntime and the ONNX specification differ, preserve onnxruntime's results (runtime) or the "
        "specified results (spec) (default: runtime)",
    )


def add_assume_opset(group: argparse._ActionsContainer, what: str = "the model") -> None:
    """Add the option that reads a model at another opset than the declared one."""
    group.add_argument(
        "--assume-opset",
        metavar="N",
        type=whole_number,
        help=f"read {what} as one of opset N, whatever it declares (default: the declared opset)",
    )


def add_assume(group: argparse._ActionsContainer) -> None:
    """Add the option that accepts assumptions."""
    group.add_argument(
        "--assume",
        metavar="A,B",
        type=assumptions,
        action="extend",
        default=[],
        help="accept a result that is valid only under an assumption: no-nan (no input contains NaN), finite-inputs "
        "(no infinities either), whole-indices (floating-point indices of OneHot are finite integers), approximate "
        "(Erf becomes a quotient of polynomials, off by at most 2^-21 of each result), tensor-output (outputs that are "
        "maps, by ZipMap of ai.onnx.ml, become tensors of scores), fits-int32 (integers whose range is unknown fit the "
        "narrower type of --types)",
    )


def _add_input_shape(group: argparse._ActionsContainer, text: str) -> None:
    group.add_argument(
        "--input-shape", metavar="NAME:1,3,224", type=input_shape, action="append", default=[], help=text
    )


def add_shape_options(group: argparse._ActionsContainer) -> None:
    """Add the options that fix shapes and fold."""
    _add_input_shape(
        group, "give an input this shape, and fold constants; -1 keeps a dim; repeatable (default: dynamic dims stay)"
    )
    group.add_argument(
        "--dim",
        metavar="NAME=N",
        type=dim,
        action="append",
        default=[],
        help="give a symbolic dim of the inputs this size, such as seq=128, and fold the resulting "
        "constants; repeatable",
    )
    group.add_argument(
        "--batch",
        metavar="N",
        type=whole_number,
        help="give the first dim of each input that has two or more this size, unless the model fixes it, and fold "
        "the resulting constants",
    )
    group.add_argument(
        "--fold",
        action="store_true",
        help="replace what follows from shapes and constants by constants, and an If whose condition follows by its "
        "branch; drop unused nodes (default: if shapes are fixed or the target needs it)",
    )


def _add_type_options(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--types",
        metavar="OLD=NEW,...",
        type=type_changes,
        action="append",
        default=[],
        help="change element types inside the model, such as int64=int32 or bfloat16=float, where that is exact, and "
        "float=float16 within a bound",
    )
    group.add_argument(
        "--io-types",
        action="store_true",
        help="change the types of inputs and outputs too (default: they keep theirs, and Casts are added)",
    )


def add_allow_path(parser: argparse._ActionsContainer) -> None:
    """Add the option that permits links of external data."""
    parser.add_argument(
        "--allow-path",
        metavar="DIR",
        action="append",
        default=[],
        help="permit symbolic links of external data to this folder, in addition to the model's own; repeatable",
    )


def add_verify_options(parser: argparse.ArgumentParser) -> argparse._ActionsContainer:
    """Add the options of a verification; return the group, so that a command can add its own."""
    group = parser.add_argument_group("verification")
    group.add_argument(
        "--inputs",
        metavar="FILE|DIR",
        help="your own input values: an .npz file, a test_data_set_N, or a folder of several (default: adversarial "
        "inputs are generated)",
    )
    group.add_argument("--seed", metavar="N", type=whole_number, help="the seed of the generated inputs (default: 0)")
    group.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        help="the time limit of planning, and of verification (default: 600 each, more for large models)",
    )
    group.add_argument(
        "--memory",
        metavar="SIZE",
        type=size,
        help="the memory limit of onnxruntime, such as 500M or 8G (Linux; default: 1G, more for large models)",
    )
    group.add_argument(
        "--effort",
        choices=tuple(EFFORTS),
        help="the CPU time for comparing the whole models: 9 times the time in which onnxruntime opens both models "
        "and runs each once (normal, the default), a third of that (quick), or ten times as much (thorough)",
    )
    group.add_argument(
        "--max-time",
        metavar="SECONDS",
        type=seconds,
        help="stop after this time once the minimum number of inputs is tried; the comparisons up to then count",
    )
    group.add_argument(
        "--save-repro",
        metavar="DIR",
        help="if the models differ, write the differing part of each model, and an input, to this folder",
    )
    return group


def add_verified_shapes(group: argparse._ActionsContainer) -> None:
    """Add the option for the shapes of a verification of two models."""
    _add_input_shape(
        group, "the shape of an input with dynamic dimensions; repeatable (default: several sizes are tried)"
    )


def add_weights_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the destination of weights."""
    group = parser.add_argument_group("weights")
    weights = group.add_mutually_exclusive_group()
    weights.add_argument(
        "--external-data",
        choices=("keep", "copy", "embed"),
        help="external weights: keep the files where they are, copy them next to OUT, or embed them in OUT (default: "
        "keep if OUT is in the folder of IN, else copy)",
    )
    weights.add_argument(
        "--save-as-external-data", action="store_true", help="write all weights to one file next to OUT, OUT.data"
    )
    group.add_argument(
        "--size-threshold",
        metavar="BYTES",
        type=whole_number,
        help="with --save-as-external-data: smaller weights stay in OUT (default: 1024)",
    )


def weights(options: argparse.Namespace) -> dict[str, Any]:
    """Return the weights options as arguments of `Result.save`."""
    if options.size_threshold is not None and not options.save_as_external_data:
        raise UsageError("--size-threshold is for --save-as-external-data: give both or neither.")
    threshold = 1024 if options.size_threshold is None else options.size_threshold
    return {
        "external_data": "save" if options.save_as_external_data else options.external_data,
        "size_threshold": threshold,
    }


def verification(options: argparse.Namespace) -> dict[str, Any]:
    """Return the verification options as arguments of `convert` and `verify`."""
    return {
        "inputs": options.inputs,
        "seed": options.seed or 0,
        "timeout": options.timeout,
        "memory": options.memory,
        "effort": options.effort or "normal",
        "max_time": options.max_time,
        "save_repro": options.save_repro,
    }


def request(options: argparse.Namespace) -> dict[str, Any]:
    """Return the request options as arguments of `convert` and `plan`."""
    asked = (options.opset, options.target, options.ir_version, options.batch, options.assume_opset)
    wishes = (
        options.decompose or options.optimize or options.input_shape or options.dim or options.fold or options.types
    ) or options.quantized
    if all(wish is None for wish in asked) and not wishes and "tensor-output" not in options.assume:
        model = options.model if isinstance(options.model, str) else options.model[0]
        raise UsageError(
            "nothing was requested: give --opset N, --decompose OPERATOR, --target NAME, --ir-version N, --input-shape "
            f"NAME:1,3,224, --types OLD=NEW, --quantized qdq, --fold or --optimize; `opshift inspect {model}` shows "
            "the opsets it can be converted to; with its own opset, the model is only repaired."
        )
    if options.target is not None:
        check_target(options.target)
    return {
        "opset": options.opset,
        "decompose": tuple(dict.fromkeys(options.decompose)),
        "target": options.target,
        "semantics": options.semantics,
        "assume": tuple(dict.fromkeys(options.assume)),
        "assume_opset": options.assume_opset,
        "ir_version": options.ir_version,
        "optimize": options.optimize,
        "keep_initializers_as_inputs": options.keep_initializers_as_inputs,
        "input_shapes": input_shapes(options),
        "dims": dims(options),
        "batch": options.batch,
        "fold": options.fold,
        "types": types(options),
        "io_types": options.io_types,
        "quantized": options.quantized,
        "allow_paths": tuple(options.allow_path),
    }


def input_shapes(options: argparse.Namespace) -> dict[str, tuple[int, ...]] | None:
    """Return the shapes by input, or None without any."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, shape in options.input_shape:
        if name in shapes:
            raise UsageError(f"--input-shape gives {name!r} twice; keep one.")
        shapes[name] = shape
    return shapes or None


def types(options: argparse.Namespace) -> dict[str, str] | None:
    """Return the new element types by the old ones, or None without any."""
    changes: dict[str, str] = {}
    for old, new in (pair for pairs in options.types for pair in pairs):
        if changes.setdefault(old, new) != new:
            raise UsageError(f"--types gives {old} two new types, {changes[old]} and {new}; keep one.")
    return changes or None


def dims(options: argparse.Namespace) -> dict[str, int] | None:
    """Return the sizes by symbolic dim, or None without any."""
    sizes: dict[str, int] = {}
    for name, size in options.dim:
        if sizes.setdefault(name, size) != size:
            raise UsageError(f"--dim gives {name!r} two sizes, {sizes[name]} and {size}; keep one.")
    return sizes or None


def check_target(asked: str) -> None:
    """Raise if the target is neither a built-in profile nor a file."""
    from opshift.opsets.runtimes.profiles import builtin_targets, is_builtin, near_releases

    if not is_builtin(asked) and not os.path.exists(asked):  # noqa: PTH110 (Path.exists raises for an overlong name)
        raise UsageError(
            f"{asked!r} is neither a built-in target nor a file"
            f"{near_releases(asked) or did_you_mean(asked, builtin_targets())} "
            "`opshift targets` lists the built-in ones."
        )


def same_file(one: str, other: str) -> bool:
    """Return whether both paths refer to one file, which need not exist."""
    from pathlib import Path

    with contextlib.suppress(OSError):
        return Path(one).samefile(other)
    with contextlib.suppress(OSError):  # Python 3.14 raises for an overlong name
        return os.path.normcase(os.path.realpath(one)) == os.path.normcase(os.path.realpath(other))
    return False


def check_writable(path: str, option: str = "") -> None:
    """Raise early for a path that cannot be written, before minutes are spent on a model."""
    import stat
    from pathlib import Path

    place, regular, named = Path(path), True, f"{option} {path}".strip()
    try:
        if not place.parent.is_dir():
            raise UsageError(f"{named}: there is no folder {str(place.parent)!r}; create it first.")
        with contextlib.suppress(FileNotFoundError):  # exists() is silent on an overlong name since Python 3.14
            regular = stat.S_ISREG(place.stat().st_mode)
        if not regular:
            raise UsageError(f"{named}: this is not a regular file; name one that can be replaced.")
    except (OSError, ValueError) as error:
        raise UsageError(f"{named} cannot be written: {error}.") from error


def check_report(path: str | None, others: Iterable[str], *, named: str = "--report") -> None:
    """Raise for an unsupported report format, or a report that would replace a model."""
    if path is None:
        return
    import importlib.util
    from pathlib import Path

    shown = f"{named} {path}".strip()
    suffix = Path(path).suffix.casefold()
    if suffix not in REPORTS:
        raise UsageError(f"{shown}: name a file that ends in {', '.join(REPORTS[:-1])} or {REPORTS[-1]}.")
    if suffix == ".html" and importlib.util.find_spec(PAGE_NEEDS) is None:
        raise UsageError(
            f"{shown} needs {PAGE_NEEDS}: install it with `pip install {PAGE_NEEDS}`, "
            "or name a file that ends in .json or .md."
        )
    if any(same_file(path, other) for other in others):
        raise UsageError(f"{shown} would replace a model; name another file.")
    check_writable(path, named)
