"""com.microsoft::QuickGelu: each element times the sigmoid of `alpha` times itself, which is Swish-24."""

from __future__ import annotations

import dataclasses

from opshift.opsets.operators import swish
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.operator import Version

OPERATOR = dataclasses.replace(
    swish.OPERATOR, name="QuickGelu", domain=MICROSOFT, means=swish.OPERATOR, versions=(Version(1),)
)
