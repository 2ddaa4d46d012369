"""What is done to a model before it is planned: shapes are fixed, and what is known then becomes constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import onnx

from opshift.opsets.registry.facts import Dim, Facts
from opshift.opsets.registry.structural import SEQUENCES
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
from opshift.passes.base.results import Code, Refusal, Step
from opshift.passes.graph.traversal import node_name
from opshift.passes.rewrite.control_flow import expand
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
from opshift.passes.rewrite.folding import fold, foldable, may_fold
from opshift.passes.rewrite.sequences import without_sequences

Shown = Callable[[onnx.ModelProto], onnx.ModelProto]
"""Returns a model whose small constants hold their elements, also those of other files."""


@dataclass(frozen=True)
class Preparation:
    """What is to be done to a model before it is planned.

    Attributes:
        sizes: the sizes of its inputs.
        fold: whether what follows from shapes and constants is computed.
        tidy: whether unused nodes are dropped although there is nothing to fold.
        static: the target that needs all shapes to be known; empty if none does.
        missing: those of If, Loop, Scan and the operators of sequences that the target lacks.
    """

    sizes: Sizes = field(default_factory=Sizes)
    fold: bool = False
    tidy: bool = False
    static: str = ""
    missing: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.sizes) or self.fold or bool(self.static) or bool(self.missing)


@dataclass(frozen=True)
class Prepared:
    """A prepared model: what became of its nodes, the shapes that its inputs have now, and what is in the way."""

    model: onnx.ModelProto
    steps: tuple[Step, ...] = ()
    shapes: Mapping[str, tuple[Dim, ...]] = field(default_factory=dict)
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()


def prepare(model: onnx.ModelProto, asked: Preparation, shown: Shown, evaluate: Evaluate | None) -> Prepared:
    """Return a model, itself if nothing is to be changed, with its shapes fixed and folded.

    Raises:
        UsageError: the sizes do not fit the model, or it has training information.
    """
    if not asked or (not asked.sizes and not asked.static and not asked.tidy and not may_fold(model, asked.missing)):
        return Prepared(model)
    if model.training_info:
        raise UsageError("The model has training information, which is for its own shapes and nodes: remove it first.")
    found = fixed(model, asked.sizes)
    before = input_shapes(model)
    changed = {name: shape for name, shape in found.shapes.items() if shape is not None and shape != before[name]}
    work = onnx.ModelProto()
    work.CopyFrom(_without_functions(model))
    write_inputs(work, found)
    values = _values(work, model, found, asked.sizes, shown, evaluate)
    steps: tuple[Step, ...] = ()
    while True:
        more = expand(work, values, asked.missing, Propagation(shown(work), evaluate))
        if not more and not asked.missing.isdisjoint(SEQUENCES):
            more = without_sequences(work, values)
        if not more:
            break
        steps += more
        values = known_values(shown(work), evaluate)
    if steps or asked.tidy or foldable(work, values):
        steps += fold(work, values)
    if asked.sizes:
        write_values(work, values)
    refusals = tuple(_open(work, values, found, asked.static)) if asked.static else ()
    if not steps and not changed:
        return Prepared(model, refusals=refusals)
    count = len(model.functions) - len(work.functions)
    notes = (f"{count} {'function was' if count == 1 else 'functions were'} inlined to be folded.",) if count else ()
    return Prepared(work, steps, changed, refusals, notes)


def _without_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with the nodes of functions in the place of their calls, unless that makes too many."""
    if not model.functions or expanded(model) > INLINED:
        return model
    try:
        return inlined(model)
    except Exception:  # what C++ throws at contents that nobody foresaw: the functions stay
        return model


def _values(
    work: onnx.ModelProto, model: onnx.ModelProto, found: Fixed, sizes: Sizes, shown: Shown, evaluate: Evaluate | None
) -> Scope:
    """Return what is known of a model with fixed shapes, or raise if a node does not accept them."""
    seen = shown(work)
    try:
        return known_values(seen, evaluate, strict=bool(sizes))
    except ContradictionError as error:
        try:
            known_values(shown(model), None, strict=True)
        except ContradictionError:  # onnx complains of the model whatever its shapes are
            return known_values(seen, evaluate)
        options = " ".join(
            shape_option(name, shape)
            for name, shape in found.shapes.items()
            if shape and name in {*_asked(sizes, model)}
        )
        name = printable(error.node.name or error.node.output[0])
        raise UsageError(
            f"The model does not accept {options}: {error.node.op_type} at {name}: {error.reason}."
        ) from None


def _asked(sizes: Sizes, model: onnx.ModelProto) -> Iterator[str]:
    """Yield the inputs whose shapes were given or follow from what was given."""
    yield from dynamic(input_shapes(model))
    yield from sizes.inputs


def _open(model: onnx.ModelProto, values: Scope, found: Fixed, target: str) -> Iterator[Refusal]:
    """Yield what has no static shape: the inputs, or the nodes whose outputs have other shapes each time."""
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
                yield Refusal(Code.MISSING_FACT, f"main/{node_name(node, index)}", node.op_type, reason, "")


def _is_closed(facts: Facts) -> bool:
    return is_static(facts) or bool(facts.container)
