"""Write the kernel table of the installed onnxruntime as a target's profile."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import onnx

from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.schema import (
    OLDEST,
    Schema,
    foreign_operators,
    schema_at,
)
from opshift.opsets.runtimes.kernels import is_inlined, kernel_table, newest_ir_version, newest_opset, version

Types = Mapping[str, frozenset[str]]
"""The permitted element types by input name; an input without limits is not listed."""


def profile() -> str:
    """Return the kernels of the installed onnxruntime as a profile in TOML: its CPU kernel table, by opset."""
    newest = newest_opset() or OLDEST
    names = sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain})
    spans = {name: _spans(name, newest) for name in names}
    has = {name: found for name, found in spans.items() if any(kernels is not None for _, kernels in found)}
    without = [name for name, found in spans.items() if found and name not in has]
    lines = [
        f"# onnxruntime {version()}, CPU: what it loads, and its kernels, as the installed wheel tells.",
        "# An operator that ONNX says by a function of others needs no kernel. float16 goes through kernels for float.",
        'name = "onnxruntime"',
        f'version = "{version()}"',
        f"opset = [{OLDEST}, {newest}]",
        f"ir_version = [3, {newest_ir_version()}]",
        "measured = true",
        f"without = [{_quoted(without)}]",
        "",
        "[domains]",
        f'"ai.onnx.ml" = {_newest_ml()}',
        f'"{MICROSOFT}" = [{_quoted(sorted(_foreign_kernels(MICROSOFT) & foreign_operators(MICROSOFT)))}]',
    ]
    for name, found in has.items():
        for (low, high), kernels in found:
            if kernels != ({},):
                lines += _limit(name, (low, high), kernels, whole=len(found) == 1)
    return "\n".join(lines) + "\n"


def _newest_ml() -> int:
    """Return the newest opset of ai.onnx.ml for which the installed onnxruntime has an operator."""
    from onnxruntime.capi import onnxruntime_pybind11_state as native

    return max(int(one.since_version) for one in native.get_all_operator_schema() if one.domain == "ai.onnx.ml")


def _foreign_kernels(domain: str) -> frozenset[str]:
    """Return the operators of another domain with a kernel of the CPU provider."""
    from onnxruntime.capi import onnxruntime_pybind11_state as native

    kernels = native.get_all_opkernel_def()
    return frozenset(one.op_name for one in kernels if (one.domain, one.provider) == (domain, "CPUExecutionProvider"))


def _spans(name: str, newest: int) -> list[tuple[tuple[int, int], tuple[Types, ...] | None]]:
    """Return spans of opsets with the kernels' types: alternatives, or None without kernels."""
    found: list[tuple[tuple[int, int], tuple[Types, ...] | None]] = []
    for opset in range(OLDEST, newest + 1):
        schema = schema_at("", name, opset)
        if schema is None:
            continue
        taken = _taken(schema, opset)
        if found and found[-1][1] == taken and found[-1][0][1] == opset - 1:
            found[-1] = (found[-1][0][0], opset), taken
        else:
            found.append(((opset, opset), taken))
    return found


def _taken(schema: Schema, opset: int) -> tuple[Types, ...] | None:
    if schema.name == "Constant" or is_inlined(schema.name, opset):
        return ({},)  # the types of a body are checked node by node, see `Legality`
    kernels = [kernel for kernel in kernel_table().get(schema.name, ()) if kernel.serves(schema.since_version)]
    alternatives: list[dict[str, frozenset[str]]] = []
    for kernel in kernels:
        types: dict[str, frozenset[str]] = {}
        first = {parameter.type_variable: parameter for parameter in reversed(schema.inputs)}
        for variable, parameter in sorted(first.items(), key=lambda item: schema.inputs.index(item[1])):
            served = kernel.types.get(variable)
            if served is None or any(not name.startswith("tensor(") for name in parameter.types):
                continue
            if "tensor(float)" in served:
                served |= {"tensor(float16)"}
            if not parameter.types <= served:
                types[parameter.name] = served & parameter.types
        alternatives.append(types)
    return tuple(joined(alternatives)) if alternatives else None


def joined(alternatives: list[dict[str, frozenset[str]]]) -> list[dict[str, frozenset[str]]]:
    """Merge alternatives that differ in the types of one input."""
    found: list[dict[str, frozenset[str]]] = []
    for one in alternatives:
        for other in found:
            differing = [name for name in other if other[name] != one.get(name)]
            if one.keys() == other.keys() and len(differing) <= 1:
                other.update({name: other[name] | one[name] for name in differing})
                break
        else:
            found.append(dict(one))
    return found if len(found) == len(alternatives) else joined(found)


def _limit(name: str, span: tuple[int, int], kernels: tuple[Types, ...] | None, *, whole: bool) -> list[str]:
    lines = ["", "[[limits]]", f'operator = "{name}"']
    if not whole:
        lines.append(f"opset = [{span[0]}, {span[1]}]")
    if kernels is None:
        return [*lines, "never = true", 'reason = "there is no kernel"']
    if len(kernels) == 1:
        inputs = (f"{key} = [{_quoted(_names(types))}]" for key, types in kernels[0].items())
        lines.append(f"dtypes = {{ {', '.join(inputs)} }}")
    else:
        lines.append("combinations = [")
        for types in kernels:
            for row in itertools.product(*(_names(one) for one in types.values())):
                inputs = (f'{key} = "{dtype}"' for key, dtype in zip(types, row, strict=True))
                lines.append(f"    {{ {', '.join(inputs)} }},")
        lines.append("]")
    return [*lines, 'reason = "there are kernels for no other types"']


def _names(types: frozenset[str]) -> list[str]:
    """Return `float` for `tensor(float)`."""
    return sorted(name.removeprefix("tensor(").removesuffix(")") for name in types)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
