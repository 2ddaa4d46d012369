"""The results of a conversion: frozen data that prints, compares and converts to JSON.

A `Plan` lists the change of each node, a `Refusal` why a node cannot be converted, a `Report` the comparisons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import onnx

import dataclasses
import enum
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from opshift.passes.base import notebook

if TYPE_CHECKING:
    import os

APPROXIMATE = "approximate"
"""Accepts lowerings whose results are at most 2^-21 of themselves off."""

ASSUMPTIONS = ("no-nan", "finite-inputs", "whole-indices", APPROXIMATE)
"""Assumptions without which some lowerings are not valid, most of them about inputs; `finite-inputs` includes
`no-nan`."""

TENSOR_OUTPUT = "tensor-output"
"""Accepts outputs that are tensors of scores in place of maps, which ZipMap makes."""

FITS = "fits-int32"
"""Accepts that integers whose range is unknown get a narrower type, which verification then checks."""

ACCEPTED = (*ASSUMPTIONS, TENSOR_OUTPUT, FITS)
"""All that `--assume` accepts."""


class Code(enum.StrEnum):
    """Why a node, or a model, cannot be converted. There are no other codes."""

    OPSET_TOO_OLD = "opset-too-old"
    """The target's opset is below 7, the oldest that opshift writes."""
    UNKNOWN_OPERATOR = "unknown-operator"
    """The operator differs between the two opsets, and nobody has reviewed that difference."""
    ABSENT_OPERATOR = "absent-operator"
    """The target opset does not have the operator, and no lowering is known."""
    NO_LOWERING = "no-lowering"
    """Lowerings are known, none applies here; the reason names the nearest one."""
    TYPE = "type"
    """The target's version of the operator does not accept these element types."""
    MISSING_FACT = "missing-fact"
    """A lowering would apply if a rank, a dimension, a type or a constant were known."""
    ASSUMPTION = "assumption"
    """The only lowerings that apply are valid only if an assumption holds, which `--assume` accepts."""
    FOREIGN_OPERATOR = "foreign-operator"
    """The operator is of a domain other than the default one, and can neither stay nor be replaced."""
    FUNCTION = "function"
    """A model-local function cannot be converted."""
    IR_VERSION = "ir-version"
    """The requested ir_version cannot hold what the model needs."""
    LIMIT = "limit"
    """Planning exceeded the time limit."""


@dataclasses.dataclass(frozen=True, repr=False)
class Refusal:
    """The reason why a node cannot be converted, with its place and a fix.

    `node` is the path of the node in the model, such as `main/hot` or `main/if_0.then_branch/hot`;
    `operator` reads `Hardmax-13`; it is empty if the refusal concerns the whole model.
    """

    code: Code
    node: str
    operator: str
    reason: str
    hint: str

    def __str__(self) -> str:
        """One paragraph for people."""
        what = f"{self.operator} at {self.node}" if self.operator else self.node
        return f"{what}: {self.reason}" + (f" {self.hint}" if self.hint else "")

    def __repr__(self) -> str:
        """Name the code and the node."""
        return f"<opshift.Refusal {notebook.refusal_line(self)}>"


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
        """One paragraph for people."""
        return f"{self.operator} at {self.node}: {self.reason} {self.hint}"


class Action(enum.StrEnum):
    """The change of a node."""

    KEEP = "keep"
    VERSION_BUMP = "restamp"
    LOWER = "lower"
    FOLD = "fold"
    """It becomes a constant, or nothing if only folded nodes read it."""
    DROP = "drop"
    """It is removed: its outputs are unused."""
    INLINE = "inline"
    """It becomes the nodes of a graph that it holds: of the branch that an If takes."""
    UNROLL = "unroll"
    """It becomes the nodes of its body, once for each iteration."""
    RETYPE = "retype"
    """It computes in another element type."""
    QUANTIZE = "quantize"
    """It becomes an operator on quantized values, together with the nodes behind it up to QuantizeLinear."""


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
        """Have `find` called once, if at all; it returns so many, those of nodes that are `lowered` among them."""
        self._count = count
        self._find = find
        self.lowered = lowered

    @functools.cached_property
    def _all(self) -> tuple[Step, ...]:
        return self._find()

    def __len__(self) -> int:
        """Return how many steps there are."""
        return self._count

    @overload
    def __getitem__(self, place: int) -> Step: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Step, ...]: ...
    def __getitem__(self, place: int | slice) -> Step | tuple[Step, ...]:
        """Return one step, or some."""
        return self._all[place]

    def __iter__(self) -> Iterator[Step]:
        """Go through them in order."""
        return iter(self._all)

    def __eq__(self, other: object) -> bool:
        """Compare by contents, with a tuple too."""
        return self._all == (other._all if isinstance(other, Steps) else other)

    def __hash__(self) -> int:
        """Hash as a tuple does."""
        return hash(self._all)

    def __repr__(self) -> str:
        """Count them."""
        return f"<{notebook.count(self._count, 'step')}>"

    def __reduce__(self) -> tuple[type[tuple[Step, ...]], tuple[tuple[Step, ...]]]:
        """Be a tuple in another process."""
        return tuple, (self._all,)


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A candidate for a node: a lowering, ONNX's function body, or the operator itself ("native").

    `cost` is relative to one Identity node (opsets/runtimes/costs.py). It is a lower bound if the search for nodes
    ended early, and None if the candidate does not apply. In both cases `why_not` has the reason.
    """

    name: str
    cost: float | None
    why_not: str = ""


@dataclasses.dataclass(frozen=True)
class Value:
    """A value of a drawing: its type as people write it (`float[n,3]`, empty: unknown), its elements if it is small."""

    name: str
    type: str = ""
    elements: str = ""


@dataclasses.dataclass(frozen=True)
class DrawnNode:
    """A node of a drawing, its attributes as `axis=1`; `since_version` is None where ONNX has no such operator."""

    operator: str
    since_version: int | None
    attributes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Subgraph:
    """A few nodes at one opset, in order; `constants` are initializers among what they read."""

    opset: int
    inputs: tuple[Value, ...]
    constants: tuple[Value, ...]
    nodes: tuple[DrawnNode, ...]
    outputs: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class RewriteGroup:
    """Nodes that are rewritten in one way, with the known facts about their inputs: `nodes` holds their paths.

    The first fields are those of their steps. `ways` are those that were compared, the one that was taken among them;
    they are empty where there was no choice. `before` is the node by itself and `after` what replaces it; where it
    stays as it is, and only the number of its version changes, its inputs are left out.
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
    """Nodes that the installed onnxruntime runs in the original only."""
    shapes: Mapping[str, tuple[int | str | None, ...]] = dataclasses.field(default_factory=dict)
    """The shapes of the inputs that are fixed, wholly or partly: a number, a symbol, or None for each dim."""
    prepared: tuple[Step, ...] = ()
    """What happens before the nodes are planned: they are folded, dropped, inlined, unrolled, retyped or joined."""
    types: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The new element types of values, inputs or outputs, by the old ones, if any change."""
    wide: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Why nodes keep a type of floats that becomes a narrower one elsewhere, by their paths."""
    quantized: str = ""
    """The form of quantized operators that is asked for: `qoperator`, `qdq` or none."""
    dequantized: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Why nodes stay between DequantizeLinear and QuantizeLinear against what `quantized` asks for, by their paths."""
    rewrites: Callable[[], tuple[RewriteGroup, ...]] = dataclasses.field(default=tuple, compare=False, repr=False)
    """Computes `kinds`."""

    def __repr__(self) -> str:
        """Show opsets and numbers of nodes."""
        return f"<opshift.Plan {notebook.plan_line(self)}>"

    def _repr_html_(self) -> str:
        return notebook.plan_html(self)

    @functools.cached_property
    def kinds(self) -> tuple[RewriteGroup, ...]:
        """The nodes of the steps, those that are alike together."""
        return self.rewrites()

    @property
    def lowered(self) -> Sequence[Step]:
        """The steps of the decomposed nodes."""
        if isinstance(self.steps, Steps):
            return self.steps.lowered
        return [step for step in self.steps if step.action is Action.LOWER]

    def __getstate__(self) -> dict[str, Any]:
        """Return what is sent to another process: the kinds, and not what finds them out."""
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


class Verdict(enum.StrEnum):
    """The result of a comparison."""

    EQUAL = "equal"
    WITHIN_BOUND = "within bound"
    """Narrower floats or approximations were accepted, and no output departs further than they explain."""
    DIFFERENT = "different"
    UNCHECKED = "unchecked"


@dataclasses.dataclass(frozen=True)
class Counterexample:
    """An input on which the two differ: each value is a nested list, small enough to read.

    `node` is where the two part, as `Hardmax-13 at main/hot`: the input is then what that node reads, and the output
    what it makes. It is empty where the input is the model's. `command` shows the difference again.
    """

    inputs: dict[str, Any]
    output: str
    expected: Any
    actual: Any
    node: str = ""
    command: str = ""


@dataclasses.dataclass(frozen=True)
class Departure:
    """The element of an output that is farthest from what was expected, of those that count as equal.

    `units` is the distance in units in the last place: how many steps from one float to the next lie between the two.
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
        """Whether no element counts: none is equal bit for bit, and none departs, since all that differ are excused."""
        return not self.identical and self.departure is None and self.elements + self.undefined > 0

    def __add__(self, other: Coverage) -> Coverage:
        """Return both as one."""
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
    `shapes` are those of inputs that only the rewritten model fixes, and with which both were compared.
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
        """The classes that were possible and that no input belongs to."""
        return tuple(name for name, number in self.classes.items() if not number)

    def __repr__(self) -> str:
        """Name the node and the verdict."""
        return f"<opshift.Check {notebook.check_line(self)}>"


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
        return f"<opshift.Report {notebook.report_line(self)}>"

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        return notebook.report_html(self)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is sent to another process, where the models are not."""
        return {**self.__dict__, "about": dict}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report as an HTML page (.html), Markdown (.md) or JSON (.json), depending on the extension.

        Raises:
            UsageError: the extension is unknown, the file cannot be written, or a page needs jinja2.
        """
        WRITERS[-1](self, path)

    @property
    def verdict(self) -> Verdict:
        """DIFFERENT if anything differed, then UNCHECKED, then WITHIN_BOUND; EQUAL if everything was equal."""
        verdicts = {check.verdict for check in (*self.nodes, self.whole)}
        order = (Verdict.DIFFERENT, Verdict.UNCHECKED, Verdict.WITHIN_BOUND)
        return next((verdict for verdict in order if verdict in verdicts), Verdict.EQUAL)

    @property
    def coverage(self) -> Coverage:
        """What was compared of the nodes and of the whole model; `sizes` are those of the whole model's inputs."""
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
"""The last one writes reports: the public package adds it, since formats are not the business of passes."""


class ReadModel(Protocol):
    """A model that was read, as errors carry it; `size` is that of its file in bytes, if it has one."""

    @property
    def model(self) -> onnx.ModelProto: ...  # noqa: D102

    @property
    def size(self) -> int | None: ...  # noqa: D102


class ConvertedModel(Protocol):
    """A conversion's result, as errors carry it."""

    @property
    def plan(self) -> Plan: ...  # noqa: D102

    @property
    def source(self) -> ReadModel: ...  # noqa: D102

    @property
    def model(self) -> Any: ...  # noqa: D102

    @property
    def source_model(self) -> onnx.ModelProto: ...  # noqa: D102

    @property
    def rewritten(self) -> onnx.ModelProto: ...  # noqa: D102

    @property
    def report(self) -> Report | None: ...  # noqa: D102

    @property
    def repairs(self) -> tuple[str, ...]: ...  # noqa: D102

    @property
    def notes(self) -> tuple[str, ...]: ...  # noqa: D102
