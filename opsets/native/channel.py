"""Exchange messages with another process of opshift: pickles, through two pipes.

The parent does not trust a child in which a model has run: it names the classes that answers may contain, and rejects
all other pickles. This module imports only the standard library, so that a child can load it from its file.
"""

from __future__ import annotations

import contextlib
import pickle

TYPE_CHECKING = False  # importing typing takes as long as importing onnx
if TYPE_CHECKING:
    from typing import Any, BinaryIO


class LostError(Exception):
    """The other process has ended, or has sent something else than a message."""


class _Unpickler(pickle.Unpickler):
    """Reads pickles that contain only some classes."""

    def __init__(self, stream: BinaryIO, classes: frozenset[tuple[str, str]]) -> None:
        super().__init__(stream)
        self._classes = classes

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._classes:
            raise pickle.UnpicklingError(f"{module}.{name} is not permitted")
        return super().find_class(module, name)


class Channel:
    """One end of two pipes."""

    def __init__(
        self, incoming: BinaryIO, outgoing: BinaryIO, classes: frozenset[tuple[str, str]] | None = None
    ) -> None:
        """Store the pipes, and the module and name of each class that received messages may contain (None: any)."""
        self.incoming, self.outgoing = incoming, outgoing
        self._classes = classes

    def send(self, message: Any) -> None:
        """Send a message.

        Raises:
            OSError: the other process has ended.
            Exception: the message cannot be pickled; a part of it may have been sent.
        """
        pickle.dump(message, self.outgoing, protocol=5)
        self.outgoing.flush()

    def send_whole(self, message: Any) -> None:
        """Send a message as `send` does, but nothing of a message that cannot be pickled."""
        data = pickle.dumps(message, protocol=5)
        self.outgoing.write(data)
        self.outgoing.flush()

    def receive(self) -> Any:
        """Wait for a message.

        Raises:
            LostError: none will come.
            MemoryError: the message does not fit into memory.
        """
        try:
            if self._classes is None:
                return pickle.load(self.incoming)
            return _Unpickler(self.incoming, self._classes).load()
        except MemoryError:
            raise
        except Exception as error:  # bytes that are not a pickle may raise any exception
            raise LostError(f"{type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Close both pipes."""
        for stream in (self.incoming, self.outgoing):
            with contextlib.suppress(OSError):  # unsent messages
                stream.close()
