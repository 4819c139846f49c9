"""How wide a job over several pods is to be: as its places allow, within what it can use.

A head waits at its start until the seats of its placement have come. If some stay away it goes on
without them, as long as the job's least is there. Seats that come later come in groups, because a
scheduler makes several pods at once; so a moment is left for the others before the job is resized.
"""

from dataclasses import dataclass, field

from weft.agent.coordination.limits import Limits


@dataclass(slots=True)
class Rendezvous:
    """All counted in GPUs; a job without any counts a worker as one."""

    wanted_gpus: int
    least_gpus: int = 1
    most_gpus: int | None = None
    unit: int = 1
    limits: Limits = field(default_factory=Limits)
    _since: float | None = None
    _changed: float | None = None

    def width(self, gpus: int) -> int:
        """Of so many, those that the job can use, in whole replicas."""
        used = gpus if self.most_gpus is None else min(gpus, self.most_gpus)
        return used // self.unit * self.unit

    def enough(self, gpus: int) -> bool:
        """Whether the job can train on so many."""
        return self.width(gpus) >= max(self.least_gpus, self.unit)

    def may_start(self, gpus: int, now: float) -> bool:
        """Whether all have come, or those that are missing have been waited for long enough."""
        if self._since is None:
            self._since = now
        if gpus >= self.wanted_gpus:
            return True
        return self.enough(gpus) and now - self._since > self.limits.warm_seconds

    def came(self, now: float) -> None:
        """Another seat is there."""
        self._changed = now

    def settled(self, now: float) -> bool:
        """Whether to act on the seats that have come; true once for each group of them."""
        if self._changed is None or now - self._changed < self.limits.settle_seconds:
            return False
        self._changed = None
        return True
