"""Draw `--badge`: the runtimes that run a model, as a small image for a README."""

from __future__ import annotations

import html
from collections.abc import Collection, Sequence

from opshift.cli.reports.runtimes import Entry
from opshift.cli.terminal import COMMAND_MARK, one_line

CHARACTER, PADDING, HEIGHT = 7, 8, 20
"""Sizes in pixels; the text is scaled to its width, whatever the font."""

LABEL, RUNS, CONVERTS, NOTHING = "#555555", "#2e7d32", "#1f6fb2", "#9e2a2b"
"""The colours of the parts; white text has a contrast above 4.5 on each."""


def parts(entries: Sequence[Entry], named: Collection[str]) -> list[tuple[str, str]]:
    """Return the texts of a badge, and their colours.

    A target counts if it supports all models. A target with an unmeasured profile counts only if it is `named`.
    """
    levels: dict[str, list[str]] = {}
    for entry in entries:
        for fit in entry.found.fits if entry.found else ():
            # The releases of onnxruntime: each model has a different oldest one.
            if (fit.measured or fit.target in named) and not (fit.oldest or fit.refusals):
                levels.setdefault(fit.target, []).append(str(fit.outcome))
    served = {target: outcomes for target, outcomes in levels.items() if len(outcomes) == len(entries)}
    runs = [target for target, outcomes in served.items() if set(outcomes) == {"runs"}]
    converts = [target for target in served if target not in runs]
    shown = [("runs on", LABEL)]
    shown += [(", ".join(runs), RUNS)] if runs else []
    shown += [(f"converted: {', '.join(converts)}", CONVERTS)] if converts else []
    return shown if len(shown) > 1 else [*shown, ("no tested target", NOTHING)]


def badge(entries: Sequence[Entry], named: Collection[str] = ()) -> str:
    """Return a badge as SVG. It needs no network, and names of targets are escaped."""
    shown = [(one_line(text), colour) for text, colour in parts(entries, named)]
    title = html.escape(": ".join((shown[0][0], "; ".join(text for text, _ in shown[1:]))))
    drawn, left = [], 0
    for text, colour in shown:
        inner = CHARACTER * len(text)
        width = inner + 2 * PADDING
        drawn.append(f'<rect x="{left}" width="{width}" height="{HEIGHT}" fill="{colour}"/>')
        place = f'x="{left + PADDING}" y="14" textLength="{inner}" lengthAdjust="spacingAndGlyphs"'
        drawn.append(f"<text {place}>{html.escape(text)}</text>")
        left += width
    made = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left}" height="{HEIGHT}" role="img" aria-label="{title}">\n'
        f'<title>{title}</title>\n<clipPath id="r"><rect width="{left}" height="{HEIGHT}" rx="3"/></clipPath>\n'
        '<g clip-path="url(#r)" fill="#ffffff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">\n'
        f"{chr(10).join(drawn)}\n</g>\n</svg>\n"
    )
    return COMMAND_MARK.sub("&#35;", made)
