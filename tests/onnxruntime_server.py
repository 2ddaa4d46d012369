"""Load and run models in the onnxruntime of another Python: the process that `tests/onnxruntimes.py` starts there.

It needs Python 3.8, onnxruntime and numpy only. Each message is its length in eight bytes and a pickle of plain
objects: a request is `(model, feeds)`, where `feeds` is None if the model is to be loaded only, and a reply is
`(error, outputs)`. Arrays travel as the bytes of an .npy file, since the pickles of numpy 2 cannot be read by numpy 1.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import sys
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
import onnxruntime


def packed(array: Any) -> bytes:
    """Return an array as the bytes of a file; strings as numpy's own strings."""
    array = np.asarray(array)
    if array.dtype == object:
        array = array.astype(str)
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def unpacked(data: bytes) -> Any:
    """Return the array of the bytes of a file."""
    array = np.load(io.BytesIO(data), allow_pickle=False)
    return array.astype(object) if array.dtype.kind == "U" else array


def answer(model: bytes, feeds: Mapping[str, bytes] | None) -> tuple[str, list[bytes]]:
    """Load a model, and run it if there are feeds."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if feeds is None:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        if feeds is None:
            return "", []
        found = session.run(None, {name: unpacked(data) for name, data in feeds.items()})
        return "", [packed(array) for array in found]
    except Exception as error:  # each status has a class of its own
        return str(error) or type(error).__name__, []


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer until the other side ends."""
    while len(head := requests.read(8)) == 8:
        request = pickle.loads(requests.read(struct.unpack("<q", head)[0]))
        data = pickle.dumps(answer(*request), 4)
        replies.write(struct.pack("<q", len(data)) + data)
        replies.flush()


if __name__ == "__main__":
    own = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what onnxruntime prints is no reply
    serve(sys.stdin.buffer, own)
