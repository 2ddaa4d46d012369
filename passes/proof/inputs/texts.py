"""Generate strings for operators that read them: matches of patterns and near misses; parts with delimiters."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

try:
    from re import _constants as codes  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_constants as codes
    import sre_parse as parser

NUMERALS = ("0", "1", "-1", "1.5", "2.25", "-0.75", "1e3", "17", "0.1", "3e-5", "inf", "nan")
"""Strings that a Cast parses as numbers."""

_VARIANTS = 4  # of one pattern, with more and more repetitions
_LONGEST = 64


@functools.cache
def around_pattern(pattern: str) -> tuple[str, ...]:
    """Return matches of a pattern, and the same with a character added, removed or replaced in each place.

    A pattern that Python cannot parse yields none: RE2 has its own character classes.
    """
    try:
        with_warnings_ignored = parser.parse(pattern)
    except (re.error, OverflowError, RecursionError):
        return (pattern,)
    found: dict[str, None] = {}
    for variant in range(_VARIANTS):
        text = _made(with_warnings_ignored, variant)[:_LONGEST]
        found[text] = None
        found.update(dict.fromkeys((text + "a", text + "0", text[:-1], text[1:], text.swapcase(), text + text)))
        for place in range(min(len(text), 12)):
            found[text[:place] + ("x" if text[place] != "x" else "y") + text[place + 1 :]] = None
    return tuple(found)


def _made(parsed: Any, variant: int) -> str:
    """Return a match of a parsed pattern, depending on the variant."""
    return "".join(_item(code, value, variant) for code, value in parsed)


def _item(code: Any, value: Any, variant: int) -> str:
    if code is codes.LITERAL:
        return chr(value)
    if code is codes.NOT_LITERAL:
        return _other_than(lambda char: char != chr(value), variant)
    if code is codes.ANY:
        return "a0_ "[variant % 4]
    if code is codes.IN:
        return _in_class(value, variant)
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
        least, most, inner = value
        return "".join(_made(inner, variant + turn) for turn in range(min(int(most), least + variant)))
    if code is codes.SUBPATTERN:
        return _made(value[-1], variant)
    if code is codes.BRANCH:
        return _made(value[1][variant % len(value[1])], variant)
    return ""


def _in_class(items: Sequence[Any], variant: int) -> str:
    """Return a character of a class: alternating between its ends."""
    if items[0][0] is codes.NEGATE:
        return _other_than(lambda char: not any(_holds(item, char) for item in items[1:]), variant)
    choices = [char for item in items for char in _ends(item)]
    return choices[variant % len(choices)] if choices else ""


_CATEGORIES = {"CATEGORY_DIGIT": "09", "CATEGORY_WORD": "a_Z9", "CATEGORY_SPACE": " \t"}
_EVERY = "a!Z0 _.é"


def _ends(item: tuple[Any, Any]) -> str:
    code, value = item
    if code is codes.LITERAL:
        return chr(value)
    if code is codes.RANGE:
        return chr(value[1]) + chr(value[0])
    name = str(value)
    return _CATEGORIES.get(name) or "".join(char for char in _EVERY if _holds(item, char))


def _holds(item: tuple[Any, Any], char: str) -> bool:
    code, value = item
    if code is codes.LITERAL:
        return chr(value) == char
    if code is codes.RANGE:
        return bool(value[0] <= ord(char) <= value[1])
    letter = {"DIGIT": "d", "WORD": "w", "SPACE": "s"}.get(str(value).rsplit("_", 1)[-1], "w")
    return re.match("\\" + (letter.upper() if "_NOT_" in str(value) else letter), char) is not None


def _other_than(allowed: Any, variant: int) -> str:
    choices = [char for char in _EVERY if allowed(char)]
    return choices[variant % len(choices)] if choices else ""


@functools.cache
def around_delimiter(delimiter: str, most: int) -> tuple[str, ...]:
    """Return strings with a delimiter at the ends, in the middle, twice, truncated, and more often than the maximum."""
    mark = delimiter or " "
    many = mark.join("abcdefghij"[: max(3, min(most + 3, 10))])
    parts = {char: f"a{char}b" for char in mark}
    found = [f"a{mark}b", f"{mark}a", f"a{mark}", mark, f"a{mark}{mark}b", many, f"a{mark[:-1]}b", *parts.values()]
    return tuple(dict.fromkeys((*found, "a b", " a  b ", "a\tb", "a,b")))
