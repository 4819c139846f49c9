"""Widths at which jobs run: a plan needs memory and whole replicas, a curve may be 0.

A job that is given any other number of GPUs holds them and makes no progress.
"""

from bisect import bisect_right
from dataclasses import dataclass, field, replace

from weft.brain.state.plan_book import PlanBook
from weft.model.request import JobRequest, Width


def within_runnable(job: JobRequest, plans: PlanBook) -> JobRequest:
    """The job with a range that begins and ends with a width at which it runs."""
    widths = _runnable_widths(job, plans)
    if widths is None:
        return job
    return replace(job, width=Width(widths[0], widths[-1], job.width.asked_gpus))


def _runnable_widths(job: JobRequest, plans: PlanBook) -> tuple[int, ...] | None:
    """Widths at which the job runs, as far as its request tells; None where that is all of them.

    The width that was asked for is always among them.
    """
    asked, widths = job.width.asked_gpus, range(job.width.min_gpus, job.width.max_gpus + 1)
    curve = None if job.curve is None else job.curve.curve
    if not asked or not job.width.elastic:
        return None
    if job.splits is not None and not plans.chooses:
        submitted = plans.submitted(job)
        found = tuple(width for width in widths if width in submitted)
    elif curve is not None and any(speed <= 0.0 for _, speed in curve.points):
        found = tuple(width for width in widths if width == asked or curve.at(width) > 0.0)
    else:
        return None
    return found if len(found) < len(widths) else None


@dataclass(slots=True)
class RunnableWidths:
    """Jobs that do not run at every width of their range, by slot."""

    _widths: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def begin(self, slot: int, job: JobRequest, plans: PlanBook) -> None:
        widths = _runnable_widths(job, plans)
        if widths is not None:
            self._widths[slot] = widths

    def forget(self, slot: int) -> None:
        self._widths.pop(slot, None)

    def copied(self) -> "RunnableWidths":
        return RunnableWidths(dict(self._widths))

    def __bool__(self) -> bool:
        return bool(self._widths)

    def runs(self, slot: int, gpus: int) -> bool:
        """Whether the job makes progress on so many GPUs."""
        widths = self._widths.get(slot)
        return widths is None or gpus in widths

    def rounded(self, slot: int, gpus: int) -> int:
        """The widest width at which the job runs on at most so many GPUs; 0 if there is none."""
        widths = self._widths.get(slot)
        if widths is None:
            return gpus
        below = bisect_right(widths, gpus)
        return widths[below - 1] if below else 0
