"""Count the nodes that profiles refuse because of element types, with and without other element types in their place.

The models are those of `tests/corpus_models.py` that can be built here (one opset of each), and those of
`static_models.py` with fixed shapes. A refusal counts if its code is `type`, or if nothing but element types is between
the node and the target, whatever the code. Without `--models`, pip downloads into a temporary folder.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import onnx
from static_models import CASES, Shapes, fetched

import opshift
from opshift.passes.conversion import plan_search, request

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
TARGETS = ("rknn", "webnn", "coreml", "qnn", "tensorrt-8")


def models(folder: Path) -> Iterator[tuple[str, onnx.ModelProto, Shapes | None]]:
    """Yield the models with their names, and the shapes that their inputs are given."""
    from corpus_models import CORPUS

    seen = set()
    for name, entry in reversed(CORPUS.items()):
        kind = name.rstrip("0123456789")
        if kind not in seen and not entry.missing():
            seen.add(kind)
            yield name, entry.built().model, None
    for case in CASES:
        path = fetched(case, folder)
        yield f"{case.package}: {path.name}", onnx.load(path), case.shapes


def by_types(plan: opshift.Plan) -> int:
    """Count the refusals because of element types."""
    return sum(one.code == "type" or (" but it takes " in one.reason and " as " in one.reason) for one in plan.refusals)


def counts(model: onnx.ModelProto, shapes: Shapes | None, target: str) -> tuple[int, int]:
    """Return how many nodes are refused because of element types, before and after."""
    with (
        mock.patch.object(plan_search, "retyped", return_value=None),
        mock.patch.object(request, "types_for", return_value={}),
    ):
        before = opshift.plan(model, target=target, input_shapes=shapes)
    if not by_types(before):
        return 0, 0
    return by_types(before), by_types(opshift.plan(model, target=target, input_shapes=shapes))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, help="the folder for downloads (default: a temporary one)")
    parser.add_argument("only", nargs="*", help="parts of names of models")
    options = parser.parse_args()
    before, after = Counter[str](), Counter[str]()
    count = 0
    with tempfile.TemporaryDirectory() as temporary:
        for name, model, shapes in models(options.models or Path(temporary)):
            if options.only and not any(word in name for word in options.only):
                continue
            count += 1
            for target in TARGETS:
                first, then = counts(model, shapes, target)
                before[target] += first
                after[target] += then
                if first:
                    print(f"{name}, {target}: {first} -> {then}", file=sys.stderr, flush=True)
    print(f"{count} models\n\n| profile | refused because of types, before | after |\n|---|---|---|")
    for target in TARGETS:
        print(f"| `{target}` | {before[target]} | {after[target]} |")


if __name__ == "__main__":
    main()
