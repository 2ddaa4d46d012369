"""Real runtimes, as `passes/measurement` runs them: `Runtime("mnn").run(model, feeds)` returns the outputs by name."""

from __future__ import annotations

import contextlib
import importlib.util

import onnx

from opshift.passes.measurement.isolated import Array, Arrays, Isolated, builtin_adapters, load_adapter

RUNTIMES = builtin_adapters()
"""The names of adapters, which are those of profiles."""


def version(name: str) -> str | None:
    """Return the version that is installed, or None; ncnn needs pnnx, too."""
    if name == "ncnn" and importlib.util.find_spec("pnnx") is None:
        return None
    with contextlib.suppress(ImportError):
        return str(load_adapter(name).version())
    return None


class Runtime:
    """A runtime in a process of its own, which is given models rather than their bytes."""

    def __init__(self, name: str, timeout: float = 60) -> None:
        self.name, self._isolated = name, Isolated(name, timeout)

    def run(self, model: onnx.ModelProto, feeds: Arrays) -> dict[str, Array]:
        """Return the outputs by name. Inputs are in the order of the model's.

        Raises:
            RefusedError: the runtime does not load the model, or does not run it.
            ImportError: the runtime itself cannot be loaded.
        """
        constant = {tensor.name for tensor in model.graph.initializer}
        inputs = [value.name for value in model.graph.input if value.name in feeds or value.name not in constant]
        return self._isolated.run(model.SerializeToString(), {name: feeds[name] for name in inputs})

    def close(self) -> None:
        """End the process."""
        self._isolated.close()
