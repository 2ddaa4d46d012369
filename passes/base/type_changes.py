"""The requested changes of element types: the argument `types`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from onnx import TensorProto

from opshift.opsets.registry.facts import FLOATS, INTEGERS, exact_types, type_name
from opshift.passes.base.errors import UsageError


def requested_changes(types: Mapping[str, str] | None) -> Mapping[int, int]:
    """Return the new element types by the old ones, as TensorProto.DataType, of the argument `types`."""
    return {_TYPES[old]: _TYPES[new] for old, new in (types or {}).items()}


def check_type_change(old: str, new: str) -> None:
    """Raise UsageError for an unsupported change of element types."""
    for name in (old, new):
        if name not in _TYPES:
            plain = name.casefold()
            near = [_OTHER_NAMES[plain]] if plain in _OTHER_NAMES else difflib.get_close_matches(plain, _TYPES, 1)
            raise UsageError(
                f"There is no element type {name!r}"
                + (f"; did you mean {near[0]}?" if near else ".")
                + f" The types that can be changed are {', '.join(_TYPES)}."
            )
    before, after = _TYPES[old], _TYPES[new]
    if before == after:
        raise UsageError(f"types changes {old} to itself.")
    if before in FLOATS and after not in {*exact_types(before), TensorProto.FLOAT, TensorProto.FLOAT16}:
        allowed = {*exact_types(before) & FLOATS, TensorProto.FLOAT, TensorProto.FLOAT16} - {before}
        names = ", ".join(sorted(map(type_name, allowed)))
        raise UsageError(f"types cannot change {old} to {new}: it can become {names}.")


_OTHER_NAMES = {"fp64": "double", "float64": "double", "fp32": "float", "fp16": "float16", "half": "float16"}
"""Other common names of element types."""
_TYPES = {type_name(dtype): dtype for dtype in sorted(INTEGERS | FLOATS | {TensorProto.BOOL})}
