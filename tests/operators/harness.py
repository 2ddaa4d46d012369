"""What a table of cases shows of an operator: oracle, onnxruntime's kernel, every lowering and conversion agree.

A case is a meaning and an array for each operand. It is tried with all that may be known of operands: static shapes,
symbolic ones, no rank, nothing at all.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
import pkgutil
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_model
from running import OPSETS, RUNS_TO, run, same

import opshift
from opshift.opsets.families.legacy_broadcast import Aligned
from opshift.opsets.registry.facts import Facts, constant, tensor_of, type_name, type_of_facts
from opshift.opsets.registry.lowering import Lowering, Reason
from opshift.opsets.registry.operator import SPELLING, Lifted, Native, Node, Operator, lift, write_native
from opshift.opsets.registry.schema import OLDEST, schema_at
from opshift.opsets.runtimes.target import Legality
from opshift.passes.analysis.inference import infer, make_node, typed
from opshift.passes.base.errors import UnsupportedError
from opshift.passes.base.plan import Code
from opshift.passes.rewrite.edits import Replace
from opshift.passes.rewrite.fragment import Fragment, operand_sources
from opshift.passes.rewrite.lowering_search import Deriver
from opshift.passes.rewrite.node_models import alone

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

Way = TypeVar("Way")

KINDS = ("static", "symbolic", "unranked", "bare")
TARGETS = (7, 8, 9, 10, 11, 12, 13, 14, 18, RUNS_TO)
CONVERSIONS = (7, 9, 11, 13, RUNS_TO)

BF16, F16, F32, F64 = ml_dtypes.bfloat16, np.float16, np.float32, np.float64
INF, NAN = np.inf, np.nan
NOT_IMPLEMENTED = onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented


@dataclass(frozen=True, eq=False)
class Case:
    """A meaning, and an array for each operand (None: it is left out).

    `known` are the operands that are constants. `least` is the lowest opset that the node can be taken to; below, it is
    refused; `symbolic` is the same where no dimension is known. From `runs` on onnxruntime has kernels for the result.
    `departs` says how onnxruntime's own kernel computes something else than the oracle. With `static`, lowerings are
    tried with known shapes only.
    """

    name: str
    arrays: Sequence[Array | None]
    meaning: Any = None
    known: tuple[int, ...] = ()
    least: int = OLDEST
    symbolic: int = OLDEST
    runs: int = OLDEST
    departs: str = ""
    static: bool = False

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Refused:
    """A model, given as text, that cannot be converted as requested, and the code of its one refusal."""

    model: str
    code: Code
    why: str
    """The reason in a few words, for the name of the test."""
    request: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.code}-{'-'.join(map(str, self.request.values()))}-{self.why}"


def by_axis(make: Callable[[int, int], Array]) -> tuple[Case, ...]:
    """Return cases of a binary operator whose second operand is aligned with the first by an axis, as below opset 7."""
    a = make(2, 6).reshape(2, 3, 2)
    return (
        Case("by the middle axis", [a, make(1, 3)[0]], Aligned(1)),
        Case("by the first axes", [a, make(2, 3)], Aligned(0)),
    )


# --- a case as facts, meaning and models ------------------------------------------------------------------------------


def facts_of(array: Array | None, index: int, kind: str, *, known: bool) -> Facts | None:
    """Return what is known of an operand."""
    if array is None:
        return None
    full = constant(array)
    if known:
        return full
    symbols = tuple(f"d{index}_{axis}" for axis in range(array.ndim))
    return {
        "static": Facts(full.dtype, full.shape),
        "symbolic": Facts(full.dtype, symbols),
        "unranked": Facts(full.dtype, None),
        "bare": Facts(),
    }[kind]


def operands(case: Case, kind: str) -> tuple[Facts | None, ...]:
    """Return what is known of all operands."""
    return tuple(facts_of(array, index, kind, known=index in case.known) for index, array in enumerate(case.arrays))


def meaning_of(operator: Operator, case: Case) -> Any:
    """Return the case's meaning; where it gives none, the operator's with all fields at their defaults."""
    return operator.meaning() if case.meaning is None else case.meaning


def lifted(operator: Operator, case: Case, kind: str = "static") -> Lifted:
    """Return the case in normal form."""
    given = operands(case, kind)
    meaning = meaning_of(operator, case)
    fields = {item.name: getattr(meaning, item.name) for item in dataclasses.fields(meaning)}
    used = (True,) * len(outputs_of(operator, case))
    found = lift(operator, Node(SPELLING, operator.name, 1, fields, given, used), "runtime")
    assert not isinstance(found, Reason), found
    return found


def outputs_of(operator: Operator, case: Case) -> tuple[Array, ...]:
    """Return what the oracle computes."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        computed = operator.oracle(meaning_of(operator, case), *case.arrays)
    return tuple(map(np.asarray, computed)) if isinstance(computed, tuple) else (np.asarray(computed),)


def names_of(operator: Operator, case: Case) -> list[str]:
    """Return the names of the operands, as `alone` gives them to inputs."""
    return [
        operator.operands[index] if index < len(operator.operands) else f"x{index}" for index in range(len(case.arrays))
    ]


def feeds_of(operator: Operator, case: Case) -> dict[str, Array]:
    """Return the arrays of the operands that are inputs of a model; one that `normal` drops is called by its place."""
    return {
        called: array
        for index, (name, array) in enumerate(zip(names_of(operator, case), case.arrays, strict=True))
        if array is not None and index not in case.known
        for called in (name, f"x{index}")
    }


def native_model(operator: Operator, case: Case, opset: int, kind: str = "static") -> onnx.ModelProto | Reason:
    """Return a model of the node itself as an opset has it, or why that opset cannot say it."""
    whole = lifted(operator, case, kind)
    native = write_native(whole, opset)
    if isinstance(native, Reason):
        return native
    node = native_node(whole, native)
    if reason := Legality(opset).why_not(node):
        return reason
    if isinstance(loaded := typed(node, written=True), Reason):
        return loaded
    if isinstance(inferred := infer(node), Reason):
        return inferred
    names = names_of(operator, case)
    model = helper.make_model(
        helper.make_graph([], "case", [], []),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=max(8, helper.find_min_ir_version_for([helper.make_opsetid("", opset)])),
    )
    inputs = ["" if index is None else names[index] for index in native.inputs]
    for index, name in zip(native.inputs, inputs, strict=True):
        facts = None if index is None else whole.operands[index]
        if facts is None:
            continue
        if facts.known is not None:
            model.graph.initializer.append(tensor_of(facts.known, facts.dtype or 0, name))
        else:
            model.graph.input.add(name=name).type.CopyFrom(type_of_facts(facts))
    expected = outputs_of(operator, case)
    for index, array in enumerate(expected):
        facts = facts_of(array, 90 + index, kind, known=False)
        assert facts is not None
        model.graph.output.add(name=f"y{index}").type.CopyFrom(type_of_facts(facts))
    outputs = [f"y{index}" for index in range(len(expected))]
    model.graph.node.append(make_node(operator.name, "", inputs, outputs, native.attributes))
    model.graph.node[0].name = "node"
    return model


def native_node(whole: Lifted, native: Native) -> Node:
    """Return the node that a native form is."""
    inputs = tuple(None if index is None else whole.operands[index] for index in native.inputs)
    return Node("", whole.operator.name, native.since_version, native.attributes, inputs, whole.used)


def first_opsets(operator: Operator) -> dict[int, int]:
    """Return, by since_version, the first opset from 7 on that has it and that onnxruntime loads."""
    found: dict[int, int] = {}
    for opset in range(OLDEST, RUNS_TO + 1):
        schema = schema_at(operator.domain, operator.name, opset)
        if schema is not None:
            found.setdefault(schema.since_version, opset)
    return found


def ran(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> tuple[list[Array], list[Array]]:
    """Return the outputs with optimisations off and on."""
    return run(model, [feeds])[0], run(model, [feeds], optimised=True)[0]


def differs(expected: Sequence[Array], actual: Sequence[Sequence[Array]], tolerance: float) -> str:
    """Describe the first output that is not as expected; nothing if all are."""
    for optimised, outputs in zip(("off", "on"), actual, strict=True):
        for wanted, got in zip(expected, outputs, strict=True):
            if not same(wanted, got, tolerance):
                shown = (
                    f"{wanted.dtype}{wanted.shape} {wanted.tolist()} expected, {got.dtype}{got.shape} {got.tolist()}"
                )
                return f"optimisations {optimised}: {shown}"
    return ""


# --- lowerings --------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=2 * len(OPSETS))
def deriver(operator: str, lowering: str, opset: int, *, decompose: bool) -> Deriver:
    """Return a deriver for a target; one for each lowering, since it remembers what the top node becomes."""
    # As many as a lowering needs: each remembers thousands of nodes, and of all lowerings there are thousands.
    gone = frozenset({operator}) if decompose else frozenset[str]()
    return Deriver(
        Legality(opset, gone, runnable=True), assume=frozenset({"finite-inputs", "whole-indices", "approximate"})
    )


def only(operator: Operator, lowering: Lowering) -> Operator:
    """Return the operator as if it had this one lowering, no version and no wider_types."""
    return dataclasses.replace(operator, versions=(), lowerings=(lowering,), wider_types={})


def derivations(
    operator: Operator, lowering: Lowering, case: Case, ways: Sequence[tuple[str, int, bool]]
) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Yield a model for each different result of this lowering at the top, of the ways tried; with a label.

    What does not hold for the case, or relies on a kernel that departs from the oracle on it, is left out.
    """
    seen: set[str] = set()
    for kind, opset, decompose in ways:
        whole = lifted(only(operator, lowering), case, kind)
        fragment = deriver(operator.name, lowering.name, opset, decompose=decompose).derive(whole)
        if not isinstance(fragment, Fragment):
            continue
        if has_nan(case) and ("no-nan" in fragment.assumes or not operator.nan_defined(whole.meaning, whole.operands)):
            continue
        if "finite-inputs" in fragment.assumes and not is_finite(case):
            continue
        if "whole-indices" in fragment.assumes and not is_whole(case):
            continue
        if case.departs and any(leaf.name == operator.name for leaf in fragment.nodes):
            continue
        assert fragment.lowerings[0] == lowering.name
        if opset < 13 and any(array is not None and array.dtype.name == "bfloat16" for array in case.arrays):
            continue  # a model of that opset holds no such value, not even to pass it on
        versions = [schema_at("", leaf.name, opset) for leaf in fragment.nodes]
        key = f"{kind} {fragment} {[version and version.since_version for version in versions]}"
        if key in seen:
            continue
        seen.add(key)
        label = f"{case} {kind} at {opset}{' decomposed' * decompose}: {[leaf.name for leaf in fragment.nodes]}"
        yield label, fragment_model(case, whole, fragment, opset, kind)


def spread(ways: Sequence[Way], number: int, cases: int, most: int = 4) -> Sequence[Way]:
    """Return the share of all ways that the case of this number is tried in.

    A table of `most` cases tries all ways of all cases; of a larger one, all cases together still try each way.
    """
    stride = next(prime for prime in (1, 3, 7, 11, 13, 17, 23, 29) if prime * most >= cases or prime == 29)
    return ways[number % stride :: stride]


def has_nan(case: Case) -> bool:
    """Whether an array of floats holds a NaN."""
    floats = (array.astype(np.float64) for array in case.arrays if array is not None and array.dtype.kind in "fV")
    return any(bool(np.isnan(array).any()) for array in floats)


def is_finite(case: Case) -> bool:
    """Whether no array of floats holds a NaN or an infinity."""
    floats = (array.astype(np.float64) for array in case.arrays if array is not None and array.dtype.kind in "fV")
    return all(bool(np.isfinite(array).all()) for array in floats)


def is_whole(case: Case) -> bool:
    """Whether the first array holds whole numbers, which are finite."""
    first = case.arrays[0]
    if first is None:
        return True
    wide = first.astype(np.float64)
    return bool((np.isfinite(wide) & (np.trunc(wide) == wide)).all())


def fragment_model(case: Case, whole: Lifted, fragment: Fragment, opset: int, kind: str) -> onnx.ModelProto:
    """Return a fragment as a model of its own."""
    typed = operands(case, "unranked" if kind == "bare" else kind)
    seen = Node(SPELLING, whole.operator.name, 1, {}, typed, whole.used)
    change = Replace(fragment, operand_sources(whole), seen, whole, "node")
    _, model = alone(change, opset, opset)
    imports = [item for item in model.opset_import if item.domain != SPELLING]
    del model.opset_import[:]
    model.opset_import.extend(imports)
    return model


# --- the tests of a table ---------------------------------------------------------------------------------------------


class Table:
    """The cases of one operator. Subclasses are collected; what they inherit is tested of each."""

    operator: ClassVar[Operator]
    cases: ClassVar[tuple[Case, ...]]
    refusals: ClassVar[tuple[Refused, ...]] = ()
    unrun: ClassVar[Mapping[int, str]] = {}
    """Versions that onnxruntime runs none of the cases at, and why."""
    tolerance: ClassVar[float] = 0.0

    def test_oracle_agrees_with_onnxruntime(self, case: Case) -> None:
        found = [
            not all(outputs) or differs(outputs_of(self.operator, case), outputs, self.tolerance)
            for outputs in self.native_runs(case).values()
        ]
        assert not found or bool(case.departs) == any(found), found

    def native_runs(self, case: Case, *, but: Collection[int] = ()) -> dict[int, tuple[list[Array], list[Array]]]:
        """Return what onnxruntime's own kernels compute, by version, `but` for some and those without a kernel."""
        outputs = {}
        for since, opset in first_opsets(self.operator).items():
            model = None if since in but else native_model(self.operator, case, opset)
            if model is None or isinstance(model, Reason):
                continue
            try:
                outputs[since] = ran(model, feeds_of(self.operator, case))
            except NOT_IMPLEMENTED:
                continue
            except Exception:
                if not case.departs:
                    raise
                outputs[since] = [], []
        return outputs

    def test_onnxruntime_runs_each_version(self) -> None:
        run_by_some: set[int] = set()
        for case in self.cases:
            run_by_some |= self.native_runs(case, but=run_by_some).keys()
        assert run_by_some | set(self.unrun) == set(first_opsets(self.operator))
        assert not run_by_some & set(self.unrun)

    def test_lifting_undoes_writing(self, case: Case) -> None:
        for kind, opset in itertools.product(KINDS, range(OLDEST, onnx.defs.onnx_opset_version() + 1)):
            whole = lifted(self.operator, case, kind)
            native = write_native(whole, opset)
            if isinstance(native, Reason):
                continue
            node = native_node(whole, native)
            backs = [lift(self.operator, node, semantics) for semantics in ("runtime", "spec")]
            assert any(not isinstance(back, Reason) and self.lifts_to(back, whole) for back in backs), (opset, kind)

    def lifts_to(self, back: Lifted, whole: Lifted) -> bool:
        """Whether what was lifted is what was written; a table may know more."""
        return back.meaning == whole.meaning and back.operands == whole.operands

    @pytest.mark.slow
    def test_lowering_agrees_with_the_oracle(self, lowering: Lowering) -> None:
        self.check_lowering(lowering)

    def test_lowering_agrees_with_the_oracle_in_some_models(self, lowering: Lowering) -> None:
        self.check_lowering(lowering, most=4)

    def check_lowering(self, lowering: Lowering, most: int | None = None) -> None:
        """Compare what a lowering makes of all cases; or, up to `most` models, of cases that are far apart.

        A large table shares out the ways to try; where the lowering holds in none of a case's share, all are tried.
        """
        tried, wrong = self.tried(lowering, most, shared=True)
        if not tried:
            tried, wrong = self.tried(lowering, most, shared=False)
        assert not wrong, "\n".join(wrong[:10])
        assert tried, f"no case of the table reaches {self.operator.name}: {lowering.name}"

    def tried(self, lowering: Lowering, most: int | None, *, shared: bool) -> tuple[int, list[str]]:
        """Return how many models were compared, and what differs."""
        tried = 0
        wrong = []
        ways = list(itertools.product(KINDS, TARGETS, (False, True)))
        distance = 1 if most is None else -(-len(self.cases) // most)
        for number, case in sorted(enumerate(self.cases), key=lambda numbered: numbered[0] % distance):
            share = spread(ways, number, len(self.cases), most=2) if shared else ways
            if case.static:
                share = [way for way in ways if way[0] == "static"]
            models = derivations(self.operator, lowering, case, share)
            for label, model in itertools.islice(models, None if most is None else 1):
                tried += 1
                try:
                    expected = outputs_of(self.operator, case)
                    found = differs(expected, ran(model, feeds_of(self.operator, case)), self.tolerance)
                except Exception as error:
                    found = f"{type(error).__name__}: {error}"
                if found:
                    wrong.append(f"{label}: {found}")
            if tried == most:
                break
        return tried, wrong

    def test_conversions_compute_the_same(self, case: Case) -> None:
        sources = self.sources(case)
        number = self.cases.index(case)
        ways = list(itertools.product(CONVERSIONS, {*sources[:1], *sources[-1:]}, ("static", "symbolic")))
        for target, source, kind in spread(ways, number, len(self.cases)):
            self.check_conversion(case, source, kind, target)

    def sources(self, case: Case) -> list[int]:
        """Return the first opset of each version that says the case, as onnxruntime understands it."""
        found = []
        for opset in first_opsets(self.operator).values():
            whole = lifted(self.operator, case)
            native = write_native(whole, opset)
            if not isinstance(native_model(self.operator, case, opset), Reason) and not isinstance(native, Reason):
                back = lift(self.operator, native_node(whole, native), "runtime")
                found += [opset] * (not isinstance(back, Reason) and back.meaning == whole.meaning)
        return found

    def check_conversion(self, case: Case, source: int, kind: str, target: int) -> None:
        """Convert to an opset, once more, and back; all must compute what the original does."""
        model = native_model(self.operator, case, source, kind)
        if isinstance(model, Reason):
            assert kind == "symbolic"
            return
        least = max(case.least, case.symbolic) if kind == "symbolic" else case.least
        feeds = feeds_of(self.operator, case)
        try:
            wanted, has_kernel = run(model, [feeds])[0], True
        except NOT_IMPLEMENTED:
            wanted, has_kernel = list(outputs_of(self.operator, case)), False
        except Exception:
            assert case.departs
            return
        if case.departs:
            return  # a kernel that departs gives way to lowerings that do not
        label = f"{source} to {target}, {kind}"
        try:
            there = converted(model, opset=target)
        except UnsupportedError as error:
            refused = str(error)
        else:
            refused = ""
        assert bool(refused) == (target < least), f"{label}: {refused or 'it was to be refused'}"
        if refused:
            return
        if target == source:
            assert there.SerializeToString() == model.SerializeToString()
        assert converted(there, opset=target).SerializeToString() == there.SerializeToString()
        results = {"there": there}
        # Reshape to what may be empty takes ScatterND, which has no form below 11 for places that are computed. Range
        # takes NonZero, which has none below 9.
        taken = {node.op_type for node in there.graph.node}
        if source >= 11 or ("ScatterND" not in taken and (source >= 9 or "NonZero" not in taken)):
            results["back"] = converted(there, opset=source)
        for what, result in results.items():
            try:
                found = differs(wanted, ran(result, feeds), self.tolerance)
            except NOT_IMPLEMENTED:
                assert not has_kernel or target < case.runs, f"{label}, {what}: onnxruntime ran the original"
                continue
            assert not found, f"{label}, {what}: {found}\n{onnx.printer.to_text(result)}"

    @pytest.mark.fast(1000)
    def test_refusal(self, refused: Refused) -> None:
        plan = opshift.plan(parse_model(refused.model), **refused.request)
        assert [refusal.code for refusal in plan.refusals] == [refused.code]
        assert plan.refusals[0].operator.partition("-")[0] in (self.operator.name, "")


def converted(model: onnx.ModelProto, **request: Any) -> onnx.ModelProto:
    """Return the model that a conversion gives; nothing is verified."""
    result = opshift.convert(model, verify=False, **request).model
    assert isinstance(result, onnx.ModelProto)
    return result


def tables() -> dict[str, type[Table]]:
    """Return the table of every operator that has one, by its file."""
    folder = Path(__file__).parent
    for item in pkgutil.iter_modules([str(folder)]):
        if item.name.startswith("test_"):
            importlib.import_module(f"operators.{item.name}")
    return {table.operator.name: table for table in _below(Table) if hasattr(table, "operator")}


def _below(table: type[Table]) -> Iterator[type[Table]]:
    for one in table.__subclasses__():
        yield one
        yield from _below(one)


# --- arrays for tables ------------------------------------------------------------------------------------------------


def arr(values: Any, dtype: Any = F32) -> Array:
    """Return an array; a value that is not a list gives a scalar."""
    return np.array(values, dtype=dtype)


def text(*values: str) -> Array:
    """Return a vector of strings."""
    return np.array(values, dtype=object)


def dtype_name(dtype: Any) -> str:
    """Return the element type's name."""
    return type_name(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


__all__ = ["BF16", "F16", "F32", "F64", "INF", "NAN", "Array", "Case", "Code", "Refused", "Table", "TensorProto", "arr"]
