"""Count the operators of a model, for the table of changes."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence

import onnx
import onnx.defs

from opshift.cli import terminal
from opshift.passes.base.plan import Plan
from opshift.passes.graph.columnar import SMALL, columnar_view
from opshift.passes.graph.traversal import walk
from opshift.passes.io.serialization import length, serialized_chunks


@dataclasses.dataclass(frozen=True)
class Count:
    """The number of an operator's nodes in a model, and its version there (None if ONNX does not define it)."""

    count: int
    since_version: int | None

    def __str__(self) -> str:
        """Return `3 (since 13)`."""
        return f"{self.count}" if self.since_version is None else f"{self.count} (since {self.since_version})"


@dataclasses.dataclass(frozen=True)
class OperatorCounts:
    """The contents of a model; `size` is that of the protobuf in bytes, without external weights."""

    opset: int | None
    ir_version: int
    size: int
    operators: dict[str, Count]


def count_operators(model: onnx.ModelProto, size: int | None = None) -> OperatorCounts:
    """Count the operators of every graph and function of a model; `size` is set if weights were removed."""
    imports = {normal(entry.domain): entry.version for entry in model.opset_import}
    found: Counter[tuple[str, str]] = Counter()
    size = length(serialized_chunks(model)) if size is None else size
    for graph in walk(model, columnar_view(model) if size <= SMALL else None):
        for (domain, name, _), places in graph.by_op_key.items():
            found[normal(domain), name] += len(places)
    operators = {
        f"{domain}::{name}" if domain else name: Count(number, since(domain, name, imports.get(domain)))
        for (domain, name), number in found.items()
    }
    return OperatorCounts(imports.get(""), model.ir_version, size, dict(sorted(operators.items())))


def normal(domain: str) -> str:
    """Return the empty name for both names of the default domain."""
    return "" if domain == "ai.onnx" else domain


def since(domain: str, name: str, opset: int | None) -> int | None:
    """Return the version of an operator at an opset, or None if ONNX does not define it."""
    if opset is None or not onnx.defs.has(name, opset, domain):
        return None
    return onnx.defs.get_schema(name, opset, domain).since_version


def nothing_to_do(plan: Plan, before: OperatorCounts, after: OperatorCounts) -> bool:
    """Return whether the output equals the input."""
    return plan.nothing_to_do and before == after


def show_operators(before: OperatorCounts, after: OperatorCounts) -> None:
    """Print all operators, opset and ir_version, before and after."""
    table = [
        *rows(before, after),
        ("opset", str(before.opset), str(after.opset)),
        ("ir_version", str(before.ir_version), str(after.ir_version)),
    ]
    terminal.table(("Operator", "Before", "After"), table, changed=lambda row: row[1] != row[2])


def remarks(ir_version: int, left_out: Sequence[str], notes: Sequence[str]) -> Iterator[str]:
    """Yield the parts removed for the ir_version, as one note, and all other notes."""
    if left_out:
        yield f"Dropped, because ir_version {ir_version} does not support it: {'; '.join(left_out)}."
    yield from notes


def rows(before: OperatorCounts, after: OperatorCounts) -> list[tuple[str, str, str]]:
    """Return the table of operators."""
    names = sorted({*before.operators, *after.operators})
    return [(name, cell(before.operators.get(name)), cell(after.operators.get(name))) for name in names]


def cell(count: Count | None) -> str:
    """Return a cell of the table."""
    return "-" if count is None else str(count)
