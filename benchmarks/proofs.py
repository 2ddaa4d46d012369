"""What a proof costs: `python benchmarks/proofs.py`.

Three hundred small models that all differ, each against a rewritten one; a model of 1,000 lowered nodes that are alike,
against one of one such node; and the search for one wrong node among 1,000. CPU time is that of this process and of the
child in which onnxruntime runs. The ratio is to what onnxruntime alone takes to open the two models, with graph
optimisations off and on, and to run each once.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import itertools
import os
import resource
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import opshift
from opshift.passes.runtime import ort_process

Pairs = list[tuple[Any, Any]]


def model(nodes: list[onnx.NodeProto], shape: list[Any], element: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """Return a model at opset 13 from `x` to `y`, both of one type and shape."""
    values = [helper.make_tensor_value_info(name, element, shape) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def small() -> Iterator[onnx.ModelProto]:
    """Yield models of one node, of different types, ranks, axes and sizes."""
    types = (TensorProto.FLOAT, TensorProto.FLOAT16)
    for rank, first, element, name in itertools.product((2, 3, 4), ("n", 2, 3, 5, 7), types, ("Hardmax", "Softmax")):
        for axis in range(-rank, rank - 1):
            shape = [first, *[f"d{place}" if isinstance(first, str) else 3 for place in range(rank - 1)]]
            yield model([helper.make_node(name, ["x"], ["y"], axis=axis)], shape, element)


def chain(name: str, count: int, **attributes: Any) -> onnx.ModelProto:
    """Return a model of so many nodes of one operator, one after the other."""
    values = ["x", *(f"v{place}" for place in range(count - 1)), "y"]
    return model([helper.make_node(name, [a], [b], **attributes) for a, b in itertools.pairwise(values)], ["n", 3, 4])


def alone(pairs: Pairs) -> None:
    """Open and run the models in onnxruntime, and nothing else."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    for proto in itertools.chain(*pairs):
        for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"):
            options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
            session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
            (value,) = session.get_inputs()
            shape = [dim if isinstance(dim, int) else 3 for dim in value.shape]
            session.run(None, {"x": np.ones(shape, np.float16 if "16" in value.type else np.float32)})


def spent(action: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds and the CPU seconds that an action takes, those of the child process included."""
    end = ort_process._worker(os.getpid()).stop  # the time of a child is known once it has ended
    end()
    start = time.perf_counter(), cpu()
    action()
    end()
    return time.perf_counter() - start[0], cpu() - start[1]


def cpu() -> float:
    """Return the CPU seconds of this process and of the children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def verified(pairs: Pairs, verdict: str) -> None:
    """Compare each pair, and hold the verdict against what it must be."""
    for before, after in pairs:
        found = opshift.verify(before, after)
        assert found.verdict == verdict, found


def main() -> None:
    """Print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300, help="small proofs")
    count = parser.parse_args().count
    names = ("opshift", "onnx", "onnxruntime")
    print(", ".join(f"{name} {importlib.metadata.version(name)}" for name in names))
    print(f"{'':44}{'wall s':>8}{'CPU s':>8}{'of onnxruntime alone':>22}")
    before = list(itertools.islice(small(), count))
    pairs = [(one, opshift.convert(one, opset=12, verify=False).model) for one in before]
    show(f"{len(pairs)} small proofs, all different", lambda: verified(pairs, "equal"), pairs)
    for size in (1, 1000):
        many = chain("Hardmax", size, axis=1)
        rewritten = opshift.convert(many, opset=12, verify=False).model
        action = functools.partial(opshift.convert, many, opset=12, verify="nodes")
        show(f"{size} lowered nodes, alike: proof of nodes", action, [(many, rewritten)])
    right, wrong = chain("LeakyRelu", 1000, alpha=1.001), chain("LeakyRelu", 1000, alpha=1.001)
    wrong.graph.node[500].attribute[0].f = 1.01
    show("1,000 nodes, one of them wrong: found", lambda: verified([(right, wrong)], "different"), [(right, wrong)])


def show(what: str, action: Callable[[], object], pairs: Pairs) -> None:
    """Print what an action takes."""
    wall, used = spent(action)
    _, base = spent(lambda: alone(pairs))
    print(f"{what:44}{wall:8.1f}{used:8.1f}{used / base:22.1f}")


if __name__ == "__main__":
    main()
