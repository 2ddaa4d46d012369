"""How the code is laid out: packages, the direction of imports, who builds nodes, what oracles need."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import onnx.defs
import pytest

from opshift.opsets.registry.structural import SEQUENCES

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "opshift": ROOT / "src" / "opshift",
    **{f"opshift.{name}": ROOT / name for name in ("passes", "opsets", "cli")},
}
FILES = [path for folder in FOLDERS.values() for path in sorted(folder.rglob("*.py"))]
OPERATORS = sorted((ROOT / "opsets" / "operators").glob("[a-z]*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def package_of(path: Path) -> str:
    """Return the package that a file belongs to, one of FOLDERS."""
    return next(package for package, folder in FOLDERS.items() if path.is_relative_to(folder))


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that are imported anywhere in a file, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def calls(tree: ast.AST) -> Iterator[str]:
    """Yield the last name of everything that is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def test_the_packages_listed_are_the_folders() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    found = {
        ".".join((package, *init.parent.relative_to(folder).parts))
        for package, folder in FOLDERS.items()
        for init in folder.rglob("__init__.py")
    }
    assert set(setup["packages"]) == found
    assert {package: ROOT / folder for package, folder in setup["package-dir"].items()} == FOLDERS


def test_every_folder_with_code_is_a_package() -> None:
    assert all((path.parent / "__init__.py").exists() for path in FILES)


def test_nothing_at_the_root_shadows_the_package() -> None:
    assert not (ROOT / "opshift").exists()
    assert not (ROOT / "__init__.py").exists()


def test_only_the_command_line_imports_the_public_package() -> None:
    """Which of the packages below imports which, the contracts in pyproject.toml define."""
    below = [path for path in FILES if package_of(path) in ("opshift.passes", "opshift.opsets")]
    assert [name(path) for path in below if "opshift" in set(imports(parsed(path)))] == []


def test_nodes_are_built_where_they_are_spliced() -> None:
    """`make_node` of passes/analysis/inference.py builds nodes; passes/rewrite/splice.py writes them into a model."""
    allowed: dict[str, set[str]] = {
        "passes/analysis/inference.py": {"make_node"},
        # Nodes as they are written, and what two equal ones have in common.
        "passes/rewrite/apply.py": {"make_node", "NodeProto"},
        "passes/rewrite/splice.py": {"make_node"},
        "passes/rewrite/new_constants.py": {"make_node"},
        "passes/rewrite/node_models.py": {"make_node"},
        # The Loop that a Scan becomes.
        "passes/rewrite/scan_as_loop.py": {"make_node"},
        # What becomes of nodes before they are planned: constants, and nodes of graphs.
        "passes/analysis/splicing.py": {"make_node"},
        # The Loop that a SequenceMap becomes.
        "passes/rewrite/sequence_maps.py": {"make_node"},
        # A Cast behind a constant, and an Identity before a node, which a target needs.
        "passes/rewrite/target_fit.py": {"make_node"},
        # A Cast of numbers that tract does not return.
        "passes/measurement/adapters/tract.py": {"make_node"},
        # The Identity that stands where a ZipMap was.
        "passes/rewrite/tensor_output.py": {"make_node"},
        # Constants in place of initializers, for which an older ir_version has no place in a branch.
        "passes/rewrite/ir_downgrade.py": {"make_node"},
        # A node for ONNX to make a function body of.
        "passes/analysis/schema_bodies.py": {"make_node"},
        # A model of one node, to ask onnxruntime which opsets and ir_versions it loads; nodes of ONNX bodies, with
        # the attributes of a call, to ask whether it has kernels for them.
        "opsets/runtimes/kernels.py": {"make_node", "NodeProto"},
        # And one of each operator, to ask whether it opens them.
        "passes/runtime/kernel_probe.py": {"make_node"},
        # Models to ask other runtimes what they run.
        "passes/measurement/probes.py": {"make_node"},
        # What is prepared for a target is written before it is planned: nodes of fewer axes, and of quantized values.
        "passes/rewrite/fewer_axes.py": {"make_node"},
        "passes/rewrite/quantized_operators.py": {"NodeProto"},
        # The original in which a value that is read twice may change once.
        "passes/proof/rounding/copies.py": {"make_node"},
        # The original with values rounded as the result rounds them, to be run beside it.
        "passes/proof/rounded_values.py": {"make_node"},
    }
    built = {name(path): {"make_node", "NodeProto"} & set(calls(parsed(path))) for path in FILES}
    assert {path: found for path, found in built.items() if not found <= allowed.get(path, set())} == {}
    assert not allowed.keys() - {path for path, found in built.items() if found}


def test_one_module_looks_for_graphs_in_attributes() -> None:
    """All others ask passes/graph/traversal.py."""
    found = [
        name(path) for path in FILES if re.search(r"""HasField\("g"\)|attribute\.graphs""", path.read_text("utf-8"))
    ]
    assert found == ["passes/graph/traversal.py"]


def test_an_operator_is_plain_data_and_numpy() -> None:
    """Operators know numpy, its narrow types (ml_dtypes), names of element types, and one another.

    No protobuf, no onnxruntime, no onnxscript.
    """
    allowed = {
        "numpy",
        "ml_dtypes",
        "onnx",
        "dataclasses",
        "functools",
        "itertools",
        "collections",
        "typing",
        "opshift",
        "math",
        "statistics",
        "string",
        "__future__",
    }
    # HardmaxAxes registers a schema; Cast and others name element types.
    of_onnx = {"onnx", "onnx.TensorProto", "onnx.defs", "onnx.shape_inference", "onnx.helper"}
    for path in OPERATORS:
        modules = set(imports(parsed(path)))
        assert {module.split(".")[0] for module in modules} <= allowed, name(path)
        assert {module for module in modules if module.split(".")[0] == "onnx"} <= of_onnx, name(path)


def test_starting_the_command_line_imports_nothing_heavy() -> None:
    script = "import sys, opshift.cli.main; print(*sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"onnx", "onnxruntime", "onnxscript", "numpy", "rich"} & set(ran.stdout.split())


def test_a_conversion_that_lowers_nothing_leaves_onnxscript_out() -> None:
    script = """import sys, opshift; from onnx.parser import parse_model
model = parse_model('<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) { y = Hardmax (x) }')
opshift.convert(model, opset=14, verify=False); print(*sorted(sys.modules))"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"onnxscript", "onnx_ir"} & set(ran.stdout.split())


def test_a_file_is_named_after_its_operator() -> None:
    for path in OPERATORS:
        assert "OPERATOR" in path.read_text(encoding="utf-8"), name(path)
        assert path.stem.rstrip("_").isalnum()
        assert path.stem == path.stem.lower()


FEWEST = 40
"""Names of operators that passes and the command line may mention, in all."""


def operators_named(path: Path) -> Iterator[str]:
    """Yield the strings of a file that name an operator of ONNX, with their places."""
    known = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain}
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Constant) and node.value in known:
            yield f"{name(path)}:{node.lineno} {node.value}"


@pytest.mark.slow
def test_few_operators_are_named_outside_of_their_files() -> None:
    """What passes need to know of an operator is in its traits; a name for a rule of its own is the exception."""
    named = [
        place
        for path in FILES
        if package_of(path) in ("opshift.passes", "opshift.cli")
        for place in operators_named(path)
    ]
    assert len(named) < FEWEST, "\n".join(named)


def test_strings_that_name_operators_are_found() -> None:
    path = ROOT / "opsets" / "registry" / "structural.py"
    assert [place.split()[-1] for place in operators_named(path)] == [
        "Constant",
        "Identity",
        "Cast",
        "Reshape",
        "If",
        "Loop",
        "Scan",
        "QuantizeLinear",
        "DequantizeLinear",
        *SEQUENCES,
    ]


ONE_FILE_EACH = re.compile("opsets/(operators|microsoft|ml|families)/")
TWO_MEANINGS = {
    "Lookup": "the lookups of a value, and those of its inputs, which passes/proof/inputs resolves from them",
}
"""Names of two classes, and why."""


def test_a_class_name_has_one_meaning() -> None:
    """The files of operators are apart: each has a class for its meaning."""
    found: dict[str, list[str]] = {}
    for path in FILES:
        if not ONE_FILE_EACH.match(name(path)):
            for node in ast.walk(parsed(path)):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found.setdefault(node.name, []).append(name(path))
    assert {one: paths for one, paths in found.items() if len(paths) > 1 and one not in TWO_MEANINGS} == {}


LONGEST_CLASS, LONGEST_FUNCTION, MOST_PARAMETERS = 300, 60, 8
LONG = {
    "passes/convert.py plan": "public: one parameter for each option",
    "passes/convert.py convert": "public: one parameter for each option, each explained",
    "passes/where.py where": "public: one parameter for each option",
    "passes/proof/verify.py verify": "public: one parameter for each option, each explained",
    "opsets/registry/lowering.py lowering": "public: one parameter for each field of Lowering",
    "opsets/registry/plain.py plain": "one parameter for each field of Operator that such operators have",
}
"""Functions that may be longer, or have more parameters, and why."""


def too_large(path: Path) -> Iterator[str]:
    """Yield the classes and functions of a file that are too long, and functions with too many parameters."""
    for node in ast.walk(parsed(path)):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > (LONGEST_CLASS if isinstance(node, ast.ClassDef) else LONGEST_FUNCTION):
            yield f"{name(path)} {node.name}"
        # Lowerings and oracles have a parameter for each operand and attribute.
        elif isinstance(node, ast.FunctionDef) and not re.match(
            "opsets/(operators|microsoft|ml|families|faster)", name(path)
        ):
            parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if sum(one.arg not in ("self", "cls") for one in parameters) > MOST_PARAMETERS:
                yield f"{name(path)} {node.name}"


def test_classes_and_functions_can_be_read_at_once() -> None:
    assert [place for path in FILES for place in too_large(path) if place not in LONG] == []


def test_what_is_too_large_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "name", lambda path: path.name)
    long = tmp_path / "long.py"
    body = "\n".join(["    x = 1"] * LONGEST_CLASS)
    long.write_text(f"class A:\n{body}\n\ndef b():\n{body}\n\ndef c(a, b, c, d, e, f, g, h, i): ...\n")
    assert list(too_large(long)) == ["long.py A", "long.py b", "long.py c"]


def test_a_reason_without_words_is_a_reason() -> None:
    """`Reason("")` is false as a string is, so that the functions that return it are compared with None."""
    wrong = []
    for path in sorted((ROOT / "opsets").rglob("*.py")):
        tree = parsed(path)
        wordless = {
            function.name
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef)
            for statement in ast.walk(function)
            if isinstance(statement, ast.Return) and ast.unparse(statement) == "return Reason('')"
        }
        tests = (node.test for node in ast.walk(tree) if isinstance(node, ast.If | ast.IfExp))
        asked = (test.value if isinstance(test, ast.NamedExpr) else test for test in tests)
        wrong += [
            f"{path.name}:{test.lineno}: {ast.unparse(test)}"
            for test in asked
            if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id in wordless
        ]
    assert wrong == []
