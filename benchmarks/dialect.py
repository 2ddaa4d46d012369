"""Write opsets/data/dialect.json: the schemas of onnxruntime's own operators, as the installed version registers them.

Without `--write` the script prints what the installed onnxruntime has otherwise than the file; the exit status is 1
then. The operators are those of the domain com.microsoft, and those of the default domain that ONNX does not define,
or defines since a later opset (SimplifiedLayerNormalization, LayerNormalization below opset 17).

    python benchmarks/dialect.py
    python benchmarks/dialect.py --write
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx
from onnxruntime.capi import onnxruntime_pybind11_state as native

FILE = Path(__file__).parent.parent / "opsets" / "data" / "dialect.json"

MICROSOFT = "com.microsoft"


def measured() -> dict[str, Any]:
    """Return what the installed onnxruntime registers, in the form of the file."""
    import onnxruntime

    found: dict[str, dict[str, Any]] = {"": {}, MICROSOFT: {}}
    for schema in sorted(native.get_all_operator_schema(), key=lambda one: (one.name, one.since_version)):
        if schema.domain == MICROSOFT or (not schema.domain and _is_own(schema)):
            found[schema.domain].setdefault(schema.name, _described(schema))
    kernels: dict[str, set[str]] = {"": set(), MICROSOFT: set()}
    for kernel in native.get_all_opkernel_def():
        if kernel.provider == "CPUExecutionProvider" and kernel.op_name in found.get(kernel.domain, {}):
            kernels[kernel.domain].add(kernel.op_name)
    for domain, names in kernels.items():
        for name in names:
            found[domain][name]["kernel"] = True
    return {"onnxruntime": onnxruntime.__version__, "domains": found}


def _is_own(schema: Any) -> bool:
    """Whether ONNX does not define an operator of the default domain at its version; deprecated ones are gone."""
    if schema.deprecated or schema.name.startswith("Memcpy") or schema.name.endswith("_TRT"):
        return False
    if not onnx.defs.has(schema.name):
        return True
    versions = {one.since_version for one in onnx.defs.get_all_schemas_with_history() if one.name == schema.name}
    return int(schema.since_version) < min(versions)


def _described(schema: Any) -> dict[str, Any]:
    return {
        "inputs": [_parameter(one) for one in schema.inputs],
        "outputs": [_parameter(one) for one in schema.outputs],
        "attributes": dict(sorted((name, _attribute(one)) for name, one in schema.attributes.items())),
        "types": {one.type_param_str: sorted(one.allowed_type_strs) for one in schema.type_constraints},
    }


def _parameter(one: Any) -> list[Any]:
    """Return name and type, then `optional` or `variadic`, and `heterogeneous`, where it is that."""
    option = str(one.option).rsplit(".", 1)[-1].lower()
    marks = [option] if option != "single" else []
    return [one.name, one.typeStr, *marks, *([] if one.isHomogeneous else ["heterogeneous"])]


def _attribute(one: Any) -> list[Any]:
    """Return the type, then the default, or that it is required."""
    kind = str(one.type).rsplit(".", 1)[-1]
    default = onnx.AttributeProto.FromString(one._default_value)
    if one.required:
        return [kind, "required"]
    if not default.type:
        return [kind]
    value = onnx.helper.get_attribute_value(default)
    return [kind, "default", value.decode() if isinstance(value, bytes) else value]


def written(table: Mapping[str, Any]) -> str:
    """Return the text of the file: a line for each part of an operator."""
    lines = ["{", f' "onnxruntime": {json.dumps(table["onnxruntime"])},', ' "domains": {']
    domains = []
    for domain, operators in table["domains"].items():
        rows = [
            f"   {json.dumps(name)}: {{\n"
            + ",\n".join(f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in one.items())
            + "}"
            for name, one in operators.items()
        ]
        domains.append(f"  {json.dumps(domain)}: {{\n" + ",\n".join(rows) + "}")
    return "\n".join(lines) + "\n" + ",\n".join(domains) + "}}\n"


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield what one version of onnxruntime has otherwise than another, a line for each part of an operator."""
    for domain, operators in after["domains"].items():
        known = before["domains"].get(domain, {})
        label = f"{domain}::" if domain else ""
        yield from (f"{label}{name}: new" for name in operators.keys() - known.keys())
        yield from (f"{label}{name}: gone" for name in known.keys() - operators.keys())
        for name in operators.keys() & known.keys():
            for part in sorted(operators[name].keys() | known[name].keys()):
                old, new = known[name].get(part), operators[name].get(part)
                if old != new:
                    yield f"{label}{name}: {part}: {json.dumps(old)} -> {json.dumps(new)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the file")
    asked = parser.parse_args()
    table = measured()
    if asked.write:
        FILE.write_text(written(table), encoding="utf-8")
        return 0
    before = json.loads(FILE.read_text(encoding="utf-8"))
    found = sorted(differences(before, table))
    for line in found:
        print(line)
    print(f"{len(found)} differences: onnxruntime {table['onnxruntime']} from {before['onnxruntime']}, of the file")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
