"""A plan: the change of each node, and a refusal for each blocker; frozen data that prints and converts to JSON."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, overload

from opshift.passes.base import notebook


class Code(enum.StrEnum):
    """The reason why a node, or a model, cannot be converted to the target. The set is closed."""

    OPSET_TOO_OLD = "opset-too-old"
    """The target's opset is below 7, the oldest that opshift writes."""
    UNKNOWN_OPERATOR = "unknown-operator"
    """The operator differs between the two opsets, and the difference has not been reviewed."""
    ABSENT_OPERATOR = "absent-operator"
    """The target opset does not have the operator, and no lowering is known."""
    NO_LOWERING = "no-lowering"
    """Lowerings are known but none applies; the reason names the nearest one."""
    TYPE = "type"
    """The target's version of the operator does not accept these element types."""
    MISSING_FACT = "missing-fact"
    """A lowering would apply if a rank, a dimension, a type or a constant were known."""
    ASSUMPTION = "assumption"
    """The only applicable lowerings need an assumption, which `--assume` accepts."""
    FOREIGN_OPERATOR = "foreign-operator"
    """The operator is in a domain other than the default one, and can be neither kept nor replaced."""
    FUNCTION = "function"
    """A model-local function cannot be converted."""
    IR_VERSION = "ir-version"
    """The requested ir_version cannot hold what the model needs."""
    LIMIT = "limit"
    """No plan was found within the time limit."""


@dataclasses.dataclass(frozen=True, repr=False)
class Refusal:
    """The reason why a node cannot be converted, with its place and a fix.

    `node` is the path of the node in the model, such as `main/hot` or `main/if_0.then_branch/hot`;
    `operator` reads `Hardmax-13`; it is empty if the refusal concerns the whole model. `details` are all obstacles of
    the nearest decomposition, with the names of lowerings, if there are more than `reason` names.
    """

    code: Code
    node: str
    operator: str
    reason: str
    hint: str
    details: str = ""

    def __str__(self) -> str:
        """Return one paragraph for users."""
        what = f"{self.operator} at {self.node}" if self.operator else self.node
        return f"{what}: {self.reason}" + (f" {self.hint}" if self.hint else "")

    def __repr__(self) -> str:
        """Show the code and the node."""
        return f"<opshift.Refusal {self._line()}>"

    def _line(self) -> str:
        """Return `type: OneHot-28 at main/hot`."""
        node = notebook.short(self.node)
        return f"{self.code}: {f'{notebook.short(self.operator)} at {node}' if self.operator else node}"


@dataclasses.dataclass(frozen=True)
class KernelWarning:
    """A node of the result that the installed onnxruntime does not run, although it runs the original: where, why, fix.

    The result is right, and other runtimes may have the operator.
    """

    node: str
    operator: str
    reason: str
    hint: str

    def __str__(self) -> str:
        """Return one paragraph for users."""
        return f"{self.operator} at {self.node}: {self.reason} {self.hint}"


class Action(enum.StrEnum):
    """The change of a node."""

    KEEP = "keep"
    VERSION_BUMP = "restamp"
    LOWER = "lower"
    FOLD = "fold"
    """It becomes a constant, or is removed if only folded nodes read it."""
    DROP = "drop"
    """It is removed because its outputs are unused."""
    INLINE = "inline"
    """It is replaced by the nodes of one of its subgraphs: the taken branch of an If."""
    UNROLL = "unroll"
    """It is replaced by the nodes of its body, once for each iteration."""
    RETYPE = "retype"
    """It computes in another element type."""
    QUANTIZE = "quantize"
    """It becomes an operator on quantized values, together with the nodes after it up to QuantizeLinear."""


class Step(NamedTuple):
    """The change of one node.

    `operator` and `since_version` are the node's own. `why` is the reason for the change (empty for KEEP). `lowerings`
    names the lowerings, outermost first, and `becomes` lists the emitted operators, in order.
    """

    action: Action
    node: str
    operator: str
    since_version: int
    why: str = ""
    lowerings: tuple[str, ...] = ()
    becomes: tuple[str, ...] = ()
    assumes: tuple[str, ...] = ()

    def at(self, node: str) -> Step:
        """Return the same step at another node."""
        return Step._make((self[0], node, *self[2:]))


class Steps(Sequence[Step]):
    """The steps of a plan, computed on first access: a large model has many."""

    def __init__(self, count: int, lowered: Sequence[Step], find: Callable[[], tuple[Step, ...]]) -> None:
        """Store `find`, which is called at most once and returns `count` steps, including the `lowered` ones."""
        self._count = count
        self._find = find
        self.lowered = lowered

    @functools.cached_property
    def _all(self) -> tuple[Step, ...]:
        return self._find()

    def __len__(self) -> int:
        """Return the number of steps."""
        return self._count

    @overload
    def __getitem__(self, place: int) -> Step: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Step, ...]: ...
    def __getitem__(self, place: int | slice) -> Step | tuple[Step, ...]:
        """Return one step, or a slice of steps."""
        return self._all[place]

    def __iter__(self) -> Iterator[Step]:
        """Iterate over the steps in order."""
        return iter(self._all)

    def __eq__(self, other: object) -> bool:
        """Compare by contents, also with a tuple."""
        return self._all == (other._all if isinstance(other, Steps) else other)

    def __hash__(self) -> int:
        """Return the hash of the equal tuple."""
        return hash(self._all)

    def __repr__(self) -> str:
        """Show the number of steps."""
        return f"<{notebook.count(self._count, 'step')}>"

    def __reduce__(self) -> tuple[type[tuple[Step, ...]], tuple[tuple[Step, ...]]]:
        """Pickle as a tuple."""
        return tuple, (self._all,)


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A candidate for a node: a lowering, ONNX's function body, or the operator itself ("native").

    `cost` is relative to one Identity node (opsets/runtimes/costs.py). It is a lower bound if the search stopped early,
    and None if the candidate does not apply. In both cases `why_not` has the reason.
    """

    name: str
    cost: float | None
    why_not: str = ""


@dataclasses.dataclass(frozen=True)
class Value:
    """A value of a diagram: its type, such as `float[n,3]` (empty: unknown), and its elements if there are few."""

    name: str
    type: str = ""
    elements: str = ""


@dataclasses.dataclass(frozen=True)
class DrawnNode:
    """A node of a diagram, with attributes such as `axis=1`; `since_version` is None if ONNX has no such operator."""

    operator: str
    since_version: int | None
    attributes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Subgraph:
    """A few nodes at one opset, in order; `constants` are the initializers among their inputs."""

    opset: int
    inputs: tuple[Value, ...]
    constants: tuple[Value, ...]
    nodes: tuple[DrawnNode, ...]
    outputs: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class RewriteGroup:
    """Nodes with the same rewrite, and the facts about their inputs; `nodes` holds their paths.

    The first fields are those of their steps. `ways` are the compared candidates, including the chosen one; empty if
    there was no choice. `before` is the node alone and `after` its replacement; for a version bump, the inputs are left
    out.
    """

    action: Action
    operator: str
    since_version: int
    why: str
    lowerings: tuple[str, ...]
    becomes: tuple[str, ...]
    assumes: tuple[str, ...]
    ways: tuple[Candidate, ...]
    before: Subgraph
    after: Subgraph
    nodes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, repr=False)
class Plan:
    """The changes that `convert` would make to a model; `steps` omits unchanged nodes.

    `kinds` groups similar nodes of the steps; it is computed on first access.
    """

    source_opset: int
    target_opset: int
    target: str
    decompose: tuple[str, ...]
    kept: int
    steps: Sequence[Step]
    refusals: tuple[Refusal, ...]
    warnings: tuple[KernelWarning, ...] = ()
    """The nodes that the installed onnxruntime runs only in the original."""
    shapes: Mapping[str, tuple[int | str | None, ...]] = dataclasses.field(default_factory=dict)
    """The shapes of the wholly or partly fixed inputs: a number, a symbol, or None for each dim."""
    prepared: tuple[Step, ...] = ()
    """The steps before planning: nodes that are folded, dropped, inlined, unrolled, retyped or fused."""
    types: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The new element types of values, inputs or outputs, by the old ones, if any change."""
    wide: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The reasons why nodes keep a wider float type that becomes narrower elsewhere, by node path."""
    quantized: str = ""
    """The requested form of quantized operators: `qoperator`, `qdq` or none."""
    dequantized: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The reasons why nodes stay between DequantizeLinear and QuantizeLinear although `quantized` is set, by node path.
    """
    rewrites: Callable[[], tuple[RewriteGroup, ...]] = dataclasses.field(default=tuple, compare=False, repr=False)
    """Computes `kinds`."""

    def __repr__(self) -> str:
        """Show the opsets and the numbers of nodes."""
        return f"<opshift.Plan {self._line()}>"

    def _line(self) -> str:
        """Return `opset 18 -> 11, 2 nodes rewritten, 3 version bumps, 4 unchanged`."""
        where = f"opset {self.source_opset} -> {self.target_opset}"
        where += f" for {notebook.short(self.target)}" if self.target else ""
        if self.refusals:
            return f"{where}, not possible: {notebook.count(len(self.refusals), 'refusal')}"
        lowered = len(self.lowered)
        bumped = notebook.count(len(self.steps) - lowered, "version bump")
        return f"{where}, {notebook.count(lowered, 'node')} rewritten, {bumped}, {self.kept} unchanged"

    def _rows(self) -> list[tuple[str, Any]]:
        """Return the changes as rows of a table for notebooks."""
        becomes: dict[str, int] = {}
        for step in self.lowered:
            line = f"{step.operator}-{step.since_version} \u2192 {', '.join(step.becomes) or 'nothing'}"
            becomes[line] = becomes.get(line, 0) + 1
        rows: list[tuple[str, Any]] = [
            ("opset", f"{self.source_opset} \u2192 {self.target_opset}"),
            *(("rewritten", f"{times} \u00d7 {line}") for line, times in list(becomes.items())[: notebook.ROWS]),
        ]
        if len(becomes) > notebook.ROWS:
            rows.append(("rewritten", f"and {len(becomes) - notebook.ROWS} more kinds"))
        return [*rows, ("version bumps", len(self.steps) - len(self.lowered)), ("unchanged", self.kept)]

    def _repr_html_(self) -> str:
        """Return the rewrites, or the refusals, as a small table for notebooks."""
        refusals = [(refusal._line(), refusal.reason) for refusal in self.refusals]
        return notebook.table("opshift.Plan", notebook.first_rows(refusals) or self._rows())

    @functools.cached_property
    def kinds(self) -> tuple[RewriteGroup, ...]:
        """The nodes of the steps, grouped by rewrite."""
        return self.rewrites()

    @property
    def lowered(self) -> Sequence[Step]:
        """The steps of the decomposed nodes."""
        if isinstance(self.steps, Steps):
            return self.steps.lowered
        return [step for step in self.steps if step.action is Action.LOWER]

    def __getstate__(self) -> dict[str, Any]:
        """Return the pickled state: the computed kinds instead of the function that computes them."""
        return {**self.__dict__, "kinds": self.kinds, "rewrites": tuple}

    @property
    def possible(self) -> bool:
        """Whether there are no blockers."""
        return not self.refusals

    @property
    def nothing_to_do(self) -> bool:
        """Whether the model already satisfies the target."""
        prepared = self.shapes or self.prepared or self.types or self.dequantized
        return self.possible and not self.steps and not prepared and self.source_opset == self.target_opset

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers."""
        return {
            "possible": self.possible,
            "nothing_to_do": self.nothing_to_do,
            "source_opset": self.source_opset,
            "target_opset": self.target_opset,
            "target": self.target,
            "decompose": self.decompose,
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
            "types": dict(self.types),
            "wide": dict(self.wide),
            "quantized": self.quantized,
            "dequantized": dict(self.dequantized),
            "prepared": [step._asdict() for step in self.prepared],
            "kept": self.kept,
            "steps": [step._asdict() for step in self.steps],
            "refusals": [dataclasses.asdict(refusal) for refusal in self.refusals],
            "warnings": [dataclasses.asdict(warning) for warning in self.warnings],
            "kinds": [dataclasses.asdict(kind) for kind in self.kinds],
        }
