"""A curve: how fast a job trains by the number of GPUs it runs on."""

from bisect import bisect_left
from dataclasses import dataclass

from weft.model.errors import SpecError


@dataclass(frozen=True, slots=True)
class Curve:
    """Measured points (width, samples per second), widths rising; linear in between."""

    points: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        widths = [width for width, _ in self.points]
        if not widths or widths != sorted(set(widths)) or widths[0] < 1:
            raise SpecError(
                f"a curve needs rising widths of at least 1, got {widths}",
                hint="give each width once, smallest first",
            )

    def at(self, width: int) -> float:
        """Samples per second on `width` GPUs; flat beyond the last point, proportional before."""
        widths = [w for w, _ in self.points]
        index = bisect_left(widths, width)
        if index == len(widths):
            return self.points[-1][1]
        right_width, right = self.points[index]
        if right_width == width:
            return right
        left_width, left = self.points[index - 1] if index else (0, 0.0)
        return left + (right - left) * (width - left_width) / (right_width - left_width)
