"""List operators without a conversion, and the reasons: reviewed by hand, in `no_conversion.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class NoConversion:
    """The reason why an operator cannot be converted `below` its first version, or between two `versions`."""

    operator: str
    reason: str
    below: int | None = None
    versions: tuple[int, int] | None = None


@cache
def no_conversions() -> Mapping[str, tuple[NoConversion, ...]]:
    """Return the list, by operator."""
    text = resources.files("opshift.opsets.registry").joinpath("no_conversion.toml").read_text(encoding="utf-8")
    return parse(text)


def parse(text: str) -> dict[str, tuple[NoConversion, ...]]:
    """Parse the list from TOML; raise for an unknown key, and for an entry with neither or both of the alternatives."""
    return {
        operator: tuple(_entry(operator, **entry) for entry in entries)
        for operator, entries in tomllib.loads(text).items()
    }


def _entry(operator: str, reason: str, below: int | None = None, versions: list[int] | None = None) -> NoConversion:
    if (below is None) == (versions is None):
        raise ValueError(f"{operator}: an entry says `below` or `versions`")
    if versions is None:
        return NoConversion(operator, reason, below)
    older, newer = versions
    return NoConversion(operator, reason, None, (older, newer))


def why_absent(operator: str) -> str:
    """Return the reason why an operator has no decomposition below its first version; empty if it is not listed."""
    return next((entry.reason for entry in no_conversions().get(operator, ()) if entry.below is not None), "")
