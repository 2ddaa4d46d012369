"""The options of a conversion, as one value that all steps share."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from opshift.opsets.runtimes.profile_source import ProfileError
from opshift.opsets.runtimes.profiles import load_target
from opshift.opsets.runtimes.target import Target
from opshift.passes.base.arguments import Progress, check_path
from opshift.passes.base.assumptions import ACCEPTED
from opshift.passes.base.errors import UsageError
from opshift.passes.base.option_table import OPTIONS, check_arguments, requests_nothing
from opshift.passes.base.type_changes import check_type_change
from opshift.passes.base.version_numbers import check_ir_version, check_opset


@dataclass(frozen=True)
class Options:
    """The arguments of `opshift.convert` except the model; option_table.py defines their defaults and meanings."""

    opset: int | None = OPTIONS["opset"].default
    decompose: Collection[str] = OPTIONS["decompose"].default
    target: str | os.PathLike[str] | Target | None = OPTIONS["target"].default
    verify: bool | Literal["nodes"] = OPTIONS["verify"].default
    semantics: str = OPTIONS["semantics"].default
    assume: Collection[str] = OPTIONS["assume"].default
    assume_opset: int | None = OPTIONS["assume_opset"].default
    ir_version: int | None = OPTIONS["ir_version"].default
    optimize: bool = OPTIONS["optimize"].default
    keep_initializers_as_inputs: bool = OPTIONS["keep_initializers_as_inputs"].default
    input_shapes: Mapping[str, tuple[int, ...]] | None = OPTIONS["input_shapes"].default
    dims: Mapping[str, int] | None = OPTIONS["dims"].default
    batch: int | None = OPTIONS["batch"].default
    fold: bool = OPTIONS["fold"].default
    types: Mapping[str, str] | None = OPTIONS["types"].default
    io_types: bool = OPTIONS["io_types"].default
    quantized: str | None = OPTIONS["quantized"].default
    allow_paths: Collection[str | os.PathLike[str]] = OPTIONS["allow_paths"].default
    require_proof: bool = OPTIONS["require_proof"].default
    inputs: str | os.PathLike[str] | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = OPTIONS["inputs"].default
    seed: int = OPTIONS["seed"].default
    timeout: float | None = OPTIONS["timeout"].default
    memory: int | None = OPTIONS["memory"].default
    effort: str = OPTIONS["effort"].default
    max_time: float | None = OPTIONS["max_time"].default
    save_repro: str | os.PathLike[str] | None = OPTIONS["save_repro"].default
    progress: Progress | None = OPTIONS["progress"].default

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Options:
        """Return the options among the arguments of a function, such as `convert`; the others have their defaults."""
        return cls(**{field.name: arguments[field.name] for field in fields(cls) if field.name in arguments})

    def check(self) -> Target | None:
        """Return the target, or None.

        Raises:
            UsageError: the request is invalid for every model.
        """
        check_arguments(vars(self))
        if requests_nothing(vars(self)):
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


def _profile(target: str | os.PathLike[str] | Target | None) -> Target | None:
    if target is None or isinstance(target, Target):
        return target
    check_path(target, "target", "the name of a profile, a path or a Target")
    try:
        return load_target(os.fspath(target))
    except ProfileError as error:
        raise UsageError(str(error)) from None
