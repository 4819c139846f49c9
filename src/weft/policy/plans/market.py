"""A market of GPUs: what there is, what a restart costs, and how many may be paid for now."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """`gpus` are all that can be had, also from those who run; `room` is what each queue may hold.

    `allowance` is what restarts may cost now, in GPU-seconds, all together; `scarcity` is the part
    of the budget that has been spent.
    """

    gpus: int
    restart_seconds: float
    allowance: float
    scarcity: float = 0.0
    room: tuple[int, ...] = ()
