"""Write the skeleton of an operator, and print what is left to do.

python tests/new_operator.py Cosh

It writes opsets/operators/cosh.py and tests/operators/test_cosh.py, with the attributes, inputs and versions of the
schemas. Traits that a row of opsets/registry/schema_only_traits.py holds move into the file.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import itertools
import keyword
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx.defs
from review_versions import OLDEST_OPSET, file_name, versions

from opshift.opsets.registry.schema import Parameter, Schema, schema_at

ROOT = Path(__file__).parents[1]
TABLE = Path("opsets/registry/schema_only_traits.py")
MODULES = ("traits", "shape_hints", "inner_sums", "value_ranges")
"""Modules of the registry that a row of traits takes its names from."""

STEPS = """Wrote {operator} and {test}. Remaining steps (CONTRIBUTING.md has the details):

2. Read every version: python tests/review_versions.py {name}. Keep in `versions` those that you have read, and remove
   the rows of {name} from opsets/registry/equivalences.toml and opsets/registry/no_conversion.toml.
3. Fill in {operator}: oracle, traits, lowerings.
4. Fill in {test}: cases and refusals.
5. Show that the tests can fail: a `Subject` for each lowering in tests/test_mutants.py.
6. Add fixtures to fixtures/generate.py, run it and docs/generate.py, and add what users should know to docs/limits.md,
   docs/semantics.md and CHANGELOG.md.
"""
TYPES: dict[Any, str] = {
    onnx.defs.OpSchema.AttrType.INT: "int",
    onnx.defs.OpSchema.AttrType.FLOAT: "float",
    onnx.defs.OpSchema.AttrType.STRING: "str",
    onnx.defs.OpSchema.AttrType.INTS: "tuple[int, ...]",
    onnx.defs.OpSchema.AttrType.FLOATS: "tuple[float, ...]",
    onnx.defs.OpSchema.AttrType.STRINGS: "tuple[str, ...]",
}
ARRAYS = {"float": "F32", "int64": "np.int64", "int32": "np.int32", "bool": "np.bool_", "uint8": "np.uint8"}


def reviewed(name: str) -> list[int]:
    """Return the versions that opsets from the oldest target on have."""
    known = [version for version, schema in versions()[name].items() if not schema.deprecated]
    return [one for one, later in itertools.pairwise([*known, 1000]) if later > OLDEST_OPSET]


def variables(parameters: Sequence[Parameter]) -> list[str]:
    """Return a Python name for each input."""
    found: list[str] = []
    for parameter in parameters:
        plain = re.sub(r"\W", "_", parameter.name.lower())
        taken = keyword.iskeyword(plain) or hasattr(builtins, plain) or plain in (*found, "meaning")
        found.append(f"{plain}_" if taken else plain)
    return found


def row_of(name: str, text: str) -> tuple[str, str]:
    """Return the traits that a row of the table gives, and the table without it."""
    for node in ast.walk(ast.parse(text)):
        for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
            if isinstance(key, ast.Constant) and key.value == name:
                lines = text.splitlines(keepends=True)
                del lines[key.lineno - 1 : value.end_lineno]
                return ast.get_source_segment(text, value) or "Traits()", "".join(lines)
    return "Traits()", text


def imports(source: str) -> Iterator[str]:
    """Yield imports of the names that traits are written with."""
    used = {node.id for node in ast.walk(ast.parse(source, mode="eval")) if isinstance(node, ast.Name)}
    if "math" in used:
        yield "import math"
    for module in MODULES:
        package = __import__(f"opshift.opsets.registry.{module}", fromlist=["x"])
        # A name belongs to the module that defines it, and not to one that imports it.
        defined = {one for one in used if getattr(vars(package).get(one), "__module__", "") == package.__name__}
        if module == "traits":
            defined |= used & {"EVERY"}
        if module in used:
            yield f"from opshift.opsets.registry import {module}"
        if defined:
            yield f"from opshift.opsets.registry.{module} import {', '.join(sorted(defined))}"


def tuple_of(items: Sequence[str]) -> str:
    """Return a tuple as it is written."""
    return f"({', '.join(items)}{',' * (len(items) == 1)})"


def fields(schema: Schema) -> list[str]:
    """Return the fields of the meaning: the attributes, those without a default first."""
    required, others = [], []
    for name, (needed, default) in schema.attributes.items():
        kind = TYPES.get(schema.raw.attributes[name].type, "Any")
        unusual = "  # noqa: N815" if re.search(r"[a-z][A-Z]", name) else ""
        if needed:
            required.append(f"    {name}: {kind}{unusual}")
        else:
            kind = kind if default is not None or kind == "Any" else f"{kind} | None"
            others.append(f"    {name}: {kind} = {default!r}{unusual}")
    return required + others


def operator_text(name: str, schema: Schema, traits: str) -> str:
    """Return the operator's file."""
    plain = not schema.attributes
    meaning = "Plain" if plain else name
    inputs = schema.inputs
    variadic = bool(inputs) and inputs[-1].variadic
    arguments = [
        f"*{variable}: Array" if parameter.variadic else f"{variable}: Array{' | None = None' * parameter.optional}"
        for variable, parameter in zip(variables(inputs), inputs, strict=True)
    ]
    numbers = reviewed(name)
    registry = "opshift.opsets.registry"
    head = [f"from {registry}.operator import Operator, Version", *imports(traits)]
    head += [f"from {registry}.plain import Plain"] if plain else ["from dataclasses import dataclass"]
    entries = [
        f'name="{name}"',
        f"meaning={meaning}",
        f"versions={tuple_of([f'Version({number})' for number in numbers])}",
        f"operands={tuple_of([repr(one.name) for one in inputs])}",
        "oracle=oracle",
        *(["variadic=True"] if variadic else []),
        f"traits={traits}",
    ]
    return "\n".join(
        [
            f'"""{name}: SUMMARY. Versions {", ".join(map(str, numbers))}."""',
            "",
            "from __future__ import annotations",
            "",
            "from typing import Any",
            "import numpy as np",
            *head,
            "",
            "Array = np.ndarray[Any, Any]",
            *([] if plain else ["", "@dataclass(frozen=True)", f"class {name}:", '    """SUMMARY."""', ""]),
            *([] if plain else fields(schema)),
            "",
            f"def oracle({', '.join([f'meaning: {meaning}', *arguments])}) -> Any:",
            f'    """{name}-{schema.since_version}: "SENTENCE OF THE TEXT"."""',
            f'    raise NotImplementedError("write the oracle of {name}")',
            "",
            f"OPERATOR = Operator({', '.join(entries)})",
            "",
        ]
    )


def test_text(name: str, schema: Schema) -> str:
    """Return the file of its tests: one case, of as many arrays as there must be."""
    module = file_name(name).removesuffix(".py")
    needed = [parameter for parameter in schema.inputs if not parameter.optional]
    kinds = [next((name for kind, name in ARRAYS.items() if f"tensor({kind})" in one.types), "F32") for one in needed]
    arrays = ", ".join(f"np.ones((2, 3), {kind})" for kind in kinds)
    first = min((opset for opset in range(OLDEST_OPSET, 99) if schema_at("", name, opset)), default=OLDEST_OPSET)
    least = f", least={first}" if first > OLDEST_OPSET else ""
    floats = "F32, " if "F32" in arrays else ""
    return f'''"""{name}: WHAT THE CASES SHOW."""

from __future__ import annotations

import numpy as np
from operators.harness import {floats}Case, Table
from opshift.opsets.operators import {module}


class Test{name}(Table):
    operator = {module}.OPERATOR
    cases = (Case("ones", [{arrays}]{least}),)
'''


def write(path: Path, text: str) -> None:
    """Write a file, sorted and formatted as all are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    for command in (["check", "--quiet", "--select", "I,F401", "--fix"], ["format", "--quiet"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, "--config", ROOT / "pyproject.toml", path], check=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the skeleton; it is an error if there is one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="an operator of the default domain, as ONNX spells it")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    name, root = options.name, options.root
    schema = schema_at("", name, onnx.defs.onnx_opset_version())
    if schema is None:
        parser.error(f"the newest opset has no {name}")
    operator = root / "opsets" / "operators" / file_name(name)
    test = root / "tests" / "operators" / f"test_{file_name(name)}"
    if existing := [path for path in (operator, test) if path.exists()]:
        parser.error(f"{existing[0]} exists; an operator has one file")
    traits, table = row_of(name, (root / TABLE).read_text(encoding="utf-8"))
    write(operator, operator_text(name, schema, traits))
    write(test, test_text(name, schema))
    write(root / TABLE, table)
    shown = {"operator": operator.relative_to(root), "test": test.relative_to(root)}
    print(STEPS.format(name=name, **shown))
    return 0


if __name__ == "__main__":
    sys.exit(main())
