"""Limit the memory of this process: allocations beyond the limit raise MemoryError, and the machine stays usable."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

LEAST_ASKED, MOST_ASKED = 2**26, 2**60
"""The permitted memory limits, in bytes. With less, libraries end the process in various ways; no system has more."""


def machine_memory() -> int:
    """Return three quarters of the machine's memory; infinity if the system does not report it."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4 * 3
    return 2**62


def _held() -> int:
    """Return the bytes that this process already holds and that count towards the limit."""
    # pathlib takes long to import.
    with contextlib.suppress(OSError, ValueError), open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123
        return next((int(line.split()[1]) * 1024 for line in status if line.startswith("VmData:")), 0)
    return 0


@contextlib.contextmanager
def limited(memory: int | None) -> Iterator[None]:
    """Limit the additional memory of this process, by default to three quarters of the machine's; only on Linux.

    Child processes inherit the limit. An existing lower limit stays.
    """
    try:
        import resource

        if memory is not None:
            import numpy as np  # noqa: F401 (OpenBLAS ends the process if it has no memory at its start)
            import onnx  # noqa: F401

            memory += _held()

        before, most = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = machine_memory() if memory is None else memory
        bounds = [one for one in (before, most) if one != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_DATA, (min([wanted, MOST_ASKED, *bounds]), most))
    except (ImportError, AttributeError, ValueError, OSError):
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, (before, most))
