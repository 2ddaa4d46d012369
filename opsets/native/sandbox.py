"""Remove unneeded privileges from a child process that runs foreign native code.

This limits the damage of a fault in that code; it is not a complete sandbox (docs/limits.md). Each step is optional: if
a system does not support it, the process runs without it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Mapping

TYPE_CHECKING = False  # importing typing takes as long as onnx does
if TYPE_CHECKING:
    from typing import BinaryIO

TELEMETRY = "ORT_DISABLE_TELEMETRY"
"""The variable that turns off onnxruntime's telemetry, if it is set before the import."""

_KEPT = frozenset(
    (
        *("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "TMPDIR", "TMP", "TEMP", "TZ", "LANG", "LANGUAGE", "HOME"),
        *("USERPROFILE", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "VIRTUAL_ENV"),
        *("NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE"),
    )
)
_KEPT_PREFIXES = ("PYTHON", "LC_", "DYLD_", "ORT_", "OMP_", "KMP_", "MKL_", "OPENBLAS_", "MALLOC_", "GLIBC_", "CONDA_")


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that Python and onnxruntime use, without tokens and passwords.

    Since 1.29, onnxruntime stores events in the user's cache and uploads them, unless a variable disables it.
    """
    kept = {
        name: value
        for name, value in variables.items()
        if name.upper() in _KEPT or name.upper().startswith(_KEPT_PREFIXES)
    }
    return {**kept, TELEMETRY: "1"}


def streams(mark: str) -> tuple[BinaryIO, BinaryIO]:
    """Return standard input and output under other numbers, so that nothing else reads requests or prints answers.

    The line `mark` is written before the first answer. Ctrl-C is ignored: it reaches opshift, which ends this process.
    A crash leaves no core file.
    """
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit("RLIMIT_CORE", 0)
    answers.write(b"\n" + mark.encode() + b"\n")
    answers.flush()
    return requests, answers


def limit(name: str, size: int, *, forever: bool = True) -> None:
    """Set a limit of this process, where the system has it, to a size or to the highest that is permitted.

    Unless it holds `forever`, the process may raise it again.
    """
    with contextlib.suppress(ImportError, AttributeError, ValueError, OSError):
        import resource

        number = getattr(resource, name)
        _, most = resource.getrlimit(number)
        size = size if most == resource.RLIM_INFINITY else min(size, most)
        resource.setrlimit(number, (size, size if forever else most))


def prefer_for_oom_kill() -> None:
    """Have Linux end this process, and not the one that it serves, where memory runs out."""
    with contextlib.suppress(OSError):
        file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(file, b"1000")
        os.close(file)


def files() -> None:
    """Prevent this process from writing to files. Pipes still work."""
    limit("RLIMIT_FSIZE", 0)


# Denied: sockets, also through io_uring, other programs, and other processes' memory.
_DENIED = {
    "x86_64": (41, 42, 59, 322, 101, 310, 311, 425),
    "aarch64": (198, 203, 221, 281, 117, 270, 271, 425),
}
"""The numbers of socket, connect, execve, execveat, ptrace, process_vm_readv, process_vm_writev and io_uring_setup."""

_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_SECCOMP = {"x86_64": 317, "aarch64": 277}

_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER, _ALL_THREADS = 1, 1
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # BPF instructions, on 32-bit words
_ALLOW, _EPERM = 0x7FFF0000, 0x00050001
_X32 = 0x40000000  # the first system call number of another x86_64 interface


def calls() -> bool:
    """Deny this process network access and the start of programs, on Linux; return whether the kernel does so."""
    import platform
    import struct

    machine = platform.machine()
    if sys.platform != "linux" or machine not in _DENIED or sys.maxsize < 2**32:
        return False
    import ctypes

    denied = _DENIED[machine]
    count = len(denied)
    filters = [
        (_LOAD, 0, 0, 4),  # the architecture of the system call
        (_EQUAL, 0, count + 3, _ARCHITECTURE[machine]),
        (_LOAD, 0, 0, 0),  # the number of the system call
        (_AT_LEAST, count + 1, 0, _X32),
        *((_EQUAL, count - index, 0, number) for index, number in enumerate(denied)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _EPERM),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in filters))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(filters), ctypes.addressof(code)))
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
            return False
        address = ctypes.c_void_p(ctypes.addressof(program))
        return bool(libc.syscall(_SECCOMP[machine], _SET_MODE_FILTER, _ALL_THREADS, address) == 0)
    except (OSError, AttributeError):
        return False
