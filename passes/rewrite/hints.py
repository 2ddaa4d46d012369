"""Find the nearest opset at which a refused node can be converted, for the hints of refusals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from opshift.opsets.registry.schema import NEWEST, OLDEST
from opshift.opsets.runtimes.profiles import load_target
from opshift.opsets.runtimes.releases import first_that_loads
from opshift.opsets.runtimes.target import Legality, Target
from opshift.passes.base.limits import DeadlineError
from opshift.passes.base.plan import Code, Refusal
from opshift.passes.rewrite.node_context import NodeContext

SECONDS = 10.0
"""The time limit for trying other opsets for refused nodes."""


class Hints:
    """The hints of one plan; refusals with the same reason get the same hint."""

    def __init__(self, legality: Legality, fits: Callable[[NodeContext, int], bool]) -> None:
        """Search opsets other than the target's; `fits` returns whether a node can be converted to an opset."""
        self._legality = legality
        self._fits = fits
        self._known: dict[tuple[Code, str, str], str] = {}

    def hinted(self, refusal: Refusal, context: NodeContext) -> Refusal:
        """Add the nearest helpful opset to a refusal, if there is one."""
        key = refusal.code, refusal.operator, refusal.reason
        if key not in self._known:
            self._known[key] = refusal.hint if "opset" in refusal.hint else self._hint(refusal.hint, context)
        return dataclasses.replace(refusal, hint=self._known[key])

    def _hint(self, hint: str, context: NodeContext) -> str:
        target, opset = self._legality.opset, context.opset
        down = target < opset
        between = range(target + 1, opset + 1) if down else range(target - 1, opset - 1, -1)
        low, high = self._loaded()
        try:
            found = next((other for other in between if low <= other <= high and self._fits(context, other)), None)
        except DeadlineError:  # a hint is not worth a long wait
            found = None
        if found is None:
            name = context.node.op_type
            return f"Remove {name} from --decompose." if not hint and name in self._legality.decompose else hint
        release = first_that_loads(found, 3) if self._legality.target and self._legality.target.release else None
        where = f": {release.name} loads it first." if release and down else ", if the runtime allows."
        use = f"se opset {found} or {'newer' if down else 'older'}{where}"
        return f"{hint.removesuffix('.')}, or u{use}" if hint else f"U{use}"

    def _loaded(self) -> tuple[int, int]:
        """Return the range of opsets that can be requested; releases of onnxruntime exist for all of them."""
        target = self._legality.target
        return (OLDEST, NEWEST) if target is None or target.release or target.name == "onnxruntime" else target.opset


def loading(opset: int, target: Target | None) -> Target | None:
    """Return a target that loads an opset: for an older one, the first release of onnxruntime that does."""
    release = target.release if target else None
    if release is None or opset <= release.opset:
        return target
    newer = first_that_loads(opset, 3)
    return load_target(newer.name) if newer else target
