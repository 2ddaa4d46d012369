"""What became of mutants and of right rewrites, and the part of docs/verification.md that says so."""

from __future__ import annotations

import collections
import importlib.metadata
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "verification.md"
_BEGIN, _END = "<!-- mutation score: written by python tests/mutation --write -->", "<!-- end of mutation score -->"


@dataclass(frozen=True)
class Mutant:
    """What verification says of a mutant that is shown to differ, or of a right rewrite.

    Attributes:
        seed, index: draw it again.
        operator: that the model was drawn for.
        place: where its node is.
        kind: the class of the fault; "right" for a right rewrite.
        what: the fault.
        verdict: of verification.
        reason: of the verdict.
        seconds: of this process that verification took.
    """

    seed: int
    index: int
    operator: str
    place: str
    kind: str
    what: str
    verdict: str
    reason: str
    seconds: float

    @property
    def name(self) -> str:
        """What `--case` takes."""
        return f"{self.seed}:{self.index}"

    @property
    def passes(self) -> bool:
        """Whether verification says what it should: of a right rewrite anything but that it is different."""
        return self.verdict in ("equal", "unchecked") if self.kind == "right" else self.verdict == "different"


def _reasons() -> dict[str, str]:
    """Return why some mutants survive, by name."""
    text = Path(__file__).with_name("survivors.toml").read_text(encoding="utf-8")
    return dict(tomllib.loads(text))


def summary(found: Sequence[Mutant]) -> str:
    """Return the numbers, by class of fault and by operator."""
    mutants, rights = _parted(found)
    lines = [_numbers(mutants, rights)]
    for kind, own in _grouped(mutants, "kind"):
        lines.append(f"  {kind}: {sum(one.passes for one in own)} of {len(own)} different")
    missed = collections.Counter(one.operator for one in mutants if not one.passes)
    lines += [f"  missed of {operator}: {count}" for operator, count in missed.most_common()]
    return "\n".join(lines)


def _parted(found: Sequence[Mutant]) -> tuple[list[Mutant], list[Mutant]]:
    named = [one for one in found if one.verdict]
    return [one for one in named if one.kind != "right"], [one for one in named if one.kind == "right"]


def _grouped(mutants: Sequence[Mutant], attribute: str) -> Iterator[tuple[str, list[Mutant]]]:
    for value in sorted({getattr(one, attribute) for one in mutants}):
        yield value, [one for one in mutants if getattr(one, attribute) == value]


def _numbers(mutants: Sequence[Mutant], rights: Sequence[Mutant]) -> str:
    different = sum(one.passes for one in mutants)
    parts = []
    if mutants:
        operators = len({one.operator for one in mutants})
        share = 100 * different / len(mutants)
        parts.append(f"{different} of {len(mutants)} mutants over {operators} operators are different ({share:.2f} %)")
    if rights:
        refused = sum(not one.passes for one in rights)
        share = 100 * refused / len(rights)
        parts.append(f"{refused} of {len(rights)} right rewrites are refused ({share:.2f} %)")
    return "; ".join(parts) or "nothing was drawn"


def section(found: Sequence[Mutant]) -> str:
    """Return the part of the page, without its markers."""
    mutants, rights = _parted(found)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("onnx", "onnxruntime"))
    lines = [
        f"{_numbers(mutants, rights)}, with {versions}.",
        "",
        "| fault | different | of |",
        "| --- | ---: | ---: |",
    ]
    lines += [f"| {kind} | {sum(one.passes for one in own)} | {len(own)} |" for kind, own in _grouped(mutants, "kind")]
    reasons = _reasons()
    survivors = [one for one in mutants if not one.passes]
    if survivors:
        lines += ["", "| survivor | verdict | fault | reason |", "| --- | --- | --- | --- |"]
        lines += [
            f"| {one.name} | {one.verdict} | {_cell(one.what)} | {_cell(reasons.get(one.name) or one.reason)} |"
            for one in sorted(survivors, key=lambda one: (one.seed, one.index))
        ]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Return a text that stands in one cell of a table."""
    short = re.sub(r"\s+", " ", text).replace("|", "/")
    return short if len(short) <= 160 else short[:157] + "..."


def write(found: Sequence[Mutant]) -> None:
    """Put the summary into the page, between its markers."""
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    _, end, after = rest.partition(_END)
    assert begin, f"{PAGE} has no place for the summary"
    assert end, f"{PAGE} does not end the summary"
    PAGE.write_text(f"{before}{_BEGIN}\n\n{section(found)}\n\n{_END}{after}", encoding="utf-8")
