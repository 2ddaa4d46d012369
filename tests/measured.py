"""Convert the models of a list in a process of its own, and print what became of each, with its time and the memory.

`python measured.py sizes:DIRECT` prints a line of JSON for each case; the last one has the most memory in bytes that
this process and any of its children had resident.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import time

from onnx.parser import parse_model
from resident import peak

import opshift
from opshift.passes.runtime import ort_process


def main(listed: str) -> None:
    """Convert each."""
    module, name = listed.split(":")
    for case in getattr(importlib.import_module(module), name):
        model, begun = parse_model(case.text), time.monotonic()
        try:
            report = opshift.convert(model, opset=case.to).report
            assert report is not None
            unequal = [check.reason for check in report.nodes if check.verdict != "equal"]
            found = [str(report.verdict), "; ".join([*unequal, report.whole.reason])]
        except Exception as error:
            found = [type(error).__name__, str(error)]
        print(json.dumps([case.name, round(time.monotonic() - begun, 1), *found]), flush=True)
    ort_process._worker(os.getpid()).stop()
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(json.dumps([peak(), children]))


if __name__ == "__main__":
    main(sys.argv[1])
