"""The operators and functions that the argument `decompose` names."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator

import onnx

from opshift.opsets.registry import dialect
from opshift.opsets.registry.operator import ML
from opshift.opsets.registry.schema import NEWEST, OLDEST, foreign_operators, schema_at
from opshift.passes.base.errors import UsageError


def decomposed_operators(decompose: Collection[str]) -> frozenset[str]:
    """Return the operators to decompose: those of the default domain by bare name, others with their domain."""
    return frozenset(one for name in decompose for one in _spellings(name))


def check_decompose(decompose: Collection[str], functions: Collection[onnx.FunctionProto]) -> None:
    """Raise UsageError for a name that is neither an operator nor one of the model's functions."""
    local = {one for function in functions for one in names_of(function)}
    for name in decomposed_operators(decompose) - local:
        _check_operator(name, local)


def names_any(decompose: Collection[str], functions: Collection[onnx.FunctionProto]) -> bool:
    """Return whether `decompose` names one of these functions, by its name, its domain, or both."""
    decomposed = decomposed_operators(decompose)
    return any(not decomposed.isdisjoint(names_of(function)) for function in functions)


def names_of(function: onnx.FunctionProto) -> tuple[str, str, str]:
    """Return the names by which `decompose` can refer to a function: its name, its domain, and both."""
    return function.name, function.domain, f"{function.domain}::{function.name}"


def _spellings(name: str) -> Iterator[str]:
    """Yield the spellings of a name in models: without the default domain, and with onnxruntime's domain."""
    bare = name.removeprefix("ai.onnx::")
    own = bare in dialect.operators("")
    if bare != name or "::" in name or "." in name or own or _is_plain(name):
        yield bare
    # onnxruntime accepts some of its own operators both in its domain and in the default domain.
    if bare == name and (own or not _is_plain(name)):
        found = [f"{domain}::{name}" for domain in (ML, dialect.MICROSOFT) if name in foreign_operators(domain)]
        yield from found or ([] if own else [name])


def _is_plain(name: str) -> bool:
    """Return whether the default domain has an operator of this name, including onnxruntime's own operators."""
    if not name.isprintable():
        return False
    known = any(schema_at("", name, opset) for opset in (NEWEST, *range(OLDEST, NEWEST)))
    return known or name in dialect.operators("")


def _check_operator(name: str, functions: Collection[str]) -> None:
    domain, _, bare = name.rpartition("::")
    if not domain and "." in name:
        domain, bare = name, ""
    if domain:
        known = foreign_operators(domain)
        if bare and known and bare not in known:
            near = difflib.get_close_matches(bare, known, 1)
            raise UsageError(f"{domain} has no operator {bare!r}" + (f"; did you mean {near[0]}?" if near else "."))
        return
    if _is_plain(name):
        return
    others = {*foreign_operators(ML), *foreign_operators(dialect.MICROSOFT), *dialect.operators(""), *functions}
    names = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain} | others
    by_folded = {one.casefold(): one for one in names}
    near = difflib.get_close_matches(name.casefold(), by_folded, 1)
    hint = f"; did you mean {by_folded[near[0]]}?" if near else "."
    raise UsageError(f"There is no operator {name!r}{hint} `opshift ops` lists those known.")
