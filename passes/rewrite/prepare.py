"""Prepare a model for planning: fix shapes, and fold the values that become known."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx

from opshift.opsets.registry.facts import Dim, Facts
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.structural import LOOP, SEQUENCES
from opshift.opsets.runtimes.target import Legality
from opshift.passes.analysis.known_values import (
    ContradictionError,
    Evaluate,
    Propagation,
    is_static,
    known_values,
    scopes_of,
)
from opshift.passes.analysis.scopes import INLINED, Scope, expanded, inlined
from opshift.passes.base.errors import UsageError, printable
from opshift.passes.base.plan import Action, Code, Refusal, Step
from opshift.passes.graph.traversal import node_name
from opshift.passes.rewrite.collected_lists import collect
from opshift.passes.rewrite.control_flow import expand, why_kept
from opshift.passes.rewrite.element_types import Retyped, change_types
from opshift.passes.rewrite.fewer_axes import may_exceed, merge_axes
from opshift.passes.rewrite.fixed_shapes import (
    Fixed,
    Sizes,
    dynamic,
    fixed,
    input_shapes,
    shape_option,
    write_inputs,
    write_values,
)
from opshift.passes.rewrite.float_islands import Change, Islands, UnheldError, UnmeasuredError
from opshift.passes.rewrite.folding import fold, foldable, is_any_unused, may_fold
from opshift.passes.rewrite.quantized_operators import Joined, join
from opshift.passes.rewrite.sequences import without_sequences
from opshift.passes.rewrite.type_choice import Types
from opshift.passes.rewrite.wide_constants import Whole, Widened, widen

Shown = Callable[[onnx.ModelProto], onnx.ModelProto]
"""Returns a model with embedded small constants, also from external files."""


@dataclass(frozen=True)
class Preparation:
    """The requested preparation of a model.

    Attributes:
        sizes: the sizes of its inputs.
        fold: whether nodes that depend only on shapes and constants are folded.
        tidy: whether unused nodes are dropped although there is nothing to fold.
        static: the name of a target that requires static shapes, or empty.
        missing: the unsupported operators among If, Loop, Scan and the sequence operators.
        types: the element types to change.
        constants: the element types in which the target reads constants; empty for all.
        runnable: whether nodes keep a type for which the installed onnxruntime has a kernel.
        narrow: the element types of constants that the opset does not have.
        opset: that opset.
        quantized: the target, if DequantizeLinear, an operator and QuantizeLinear become one on quantized values.
        inline: whether functions are inlined, because the target loads none, or to decompose them.
        ranks: the maximum ranks of the target's operators, if it limits them.
    """

    sizes: Sizes = field(default_factory=Sizes)
    fold: bool = False
    tidy: bool = False
    static: str = ""
    missing: frozenset[str] = frozenset()
    types: Types = field(default_factory=Types)
    constants: frozenset[int] = frozenset()
    runnable: bool = False
    narrow: frozenset[int] = frozenset()
    opset: int = 0
    quantized: Legality | None = None
    inline: bool = False
    ranks: Mapping[str, int] = field(default_factory=dict)

    @property
    def key(self) -> Hashable:
        """A key that two preparations share if they make the same of a model."""
        found = {name: sorted(value) if isinstance(value, frozenset) else value for name, value in vars(self).items()}
        return repr({**found, "ranks": sorted(self.ranks.items())})

    def __bool__(self) -> bool:
        """Return whether there is anything to do."""
        wanted = (self.sizes, self.fold, self.static, self.missing, self.types, self.narrow, self.ranks)
        return any(map(bool, wanted)) or self.quantized is not None


@dataclass(frozen=True)
class Prepared:
    """A prepared model: its steps, the new shapes of its inputs, and the blockers."""

    model: onnx.ModelProto
    steps: tuple[Step, ...] = ()
    shapes: Mapping[str, tuple[Dim, ...]] = field(default_factory=dict)
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    casts: int = 0
    """The number of Casts that the type changes added."""
    wide: Mapping[str, str] = field(default_factory=dict)
    """The reasons why nodes keep a wider float type, by node path."""
    folds: bool = False
    """Whether constants are folded, also in emitted nodes."""
    dequantized: Mapping[str, str] = field(default_factory=dict)
    """The reasons why nodes stay between DequantizeLinear and QuantizeLinear, by node path."""
    kept: Mapping[str, Reason] = field(default_factory=dict)
    """The reasons why unsupported If, Loop and Scan nodes stay, by node path."""
    dropped: tuple[str, ...] = ()
    """The unused inputs, which the target does not accept."""


@dataclass(frozen=True)
class Expanded:
    """A model with fixed shapes, without the operators that are replaced before planning, and folded.

    `values` are the facts about the model, which is not modified afterwards if it is kept.
    """

    model: onnx.ModelProto
    values: Scope
    found: Fixed
    steps: tuple[Step, ...]
    kept: Mapping[str, Reason]


Keep = Callable[[Hashable, Callable[[], Expanded]], Expanded]
"""Returns an expanded model by a key; the first call computes it. It may be one that others have too."""


def prepare(
    model: onnx.ModelProto,
    asked: Preparation,
    shown: Shown,
    evaluate: Evaluate | None,
    islands: Islands | None = None,
    whole: Whole = lambda tensor: tensor,
    keep: Keep | None = None,
) -> Prepared:
    """Return a model with fixed shapes and folded constants; the model itself if nothing changes.

    `islands` finds the nodes that keep a wider type if floats become narrower; `whole` reads the elements of constants
    that get a wider type. Preparations that differ only in their later steps share the first ones through `keep`.

    Raises:
        UsageError: the sizes do not fit the model, or it has training information.
    """
    inline = asked.inline and bool(model.functions)
    if not inline and not _is_needed(model, asked):
        return Prepared(model)
    if model.training_info:
        raise UsageError("The model has training information, which is for its own shapes and nodes: remove it first.")
    if keep is None:
        expanded = _expanded(model, asked, shown, evaluate)
    else:
        key = repr((asked.sizes, sorted(asked.missing), asked.tidy, sorted(asked.constants)))
        expanded = keep(key, lambda: _expanded(model, asked, shown, evaluate))
    work, values, found, steps = expanded.model, expanded.values, expanded.found, expanded.steps
    if keep is not None:
        work = onnx.ModelProto()
        work.CopyFrom(expanded.model)
    before = input_shapes(model)
    changed = {name: shape for name, shape in found.shapes.items() if shape is not None and shape != before[name]}
    if asked.ranks and (narrower := merge_axes(work, values, asked.ranks)):
        steps += narrower
        values = known_values(shown(work), evaluate)
    if asked.sizes:
        write_values(work, values)
    joined = _joined(work, asked, shown, evaluate)
    steps += joined.steps
    types: Mapping[str, str] = {}
    retyped = Retyped()
    if asked.types:
        retyped = _with_types(work, asked, shown, evaluate, islands)
        if retyped.refusals:
            return Prepared(model, steps, changed, retyped.refusals, kept=expanded.kept)
        steps += retyped.steps
        types = asked.types.named if retyped.outer or retyped.steps else {}
    widened = widen(work, asked.narrow, asked.opset, whole) if asked.narrow else Widened()
    steps += widened.steps
    refusals = tuple(_open(work, values, found, asked.static)) if asked.static else ()
    count = len(model.functions) - len(work.functions)
    same = Prepared(model, refusals=refusals, wide=retyped.wide, kept=expanded.kept, dequantized=joined.kept)
    if not steps and not changed and not types and not (inline and count):
        return same
    notes = (*_of_functions(count, inline), *widened.notes)
    return replace(same, model=work, steps=steps, shapes=changed, notes=notes, types=types, casts=retyped.casts)


def _expanded(model: onnx.ModelProto, asked: Preparation, shown: Shown, evaluate: Evaluate | None) -> Expanded:
    """Fix the shapes of a copy of a model, replace unsupported If, Loop, Scan and sequence nodes, and fold it."""
    found = fixed(model, asked.sizes)
    work = onnx.ModelProto()
    work.CopyFrom(_without_functions(model))
    write_inputs(work, found)
    values = _values(work, model, found, asked.sizes, shown, evaluate)
    steps: tuple[Step, ...] = ()
    while more := _without_missing(work, values, asked, Propagation(shown(work), evaluate)):
        steps += more
        values = known_values(shown(work), evaluate)
    kept = why_kept(work, values, asked.missing, Propagation(shown(work), evaluate)) if asked.missing else {}
    if steps or asked.tidy or foldable(work, values, asked.constants):
        steps += fold(work, values, asked.constants)
    return Expanded(work, values, found, steps, kept)


def _is_needed(model: onnx.ModelProto, asked: Preparation) -> bool:
    needed = any((asked.sizes, asked.static, asked.tidy, asked.types, asked.narrow, asked.quantized))
    return bool(asked) and (needed or may_exceed(model, asked.ranks) or may_fold(model, asked.missing))


def _joined(work: onnx.ModelProto, asked: Preparation, shown: Shown, evaluate: Evaluate | None) -> Joined:
    """Emit operators on quantized values, in place, if requested."""
    if asked.quantized is None:
        return Joined((), {})
    return join(work, known_values(shown(work), evaluate), asked.quantized)


def _of_functions(count: int, asked: bool) -> Iterator[str]:
    """Yield a note on functions that were inlined."""
    if count:
        why = "" if asked else " to be folded"
        yield f"{count} {'function was' if count == 1 else 'functions were'} inlined{why}."


def _without_missing(
    work: onnx.ModelProto, values: Scope, asked: Preparation, propagation: Propagation
) -> tuple[Step, ...]:
    """Replace some unsupported If, Loop, Scan and sequence nodes in place, and return the steps.

    Replacements with fewer nodes come first, and may make the others unnecessary.
    """
    lists = not asked.missing.isdisjoint(SEQUENCES)
    return (
        expand(work, values, asked.missing, propagation)
        or (without_sequences(work, values) if lists else ())
        or (fold(work, values, asked.constants) if is_any_unused(work, asked.missing) else ())
        or (collect(work, values) if lists and LOOP not in asked.missing else ())
        or (expand(work, values, asked.missing, propagation, holding_missing=True) if asked.missing else ())
    )


def retype(prepared: Prepared, types: Types, shown: Shown, evaluate: Evaluate | None) -> Prepared | None:
    """Return a prepared model with other element types at some nodes; None if their values do not fit these."""
    found = prepare(prepared.model, Preparation(types=types), shown, evaluate)
    if found.refusals or not any(step.action is Action.RETYPE for step in found.steps):
        return None
    steps, notes = (*prepared.steps, *found.steps), (*prepared.notes, *found.notes)
    casts = prepared.casts + found.casts
    return replace(prepared, model=found.model, steps=steps, notes=notes, casts=casts)


def _with_types(
    work: onnx.ModelProto, asked: Preparation, shown: Shown, evaluate: Evaluate | None, islands: Islands | None
) -> Retyped:
    """Change the element types of a model in place, and drop the Casts and constants that become unused."""
    if work.functions:
        reason = "its functions are too large to be inlined, and element types are changed outside of functions only."
        return Retyped(refusals=(Refusal(Code.FUNCTION, "model", "", reason, "Inline the functions first."),))
    values, types = known_values(shown(work), evaluate), asked.types
    if types.narrows and islands is not None:
        try:
            types = replace(types, wide=islands(work, types, _change(work, values, asked)))
        except UnmeasuredError as error:
            reason = f"narrower floats are chosen by running the model, and onnxruntime does not: {error}".rstrip(".")
            hint = "Give it --inputs that it runs on." if error.opens else _closed(reason)
            return Retyped(refusals=(Refusal(Code.TYPE, "model", "", f"{reason}.", hint),))
        except UnheldError as error:
            hint = "Leave --io-types out: the output keeps its type then."
            return Retyped(refusals=(Refusal(Code.TYPE, f"output {printable(error.name)}", "", f"{error}.", hint),))
    retyped = change_types(work, values, types, runnable=asked.runnable)
    if not retyped.refusals:
        fold(work, known_values(shown(work)), asked.constants)
    return retyped


def _closed(reason: str) -> str:
    """Return the fix if onnxruntime does not open a model, for this reason."""
    if "Type Error" in reason:
        return "The model breaks ONNX's rules. Export it again, or repair it."
    return "Convert it with --target onnxruntime first, which replaces what has no kernel."


def _change(work: onnx.ModelProto, values: Scope, asked: Preparation) -> Change:
    """Return a function that changes the types of a copy of a model, except at some nodes."""

    def change(wide: Mapping[str, str]) -> tuple[onnx.ModelProto, frozenset[str], frozenset[str]]:
        model = onnx.ModelProto()
        model.CopyFrom(work)
        found = change_types(model, values, replace(asked.types, wide=wide), runnable=asked.runnable)
        return model, found.narrowed, found.narrow

    return change


def _without_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with its functions inlined, unless it would become too large."""
    if not model.functions or expanded(model) > INLINED:
        return model
    try:
        return inlined(model)
    except Exception:  # any C++ exception for unexpected contents: the functions stay
        return model


def _values(
    work: onnx.ModelProto, model: onnx.ModelProto, found: Fixed, sizes: Sizes, shown: Shown, evaluate: Evaluate | None
) -> Scope:
    """Return the facts about a model with fixed shapes, or raise if a node does not accept them."""
    seen = shown(work)
    try:
        return known_values(seen, evaluate, strict=bool(sizes))
    except ContradictionError as error:
        try:
            known_values(shown(model), None, strict=True)
        except ContradictionError:  # onnx rejects the model whatever its shapes are
            return known_values(seen, evaluate)
        options = " ".join(
            shape_option(name, shape)
            for name, shape in found.shapes.items()
            if shape and name in {*_resized_inputs(sizes, model)}
        )
        name = printable(error.node.name or error.node.output[0])
        raise UsageError(
            f"The model does not accept {options}: {error.node.op_type} at {name}: {error.reason}."
        ) from None


def _resized_inputs(sizes: Sizes, model: onnx.ModelProto) -> Iterator[str]:
    """Yield the inputs whose shapes were requested or follow from the request."""
    yield from dynamic(input_shapes(model))
    yield from sizes.inputs


def _open(model: onnx.ModelProto, values: Scope, found: Fixed, target: str) -> Iterator[Refusal]:
    """Yield refusals for dynamic shapes: of the inputs, or of nodes with data-dependent outputs."""
    inputs = list(dynamic(found.shapes))
    for name in inputs:
        shape = found.shapes[name]
        declared = (
            "its rank is unknown"
            if shape is None
            else f"its shape [{', '.join('?' if dim is None else str(dim) for dim in shape)}] is dynamic"
        )
        reason = f"{declared}, and {target} needs static shapes."
        example = (
            (1, 3, 640, 640)
            if shape is None
            else [dim if isinstance(dim, int) else "N" if axis else 1 for axis, dim in enumerate(shape)]
        )
        yield Refusal(Code.MISSING_FACT, f"input {name}", "", reason, f"Fix it with {shape_option(name, example)}.")
    if inputs:
        return
    for graph, scope in scopes_of(values, model.graph):
        for index, node in enumerate(graph.node):
            read = [scope[name] or Facts() for name in node.input if name]
            made = [scope.own.get(name) or Facts() for name in node.output if name]
            if all(map(_is_closed, read)) and not all(map(_is_closed, made)):
                reason = f"the shape of its output depends on values, and {target} needs static shapes."
                computed = [name for name, one in zip(filter(None, node.input), read, strict=True) if one.known is None]
                fix = _cut(graph is model.graph, [name for name in computed if name not in found.shapes])
                yield Refusal(Code.MISSING_FACT, f"main/{node_name(node, index)}", node.op_type, reason, fix)


def _cut(is_main: bool, computed: Sequence[str]) -> str:
    """Return what to do about a node whose output has a shape that depends on these values, which nodes compute."""
    if not is_main or not computed:
        return "Make the inputs that its shape depends on constants in the model."
    names = ", ".join(map(printable, dict.fromkeys(computed)))
    return f"End the model at {names}, such as with onnx.utils.extract_model, and run the rest in another runtime."


def _is_closed(facts: Facts) -> bool:
    return is_static(facts) or bool(facts.container)
