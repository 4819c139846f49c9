"""What a change costs, as measured: the mean of the latest times that it took."""

from dataclasses import dataclass

REMEMBERED = 50


@dataclass(frozen=True, slots=True)
class MeasuredCost:
    """`seconds` is the mean; of many, an older one counts ever less."""

    seconds: float = 0.0
    count: int = 0

    def with_one(self, seconds: float) -> "MeasuredCost":
        count = min(self.count + 1, REMEMBERED)
        return MeasuredCost(self.seconds + (seconds - self.seconds) / count, count)
