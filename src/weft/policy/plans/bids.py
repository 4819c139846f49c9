"""Bids: what each job could run as, and what is known of it, for a choice over all of them."""

from dataclasses import dataclass

from weft.model.plan import ExecutionPlan


@dataclass(frozen=True, slots=True)
class Option:
    """One way to run a job: GPUs, cores beside each, a plan, and the work per second of it.

    `speed` may be counted on: it is the slower end of what is foretold.
    """

    gpus: int
    cores: float
    plan: ExecutionPlan
    speed: float
    """Work per second."""

    as_asked: bool = False
    """Whether it is just what was asked for, so that it keeps any promise."""

    @property
    def per_gpu(self) -> float:
        """Speed of a GPU; of a job without GPUs its own."""
        return self.speed / max(self.gpus, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid:
    """One job; `options` are those it may be given now, `held` is what it runs as.

    `promised` is the speed below which it must not run: 0 where nothing was promised.
    `busy_seconds` are left of its start. A `settled` job keeps what it has, whatever others would
    give for it. One that is `live` goes to another option while it trains. `change_seconds` is what
    that costs it, or another start; without it, as much as any restart. One that is not `ripe`
    would lose too much by a stop: it has not saved since it began, and has not just begun.
    """

    slot: int
    options: tuple[Option, ...]
    held: Option | None = None
    asked_speed: float
    work_done: float
    work_left: float | None = None
    promised: float = 0.0
    busy_seconds: float = 0.0
    ran_seconds: float = 0.0
    waited_seconds: float = 0.0
    lost_seconds: float = 0.0
    """What its restarts have cost it so far."""

    restarts: int = 0
    settled: bool = False
    live: bool = False
    change_seconds: float | None = None
    priority: int = 0
    yields: bool = True
    ripe: bool = True
    queue: int = 0
    seq: int = 0

    def change(self, restart_seconds: float) -> float:
        """Seconds that it takes to run as something else: to begin at all, or to change."""
        own = self.change_seconds if self.held is not None else None
        return restart_seconds if own is None else own

    def expected_left(self, prior_seconds: float) -> float:
        """Work ahead of it: what is known, or as much again as it has done.

        For lengths with a heavy tail there is no better guess.
        """
        if self.work_left is not None:
            return self.work_left
        return max(prior_seconds * self.asked_speed, self.work_done)
