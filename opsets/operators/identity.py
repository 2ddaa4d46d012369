"""Identity: the input."""

from opshift.opsets.carriers import MOVED
from opshift.opsets.plain import plain

OPERATOR = plain(
    "Identity",
    (1, 13, 14, 16, 19, 21, 23, 24, 25),
    ("input",),
    lambda x: x,
    moves_data=True,
    carriers=MOVED,
    idle=lambda meaning, operands: True,
)
