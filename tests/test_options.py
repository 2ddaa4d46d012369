"""Options have one definition: Python's arguments, docstrings and the command line agree with it."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import opshift
from opshift.cli import options as shared
from opshift.cli.commands import convert as command
from opshift.cli.main import build, parse
from opshift.passes.base.option_table import OPTIONS, requests_nothing
from opshift.passes.base.options import Options

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
docstrings = importlib.import_module("docstrings")

DEFAULTS = {name: option.default for name, option in OPTIONS.items()}
SWITCHED = {"verify", "progress"}
"""Options that the command line spells in another way, or does not have."""


def arguments(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the arguments of a function with their defaults, but for the model and a former name."""
    parameters = inspect.signature(function).parameters
    return {name: one.default for name, one in parameters.items() if name not in ("model", "allow")}


def test_options_have_the_defaults_of_the_table() -> None:
    assert {field.name: field.default for field in dataclasses.fields(Options)} == DEFAULTS


def test_convert_takes_each_option() -> None:
    assert arguments(opshift.convert) == DEFAULTS


@pytest.mark.parametrize("function", [opshift.plan, opshift.where, opshift.verify, opshift.inspect])
def test_other_functions_have_the_defaults_of_the_table(function: Callable[..., Any]) -> None:
    taken = {name: default for name, default in arguments(function).items() if name in OPTIONS}
    assert taken
    assert taken == {name: DEFAULTS[name] for name in taken}


def test_plan_takes_the_options_that_decide_a_plan() -> None:
    verifying = {"verify", "require_proof", "inputs", "seed", "timeout", "memory", "effort"}
    assert set(DEFAULTS) - set(arguments(opshift.plan)) == verifying | {"max_time", "save_repro"}


@pytest.mark.parametrize("path", docstrings.FUNCTIONS, ids=lambda path: path.name)
def test_docstrings_describe_options_as_the_table_does(path: Path) -> None:
    """`python docs/generate.py` writes them."""
    assert docstrings.with_options(path) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", OPTIONS)
def test_the_documentation_of_convert_has_each_option(name: str) -> None:
    assert f"\n        {name}: " in str(opshift.convert.__doc__)


def test_the_command_line_has_the_same_defaults() -> None:
    options = parse(["convert", "in.onnx", "out.onnx", "--opset", "11"])
    options.model, options.output = command.named(options)
    asked = {**shared.request(options), **command.proof(options)}
    assert set(asked) == set(DEFAULTS) - {"progress"}
    assert Options(**asked) == Options(opset=11)


def test_the_command_line_has_each_option_with_its_help() -> None:
    (commands,) = (action.choices for action in build()._actions if isinstance(action, argparse._SubParsersAction))
    actions = {action.dest: action for action in commands["convert"]._actions if action.help != argparse.SUPPRESS}
    for name in OPTIONS.keys() - SWITCHED:
        assert tuple(actions[name].option_strings) == OPTIONS[name].flags
        assert actions[name].help == OPTIONS[name].help


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_is_a_request_or_not(name: str) -> None:
    values: dict[str, Any] = {"input_shapes": {"x": (1,)}, "dims": {"n": 1}, "types": {"int64": "int32"}}
    asked = {**DEFAULTS, name: values.get(name, ["tensor-output"] if name == "assume" else [1])}
    assert requests_nothing(DEFAULTS)
    assert requests_nothing(asked) is not (OPTIONS[name].is_request or name == "assume")
