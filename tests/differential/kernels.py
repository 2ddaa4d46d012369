"""Which element types the installed onnxruntime has kernels for: most cases draw among them, so that they run."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

from onnxruntime.capi import onnxruntime_pybind11_state as native

_OPEN_END = 2**31 - 1


@cache
def _kernels() -> dict[str, list[tuple[int, int, dict[str, list[str]]]]]:
    found: dict[str, list[tuple[int, int, dict[str, list[str]]]]] = defaultdict(list)
    for kernel in native.get_all_opkernel_def():
        if kernel.domain == "" and kernel.provider == "CPUExecutionProvider":
            start, end = kernel.version_range
            found[kernel.op_name].append((start, end, dict(kernel.type_constraints)))
    return found


@cache
def types(operator: str, since_version: int, variable: str) -> frozenset[str]:
    """Return the types that kernels of this version take for a type variable; none if there is no kernel."""
    found: set[str] = set()
    for start, end, constraints in _kernels().get(operator, ()):
        if start == since_version or (end != _OPEN_END and start <= since_version <= end):
            found |= set(constraints.get(variable, ()))
    return frozenset(found)
