"""What large models cost, beside other converters: `python benchmarks/scale.py`.

    python benchmarks/scale.py             # prints; some minutes
    python benchmarks/scale.py --write     # writes docs/scale.md and docs/scale.svg too

Each run is a process of its own: CPU time is user and system time as the system counts them, imports, reading and
writing included; memory is the most that was resident. The runs of one size take turns, and the least of several
counts. Bytecode is compiled before. opshift does not verify here: what a proof costs is in benchmarks/proofs.py.
"""

from __future__ import annotations

import argparse
import compileall
import importlib.metadata
import math
import multiprocessing
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

import opshift

DOCS = Path(__file__).resolve().parent.parent / "docs"
OURS, THEIRS, ALONE, UP, UP_OURS = (
    "opshift",
    "onnx.version_converter",
    "onnx.load and onnx.save",
    "onnxscript.version_converter, 18 to 23",
    "opshift, 18 to 23",
)
LINES = {
    OURS: "import opshift; opshift.convert(IN, opset=13, verify=False).save(OUT)",
    THEIRS: "import onnx, onnx.version_converter as v; onnx.save(v.convert_version(onnx.load(IN), 13), OUT)",
    ALONE: "import onnx; onnx.save(onnx.load(IN), OUT)",
    UP: (
        "import onnx_ir, onnxscript.version_converter as v; m = onnx_ir.load(IN); v.convert_version(m, 23); "
        "onnx_ir.save(m, OUT)"
    ),
    UP_OURS: "import opshift; opshift.convert(IN, opset=23, verify=False).save(OUT)",
}
"""What is run. onnxscript's converter takes no model below opset 18: it has one of its own, and opshift beside it."""

COLOURS = {OURS: "#136", THEIRS: "#c33", ALONE: "#888", UP: "#c90", UP_OURS: "#69c"}
MOST = {UP: 10**5}
"""Nodes of the largest model, where more would take more memory than machines have."""

SHARE, MIB_AT_1E5, EXPONENT = 0.6, 260, 1.1
"""What is wanted: the share of onnx.version_converter's time and the memory at 1e5 nodes; the growth from 1e4 on."""


@dataclass(frozen=True)
class Spent:
    """What one process took: seconds of CPU time, MiB of memory; and its exit status."""

    seconds: float
    mib: float
    status: int = 0


def run(command: Sequence[str | os.PathLike[str]]) -> Spent:
    """Run a command to its end."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    scale = 2**20 if sys.platform == "darwin" else 2**10
    return Spent(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / scale, process.returncode)


def made(write: Callable[..., None], *arguments: Any) -> None:
    """Have a process of its own write a model: what this one holds in memory, a process that it starts begins with."""
    process = multiprocessing.get_context("spawn").Process(target=write, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"the model was not written: exit {process.exitcode}")


def least(spent: Iterable[Spent]) -> Spent:
    """Return the least time and the least memory of several runs."""
    found = list(spent)
    return Spent(min(one.seconds for one in found), min(one.mib for one in found), max(one.status for one in found))


# --- nodes ------------------------------------------------------------------------------------------------------------


def chain(path: Path, count: int, opset: int) -> None:
    """Write a model of so many nodes, one after the other: every tenth is a Hardmax of rank 3 along axis 1."""
    values = ["x", *(f"v{place}" for place in range(count - 1)), "y"]
    nodes = [
        helper.make_node("Hardmax", [values[place]], [values[place + 1]], name=f"n{place}", axis=1)
        if place % 10 == 0
        else helper.make_node(("Relu", "Neg", "Abs")[place % 3], [values[place]], [values[place + 1]], name=f"n{place}")
        for place in range(count)
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3, 4]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def growth(folder: Path, sizes: Sequence[int], repeat: int) -> dict[str, dict[int, Spent]]:
    """Measure all that is run, at each size, taking turns."""
    found: dict[str, dict[int, Spent]] = {name: {} for name in LINES}
    for size in sizes:
        models = {opset: folder / f"chain-{opset}.onnx" for opset in (12, 18)}
        for opset, path in models.items():
            made(chain, path, size, opset)
        names = [name for name in LINES if size <= MOST.get(name, size)]
        taken: dict[str, list[Spent]] = {name: [] for name in names}
        for _ in range(repeat):
            for name in names:
                model = models[18 if name in (UP, UP_OURS) else 12]
                line = LINES[name].replace("IN", repr(str(model))).replace("OUT", repr(str(folder / "out.onnx")))
                taken[name].append(run([sys.executable, "-c", line]))
        for name, spent in taken.items():
            found[name][size] = least(spent)
            print(f"{size:>9,} nodes  {name:40} {shown(found[name][size])}", flush=True)
    return found


def exponent(spent: Mapping[int, Spent]) -> float:
    """Return how time, with all that every run takes, grows from 1e4 nodes on: the slope of the fitted line."""
    grown = {size: one.seconds for size, one in spent.items() if size >= 10**4}
    if len(grown) < 2:
        return math.nan
    return float(np.polyfit(np.log(list(grown)), np.log(list(grown.values())), 1)[0])


# --- weights ----------------------------------------------------------------------------------------------------------


def weighty(path: Path, gib: float, embedded: bool) -> None:
    """Write a model with so many GiB of weights: in itself, or in a file beside it that takes no room on the disk."""
    elements = int(gib * 2**30 / 4)
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[elements // 1024, 1024])
    if embedded:
        weights.raw_data = bytes(weights.dims[0] * 4096)
    else:
        weights.data_location = TensorProto.EXTERNAL
        weights.external_data.add(key="location", value=f"{path.name}.data")
        weights.external_data.add(key="length", value=str(weights.dims[0] * 4096))
        with path.with_name(f"{path.name}.data").open("wb") as file:
            file.truncate(weights.dims[0] * 4096)
    nodes = [helper.make_node("Gather", ["w", "i"], ["r"]), helper.make_node("Hardmax", ["r"], ["y"], axis=1)]
    ends = [
        helper.make_tensor_value_info("i", TensorProto.INT64, [2, 3]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3, 1024]),
    ]
    graph = helper.make_graph(nodes, "weights", ends[:1], ends[1:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def command(*arguments: str | os.PathLike[str]) -> list[str]:
    """Return the command line of opshift."""
    return [sys.executable, "-m", "opshift", *(os.fspath(one) for one in arguments)]


def weights(folder: Path, repeat: int) -> dict[str, Spent]:
    """Measure the command on models with large weights, in files beside them and embedded."""
    found = {}
    model = folder / "weights.onnx"
    for gib in (3.0, 12.0):
        made(weighty, model, gib, False)
        asked = ("--opset", "13", "--no-verify", "--quiet")
        found[f"{gib:g} GiB of external data, same folder"] = least(
            run(command("convert", model, "-o", folder / "out.onnx", *asked)) for _ in range(repeat)
        )
        if gib < 10:
            with tempfile.TemporaryDirectory(dir=folder) as other:
                there = command("convert", model, "-o", Path(other) / "out.onnx", *asked)
                found[f"{gib:g} GiB of external data, another folder"] = run(there)
    for gib in (0.5, 1.5):
        made(weighty, model, gib, True)
        embedded = command("convert", model, "-o", folder / "out.onnx", *asked)
        found[f"{gib:g} GiB of embedded weights"] = run(embedded)
        found[f"{gib:g} GiB of embedded weights, to external data"] = run([*embedded, "--save-as-external-data"])
    return found


# --- kinds ------------------------------------------------------------------------------------------------------------


def distinct(path: Path, count: int) -> None:
    """Write a model of so many Hardmax of rank 3 along axis 1, each of another shape."""
    shapes = [[2, 3 + place, 4] for place in range(count)]
    nodes = [helper.make_node("Hardmax", [f"x{place}"], [f"y{place}"], axis=1) for place in range(count)]
    inputs, outputs = (
        [
            helper.make_tensor_value_info(f"{name}{place}", TensorProto.FLOAT, shape)
            for place, shape in enumerate(shapes)
        ]
        for name in "xy"
    )
    graph = helper.make_graph(nodes, "kinds", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def kinds(folder: Path, repeat: int) -> dict[str, Spent]:
    """Measure nodes of which each must be planned for itself."""
    found = {}
    model = folder / "kinds.onnx"
    for count in (1, 100, 400):
        made(distinct, model, count)
        asked = ("--opset", "13", "--no-verify", "--quiet")
        found[f"{count} shape{'s' * (count > 1)} of Hardmax"] = least(
            run(command("convert", model, "-o", folder / "out.onnx", *asked)) for _ in range(repeat)
        )
    return found


# --- starting ---------------------------------------------------------------------------------------------------------


def starts(folder: Path, repeat: int) -> dict[str, Spent]:
    """Measure what is small."""
    small, bad, out = folder / "small.onnx", folder / "bad.onnx", folder / "out.onnx"
    made(chain, small, 1000, 12)
    bad.write_bytes(b"no model")
    commands = {
        "opshift --help": command("--help"),
        "opshift --version": command("--version"),
        "refusal of a file that is no model": command("convert", bad, "-o", out, "--opset", "13"),
        "1,000 nodes with --no-verify": command("convert", small, "-o", out, "--opset", "13", "--no-verify"),
    }
    return {name: least(run(one) for _ in range(repeat + 2)) for name, one in commands.items()}


# --- what is shown ----------------------------------------------------------------------------------------------------


def shown(spent: Spent) -> str:
    """Return what a run took."""
    failed = f"  EXIT {spent.status}" if spent.status not in (0, 2) else ""
    return f"{spent.seconds:8.2f} s {spent.mib:8.0f} MiB{failed}"


HEAD = """\
# Large models

Written by `python benchmarks/scale.py --write`; do not edit by hand. Measured with {versions}.

Every run is a separate process. The tables show its CPU time, including imports, reading and writing, and its peak
resident memory. The model is a chain of Relu, Neg and Abs. Every tenth node is a Hardmax-11 of rank 3 along axis 1,
which must be rewritten for opset 13. (onnx.version_converter does not change it, so its result computes other values.)
opshift runs with `verify=False`.

![CPU time by the number of nodes](scale.svg)
"""


def page(
    found: Mapping[str, Mapping[int, Spent]], others: Mapping[str, Mapping[str, Spent]], grows: Mapping[str, float]
) -> str:
    """Return docs/scale.md."""
    packages = ("opshift", "onnx", "onnxscript", "protobuf", "numpy")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    lines = [HEAD.format(versions=f"{versions}, Python {platform.python_version()}, {platform.machine()}")]
    sizes = sorted({size for spent in found.values() for size in spent})
    lines.append("| | " + " | ".join(f"{size:,} nodes" for size in sizes) + " | exponent of growth |")
    lines.append("|---" * (len(sizes) + 2) + "|")
    for name, spent in found.items():
        cells = [
            f"{spent[size].seconds:.2f} s, {spent[size].mib:.0f} MiB" if size in spent else "not run" for size in sizes
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {grows[name]:.2f} |")
    lines += ["", *verdicts(found, grows)]
    for title, rows in others.items():
        lines += ["", f"## {title}", "", "| | CPU time | memory |", "|---|---|---|"]
        lines += [f"| {name} | {one.seconds:.2f} s | {one.mib:.0f} MiB |" for name, one in rows.items()]
    return "\n".join(lines) + "\n"


def verdicts(found: Mapping[str, Mapping[int, Spent]], grows: Mapping[str, float]) -> list[str]:
    """Return what is wanted, and whether it is so."""
    lines = []
    if 10**5 in found[OURS]:
        ours, theirs = found[OURS][10**5], found[THEIRS][10**5]
        lines.append(
            f"At 100,000 nodes opshift takes {ours.seconds / theirs.seconds:.2f} of onnx.version_converter's time "
            f"(goal: at most {SHARE}) and {ours.mib:.0f} MiB (goal: at most {MIB_AT_1E5})."
        )
    if not math.isnan(grows[OURS]):
        lines.append(
            f"From 10,000 nodes on, the time grows with exponent {grows[OURS]:.2f} (goal: at most {EXPONENT})."
        )
    return lines


def drawing(found: Mapping[str, Mapping[int, Spent]]) -> str:
    """Return a plot of CPU time by nodes, both on logarithmic scales."""
    left, top, wide, tall = 60, 20, 520, 320
    sizes = sorted({size for spent in found.values() for size in spent})
    seconds = [one.seconds for spent in found.values() for one in spent.values()]
    low, high = 10 ** math.floor(math.log10(min(seconds))), 10 ** math.ceil(math.log10(max(seconds)))

    def at(size: float, second: float) -> tuple[float, float]:
        x = left + wide * math.log(size / sizes[0]) / math.log(sizes[-1] / sizes[0])
        return x, top + tall * math.log(high / second) / math.log(high / low)

    bottom = top + tall
    parts: list[Any] = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + wide + 40}" height="{bottom + 50 + 20 * len(found)}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for size in sizes:
        x, _ = at(size, low)
        parts.append(f'<path d="M{x:.1f} {top}V{bottom}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{size:,} nodes</text>')
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        _, y = at(sizes[0], 10.0**power)
        parts.append(f'<path d="M{left} {y:.1f}H{left + wide}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g} s</text>')
    for place, (name, spent) in enumerate(found.items()):
        points = [at(size, one.seconds) for size, one in sorted(spent.items())]
        line = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        parts.append(f'<path d="M{line}" stroke="{COLOURS[name]}" stroke-width="2" fill="none"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{COLOURS[name]}"/>' for x, y in points]
        y = bottom + 42 + 20 * place
        parts.append(f'<path d="M{left} {y - 4}h20" stroke="{COLOURS[name]}" stroke-width="3"/>')
        parts.append(f'<text x="{left + 28}" y="{y}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--most", type=float, default=1e6, help="nodes of the largest chain")
    parser.add_argument("--repeat", type=int, default=3, help="runs of which the least counts")
    parser.add_argument("--folder", type=Path, help="where the models are put for the time being")
    parser.add_argument("--write", action="store_true", help="write docs/scale.md and docs/scale.svg")
    options = parser.parse_args()
    home = Path(str(opshift.__file__)).parent
    for module in (home, DOCS.parent / "passes", DOCS.parent / "opsets", DOCS.parent / "cli"):
        compileall.compile_dir(module, quiet=1)
    sizes = [10**power for power in range(3, 7) if 10**power <= options.most]
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        found = growth(folder, sizes, options.repeat)
        grows = {one: exponent(spent) for one, spent in found.items()}
        others = {
            "Starting": starts(folder, options.repeat),
            "Nodes that differ": kinds(folder, options.repeat),
            "Weights": weights(folder, options.repeat),
        }
    print(*(f"{name}: exponent {number:.2f}" for name, number in grows.items()), sep="\n")
    for rows in others.values():
        print(*(f"{name:50} {shown(one)}" for name, one in rows.items()), sep="\n")
    print(*verdicts(found, grows), sep="\n")
    if options.write:
        (DOCS / "scale.md").write_text(page(found, others, grows), encoding="utf-8")
        (DOCS / "scale.svg").write_text(drawing(found), encoding="utf-8")


if __name__ == "__main__":
    main()
