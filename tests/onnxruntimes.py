"""onnxruntime's releases, each in a virtual environment of a Python that its wheel is for.

`Release("1.12").run(model, feeds)` returns the outputs in that release, or raises `RefusedError`.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx

from opshift.passes.measurement.isolated import Array, Arrays, RefusedError

SERVER = Path(__file__).with_name("onnxruntime_server.py")

VERSIONS = {
    version.rpartition(".")[0]: (version, python)
    for python, versions in {
        "3.8": "1.6.0 1.7.0 1.8.1 1.9.0 1.10.0 1.11.1 1.12.1 1.13.1 1.14.1",
        "3.11": "1.15.1 1.16.3 1.17.3 1.18.1 1.19.2 1.20.1 1.21.1 1.22.1 1.23.2 "
        "1.24.4 1.25.1 1.26.0 1.27.0 1.28.0 1.29.0 1.30.0 1.31.1 1.32.0",
    }.items()
    for version in versions.split()
}
"""By minor release: the newest patch, and a Python that there is a wheel for."""


def folder() -> Path:
    """Return where the environments are: $OPSHIFT_RELEASES, or a folder of this machine's user."""
    return Path(os.environ.get("OPSHIFT_RELEASES") or Path.home() / ".cache" / "opshift-releases")


def interpreter(python: str) -> str | None:
    """Return the path of a Python, such as 3.8, of pyenv or of the system."""
    if python == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    found = sorted(Path.home().glob(f".pyenv/versions/{python}.*/bin/python"))
    return str(found[-1]) if found else shutil.which(f"python{python}")


def installed(minor: str) -> Path | None:
    """Return the Python of the environment of a release, if there is one."""
    python = folder() / f"ort-{minor}" / ("Scripts" if os.name == "nt" else "bin") / "python"
    return python if python.exists() and (folder() / f"ort-{minor}" / ".done").exists() else None


def install(minor: str) -> Path:
    """Make the environment of a release, unless it is there, and return its Python."""
    if found := installed(minor):
        return found
    version, python = VERSIONS[minor]
    base = interpreter(python)
    if base is None:
        raise FileNotFoundError(f"onnxruntime {version} needs Python {python}, which is not installed.")
    place = folder() / f"ort-{minor}"
    subprocess.run([base, "-m", "venv", "--clear", place], check=True)
    made = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip = [str(made), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"onnxruntime=={version}", "numpy<2"], check=True)
    (place / ".done").touch()
    return made


class Release:
    """A release, in a process that is started when first asked, and again after it has ended."""

    def __init__(self, minor: str) -> None:
        self.minor = minor
        self._process: subprocess.Popen[bytes] | None = None

    def load(self, model: bytes) -> str:
        """Load a model; return the error, or nothing."""
        return self._ask(model, None)[0]

    def run(self, model: onnx.ModelProto, feeds: Arrays) -> list[Array]:
        """Run a model. Raises RefusedError."""
        packed = {name: _packed(array) for name, array in feeds.items()}
        error, found = self._ask(model.SerializeToString(), packed)
        if error:
            raise RefusedError(error)
        return [_unpacked(data) for data in found]

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            with contextlib.suppress(OSError):
                assert self._process.stdin is not None
                self._process.stdin.close()
            self._process.wait(60)
            self._process = None

    def _ask(self, model: bytes, feeds: Mapping[str, bytes] | None) -> tuple[str, list[bytes]]:
        if self._process is None:
            command = [str(install(self.minor)), str(SERVER)]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=tempfile.gettempdir(),
            )
        requests, replies = self._process.stdin, self._process.stdout
        assert requests is not None
        assert replies is not None
        data = pickle.dumps((model, feeds), 4)
        try:
            requests.write(struct.pack("<q", len(data)) + data)
            requests.flush()
            (length,) = struct.unpack("<q", replies.read(8))
            error, found = pickle.loads(replies.read(length))
        except (OSError, struct.error):
            status, self._process = self._process.wait(60), None
            return f"the process ended with status {status}", []
        return error, found


def _packed(array: Array) -> bytes:
    file = io.BytesIO()
    np.save(file, array.astype(str) if array.dtype == object else array, allow_pickle=False)
    return file.getvalue()


def _unpacked(data: bytes) -> Array:
    array: Array = np.load(io.BytesIO(data), allow_pickle=False)
    return array
