"""Waits: since when a job waits and for what, and the seconds booked to each cause.

A wait has one reason at a time; when that changes, what has passed is booked to its cause.
"""

import numpy as np

from weft.brain.state.job_table import JobTable
from weft.model.reason import CAUSES, Cause, ReasonCode
from weft.model.snapshot import Floats, Ints

REASONS: tuple[ReasonCode, ...] = tuple(ReasonCode)
REASON_ROW: dict[ReasonCode, int] = {code: row for row, code in enumerate(REASONS, start=1)}
CAUSE_OF_ROW = np.array([0, *(int(code.cause) for code in REASONS)], np.int8)
PENDING = REASON_ROW[ReasonCode.ROUND_PENDING]


class Waits:
    """`booked` are seconds by row of jobs and by cause."""

    def __init__(self, jobs: JobTable) -> None:
        self._jobs = jobs
        self.booked: Floats = np.zeros((64, len(CAUSES) + 1))

    def clear(self, slot: int) -> None:
        """The row is another job's, which has not waited yet."""
        if slot >= len(self.booked):
            self.booked = np.vstack([self.booked, np.zeros_like(self.booked)])
        self.booked[slot] = 0.0

    def copied(self, jobs: JobTable) -> "Waits":
        twin = Waits(jobs)
        twin.booked = self.booked.copy()
        return twin

    def begin(self, slot: int, at: float, reason: int) -> None:
        self._jobs.columns.reason[slot] = reason
        self._jobs.columns.queued_since[slot] = at
        self._jobs.columns.waiting_since[slot] = at

    def book(self, slot: int, at: float, reason: int) -> None:
        """Book the wait so far to its cause and go on with another (0: it waits no more)."""
        jobs = self._jobs.columns
        cause = int(CAUSE_OF_ROW[jobs.reason[slot]])
        if cause:
            waited = at - jobs.waiting_since[slot]
            self.booked[slot, cause] += waited
            if cause == Cause.LOCALITY:
                jobs.locality_waited[slot] += waited
        jobs.reason[slot] = reason
        jobs.waiting_since[slot] = at

    def book_all(self, slots: Ints, at: float, reasons: Ints) -> None:
        """The same for many at once; rows whose reason stays are left alone."""
        jobs = self._jobs.columns
        changed = reasons != jobs.reason[slots]
        if not changed.any():
            return
        some = slots[changed]
        cause = CAUSE_OF_ROW[jobs.reason[some]]
        waited = at - jobs.waiting_since[some]
        self.booked[some, cause] += waited
        local = cause == Cause.LOCALITY
        if local.any():
            jobs.locality_waited[some[local]] += waited[local]
        jobs.reason[some] = reasons[changed]
        jobs.waiting_since[some] = at
