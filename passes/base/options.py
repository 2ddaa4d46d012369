"""The options of a conversion."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import onnx
from onnx import TensorProto

from opshift.opsets.registry import dialect
from opshift.opsets.registry.facts import FLOATS, INTEGERS, exact_types, type_name
from opshift.opsets.registry.operator import ML
from opshift.opsets.registry.schema import NEWEST, OLDEST, foreign_operators, schema_at
from opshift.opsets.runtimes.profile_source import ProfileError
from opshift.opsets.runtimes.profiles import load_target
from opshift.opsets.runtimes.target import Target
from opshift.passes.base import limits
from opshift.passes.base.arguments import Progress, check_effort, check_path, check_types
from opshift.passes.base.errors import UsageError
from opshift.passes.base.results import ACCEPTED, TENSOR_OUTPUT
from opshift.passes.base.version_numbers import check_ir_version, check_opset


@dataclass(frozen=True)
class Options:
    """The arguments of `opshift.convert` except the model, with their defaults; its docstring documents them.

    The command line has the same defaults, because it passes on only the options that the user sets.
    """

    opset: int | None = None
    decompose: Collection[str] = ()
    target: str | os.PathLike[str] | Target | None = None
    verify: bool | Literal["nodes"] = True
    semantics: str = "runtime"
    assume: Collection[str] = ()
    assume_opset: int | None = None
    ir_version: int | None = None
    optimize: bool = False
    keep_initializers_as_inputs: bool = False
    input_shapes: Mapping[str, tuple[int, ...]] | None = None
    dims: Mapping[str, int] | None = None
    batch: int | None = None
    fold: bool = False
    types: Mapping[str, str] | None = None
    io_types: bool = False
    quantized: str | None = None
    allow_paths: Collection[str | os.PathLike[str]] = ()
    require_proof: bool = False
    inputs: str | os.PathLike[str] | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    seed: int = 0
    timeout: float | None = None
    memory: int | None = None
    effort: str = "normal"
    max_time: float | None = None
    save_repro: str | os.PathLike[str] | None = None
    progress: Progress | None = None

    def check(self) -> Target | None:
        """Return the target, or None.

        Raises:
            UsageError: the request is invalid for every model.
        """
        check_types(vars(self))
        limits.check(self.seed, self.timeout, self.memory)
        check_effort(self.effort, self.max_time)
        wanted = self.opset, self.target, self.ir_version, self.batch, self.assume_opset
        asked = self.decompose or self.optimize or self.input_shapes or self.dims or self.fold or self.types
        if all(one is None for one in wanted) and not (asked or self.quantized or TENSOR_OUTPUT in self.assume):
            raise UsageError(
                "Nothing was requested: give an opset, operators to decompose, a target, an ir_version, shapes of "
                "inputs, element types, a form of quantized operators, or fold. To only repair a "
                "model, give its own opset."
            )
        if unknown := sorted(set(self.assume) - {*ACCEPTED}):
            raise UsageError(f"There is no assumption {unknown[0]!r}; there are {', '.join(sorted(ACCEPTED))}.")
        check_opset("opset", self.opset)
        check_opset("assume_opset", self.assume_opset)
        check_ir_version(self.ir_version)
        for name in self.decompose:
            if name == "ai.onnx":
                raise UsageError("ai.onnx is the default domain: name the operators of it to decompose.")
        for old, new in (self.types or {}).items():
            check_type_change(old, new)
        profile = _profile(self.target)
        if self.io_types and not self.types and not (profile and profile.types):
            raise UsageError(
                "io_types changes the types of inputs and outputs as `types` lists them: also give types, or a target "
                "with limited element types."
            )
        return profile

    @property
    def changes(self) -> Mapping[int, int]:
        """The new element types of values by the old ones, as TensorProto.DataType."""
        return {_TYPES[old]: _TYPES[new] for old, new in (self.types or {}).items()}

    @property
    def decomposed(self) -> frozenset[str]:
        """The operators to decompose: operators of the default domain by bare name, others with their domain."""
        return frozenset(one for name in self.decompose for one in _spellings(name))

    def check_operators(self, functions: Collection[onnx.FunctionProto]) -> None:
        """Raise UsageError for a name to decompose that is neither an operator nor a function."""
        local = {one for function in functions for one in names_of(function)}
        for name in self.decomposed - local:
            _check_operator(name, local)

    def names_any(self, functions: Collection[onnx.FunctionProto]) -> bool:
        """Return whether `decompose` names a function of the model, by its name, its domain, or both."""
        decomposed = self.decomposed
        return any(not decomposed.isdisjoint(names_of(function)) for function in functions)


def check_type_change(old: str, new: str) -> None:
    """Raise UsageError for an unsupported change of element types."""
    for name in (old, new):
        if name not in _TYPES:
            plain = name.casefold()
            near = [_OTHER_NAMES[plain]] if plain in _OTHER_NAMES else difflib.get_close_matches(plain, _TYPES, 1)
            raise UsageError(
                f"There is no element type {name!r}"
                + (f"; did you mean {near[0]}?" if near else ".")
                + f" The types that can be changed are {', '.join(_TYPES)}."
            )
    before, after = _TYPES[old], _TYPES[new]
    if before == after:
        raise UsageError(f"types changes {old} to itself.")
    if before in FLOATS and after not in {*exact_types(before), TensorProto.FLOAT, TensorProto.FLOAT16}:
        allowed = {*exact_types(before) & FLOATS, TensorProto.FLOAT, TensorProto.FLOAT16} - {before}
        names = ", ".join(sorted(map(type_name, allowed)))
        raise UsageError(f"types cannot change {old} to {new}: it can become {names}.")


_OTHER_NAMES = {"fp64": "double", "float64": "double", "fp32": "float", "fp16": "float16", "half": "float16"}
"""Other common names of element types."""
_TYPES = {type_name(dtype): dtype for dtype in sorted(INTEGERS | FLOATS | {TensorProto.BOOL})}


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


def _profile(target: str | os.PathLike[str] | Target | None) -> Target | None:
    if target is None or isinstance(target, Target):
        return target
    check_path(target, "target", "the name of a profile, a path or a Target")
    try:
        return load_target(os.fspath(target))
    except ProfileError as error:
        raise UsageError(str(error)) from None
