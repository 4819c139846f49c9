"""How fast a job was with the cores that it has had, while its width stood still."""

from dataclasses import dataclass, replace

from weft.perf.host import HostFit, fit_cores


@dataclass(frozen=True, slots=True)
class HostSamples:
    """By cores per GPU: the mean speed, and how often it was measured; all on so many GPUs."""

    gpus: int
    points: tuple[tuple[float, float, int], ...] = ()

    def with_one(self, cores: float, speed: float) -> "HostSamples":
        found = {known: (mean, count) for known, mean, count in self.points}
        mean, count = found.get(cores, (0.0, 0))
        found[cores] = ((mean * count + speed) / (count + 1), count + 1)
        return replace(self, points=tuple((c, *found[c]) for c in sorted(found)))

    def fit(self) -> HostFit:
        return fit_cores([(cores, speed) for cores, speed, _ in self.points])
