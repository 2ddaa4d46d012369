"""Run small models of every operator in real runtimes, and compare with the claims of their profiles.

`python benchmarks/runtime_claims.py mnn openvino opencv-4 ncnn`.

The models have one node. They are ONNX's backend node tests and the cases of `tests/operators`, at the newest opset of
the profile, with dynamic inputs and with all inputs but the first constant. A claim is what `opshift where` prints: the
model runs, a converted model does, or none. For each model that is claimed to run, as it is or converted, the runtime
must return the values of onnxruntime. `--refused` also runs models that are refused, and lists those that run right.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from claims import LOADED, Checked, Claims, Small, fed, held, node_models
from converters import table
from runtimes import RUNTIMES, version

from opshift.opsets.registry.lowering import Reason

# --- models -----------------------------------------------------------------------------------------------------------


def operator_cases(opset: int) -> Iterator[Small]:
    """Yield the cases of `tests/operators` whose operator the opset has."""
    import operators
    from operators.harness import Table, feeds_of, native_model

    for item in pkgutil.iter_modules(operators.__path__):
        if not item.name.startswith("test_"):
            continue
        module = importlib.import_module(f"operators.{item.name}")
        for found in vars(module).values():
            if not (isinstance(found, type) and issubclass(found, Table) and found is not Table):
                continue
            if not hasattr(found, "operator") or found.operator.domain:
                continue
            for case in found.cases:
                try:
                    model = native_model(found.operator, case, opset)
                except Exception:
                    continue  # the case itself is not one of this opset
                if isinstance(model, Reason):
                    continue
                names = [value.name for value in model.graph.input]
                feeds = feeds_of(found.operator, case)
                if set(names) <= feeds.keys():
                    yield Small(f"{item.name} {case}", model, {name: feeds[name] for name in names})


def smalls(opset: int, most: int) -> Iterator[Small]:
    """Yield the models, at most so many of an operator, spread over its cases."""
    found: dict[str, list[Small]] = defaultdict(list)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in (*node_models(opset), *operator_cases(opset)):
            if not fed(one.feeds.values()) or not one.ordinary:
                continue
            one.model.ir_version = LOADED
            found[one.operator].extend(filter(None, (one, held(one))))
    for _, each in sorted(found.items()):
        stride = max(1, -(-len(each) // most))
        yield from each[::stride]


def checked(name: str, most: int, *, operators: Sequence[str] = (), refused: bool = False) -> Iterator[Checked]:
    """Yield all models of a runtime's opset, at most so many of an operator."""
    claims = Claims(name, refused=refused)
    try:
        for one in smalls(claims.target.opset[1], most):
            if (not operators or one.operator in operators) and (found := claims.check(one)):
                yield found
    finally:
        claims.close()


def show(one: Checked) -> None:
    """Print a false claim, or a refusal of a model that runs."""
    if one.false:
        print(f"false: {one.claim} {one.becomes}: {one.name}: {one.node}: {one.outcome}, {one.detail}", flush=True)
    elif one.claim == "refused" and one.outcome == "right":
        print(f"refused, but right: {one.name}: {one.node}: {one.detail}", flush=True)


def main() -> int:
    """Run what is asked for; exit 1 if a claim is false."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runtimes", nargs="*", default=[name for name in RUNTIMES if name != "onnxruntime"])
    parser.add_argument("--operators", default="", help="only these, separated by commas")
    parser.add_argument("--most", type=int, default=40, help="models of an operator (default: 40)")
    parser.add_argument("--refused", action="store_true", help="also run models that are refused")
    parser.add_argument("--json", type=Path, help="write all outcomes to this file")
    options = parser.parse_args()
    rows: list[Checked] = []
    only = [one for one in options.operators.split(",") if one]
    for name in options.runtimes:
        print(f"{name} {version(name)}")
        for one in checked(name, options.most, operators=only, refused=options.refused):
            rows.append(one)
            show(one)
        counts = Counter((one.claim, one.outcome) for one in rows if one.runtime == name)
        print(table([("claim", "outcome", "models"), *((*kind, number) for kind, number in sorted(counts.items()))]))
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in rows], indent=0))
    return 1 if any(one.false for one in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
