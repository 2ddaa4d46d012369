"""Check what a converted model must be by its request, from the schemas and the profiles alone."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import onnx
from onnx import FunctionProto, ModelProto, NodeProto

from differential import draw
from differential.schemas import NEWEST, OLDEST

_TARGETS = Path(__file__).parents[2] / "opsets" / "targets"


def nodes(model: ModelProto) -> Iterator[tuple[NodeProto, int]]:
    """Yield each node, subgraphs and functions included, with the opset that holds for it."""
    yield from _nodes(model.graph.node, opset_of(model))
    for function in model.functions:
        yield from _nodes(function.node, opset_of(function))


def _nodes(held: Any, opset: int) -> Iterator[tuple[NodeProto, int]]:
    for node in held:
        yield node, opset
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _nodes(graph.node, opset)


def opset_of(model: ModelProto | FunctionProto) -> int:
    """Return the version of the default domain; 0 without one."""
    return next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), 0)


def operators(model: ModelProto) -> set[str]:
    """Return the operators of the default domain that a model uses anywhere."""
    return {node.op_type for node, _ in nodes(model) if node.domain in ("", "ai.onnx")}


def fault(original: ModelProto, result: ModelProto, request: dict[str, Any], opset: int) -> str | None:
    """Return what about a result is not what was asked for, or not valid."""
    return (
        _invalid(result)
        or _wrong_opset(result, request, opset)
        or _interface(original, result, request)
        or _unwanted(result, request)
    )


def _invalid(result: ModelProto) -> str | None:
    for node, opset in nodes(result):
        if node.domain in ("", "ai.onnx") and not draw.exists(node.op_type, opset):
            return f"{node.op_type} does not exist at opset {opset}"
    message = checker_fault(result)
    return None if message is None else f"onnx.checker: {message}"


_FAULTS_OF_ONNX = (
    "One and only one of the attributes 'value', 'value_*' or 'sparse_value'",  # MeanVarianceNormalization without axes
)


def checker_fault(model: ModelProto) -> str | None:
    """Return what onnx.checker finds, but for what onnx 1.23.2 finds in valid models.

    Shapes are not inferred where there are functions: inference of untyped inputs may crash.
    """
    try:
        onnx.checker.check_model(model, full_check=not model.functions)
    except Exception as error:
        if not any(text in str(error) for text in _FAULTS_OF_ONNX):
            return str(error)
    return None


def _wrong_opset(result: ModelProto, request: dict[str, Any], opset: int) -> str | None:
    found = {opset_of(each) for each in (result, *result.functions)} - {0}
    if target := _target_of(request):
        # A profile on the base of another one need not name its own.
        low, high = _profile(target).get("opset", (OLDEST, NEWEST))
        wanted = set(range(low, high + 1))
    elif "target" in request:
        wanted = set(range(OLDEST, NEWEST + 1))
    else:
        wanted = {request.get("opset", opset)}
    return None if found <= wanted else f"opset {sorted(found)}, not {sorted(wanted)}"


def _interface(original: ModelProto, result: ModelProto, request: dict[str, Any]) -> str | None:
    if [each.name for each in original.graph.output] != [each.name for each in result.graph.output]:
        return "other outputs"
    constants = {each.name for each in original.graph.initializer}
    inputs = [each.name for each in original.graph.input if each.name not in constants]
    if (target := _target_of(request)) and not _profile(target).get("unused_inputs", True):
        inputs = [name for name in inputs if name in _read(result)]
    if inputs != [each.name for each in result.graph.input if each.name in inputs]:
        return "other inputs"
    for before, after in zip(original.graph.output, result.graph.output, strict=True):
        if _elem(before.type) != _elem(after.type):
            return f"output {after.name} is declared {_elem(after.type)}, not {_elem(before.type)}"
    return None


def _read(model: ModelProto) -> set[str]:
    """Return what any node reads by that name, and what is an output."""
    return {name for node, _ in nodes(model) for name in node.input} | {each.name for each in model.graph.output}


def _target_of(request: dict[str, Any]) -> str:
    """Return the profile that is asked for; nothing for the installed onnxruntime, which has none."""
    target = str(request.get("target", "onnxruntime"))
    return "" if target == "onnxruntime" else target


def _elem(kind: onnx.TypeProto) -> tuple[str, int]:
    return str(kind.WhichOneof("value")), kind.tensor_type.elem_type


def _unwanted(result: ModelProto, request: dict[str, Any]) -> str | None:
    used = operators(result)
    if target := _target_of(request):
        profile = _profile(target)
        unwanted = used & set(profile.get("without", ()))
        if "operators" in profile:
            unwanted |= used - set(profile["operators"]) - {"Constant"}
    else:
        unwanted = used & set(request.get("decompose", ()))
    return f"{', '.join(sorted(unwanted))} left" if unwanted else None


@cache
def _profile(target: str) -> dict[str, Any]:
    return tomllib.loads((_TARGETS / f"{target}.toml").read_text())
