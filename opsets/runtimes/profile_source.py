"""Hold the text of a profile: errors with file and line, and the checks that all keys share."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn

from onnx import TensorProto

from opshift.opsets.registry.facts import type_name

_KINDS: Mapping[type, str] = {
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
    float: "a number",
}
_DTYPES = {type_name(dtype): dtype for dtype in TensorProto.DataType.values() if dtype}
_DTYPE_ALIASES = {"float32": "float", "fp32": "float", "float64": "double", "fp64": "double", "half": "float16"} | {
    "fp16": "float16",
    "boolean": "bool",
    "long": "int64",
    "int": "int32",
}
"""Other names of element types, and ONNX's names."""


class ProfileError(ValueError):
    """A profile is invalid; the text has the file, the line and the permitted alternatives."""


class ProfileSource:
    """The text of a profile; `limit` is the number of the limit that is read, from 1 on, or 0."""

    def __init__(self, text: str, where: str) -> None:
        """Start before all limits; `where` is the file name in errors."""
        self.text, self.where = text, where
        self.limit = 0

    def wrong(self, what: str, *path: str) -> NoReturn:
        """Raise a `ProfileError` for the place of these keys."""
        raise ProfileError(f"{self.where}:{self._line(path)}: {what}")

    def _line(self, path: Sequence[str]) -> int:
        """Return the line of these keys in sequence, in the current limit or before all limits."""
        lines = [re.sub(r"""^((?:[^"'#]|"[^"]*"|'[^']*')*)#.*""", r"\1", line) for line in self.text.splitlines()]
        heads = [number for number, line in enumerate(lines) if re.match(r"\s*\[\[?\s*limits\b", line)]
        tables = [number for number in heads if re.match(r"\s*\[\[", lines[number])]
        line, end = 0, heads[0] if heads else len(lines)
        if self.limit:
            # Limits may also be a list of inline tables: then only the keys show the place.
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

    def keys(self, table: Mapping[str, Any], keys: Mapping[str, type], above: Collection[str] = ()) -> None:
        """Raise for keys that a table cannot have, such as those of the profile (`above`), and wrong value types."""
        for key, value in table.items():
            if key not in keys:
                misplaced = "; keys of the profile must be above all limits" if key in above else ""
                self.wrong(f"unknown key {key!r}{misplaced or near(key, keys)}", key)
            if type(value) is not keys[key]:
                kind = _KINDS.get(type(value), type(value).__name__)
                self.wrong(f"{key} is {_KINDS[keys[key]]}, not {kind}", key)

    def pair(self, key: str, value: Any) -> tuple[int, int] | None:
        """Return a sorted pair of numbers, or None for None."""
        if value is None:
            return None
        if len(value) != 2 or not all(type(item) is int and item > 0 for item in value):
            self.wrong(f"{key} is a pair [lowest, highest], not {value}", key)
        if value[0] > value[1]:
            self.wrong(f"{key} is a pair [lowest, highest], not {value}; did you mean [{value[1]}, {value[0]}]?", key)
        return value[0], value[1]

    def once(self, names: Sequence[str], *path: str) -> None:
        """Raise if a name is listed twice."""
        name, count = Counter(names).most_common(1)[0] if names else ("", 0)
        if count > 1:
            self.wrong(f"{name} is listed twice", *path, *[name] * count)

    def dtype(self, name: Any, *path: str) -> str:
        """Return the name of an element type, or raise if it does not exist."""
        if not isinstance(name, str) or name not in _DTYPES:
            meant = _DTYPE_ALIASES.get(name.lower()) if isinstance(name, str) else None
            hint = f"; did you mean {meant!r}?" if meant else near(str(name), _DTYPES)
            self.wrong(f"no element type is called {name!r}{hint}", *path, str(name))
        return str(name)


def near(word: str, known: Collection[str]) -> str:
    """Return a question with the nearest known word, or ""."""
    folded = {name.casefold(): name for name in known}
    found = difflib.get_close_matches(word.casefold(), folded)
    found.sort(key=lambda name: name[:1] != word[:1].casefold())
    return f"; did you mean {folded[found[0]]!r}?" if found else ""
