"""Run the pre-commit hook: `opshift plan` for each changed model.

pre-commit runs `python -m opshift.cli.hook` with the names of the models and the options of its `args`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from opshift.cli.main import main
from opshift.cli.terminal import say

MODELS = (".onnx", ".onnxtxt")


def run(arguments: Sequence[str]) -> int:
    """Plan for each model among the arguments; return the highest status.

    Arguments that are not models are options: `--opset=11`, with the value in the same word or in the next.
    """
    options = [argument for argument in arguments if not argument.endswith(MODELS)]
    models = [argument for argument in arguments if argument.endswith(MODELS)]
    status = 0
    for model in models:
        say(f"{model}:")
        status = max(status, main(["plan", model, *options]))
    return status


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
