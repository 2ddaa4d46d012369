"""Convert models to releases of onnxruntime and run them there: `python benchmarks/on_releases.py 1.6 1.12`.

The models are ONNX's backend node tests, at the opset that each is written at, and the fixtures; `--target
onnxruntime-1.12` makes others of them. A row counts outcomes in the release: `equal` and `different` outputs, beside
those of the original in the installed onnxruntime, or those of the test if that does not run it; `loaded` models were
not run, since numpy lacks an element type; `failed` did not run, `not loaded` did not open. `--verbose` names the
models and reasons. With `--plain` they are converted to the newest opset of the release only, as with `--opset`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
from converters import table
from node_tests import _close, cases
from onnxruntimes import VERSIONS, Release
from running import run

import opshift
from opshift.opsets.runtimes.releases import release_of
from opshift.passes.base.errors import OpshiftError
from opshift.passes.measurement.isolated import Array, RefusedError

ROOT = Path(__file__).resolve().parent.parent
OUTCOMES = ("equal", "different", "loaded", "refused", "failed", "not loaded")


class Case(NamedTuple):
    """A model, inputs if numpy 1 has their types, outputs, and how far others may be from them."""

    name: str
    model: onnx.ModelProto
    feeds: Mapping[str, Array] | None
    wanted: list[Array] | None
    rtol: float
    atol: float


def models(pattern: str, step: int) -> Iterator[Case]:
    """Yield all node tests, or one of so many, and the fixtures, with inputs and outputs."""
    for case in cases(pattern)[::step]:
        given, wanted = case.data_sets[0]
        names = [value.name for value in case.model.graph.input]
        arrays = [_array(value) for value in given]
        feeds = dict(zip(names, arrays, strict=False))
        yield _with_outputs(case.name, case.model, feeds, [_array(one) for one in wanted], case.rtol, case.atol)
    rng = np.random.default_rng(1)
    for path in sorted(path for path in ROOT.glob("fixtures/*.onnxtxt") if re.search(pattern, path.stem)):
        model = onnx.parser.parse_model(path.read_text(encoding="utf-8"))
        feeds = {value.name: _drawn(rng, value) for value in model.graph.input}
        yield _with_outputs(path.stem, model, feeds, None, 1e-5, 1e-6)


def _array(value: Any) -> Array:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def _drawn(rng: np.random.Generator, value: onnx.ValueInfoProto) -> Array:
    kind = value.type.tensor_type
    shape = [dim.dim_value or 3 for dim in kind.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
    return np.asarray(rng.integers(0, 3, shape) if dtype.kind in "iub" else rng.normal(size=shape)).astype(dtype)


def _with_outputs(
    name: str, model: onnx.ModelProto, feeds: Mapping[str, Array], wanted: list[Array] | None, rtol: float, atol: float
) -> Case:
    with contextlib.suppress(Exception):  # the installed onnxruntime does not run every test
        wanted = run(model, [dict(feeds)])[0]
    plain = wanted is not None and all(
        one.dtype.isbuiltin == 1 or one.dtype.kind == "U" for one in (*feeds.values(), *wanted)
    )
    return Case(name, model, feeds if plain else None, wanted, rtol, atol)


def outcome(release: Release, case: Case, *, plain: bool) -> tuple[str, str]:
    """Convert a model, and load and run it in a release."""
    found = release_of(f"onnxruntime-{release.minor}")
    assert found is not None
    try:
        asked: dict[str, Any] = {"opset": found.opset} if plain else {"target": found.name}
        model = opshift.convert(case.model, verify=False, **asked).model
    except OpshiftError as error:
        return "refused", str(error)
    assert isinstance(model, onnx.ModelProto)
    if error_text := release.load(model.SerializeToString()):
        return "not loaded", error_text
    if case.feeds is None or case.wanted is None:
        return "loaded", ""
    try:
        outputs = release.run(model, case.feeds)
    except RefusedError as error:
        return "failed", str(error)
    same = all(map(lambda one, other: _close(one, other, case.rtol, case.atol), map(_plain, case.wanted), outputs))
    return ("equal", "") if same else ("different", f"{outputs} is not {case.wanted}"[:300])


def _plain(array: Array) -> Array:
    return array.astype(str) if array.dtype == object else array


def main() -> int:
    """Run what is asked for, and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="*", default=list(VERSIONS), help="minor releases, such as 1.12")
    parser.add_argument("--filter", default="", help="a pattern that the names of models have")
    parser.add_argument("--plain", action="store_true", help="convert to the opset of the release only")
    parser.add_argument("--every", type=int, default=1, help="take one model of so many")
    parser.add_argument("--verbose", action="store_true", help="print what is not equal, with the reason")
    parser.add_argument("--json", type=Path, help="write all outcomes to this file")
    options = parser.parse_args()
    outcomes: dict[str, dict[str, tuple[str, str]]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every = list(models(options.filter, options.every))
        for minor in options.releases:
            release = Release(minor)
            found = outcomes[minor] = {case.name: outcome(release, case, plain=options.plain) for case in every}
            release.close()
            counts = Counter(kind for kind, _ in found.values())
            print(minor, *(f"{kind} {counts[kind]}" for kind in OUTCOMES), flush=True)
            for name, (kind, why) in found.items() if options.verbose else ():
                if kind not in ("equal", "loaded"):
                    print(f"  {kind}: {name}: {why}")
    rows = [
        (minor, *(Counter(k for k, _ in one.values())[kind] for kind in OUTCOMES)) for minor, one in outcomes.items()
    ]
    print(table([("onnxruntime", *OUTCOMES), *rows]))
    if options.json:
        options.json.write_text(json.dumps(outcomes, indent=0), encoding="utf-8")
    bad = {"failed", "not loaded"}
    return int(any(kind in bad for one in outcomes.values() for kind, _ in one.values()) and not options.plain)


if __name__ == "__main__":
    sys.exit(main())
