"""Numbers that people write behind options."""

import math
from typing import Any

import click


class Finite(click.FloatRange):
    """A range of numbers to which neither `nan` nor `inf` belongs, though Python reads both."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - as click has it
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value} is no number", param, ctx)
        return found
