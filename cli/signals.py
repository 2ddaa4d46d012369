"""Handle signals that end the process.

They raise an exception, as Ctrl-C does, so that partial files are removed.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
"""The signals by which a terminal, a supervisor or a logout ends a process. Not every system has all of them."""

_SOON = 0.01  # seconds until a signal is sent again if its exception was lost or impossible


class Interrupted(KeyboardInterrupt):
    """A signal that ends the process has arrived."""

    def __init__(self, number: int) -> None:
        """Store the number of the signal."""
        super().__init__(number)
        self.status = 128 + number
        """The exit status by which shells report the signal."""


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """Make these signals raise `Interrupted`; at the end, remove remaining drafts, and restore the handlers.

    Signals that are ignored (`nohup`), or that have another handler, stay unchanged.
    """
    threading = sys.modules.get("threading")  # a program without it has one thread
    if threading and threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield
        return
    before: dict[int, Any] = {}
    late: list[int] = []
    hook = sys.unraisablehook
    try:
        for number in (getattr(signal, name) for name in NAMES if hasattr(signal, name)):
            handler = signal.getsignal(number)
            if handler in (signal.SIG_DFL, signal.default_int_handler):
                before[number] = handler
                signal.signal(number, _interrupt)
        sys.unraisablehook = lambda lost: _again(lost, hook)
        yield
    finally:
        try:
            for number in before:
                signal.signal(number, lambda number, _: late.append(number))
        finally:
            if writer := sys.modules.get("opshift.passes.io.atomic_files"):
                writer.discard()
            sys.unraisablehook = hook
            for number, handler in before.items():
                signal.signal(number, handler)
            if late and not isinstance(sys.exception(), Interrupted):  # it arrived while drafts were removed
                signal.raise_signal(late[0])


def _interrupt(number: int, frame: FrameType | None) -> None:
    if _loads_an_extension(frame):
        _send_soon(number)
    else:
        raise Interrupted(number)


def _loads_an_extension(frame: FrameType | None) -> bool:
    """Return whether native code is initializing a module: an exception then crashes onnx 1.23.2."""
    while frame is not None:
        if frame.f_code.co_name in ("create_module", "exec_module"):
            loader = frame.f_locals.get("self")
            if isinstance(loader, importlib.machinery.ExtensionFileLoader):
                return True
        frame = frame.f_back
    return False


def _again(lost: sys.UnraisableHookArgs, hook: Any) -> None:
    """Send a signal again if its exception was raised in a destructor, where it is lost."""
    if isinstance(lost.exc_value, Interrupted):
        _send_soon(lost.exc_value.status - 128)
    else:
        hook(lost)


def _send_soon(number: int) -> None:
    import threading

    timer = threading.Timer(_SOON, signal.raise_signal, (number,))
    timer.daemon = True
    timer.start()
