"""Runtimes' profiles: TOML files read into `Target`s, and what is said of one that is wrong."""

from __future__ import annotations

import difflib
import functools
import importlib.resources
import itertools
import os
import re
import stat
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import onnx
from onnx import AttributeProto, TensorProto

from opshift.opsets.registry.facts import type_name
from opshift.opsets.registry.schema import NEWEST, OLDEST, Schema, foreign_operators, schema_at
from opshift.opsets.runtimes import kernels, releases
from opshift.opsets.runtimes.releases import Release
from opshift.opsets.runtimes.target import NAMING, Limit, Target

ASKED = "onnxruntime"
"""The profile that is no file: the installed onnxruntime is asked for it."""

_KEYS: Mapping[str, type] = {
    "name": str,
    "version": str,
    "opset": list,
    "ir_version": list,
    "functions": bool,
    "static": bool,
    "measured": bool,
    "domains": dict,
    "operators": list,
    "without": list,
    "limits": list,
}
_LIMIT_KEYS: Mapping[str, type] = {
    "operator": str,
    "dtypes": dict,
    "combinations": list,
    "attributes": dict,
    "constant_inputs": list,
    "static": bool,
    "max_rank": int,
    "never": bool,
    "opset": list,
    "reason": str,
}
_KINDS: Mapping[type, str] = {
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
    float: "a number",
}
_DTYPES = {type_name(dtype): dtype for dtype in TensorProto.DataType.values() if dtype}
_CALLED = {"float32": "float", "fp32": "float", "float64": "double", "fp64": "double", "half": "float16"} | {
    "fp16": "float16",
    "boolean": "bool",
    "long": "int64",
    "int": "int32",
}
"""Other names of element types, and ONNX's."""


class ProfileError(ValueError):
    """A profile that cannot be read; the text says in which file and line, and what was meant."""


def parse_target(text: str, where: str) -> Target:
    """Read a profile from TOML text; `where` is the file that errors name.

    Raises `ProfileError` for the first mistake.
    """
    return _Reader(text, where).target()


@functools.cache
def builtin_targets() -> tuple[str, ...]:
    """Return the names of the profiles that come with opshift; onnxruntime's where it is installed."""
    folder = importlib.resources.files("opshift.opsets").joinpath("targets")
    names = {item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml")}
    names |= {one.name for one in releases.releases()} | ({ASKED} if kernels.newest_opset() else set())
    return tuple(sorted(names, key=_numbered))


def is_builtin(name: str) -> bool:
    """Whether a name is that of a profile that comes with opshift; onnxruntime-1.12.1 is one of its minor release."""
    return name in builtin_targets() or releases.release_of(name) is not None


def near_releases(name: str) -> str:
    """Name all releases of onnxruntime, after a name that is meant for one."""
    return f"; there are {_released_names()}." if name.startswith(releases.PREFIX) else ""


def _released_names() -> str:
    return ", ".join(one.name for one in releases.releases())


def _numbered(name: str) -> list[str | int]:
    """Return a key by which 1.6 is before 1.10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


@functools.cache
def _released(release: Release) -> Target:
    return parse_target(releases.profile(release), release.name)


@functools.cache
def _asked() -> Target:
    limits = releases.limits_of_attributes(kernels.version())
    return parse_target(kernels.profile() + limits, "the installed onnxruntime")


def load_target(name: str) -> Target:
    """Return a built-in profile by its name, or read one from a TOML file.

    Raises `ProfileError` where neither exists or the file is wrong.
    """
    if name == ASKED:
        if kernels.newest_opset() is None:
            raise ProfileError(
                'the profile onnxruntime needs onnxruntime, which is not installed: pip install "opshift[verify]"'
            )
        return _asked()
    if release := releases.release_of(name):
        return _released(release)
    if name in builtin_targets():
        file = importlib.resources.files("opshift.opsets").joinpath("targets", f"{name}.toml")
        return parse_target(file.read_text(encoding="utf-8"), f"built-in profile {name}")
    path = Path(name)
    try:
        return parse_target(_text_of(path), str(path))
    except ProfileError:
        raise
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a name that no file has
        others = ", ".join(one for one in builtin_targets() if releases.release_of(one) is None)
        known = f"{others}, {_released_names()}"
        raise ProfileError(f"{name} is neither a built-in profile ({known}) nor a readable file ({error})") from error


_LARGEST = 2**20
"""Bytes of a profile: one of all operators has a hundredth of that."""

_DEEPEST = 64
"""Brackets in brackets: tomllib calls itself for each."""


def _text_of(path: Path) -> str:
    """Return the text of a file. Devices and pipes, which have no end, are not read.

    Raises OSError, UnicodeDecodeError, or `ProfileError` for what is no file or too large.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # opening a FIFO would wait
    if not stat.S_ISREG(path.stat().st_mode):  # opening some devices does something
        raise ProfileError(f"{path}: this is not a regular file; name a TOML file.")
    with os.fdopen(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ProfileError(f"{path}: this is not a regular file; name a TOML file.")
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ProfileError(f"{path}: a profile has at most {_LARGEST} bytes; this file has more.")
    return data.decode("utf-8")


def _depth(text: str) -> int:
    """Return how deep brackets stand in brackets at most."""
    steps = (1 if one in "[{" else -1 for one in re.sub(r"[^][{}]", "", text))
    return max(itertools.accumulate(steps), default=0)


def _has_long_key(text: str) -> bool:
    """Whether a key has many parts: tomllib makes a table for each, and goes through all of them at each."""
    without_strings = re.sub(r"""[ \t]+|"[^"\n]*"|'[^'\n]*'""", lambda found: "" if found[0].isspace() else "a", text)
    return re.search(r"(?<![\w.-])(?:[\w-]+\.){%d}" % _DEEPEST, without_strings) is not None  # noqa: UP031 (braces)


class _Reader:
    """One text being read; `limit` is the number of the limit that is looked at, from 1 on."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where
        self.limit = 0

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
        self._keys(table, _KEYS)
        if not table.get("name", "").strip():
            self._wrong("a profile needs a name", *(["name"] if "name" in table else []))
        span = self._range(table, "opset") or (OLDEST, NEWEST)
        if span[0] > NEWEST or span[1] < OLDEST:
            self._wrong(f"opsets {span[0]} to {span[1]} are outside of {OLDEST} to {NEWEST}", "opset")
        operators = self._operators(table, "operators")
        without = self._operators(table, "without")
        for name in without or ():
            if name in (operators or ()):
                self._wrong(f"{name} is both in operators and in without; take it out of one", "without", name)
        target = Target(
            name=table["name"],
            opset=(max(span[0], OLDEST), min(span[1], NEWEST)),
            ir_version=self._range(table, "ir_version"),
            operators=None if operators is None else frozenset(operators),
            without=frozenset(without or ()),
            source=self.text,
            version=table.get("version", ""),
            functions=table.get("functions", True),
            static=table.get("static", False),
            measured=table.get("measured", False),
            domains=self._domains(table.get("domains", {})),
        )
        return Target(**{**vars(target), "limits": tuple(self._limits(table.get("limits", []), target))})

    # --- parts --------------------------------------------------------------------------------------------------------

    def _limits(self, items: Sequence[Any], target: Target) -> Iterator[Limit]:
        seen: list[Any] = []
        for self.limit, item in enumerate(items, 1):
            if not isinstance(item, dict):
                self._wrong("each limit is a table: write [[limits]] above it", "limits")
            self._keys(item, _LIMIT_KEYS)
            if "operator" not in item:
                self._wrong("a limit needs an operator")
            name = self._operator(item["operator"], "operator")
            if not target.has(name):
                gone = "is listed in without" if name in target.without else "is not among operators"
                self._wrong(f"{name} {gone}, so a limit on it has no effect", "operator")
            if item in seen:
                self._wrong(f"this limit on {name} is listed twice", "operator")
            seen.append(item)
            if item.keys() <= {"operator", "reason", "opset"}:
                keys = ", ".join(key for key in _LIMIT_KEYS if key not in ("operator", "opset", "reason"))
                self._wrong(f"this limit on {name} limits nothing; add one of {keys}", "operator")
            if item.get("never") and not item.get("reason"):
                self._wrong(f"add a reason why {name} must never be used", "never")
            yield self._limit(name, item, target)
        self.limit = 0

    def _limit(self, name: str, item: Mapping[str, Any], target: Target) -> Limit:
        span = self._range(item, "opset")
        low, high = span or target.opset
        found = (schema_at("", name, opset) for opset in range(max(low, OLDEST), min(high, NEWEST) + 1))
        schemas = [schema for schema in found if schema]
        if not schemas:
            self._wrong(f"no opset from {low} to {high} has {name}", "operator")
        if item.get("max_rank", 0) < 0:
            self._wrong("max_rank is not negative", "max_rank")
        dtypes = {}
        for key, types in item.get("dtypes", {}).items():
            self._input(key, schemas, "dtypes")
            if not isinstance(types, list) or not types:
                self._wrong(f"{key} has a list of element types", "dtypes", key)
            dtypes[key] = tuple(self._dtype(one, "dtypes", key) for one in types)
            self._once(types, "dtypes", key)
        combinations = []
        for one in item.get("combinations", []):
            if not isinstance(one, dict) or not one:
                self._wrong('each combination is a table, such as { data = "float" }', "combinations")
            for key, dtype in one.items():
                self._input(key, schemas, "combinations")
                for each in dtype if isinstance(dtype, list) else [dtype]:
                    self._dtype(each, "combinations", key)
            combinations.append({key: tuple(each) if isinstance(each, list) else each for key, each in one.items()})
        if "combinations" in item and not combinations:
            self._wrong("combinations holds none", "combinations")
        attributes = {}
        for key, values in item.get("attributes", {}).items():
            self._attribute(key, values, schemas)
            attributes[key] = tuple(tuple(value) if isinstance(value, list) else value for value in values)
        for key in item.get("constant_inputs", []):
            self._input(key, schemas, "constant_inputs")
        self._once(item.get("constant_inputs", []), "constant_inputs")
        return Limit(
            operator=name,
            dtypes=dtypes,
            combinations=tuple(combinations),
            attributes=attributes,
            constant_inputs=tuple(item.get("constant_inputs", ())),
            static=item.get("static", False),
            max_rank=item.get("max_rank"),
            never=item.get("never", False),
            opset=span,
            reason=item.get("reason", ""),
        )

    def _keys(self, table: Mapping[str, Any], keys: Mapping[str, type]) -> None:
        for key, value in table.items():
            if key not in keys:
                above = "; keys of the profile must be above all limits" if self.limit and key in _KEYS else ""
                self._wrong(f"unknown key {key!r}{above or _near(key, keys)}", key)
            if type(value) is not keys[key]:
                kind = _KINDS.get(type(value), type(value).__name__)
                self._wrong(f"{key} is {_KINDS[keys[key]]}, not {kind}", key)

    def _range(self, table: Mapping[str, Any], key: str) -> tuple[int, int] | None:
        value = table.get(key)
        if value is None:
            return None
        if len(value) != 2 or not all(type(item) is int and item > 0 for item in value):
            self._wrong(f"{key} is a pair [lowest, highest], not {value}", key)
        if value[0] > value[1]:
            self._wrong(f"{key} is a pair [lowest, highest], not {value}; did you mean [{value[1]}, {value[0]}]?", key)
        return value[0], value[1]

    def _domains(self, table: Mapping[str, Any]) -> dict[str, int | frozenset[str]]:
        found: dict[str, int | frozenset[str]] = {}
        for name, supported in table.items():
            if not name or name == "ai.onnx":
                self._wrong("the default domain has its own keys: opset, operators and without", "domains")
            if isinstance(supported, list):
                found[name] = self._foreign(name, supported)
            elif type(supported) is int and supported > 0:
                found[name] = supported
            else:
                what = "the list of operators that the runtime supports, or the newest opset that it loads"
                self._wrong(f"{name} has {what}, not {supported}", "domains", name)
        return found

    def _foreign(self, domain: str, names: Sequence[Any]) -> frozenset[str]:
        """Return the operators of another domain that a profile lists; those of known domains must exist."""
        known = foreign_operators(domain)
        for name in names:
            if not isinstance(name, str):
                self._wrong(f"{domain} holds names of operators, not {name!r}", "domains", domain)
            if known and name not in known:
                self._wrong(f"{domain} has no operator {name!r}{_near(name, known)}", "domains", domain, name)
        self._once(names, "domains", domain)
        return frozenset(names)

    def _operators(self, table: Mapping[str, Any], key: str) -> list[str] | None:
        if key not in table:
            return None
        names = [self._operator(name, key) for name in table[key]]
        if not names and key == "operators":
            self._wrong("operators is empty; omit it if the runtime supports all operators of its opsets", key)
        self._once(names, key)
        return names

    def _operator(self, name: Any, key: str) -> str:
        if not isinstance(name, str):
            self._wrong(f"{key} holds names of operators, not {name!r}", key)
        if not any(schema_at("", name, opset) for opset in range(NEWEST, OLDEST - 1, -1)):
            known = {item.name for item in onnx.defs.get_all_schemas() if not item.domain}
            other = " (this key lists operators of the default domain only)" if ":" in name else ""
            self._wrong(f"no operator is called {name!r}{other}{_near(name, known)}", key, name)
        return name

    def _once(self, names: Sequence[str], *path: str) -> None:
        name, count = Counter(names).most_common(1)[0] if names else ("", 0)
        if count > 1:
            self._wrong(f"{name} is listed twice", *path, *[name] * count)

    def _input(self, name: Any, schemas: Sequence[Schema], key: str) -> None:
        known = {parameter.name for schema in schemas for parameter in schema.inputs}
        if key in ("dtypes", "combinations"):
            known |= {f"@{name}" for schema in schemas for name in NAMING & schema.attributes.keys()}
        if name not in known:
            operator = schemas[-1].name
            near = _near(str(name), known)
            has = f"; it has {', '.join(sorted(known))}" if not near and known else ""
            self._wrong(f"{operator} has no input {name!r}{near}{has}", key, str(name))

    def _dtype(self, name: Any, *path: str) -> str:
        if name not in _DTYPES:
            meant = _CALLED.get(name.lower()) if isinstance(name, str) else None
            near = f"; did you mean {meant!r}?" if meant else _near(str(name), _DTYPES)
            self._wrong(f"no element type is called {name!r}{near}", *path, str(name))
        return str(name)

    def _attribute(self, name: str, values: Any, schemas: Sequence[Schema]) -> None:
        kinds = {attribute.type for schema in schemas if (attribute := schema.raw.attributes.get(name))}
        if not kinds:
            known = {attribute for schema in schemas for attribute in schema.attributes}
            near = _near(name, known)
            has = f"; it has {', '.join(sorted(known))}" if not near and known else ""
            self._wrong(f"{schemas[-1].name} has no attribute {name!r}{near}{has}", "attributes", name)
        if not isinstance(values, list):
            self._wrong(f"{name} has a list of the values that the runtime supports", "attributes", name)
        for value in values:
            if not any(_fits(value, kind) for kind in kinds):
                self._wrong(f"{name} of {schemas[-1].name} is never {value!r}", "attributes", name)

    # --- places -------------------------------------------------------------------------------------------------------

    def _wrong(self, what: str, *path: str) -> NoReturn:
        raise ProfileError(f"{self.where}:{self._line(path)}: {what}")

    def _line(self, path: Sequence[str]) -> int:
        """Return the line of what is found by these words one after the other, in the limit or above all limits."""
        lines = [re.sub(r"""^((?:[^"'#]|"[^"]*"|'[^']*')*)#.*""", r"\1", line) for line in self.text.splitlines()]
        heads = [number for number, line in enumerate(lines) if re.match(r"\s*\[\[?\s*limits\b", line)]
        tables = [number for number in heads if re.match(r"\s*\[\[", lines[number])]
        line, end = 0, heads[0] if heads else len(lines)
        if self.limit:
            # Limits may be a list of tables in braces, too: then the words alone tell where.
            line = tables[self.limit - 1] if self.limit <= len(tables) else 0
            end = tables[self.limit] if self.limit < len(tables) else len(lines)
        column = 0
        for word in path:
            pattern = re.compile(rf"""(?<![\w.:-])["']?{re.escape(word)}["']?(?![\w.:-])""")
            for number in range(line, end):
                if match := pattern.search(lines[number], column if number == line else 0):
                    line, column = number, match.end()
                    break
        return line + 1


def _near(word: str, known: Collection[str]) -> str:
    folded = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(word.casefold(), folded)
    near.sort(key=lambda name: name[:1] != word[:1].casefold())
    return f"; did you mean {folded[near[0]]!r}?" if near else ""


def _fits(value: Any, kind: Any) -> bool:
    """Whether a TOML value can be that of an attribute of this type."""
    one: dict[int, type] = {AttributeProto.INT: int, AttributeProto.FLOAT: float, AttributeProto.STRING: str}
    many: dict[int, type] = {AttributeProto.INTS: int, AttributeProto.FLOATS: float, AttributeProto.STRINGS: str}
    number = int(kind.value)
    if number in many:
        return isinstance(value, list) and all(_is(item, many[number]) for item in value)
    return number in one and _is(value, one[number])


def _is(value: Any, kind: type) -> bool:
    return type(value) is kind or (kind is float and type(value) is int)
