"""A report: the results of verification, node by node and of the whole models; frozen data that converts to JSON."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from opshift.passes.base import notebook

if TYPE_CHECKING:
    import os


class Verdict(enum.StrEnum):
    """The result of a comparison."""

    EQUAL = "equal"
    WITHIN_BOUND = "within bound"
    """Narrower floats or approximations were accepted, and no output differs by more than these explain."""
    DIFFERENT = "different"
    UNCHECKED = "unchecked"


@dataclasses.dataclass(frozen=True)
class Counterexample:
    """An input with different outputs; each value is a nested list, small enough to read.

    `node` is the first differing node, as `Hardmax-13 at main/hot`: input and output are then that node's. It is empty
    if the input is the model's. `command` reproduces the difference.
    """

    inputs: dict[str, Any]
    output: str
    expected: Any
    actual: Any
    node: str = ""
    command: str = ""


@dataclasses.dataclass(frozen=True)
class Departure:
    """The output element with the largest difference among the elements that count as equal.

    `units` is the distance in units in the last place (the number of steps between adjacent floats).
    """

    units: int
    output: str
    index: tuple[int, ...]
    expected: float
    actual: float


@dataclasses.dataclass(frozen=True)
class Coverage:
    """The compared output elements, with graph optimizations off.

    Attributes:
        elements: the number of compared elements, over all inputs.
        identical: the number of these that are equal bit for bit (NaN to NaN).
        undefined: the number of skipped elements, because the original's result is undefined.
        sizes: the largest size of each dynamic input dimension, by its name.
        departure: the largest difference; None if all elements are equal bit for bit, or not floats.
    """

    elements: int = 0
    identical: int = 0
    undefined: int = 0
    sizes: dict[str, int] = dataclasses.field(default_factory=dict)
    departure: Departure | None = None

    @property
    def is_void(self) -> bool:
        """Whether no element was really compared: none is bit for bit equal, and all differences are excused."""
        return not self.identical and self.departure is None and self.elements + self.undefined > 0

    def __add__(self, other: Coverage) -> Coverage:
        """Return the sum of both."""
        names = {**self.sizes, **other.sizes}
        sizes = {name: max(self.sizes.get(name, 0), other.sizes.get(name, 0)) for name in names}
        departures = [one for one in (self.departure, other.departure) if one is not None]
        return Coverage(
            self.elements + other.elements,
            self.identical + other.identical,
            self.undefined + other.undefined,
            sizes,
            max(departures, key=lambda one: one.units, default=None),
        )


@dataclasses.dataclass(frozen=True, repr=False)
class Check:
    """One comparison: of a rewritten node with its replacement, or of the whole models (`node` empty).

    `judge` is the reference for the expected values, `onnxruntime 1.31.1` or `numpy oracle`. `inputs` counts the tried
    inputs, and `classes` those with ties, infinities, empty dimensions and so on; 0 if such inputs were possible.
    `shapes` are the input shapes that only the rewritten model fixes; both models were compared with these.
    """

    node: str
    operator: str
    verdict: Verdict
    reason: str
    judge: str
    inputs: int
    counterexample: Counterexample | None = None
    classes: dict[str, int] = dataclasses.field(default_factory=dict)
    coverage: Coverage = dataclasses.field(default_factory=Coverage)
    shapes: Mapping[str, tuple[int | str, ...]] = dataclasses.field(default_factory=dict)

    @property
    def untried(self) -> tuple[str, ...]:
        """The input classes that were possible but never tried."""
        return tuple(name for name, number in self.classes.items() if not number)

    def __repr__(self) -> str:
        """Show the node and the verdict."""
        where = f"{notebook.short(self.operator)} at {notebook.short(self.node)}" if self.node else "the whole model"
        return f"<opshift.Check {where}: {self.verdict} on {notebook.count(self.inputs, 'input')}>"


@dataclasses.dataclass(frozen=True, repr=False)
class Report:
    """The result of a verification, for each node and the whole models, with the versions of the packages.

    `about` returns facts about the models, for `save`.
    """

    nodes: tuple[Check, ...]
    whole: Check
    seed: int
    versions: dict[str, str]
    effort: str = "normal"
    max_time: float | None = None
    about: Callable[[], dict[str, Any]] = dataclasses.field(default=dict, compare=False, repr=False)

    def __repr__(self) -> str:
        """Show the verdict."""
        return f"<opshift.Report {self._line()}>"

    def _line(self) -> str:
        """Return `equal on 484 inputs, 3 rewritten nodes and the whole model`."""
        tried = sum(check.inputs for check in (*self.nodes, self.whole))
        nodes = f"{notebook.count(len(self.nodes), 'rewritten node')} and " if self.nodes else ""
        on = f" on {notebook.count(tried, 'input')}" if tried else ""
        return f"{self.verdict}{on}, {nodes}the whole model"

    def _repr_html_(self) -> str:
        """Return the verdict, and the checks that are not equal, as a small table for notebooks."""
        doubtful = [check for check in (self.whole, *self.nodes) if check.verdict is not Verdict.EQUAL]
        checks = [(check.node or "the whole model", check.reason) for check in doubtful]
        untried = [("not tested", ", ".join(self.whole.untried))] * bool(self.whole.untried)
        rows = [("verdict", self._line()), *notebook.first_rows(checks), *untried, *self.versions.items()]
        return notebook.table("opshift.Report", rows)

    def __getstate__(self) -> dict[str, Any]:
        """Return the pickled state, without the models."""
        return {**self.__dict__, "about": dict}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report as an HTML page (.html), Markdown (.md) or JSON (.json), depending on the extension.

        Raises:
            UsageError: the extension is unknown, the file cannot be written, or a page needs jinja2.
        """
        WRITERS[-1](self, path)

    @property
    def verdict(self) -> Verdict:
        """Return DIFFERENT if any check differs, else UNCHECKED, else WITHIN_BOUND; EQUAL if all are equal."""
        verdicts = {check.verdict for check in (*self.nodes, self.whole)}
        order = (Verdict.DIFFERENT, Verdict.UNCHECKED, Verdict.WITHIN_BOUND)
        return next((verdict for verdict in order if verdict in verdicts), Verdict.EQUAL)

    @property
    def coverage(self) -> Coverage:
        """The coverage of the nodes and the whole model; `sizes` are those of the whole model's inputs."""
        nodes = (dataclasses.replace(check.coverage, sizes={}) for check in self.nodes)
        return sum(nodes, self.whole.coverage)

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers."""
        return {
            "verdict": self.verdict,
            "nodes": [dataclasses.asdict(check) for check in self.nodes],
            "whole": dataclasses.asdict(self.whole),
            "seed": self.seed,
            "versions": self.versions,
            "effort": self.effort,
            "max_time": self.max_time,
        }


def _no_writer(_: Report, __: str | os.PathLike[str]) -> None:
    raise RuntimeError("reports are written by the package opshift: use its public names")


WRITERS: list[Callable[[Report, str | os.PathLike[str]], None]] = [_no_writer]
"""The report writers, of which the last is used. The public package adds it: file formats are not part of passes."""
