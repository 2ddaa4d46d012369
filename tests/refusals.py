"""List what is refused when an operator is decomposed: models of the differential fuzzer, grouped by reason.

`python tests/refusals.py --seconds 300 --seed 1` plans models of every operator, with static, symbolic and unknown
shapes, and prints for each operator how many were refused, and one example of each reason.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from differential import draw, generate

import opshift
from opshift.opsets.registry.schema import OLDEST


@dataclass(frozen=True)
class Refused:
    """A model that is refused: the operators that were to go, and the first refusal."""

    operator: str
    index: int
    refusal: opshift.Refusal

    @property
    def cause(self) -> tuple[str, str]:
        """The operator, and the reason without names and numbers."""
        return self.operator, re.sub(r"'[^']*'|\"[^\"]*\"|\d+", "#", self.refusal.reason)


def refused(seed: int, index: int, operators: Sequence[str], also: Sequence[str] = ()) -> Refused | None:
    """Plan the case of a seed and an index without its operator and some others; None if nothing is refused.

    What no model can be read of is no refusal: the fuzzer draws some that break the rules.
    """
    operator = operators[index % len(operators)]
    case = generate.draw_case(seed, index, [operator])
    try:
        plan = opshift.plan(case.embedded.model, decompose=[operator, *also], opset=max(case.opset, OLDEST))
    except opshift.InvalidModelError:
        return None
    return Refused(operator, index, plan.refusals[0]) if plan.refusals else None


def lines(found: Sequence[Refused], tried: int) -> Iterator[str]:
    """Yield the refusals by operator and reason, the most frequent ones first."""
    yield f"{len(found)} of {tried} models are refused"
    for operator, count in collections.Counter(one.operator for one in found).most_common():
        yield f"{operator}: {count}"
        own = [one for one in found if one.operator == operator]
        for cause, number in collections.Counter(one.cause for one in own).most_common():
            example = next(one for one in own if one.cause == cause)
            yield f"  {number} like {example.index}: {example.refusal}"


def main(arguments: Sequence[str] | None = None) -> int:
    """List refusals for some seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--operators", default="", help="those to draw from, separated by commas (default: all)")
    parser.add_argument("--also", default="", help="operators that are to go as well, separated by commas")
    given = parser.parse_args(arguments)
    operators = list(filter(None, given.operators.split(","))) or draw.operators()
    also = list(filter(None, given.also.split(",")))
    found: list[Refused] = []
    tried, end = 0, time.monotonic() + given.seconds
    for index in itertools.count():
        if time.monotonic() > end:
            break
        one = refused(given.seed, index, operators, also)
        tried += 1
        found += [one] if one else []
    print("\n".join(lines(found, tried)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
