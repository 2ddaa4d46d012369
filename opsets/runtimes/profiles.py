"""Read runtimes' profiles from TOML files into `Target`s, and report errors of invalid ones."""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import itertools
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from opshift.opsets.registry.schema import NEWEST, OLDEST, foreign_operators, schema_at
from opshift.opsets.runtimes import kernel_profile, kernels, limit_keys, releases
from opshift.opsets.runtimes.limits import Limit
from opshift.opsets.runtimes.profile_source import ProfileError, ProfileSource, near
from opshift.opsets.runtimes.releases import Release
from opshift.opsets.runtimes.target import Target

INSTALLED = "onnxruntime"
"""The profile without a file: it is read from the installed onnxruntime."""

_KEYS: Mapping[str, type] = {
    "name": str,
    "base": str,
    "version": str,
    "opset": list,
    "ir_version": list,
    "functions": bool,
    "static": bool,
    "measured": bool,
    "types": list,
    "input_types": list,
    "output_types": list,
    "constant_types": list,
    "narrows": dict,
    "constant_outputs": bool,
    "unused_inputs": bool,
    "declared_shapes": bool,
    "domains": dict,
    "operators": list,
    "without": list,
    "limits": list,
}


def parse_target(text: str, where: str) -> Target:
    """Read a profile from TOML text; `where` is the file name in errors.

    Raises `ProfileError` for the first mistake.
    """
    return _Reader(text, where).target()


@functools.cache
def builtin_targets() -> tuple[str, ...]:
    """Return the names of opshift's profiles, including onnxruntime's if it is installed."""
    folder = importlib.resources.files("opshift.opsets").joinpath("targets")
    names = {item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml")}
    names |= {one.name for one in releases.releases()} | ({INSTALLED} if kernels.newest_opset() else set())
    return tuple(sorted(names, key=_numbered))


def is_builtin(name: str) -> bool:
    """Return whether a name is that of an opshift profile; onnxruntime-1.12.1 is its minor release's."""
    return name in builtin_targets() or releases.release_of(name) is not None


def near_releases(name: str) -> str:
    """Return all releases of onnxruntime in words, for a name that resembles one."""
    return f"; there are {_released_names()}." if name.startswith(releases.PREFIX) else ""


def _released_names() -> str:
    return ", ".join(one.name for one in releases.releases())


def _numbered(name: str) -> list[str | int]:
    """Return a key that sorts 1.6 before 1.10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


@functools.cache
def _released(release: Release) -> Target:
    return parse_target(releases.profile(release), release.name)


@functools.cache
def _installed_target() -> Target:
    limits = releases.limits_of_attributes(kernels.version())
    return parse_target(kernel_profile.profile() + limits, "the installed onnxruntime")


@functools.cache
def _built_in(name: str) -> Target:
    file = importlib.resources.files("opshift.opsets").joinpath("targets", f"{name}.toml")
    return parse_target(file.read_text(encoding="utf-8"), f"built-in profile {name}")


def load_target(name: str) -> Target:
    """Return a built-in profile by its name, or read one from a TOML file.

    Raises `ProfileError` if neither exists or the file is invalid.
    """
    if name == INSTALLED:
        if kernels.newest_opset() is None:
            raise ProfileError(
                "the profile onnxruntime needs onnxruntime, which is not installed: pip install 'onnxruntime>=1.32'"
            )
        return _installed_target()
    if release := releases.release_of(name):
        return _released(release)
    if name in builtin_targets():
        return _built_in(name)
    path = Path(name)
    try:
        return parse_target(_text_of(path), str(path))
    except ProfileError:
        raise
    except (OSError, ValueError) as error:  # ValueError: invalid UTF-8, or an impossible file name
        others = ", ".join(one for one in builtin_targets() if releases.release_of(one) is None)
        known = f"{others}, {_released_names()}"
        raise ProfileError(f"{name} is neither a built-in profile ({known}) nor a readable file ({error})") from error


_LARGEST = 2**20
"""The maximum size of a profile in bytes: one of all operators has a hundredth of that."""

_DEEPEST = 64
"""The maximum depth of nested brackets: tomllib is recursive."""


def _text_of(path: Path) -> str:
    """Return the text of a file. Devices and pipes, which may be endless, are not read.

    Raises OSError, UnicodeDecodeError, or `ProfileError` if it is not a file or too large.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # opening a FIFO would block
    if not stat.S_ISREG(path.stat().st_mode):  # opening some devices has effects
        raise ProfileError(f"{path}: this is not a regular file; name a TOML file.")
    with os.fdopen(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ProfileError(f"{path}: this is not a regular file; name a TOML file.")
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ProfileError(f"{path}: a profile has at most {_LARGEST} bytes; this file has more.")
    return data.decode("utf-8")


def _depth(text: str) -> int:
    """Return the maximum depth of nested brackets."""
    steps = (1 if one in "[{" else -1 for one in re.sub(r"[^][{}]", "", text))
    return max(itertools.accumulate(steps), default=0)


def _has_long_key(text: str) -> bool:
    """Return whether a key has many parts: tomllib creates a table for each, in quadratic time."""
    without_strings = re.sub(r"""[ \t]+|"[^"\n]*"|'[^'\n]*'""", lambda found: "" if found[0].isspace() else "a", text)
    return re.search(r"(?<![\w.-])(?:[\w-]+\.){%d}" % _DEEPEST, without_strings) is not None  # noqa: UP031 (braces)


class _Reader:
    """Reads a profile."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where
        self._source = ProfileSource(text, where)

    def target(self) -> Target:
        if _depth(self.text) > _DEEPEST:
            raise ProfileError(f"{self.where}: brackets are nested more than {_DEEPEST} deep.")
        if _has_long_key(self.text):
            raise ProfileError(f"{self.where}: a key has more than {_DEEPEST} parts.")
        try:
            table = tomllib.loads(self.text)
        except RecursionError as error:
            raise ProfileError(f"{self.where}: tables are nested too deep.") from error
        except tomllib.TOMLDecodeError as error:
            place = re.search(r" \(at line (\d+), column \d+\)$", str(error))
            line = int(place[1]) if place else len(self.text.splitlines()) or 1
            what = re.sub(r" \(at [^)]*\)$", "", str(error))
            raise ProfileError(f"{self.where}:{line}: not valid TOML: {what}") from error
        except ValueError as error:  # int() and date() refuse what TOML's grammar permits
            raise ProfileError(f"{self.where}: not valid TOML: {error}") from error
        self._source.keys(table, _KEYS)
        if not table.get("name", "").strip():
            self._source.wrong("a profile needs a name", *(["name"] if "name" in table else []))
        base = self._base(table)
        span = self._source.pair("opset", table.get("opset")) or base.opset
        if span[0] > NEWEST or span[1] < OLDEST:
            self._source.wrong(f"opsets {span[0]} to {span[1]} are outside of {OLDEST} to {NEWEST}", "opset")
        operators = self._operators(table, "operators")
        without = self._operators(table, "without")
        for name in without or ():
            if name in (operators or ()):
                self._source.wrong(f"{name} is both in operators and in without; take it out of one", "without", name)
        lists = ("types", "input_types", "output_types", "constant_types")
        flags = ("functions", "static", "constant_outputs", "unused_inputs", "declared_shapes")
        inherited: dict[str, Any] = {
            **{key: self._types(table, key) or getattr(base, key) for key in lists},
            **{key: table.get(key, getattr(base, key)) for key in flags},
        }
        target = dataclasses.replace(
            base,
            name=table["name"],
            base=base.base or table.get("base", ""),
            opset=(max(span[0], OLDEST), min(span[1], NEWEST)),
            ir_version=self._source.pair("ir_version", table.get("ir_version")) or base.ir_version,
            operators=base.operators if operators is None else frozenset(operators),
            without=base.without.union(without or ()).difference(operators or ()),
            source=self.text,
            version=table.get("version", ""),
            measured=table.get("measured", False),
            narrows={**base.narrows, **self._narrowed(table.get("narrows", {}))},
            domains={**base.domains, **self._domains(table.get("domains", {}))},
            **inherited,
        )
        return dataclasses.replace(target, limits=(*base.limits, *self._limits(table.get("limits", []), target)))

    def _base(self, table: Mapping[str, Any]) -> Target:
        """Return the profile that this one starts from: one that has everything, unless it names another."""
        name = table.get("base")
        if name is None:
            return Target(name="")
        if name == INSTALLED or not is_builtin(name):
            others = ", ".join(one for one in builtin_targets() if one != INSTALLED)
            self._source.wrong(f"base is the name of a built-in profile, not {name!r}; there are {others}", "base")
        return load_target(name)

    # --- parts --------------------------------------------------------------------------------------------------------

    def _limits(self, items: Sequence[Any], target: Target) -> Iterator[Limit]:
        seen: list[Any] = []
        for self._source.limit, item in enumerate(items, 1):
            if not isinstance(item, dict):
                self._source.wrong("each limit is a table: write [[limits]] above it", "limits")
            self._source.keys(item, {key: entry.value_type for key, entry in limit_keys.KEYS.items()}, above=_KEYS)
            if "operator" not in item:
                self._source.wrong("a limit needs an operator")
            name = self._operator(item["operator"], "operator")
            if not target.has(name):
                gone = "is listed in without" if name in target.without else "is not among operators"
                self._source.wrong(f"{name} {gone}, so a limit on it has no effect", "operator")
            if item in seen:
                self._source.wrong(f"this limit on {name} is listed twice", "operator")
            seen.append(item)
            if not any(limit_keys.KEYS[key].limits for key in item):
                keys = ", ".join(key for key, entry in limit_keys.KEYS.items() if entry.limits)
                self._source.wrong(f"this limit on {name} limits nothing; add one of {keys}", "operator")
            if item.get("never") and not item.get("reason"):
                self._source.wrong(f"add a reason why {name} must never be used", "never")
            low, high = self._source.pair("opset", item.get("opset")) or target.opset
            found = (schema_at("", name, opset) for opset in range(max(low, OLDEST), min(high, NEWEST) + 1))
            schemas = [schema for schema in found if schema]
            if not schemas:
                self._source.wrong(f"no opset from {low} to {high} has {name}", "operator")
            yield limit_keys.read(item, self._source, schemas)
        self._source.limit = 0

    def _types(self, table: Mapping[str, Any], key: str) -> tuple[str, ...]:
        names = [self._source.dtype(name, key) for name in table.get(key, [])]
        if not names and key in table:
            self._source.wrong(f"{key} is empty; omit it if the runtime has all element types", key)
        self._source.once(names, key)
        return tuple(names)

    def _narrowed(self, table: Mapping[str, Any]) -> dict[str, str]:
        found = {
            self._source.dtype(name, "narrows"): self._source.dtype(other, "narrows", name)
            for name, other in table.items()
        }
        for name, other in found.items():
            if name == other:
                self._source.wrong(f"{name} is computed in itself; omit it", "narrows", name)
        return found

    def _domains(self, table: Mapping[str, Any]) -> dict[str, int | frozenset[str]]:
        found: dict[str, int | frozenset[str]] = {}
        for name, supported in table.items():
            if not name or name == "ai.onnx":
                self._source.wrong("the default domain has its own keys: opset, operators and without", "domains")
            if isinstance(supported, list):
                found[name] = self._foreign(name, supported)
            elif type(supported) is int and supported > 0:
                found[name] = supported
            else:
                what = "the list of operators that the runtime supports, or the newest opset that it loads"
                self._source.wrong(f"{name} has {what}, not {supported}", "domains", name)
        return found

    def _foreign(self, domain: str, names: Sequence[Any]) -> frozenset[str]:
        """Return the operators of another domain that a profile lists; those of known domains must exist."""
        known = foreign_operators(domain)
        for name in names:
            if not isinstance(name, str):
                self._source.wrong(f"{domain} holds names of operators, not {name!r}", "domains", domain)
            if known and name not in known:
                self._source.wrong(f"{domain} has no operator {name!r}{near(name, known)}", "domains", domain, name)
        self._source.once(names, "domains", domain)
        return frozenset(names)

    def _operators(self, table: Mapping[str, Any], key: str) -> list[str] | None:
        if key not in table:
            return None
        names = [self._operator(name, key) for name in table[key]]
        if not names and key == "operators":
            self._source.wrong("operators is empty; omit it if the runtime supports all operators of its opsets", key)
        self._source.once(names, key)
        return names

    def _operator(self, name: Any, key: str) -> str:
        if not isinstance(name, str):
            self._source.wrong(f"{key} holds names of operators, not {name!r}", key)
        if not any(schema_at("", name, opset) for opset in range(NEWEST, OLDEST - 1, -1)):
            known = {item.name for item in onnx.defs.get_all_schemas() if not item.domain}
            other = " (this key lists operators of the default domain only)" if ":" in name else ""
            self._source.wrong(f"no operator is called {name!r}{other}{near(name, known)}", key, name)
        return name
