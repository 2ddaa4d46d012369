"""The assumptions that `assume` and `--assume` accept."""

from __future__ import annotations

APPROXIMATE = "approximate"
"""Accept lowerings whose relative error is at most 2^-21."""

ASSUMPTIONS = ("no-nan", "finite-inputs", "whole-indices", APPROXIMATE)
"""The assumptions that some lowerings need, most of them about inputs; `finite-inputs` includes `no-nan`."""

TENSOR_OUTPUT = "tensor-output"
"""Accept tensors of scores as outputs, in place of the maps of ZipMap."""

FITS = "fits-int32"
"""Accept a narrower type for integers of unknown range; verification then checks the values."""

ACCEPTED = (*ASSUMPTIONS, TENSOR_OUTPUT, FITS)
"""All values that `assume` accepts."""
