"""Run probes in a runtime, and write the supported operators as a profile."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from opshift.opsets.registry.schema import schema_at
from opshift.passes.analysis.scopes import describe, view
from opshift.passes.base.arguments import Progress
from opshift.passes.base.errors import UsageError
from opshift.passes.measurement.isolated import Array, Isolated, RefusedError, alike, load_adapter
from opshift.passes.measurement.limits import Observed, as_toml, described, limit_as_toml, limits_of
from opshift.passes.measurement.probes import Probe, probes, with_constants, without_bools

TIMEOUT = 30.0
"""The time limit of a runtime for one probe, in seconds."""


@dataclass(frozen=True)
class Measured:
    """The result of a measurement: a profile as TOML, and the numbers of right, wrong and refused probes."""

    name: str
    version: str
    profile: str
    right: int
    wrong: int
    refused: int


def measure(
    adapter: str,
    *,
    operators: Collection[str] = (),
    progress: Progress | None = None,
    today: datetime.date | None = None,
    timeout: float = TIMEOUT,
) -> Measured:
    """Run ONNX's node tests in a runtime, each in a child process, and return its profile.

    Args:
        adapter: the name of one of opshift's adapters, or a Python file.
        operators: the operators to measure; empty for all.
        progress: called with a stage, the probes done and all probes.
        today: the date in the profile; None is the current date.
        timeout: the time limit of the runtime for one probe, in seconds.

    Raises:
        UsageError: there is no such adapter, it is incomplete, its runtime ran nothing right, or ONNX has no test of
            these operators.
        ImportError: the runtime is not installed.
    """
    module = load_adapter(adapter)
    if progress:
        progress("computing ONNX's node tests", 0, 0)
    version = _version(adapter, module)
    chosen = list(probes(module.OPSET, operators))
    if not chosen:
        named = ", ".join(sorted(operators)) or "any operator"
        raise UsageError(f"ONNX has no node test of {named} at opset {module.OPSET}: check the names of --operators.")
    runtime = Isolated(adapter, timeout)
    observed: dict[str, list[Observed]] = {}
    try:
        for count, probe in enumerate(chosen):
            if progress:
                progress(f"measuring {module.NAME}", count, len(chosen))
            for one in observe(probe, module.OPSET, runtime):
                observed.setdefault(one.node.name, []).append(one)
    finally:
        runtime.close()
    every = [one for ones in observed.values() for one in ones]
    counts = {outcome: sum(one.outcome == outcome for one in every) for outcome in ("right", "wrong", "refused")}
    if not counts["right"]:
        why = next((one.detail for one in every if one.detail), "its outputs are not those of ONNX's tests")
        raise UsageError(f"{module.NAME} ran none of {len(every)} models right: there is no profile. The first: {why}.")
    about = f"{module.NAME} {version}, measured on {today or datetime.date.today()} with `opshift targets --measure`"
    head = [
        f"# {about}:",
        f"# {len(every)} models of one node, ONNX's own tests at opset {module.OPSET}; {counts['right']} ran right.",
        f"name = {as_toml(module.NAME)}",
        f"version = {as_toml(version)}",
        f"opset = [{module.OPSET}, {module.OPSET}]",
        "measured = true",
        "domains = {}",
    ]
    return Measured(module.NAME, version, "\n".join([*head, *_operators(observed, version)]) + "\n", **counts)


def _version(adapter: str, module: ModuleType) -> str:
    """Return the runtime's version from its adapter."""
    try:
        return str(module.version())
    except ImportError:
        raise
    except Exception as error:
        raise UsageError(f"version() of the adapter {adapter} fails: {type(error).__name__}: {error}.") from error


def observe(probe: Probe, opset: int, runtime: Isolated) -> list[Observed]:
    """Run the variants of a probe: unchanged, with constants, and with floats in place of bools."""
    found = []
    for form in filter(None, (probe, with_constants(probe))):
        outcome, detail = _outcome(form, runtime)
        floats = without_bools(form) if outcome != "right" else None
        if floats is not None and _outcome(floats, runtime)[0] == "right":
            outcome, detail = "right", ""
        schema = schema_at("", form.node.op_type, opset)
        assert schema is not None
        found.append(Observed(view(form.node, describe(form.model), opset), schema, outcome, detail))
    return found


def _outcome(probe: Probe, runtime: Isolated) -> tuple[str, str]:
    try:
        found = runtime.run(probe.model.SerializeToString(), probe.inputs)
    except RefusedError as error:
        return "refused", str(error)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        arrays: Sequence[Array] = list(found.values())
        right = len(arrays) >= len(probe.wanted) and all(map(alike, arrays, probe.wanted))
    return ("right", "") if right else ("wrong", "")


def _operators(observed: dict[str, list[Observed]], version: str) -> Iterable[str]:
    """Yield the list of operators, and their limits; comments name the operators that are left out."""
    limits = {name: limits_of(ones) for name, ones in sorted(observed.items())}
    left_out = [name for name, found in limits.items() if found is None]
    partly = [name for name in left_out if any(one.right for one in observed[name])]
    never = [name for name in left_out if name not in partly]
    for title, chosen in (("Never right", never), ("Right in some forms, which no limits separate", partly)):
        if chosen:
            yield from _wrapped(f"# {title}: ", chosen, str, "# ", "")
    yield from _wrapped("operators = [", [name for name in limits if name not in left_out], as_toml, "    ", "]")
    for name, found in limits.items():
        left = observed[name]
        for limit in found or ():
            outside = [one for one in left if limit.why_not(one.node, one.schema) is not None]
            left = [one for one in left if one not in outside]
            bad = next(one for one in outside if not one.right)
            yield ""
            yield limit_as_toml(limit)
            yield f"reason = {as_toml(f'{bad.outcome}: {described(bad)} ({version})')}"


def _wrapped(head: str, names: Sequence[str], shown: Callable[[str], str], indent: str, tail: str) -> Iterable[str]:
    """Yield names separated by commas, in lines of 120 characters at most."""
    line = head
    for place, name in enumerate(names):
        part = shown(name) + ("" if place == len(names) - 1 else ", ")
        if len(line) + len(part) > 118:
            yield line.rstrip()
            line = indent
        line += part
    yield line + tail
