"""The options of a conversion have one definition: Python's arguments and the command line agree with it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import opshift
from opshift.cli import options as shared
from opshift.cli.commands import convert as command
from opshift.cli.main import parse
from opshift.passes.base.options import Options

DEFAULTS = {field.name: field.default for field in dataclasses.fields(Options)}


def arguments(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the arguments of a function with their defaults, but for the model and a former name."""
    parameters = inspect.signature(function).parameters
    return {name: one.default for name, one in parameters.items() if name not in ("model", "allow")}


def test_convert_takes_each_option() -> None:
    assert arguments(opshift.convert) == DEFAULTS


def test_plan_takes_the_options_that_decide_a_plan() -> None:
    taken = arguments(opshift.plan)
    assert taken == {name: DEFAULTS[name] for name in taken}
    verifying = {"verify", "require_proof", "inputs", "seed", "timeout", "memory", "effort"}
    assert set(DEFAULTS) - set(taken) == verifying | {"max_time", "save_repro"}


def test_the_command_line_has_the_same_defaults() -> None:
    options = parse(["convert", "in.onnx", "out.onnx", "--opset", "11"])
    options.model, options.output = command.named(options)
    asked = {**shared.request(options), **command.proof(options)}
    assert set(asked) == set(DEFAULTS) - {"progress"}
    assert Options(**asked) == Options(opset=11)


@pytest.mark.parametrize("name", sorted(set(DEFAULTS)))
def test_the_documentation_of_convert_has_each_option(name: str) -> None:
    assert f"\n        {name}: " in str(opshift.convert.__doc__)
