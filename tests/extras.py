"""Packages of the extras that slow tests need."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest


def need(module: str, variable: str = "OPSHIFT_CI") -> Any:
    """Import a package of an extra, or skip the test where it is not installed.

    .ci/checks.py installs the extras and sets the variables, so that a package which is missing there is a failure.
    """
    if os.environ.get(variable) == "1":
        return importlib.import_module(module)
    return pytest.importorskip(module)
