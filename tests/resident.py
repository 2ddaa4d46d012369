"""The most memory that this process has held.

`ru_maxrss` does not serve: Linux counts in it what the parent held when it started the process, so that a test that
runs late in a large pytest worker measures that worker.
"""

from __future__ import annotations

import sys
from pathlib import Path


def peak() -> int:
    """Return the largest resident size of this process so far, in bytes."""
    if sys.platform == "linux":
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
