"""Run models in a runtime in a separate process: some runtimes crash where others raise an exception."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import pkgutil
import threading
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from opshift.opsets.native import sandbox
from opshift.opsets.native.channel import Channel, LostError
from opshift.opsets.native.child import Child, main_of
from opshift.opsets.registry.schema import NEWEST, OLDEST
from opshift.passes.base.errors import UsageError
from opshift.passes.measurement import adapters

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]


class RefusedError(Exception):
    """A runtime does not load or run a model, or its process crashed."""


def builtin_adapters() -> tuple[str, ...]:
    """Return the names of opshift's adapters."""
    return tuple(sorted(item.name.replace("_", "-") for item in pkgutil.iter_modules(adapters.__path__)))


def load_adapter(name: str) -> ModuleType:
    """Import an adapter: one of opshift's, or a Python file.

    Raises:
        UsageError: there is no such adapter, or it lacks something.
    """
    if name.endswith(".py"):
        module = _imported(Path(name))
    elif name in builtin_adapters():
        module = importlib.import_module(f"{adapters.__name__}.{name.replace('-', '_')}")
    else:
        known = ", ".join(builtin_adapters())
        raise UsageError(f"no adapter is called {name!r}: name one of {known}, or a Python file.")
    missing = [one for one in ("NAME", "OPSET", "version", "run") if not hasattr(module, one)]
    if missing:
        raise UsageError(f"the adapter {name} defines no {' and no '.join(missing)}.")
    if not (isinstance(module.NAME, str) and module.NAME):
        raise UsageError(f"the NAME of the adapter {name} must be a string, not {module.NAME!r}.")
    if not (type(module.OPSET) is int and OLDEST <= module.OPSET <= NEWEST):
        raise UsageError(
            f"the OPSET of the adapter {name} must be an integer from {OLDEST} to {NEWEST}, not {module.OPSET!r}."
        )
    return module


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("opshift_adapter", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"{path} is no Python file.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"the adapter {path} cannot be imported: {type(error).__name__}: {error}.") from error
    return module


class Isolated:
    """One runtime in a process, which starts with the first model and restarts after a crash."""

    def __init__(self, adapter: str, timeout: float = 60) -> None:
        """Start nothing yet; `adapter` is a name or a Python file, `timeout` the seconds for one model."""
        self.adapter, self.timeout = adapter, timeout
        self._environment = getattr(load_adapter(adapter), "ENVIRONMENT", {})
        self._child: Child | None = None

    def run(self, model: bytes, inputs: Arrays) -> dict[str, Array]:
        """Return the outputs by name.

        Raises:
            RefusedError: the runtime does not load the model, or does not run it.
            ImportError: the runtime itself cannot be loaded.
        """
        if self._child is None:
            environment = {**os.environ, **self._environment}
            # A process group: Node.js does not see the end of its input while it computes.
            self._child = Child(*main_of(__name__, self.adapter), environment=environment, group=True)
        late = threading.Timer(self.timeout, self._child.kill)
        late.start()
        try:
            self._child.send((model, dict(inputs)))
            done, answer = self._child.receive()
        except (OSError, LostError):
            self.close()
            raise RefusedError("its process ended, or took too long") from None
        except BaseException:  # Ctrl-C does not reach the process
            self.close()
            raise
        finally:
            late.cancel()
        if isinstance(answer, ImportError):
            raise answer
        if not done:
            raise RefusedError(answer)
        found: dict[str, Array] = answer
        return found

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child.close()
        self._child = None


def alike(found: Array, wanted: Array) -> bool:
    """Return whether two arrays hold the same values, ignoring axes of length one and element types.

    Image runtimes drop both. Floats may be rounded in another order: 1e-4 is several hundred roundings of a float32. If
    terms of a sum cancel, 16 roundings of the largest element are accepted. A float16 differs from the exact number by
    up to 2**-11 of it, half a unit.
    """
    one, other = np.squeeze(np.asarray(found)), np.squeeze(np.asarray(wanted))
    if one.shape != other.shape:
        return False
    if "O" in (one.dtype.kind, other.dtype.kind):
        return bool(one.tolist() == other.tolist())
    rtol = 1e-4 + 2.0**-11 * [one.dtype, other.dtype].count(np.dtype(np.float16))
    one, other = one.astype(np.float64), other.astype(np.float64)
    largest = np.abs(other[np.isfinite(other)]).max(initial=0) if wanted.dtype.kind == "f" else 0
    return bool(np.allclose(one, other, rtol=rtol, atol=1e-5 + 2.0**-20 * largest, equal_nan=True))


def main(mark: str, adapter: str) -> None:
    """Answer requests until the input ends; the runtime's own output is discarded."""
    channel = Channel(*sandbox.streams(mark))
    run = load_adapter(adapter).run
    with contextlib.suppress(LostError):
        while True:
            model, inputs = channel.receive()
            try:
                answer: tuple[bool, Any] = True, {name: np.asarray(one) for name, one in run(model, inputs).items()}
            except ImportError as error:
                answer = False, error
            except Exception as error:  # each runtime raises its own exception classes
                answer = False, f"{type(error).__name__}: {error}".replace("\n", " ")
            channel.send(answer)
