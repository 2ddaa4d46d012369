"""Options that several commands share."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, TextIO

from opshift.cli.terminal import message, write
from opshift.passes.base.assumptions import ACCEPTED
from opshift.passes.base.errors import UsageError
from opshift.passes.base.memory import LEAST_ASKED
from opshift.passes.base.option_table import OPTIONS, requests_nothing

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


_READERS: Mapping[str, Callable[[str], Any]] = {
    "opset": opset,
    "decompose": names,
    "assume": assumptions,
    "assume_opset": whole_number,
    "ir_version": whole_number,
    "input_shapes": input_shape,
    "dims": dim,
    "batch": whole_number,
    "types": type_changes,
    "seed": whole_number,
    "timeout": seconds,
    "memory": size,
    "max_time": seconds,
}
"""The functions that read the values of options, by name; other values stay text."""

_LISTS = {"decompose": "extend", "assume": "extend", "types": "extend"} | dict.fromkeys(
    ("input_shapes", "dims", "allow_paths"), "append"
)
"""The options that collect several values, and argparse's action for each."""

_SHAPES = ("input_shapes", "dims", "batch", "fold")
_REQUEST = (
    *("opset", "decompose", "target", "optimize", "ir_version", "keep_initializers_as_inputs", *_SHAPES),
    *("types", "io_types", "quantized", "allow_paths", "assume", "assume_opset", "semantics"),
)
_VERIFICATION = ("inputs", "seed", "timeout", "memory", "effort", "max_time", "save_repro")


def add_options(group: argparse._ActionsContainer, *names: str, described: str = "") -> None:
    """Add options of a conversion, as option_table.py defines them; an option that is not set is None or empty."""
    for name in names:
        option = OPTIONS[name]
        settings: dict[str, Any] = {"dest": name, "help": described or option.help}
        if option.default is False:
            settings["action"] = "store_true"
        elif option.choices:
            settings["choices"] = option.choices
        else:
            settings |= {"metavar": option.value, "type": _READERS.get(name, str)}
            settings |= {"action": _LISTS[name], "default": []} if name in _LISTS else {}
        group.add_argument(*option.flags, **settings)


def add_request_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that define a conversion."""
    group = parser.add_argument_group("request")
    add_options(group, *_REQUEST)
    group.add_argument("--allow", dest="assume", type=formerly_allowed, action="extend", help=argparse.SUPPRESS)


def add_shape_options(group: argparse._ActionsContainer) -> None:
    """Add the options that fix shapes and fold."""
    add_options(group, *_SHAPES)


def add_verify_options(parser: argparse.ArgumentParser) -> argparse._ActionsContainer:
    """Add the options of a verification; return the group, so that a command can add its own."""
    group = parser.add_argument_group("verification")
    add_options(group, *_VERIFICATION)
    return group


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


def arguments(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return options as arguments of Python functions; options that are not set have their defaults."""
    return {name: _argument(name, getattr(options, name)) for name in names}


def _argument(name: str, value: Any) -> Any:
    if value is None:
        return OPTIONS[name].default
    if name == "input_shapes":
        return _shapes(value)
    if name in _NAMED:
        return _pairs(name, value)
    return tuple(dict.fromkeys(value)) if name in _LISTS else value


def verification(options: argparse.Namespace) -> dict[str, Any]:
    """Return the verification options as arguments of `convert` and `verify`."""
    return arguments(options, *_VERIFICATION)


def used_verification(options: argparse.Namespace) -> list[str]:
    """Return the spellings of the verification options that are set."""
    return [OPTIONS[name].flags[0] for name in _VERIFICATION if getattr(options, name) is not None]


def request(options: argparse.Namespace) -> dict[str, Any]:
    """Return the request options as arguments of `convert` and `plan`."""
    asked = arguments(options, *_REQUEST)
    if requests_nothing(asked):
        model = options.model if isinstance(options.model, str) else options.model[0]
        raise UsageError(
            "nothing was requested: give --opset N, --decompose OPERATOR, --target NAME, --ir-version N, --input-shape "
            f"NAME:1,3,224, --types OLD=NEW, --quantized qdq, --fold or --optimize; `opshift inspect {model}` shows "
            "the opsets it can be converted to; with its own opset, the model is only repaired."
        )
    if options.target is not None:
        check_target(options.target)
    return asked


def _shapes(pairs: Iterable[tuple[str, tuple[int, ...]]]) -> dict[str, tuple[int, ...]] | None:
    """Return the shapes by input, or None without any."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, shape in pairs:
        if name in shapes:
            raise UsageError(f"--input-shape gives {name!r} twice; keep one.")
        shapes[name] = shape
    return shapes or None


_NAMED = {"types": ("{!s}", "new types"), "dims": ("{!r}", "sizes")}
"""The options that map names to one value each, with the words of their error message."""


def _pairs(name: str, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any] | None:
    """Return the values by name, or None without any."""
    found: dict[str, Any] = {}
    shown, values = _NAMED[name]
    for key, value in pairs:
        if found.setdefault(key, value) != value:
            flag = OPTIONS[name].flags[0]
            raise UsageError(f"{flag} gives {shown.format(key)} two {values}, {found[key]} and {value}; keep one.")
    return found or None


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
