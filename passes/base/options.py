"""What a conversion is asked for."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import onnx

from opshift.opsets.registry.schema import NEWEST, OLDEST, foreign_operators, schema_at
from opshift.opsets.runtimes.profiles import ProfileError, load_target
from opshift.opsets.runtimes.target import Target
from opshift.passes.base import limits
from opshift.passes.base.arguments import Progress, check_effort, check_path, check_types
from opshift.passes.base.errors import UsageError
from opshift.passes.base.results import ACCEPTED


@dataclass(frozen=True)
class Options:
    """The arguments of `opshift.convert` but for the model, with their defaults; they are explained there.

    The command line has the same defaults: it hands on what is given, and nothing else.
    """

    opset: int | None = None
    decompose: Collection[str] = ()
    target: str | os.PathLike[str] | Target | None = None
    verify: bool | Literal["nodes"] = True
    semantics: str = "runtime"
    assume: Collection[str] = ()
    ir_version: int | None = None
    optimize: bool = False
    keep_initializers_as_inputs: bool = False
    input_shapes: Mapping[str, tuple[int, ...]] | None = None
    dims: Mapping[str, int] | None = None
    batch: int | None = None
    fold: bool = False
    allow_paths: Collection[str | os.PathLike[str]] = ()
    require_proof: bool = False
    inputs: str | os.PathLike[str] | Mapping[str, Any] | None = None
    seed: int = 0
    timeout: float | None = None
    memory: int | None = None
    effort: str = "normal"
    max_time: float | None = None
    save_repro: str | os.PathLike[str] | None = None
    progress: Progress | None = None

    def check(self) -> Target | None:
        """Return the target, if there is one.

        Raises:
            UsageError: the request makes no sense, whatever the model.
        """
        check_types(vars(self))
        limits.check(self.seed, self.timeout, self.memory)
        check_effort(self.effort, self.max_time)
        wanted = self.opset, self.target, self.ir_version, self.batch
        asked = self.decompose or self.optimize or self.input_shapes or self.dims or self.fold
        if all(one is None for one in wanted) and not asked:
            raise UsageError(
                "Nothing was requested: give an opset, operators to decompose, a target, an ir_version, shapes of "
                "inputs, or fold."
            )
        if unknown := sorted(set(self.assume) - {*ACCEPTED}):
            raise UsageError(f"There is no assumption {unknown[0]!r}; there are {', '.join(sorted(ACCEPTED))}.")
        _check_number("opset", self.opset, NEWEST, "opsets 1")
        _check_number("ir_version", self.ir_version, onnx.IR_VERSION, "1")
        for name in self.decomposed:
            _check_operator(name)
        return _profile(self.target)

    @property
    def decomposed(self) -> frozenset[str]:
        """What is to be decomposed: operators of the default domain by their bare names, others with their domain."""
        return frozenset(name.removeprefix("ai.onnx::") for name in self.decompose)


def _check_number(name: str, number: int | None, newest: int, known: str) -> None:
    if number is not None and (type(number) is not int or not 1 <= number <= newest):
        raise UsageError(f"There is no {name} {number!r}; onnx {onnx.__version__} knows {known} to {newest}.")


def _check_operator(name: str) -> None:
    domain, _, bare = name.rpartition("::")
    if not domain and "." in name:
        domain, bare = name, ""
    if domain == "ai.onnx":
        raise UsageError("ai.onnx is the default domain: name the operators of it to decompose.")
    if domain:
        known = foreign_operators(domain)
        if bare and known and bare not in known:
            near = difflib.get_close_matches(bare, known, 1)
            raise UsageError(f"{domain} has no operator {bare!r}" + (f"; did you mean {near[0]}?" if near else "."))
        return
    if name.isprintable() and any(schema_at("", name, opset) for opset in (NEWEST, *range(OLDEST, NEWEST))):
        return
    near = difflib.get_close_matches(name, {schema.name for schema in onnx.defs.get_all_schemas()}, 1)
    raise UsageError(f"ONNX has no operator {name!r}" + (f"; did you mean {near[0]}?" if near else "."))


def _profile(target: str | os.PathLike[str] | Target | None) -> Target | None:
    if target is None or isinstance(target, Target):
        return target
    check_path(target, "target", "the name of a profile, a path or a Target")
    try:
        return load_target(os.fspath(target))
    except ProfileError as error:
        raise UsageError(str(error)) from None
