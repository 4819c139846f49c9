"""Keeps every job's status true, without hurry and without noise.

Decisions and ends are written by the executor, at once. All else that people read (where a job
stands, how far it is, and why it waits) is compared by columns with what is on record, and what
differs is written: at most once per job in five seconds, never while something more urgent is to be
written, and only once it has lasted a moment, so that a job which starts at the next round costs no
write. Where many wait, reports tell why (`wait_reports`), and the status of one that waits is
written after a minute, and seldom from then on. Progress is written by the percent, or once a
minute.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any, Protocol
from zlib import crc32

import numpy as np

from weft.brain.state.brain_state import BrainState
from weft.brain.state.waits import REASON_ROW
from weft.kube.client.api import Api
from weft.kube.client.errors import ApiError, Conflict, NotFound
from weft.kube.metrics import Metrics
from weft.kube.names import jobs_path
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.status.patches import Standing, standing_patch, title
from weft.kube.operator.status.progress import Told
from weft.model.ids import JobId
from weft.model.reason import ReasonCode
from weft.model.snapshot import Bools, Floats, Ints
from weft.model.state import State
from weft.view.reasons import counted

SPACING_SECONDS = 5.0
SETTLED_SECONDS = 1.0
REFRESH_SECONDS = 60.0
PROGRESS_SECONDS = 60.0
CROWD = 100  # who wait; above it their reasons are read from reports
CROWD_SETTLED_SECONDS = 60.0
CROWD_SPACING_SECONDS = 300.0
CROWD_REFRESH_SECONDS = 1800.0
SLOW_START_SECONDS = 10.0
SLOW_SECONDS = 0.05  # an API server that takes longer has better things to do
PAUSE_SECONDS = 0.25
LANES = 8
ROWS_A_LANE = 25
REFRESHED_AT_ONCE = 20
UNKNOWN = -1
CODES = 64

STATE_OF_TITLE = {title(state): state for state in State}
ROW_OF_SLUG = {code.slug: REASON_ROW[code] for code in ReasonCode}
OWN = (State.QUEUED, State.ADMITTED, State.STARTING, State.RUNNING, State.RESIZING)
# The executor writes these down at once; here is added what such a change waits for.
CHANGING = (State.STARTING, State.RESIZING)


class StatusSource(Protocol):
    """What the status writer reads."""

    @property
    def brain_state(self) -> BrainState: ...
    @property
    def observed_jobs(self) -> Mapping[str, ObservedJob]: ...
    @property
    def waits_are_served(self) -> bool: ...
    def now(self) -> float: ...
    def told_of(self, key: str) -> Told | None: ...
    def standing(self, key: str, state: State, message: str) -> Standing: ...
    def slow_change(self, key: str) -> str: ...
    def took_job(self, raw: dict[str, Any]) -> None: ...
    def is_busy(self, key: str) -> bool: ...
    def backlog(self) -> int: ...
    def contain(self, key: str, error: Exception) -> bool: ...


class StatusWriter:
    """Compares and writes; `shown` is what stands on record for each row of the brain's jobs."""

    def __init__(self, api: Api, source: StatusSource, metrics: Metrics) -> None:
        self._api = api
        self._source = source
        self._metrics = metrics
        self._news: set[str] = set()
        self._is_slow = False
        self._grow(64)

    def saw(self, slot: int, seq: int, observed: ObservedJob) -> None:
        """What the job's object says now."""
        if slot >= len(self._shown):
            self._grow(2 * slot)
        if self._seq[slot] != seq:
            self._seq[slot] = seq
            self._written_at[slot] = -np.inf
            self._waits_since[slot] = np.inf
            self._wanted[slot] = UNKNOWN
        code = _code_of(observed)
        if code != self._shown[slot] and code != UNKNOWN:
            self._written_at[slot] = self._source.now()
        self._shown[slot] = code

    def report_came(self, key: str) -> None:
        """Progress to be told, at leisure."""
        self._news.add(key)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(PAUSE_SECONDS)
            lanes = 1 if self._source.backlog() > LANES or self._is_slow else LANES
            due = self.due(self._source.now(), most=lanes * ROWS_A_LANE)
            line = iter(due)
            async with asyncio.TaskGroup() as group:
                for _ in range(min(lanes, len(due))):
                    group.create_task(self._write_from(line))

    def due(self, now: float, *, most: int) -> list[tuple[int, int]]:
        """Rows to be written now, with the job that sits there; running ones first.

        A long line is cut, so that whoever has to be told first never waits for its end.
        """
        state = self._source.brain_state
        size, jobs = state.size, state.jobs
        if size > len(self._shown):
            self._grow(2 * size)
        wanted = _codes(state)
        changed = wanted != self._wanted[:size]
        self._changed_at[:size][changed] = now
        self._wanted[:size] = wanted
        active = jobs.active[:size] & np.isin(jobs.state[:size], OWN)
        known = self._seq[:size] == jobs.seq[:size]
        differs = active & known & (wanted != self._shown[:size])
        waits = jobs.state[:size] <= State.ADMITTED
        crowd = self._source.waits_are_served and int(np.count_nonzero(active & waits)) > CROWD
        spaced = now - self._written_at[:size] >= SPACING_SECONDS
        lasted = ~waits | self._has_lasted(waits, now, crowd=crowd)
        starts = np.isin(jobs.state[:size], CHANGING)
        rows = np.flatnonzero(differs & lasted & spaced & ~starts)
        rows = rows[np.lexsort((self._changed_at[rows], waits[rows]))][:most]
        told = active & known & ~differs
        refresh = CROWD_REFRESH_SECONDS if crowd else REFRESH_SECONDS
        waiting = self._to_refresh(told & waits, now, refresh)
        starting = self._to_refresh(told & starts, now, SLOW_START_SECONDS)
        rows = np.concatenate([rows, waiting, starting, self._with_news(spaced, now)])
        return [(int(row), int(jobs.seq[row])) for row in rows]

    def _has_lasted(self, waits: Bools, now: float, *, crowd: bool) -> Bools:
        """Whether a wait is worth a write: in a crowd only one of a minute, and not too often."""
        size = len(waits)
        begun = waits & np.isinf(self._waits_since[:size])
        self._waits_since[:size][begun] = now
        self._waits_since[:size][~waits] = np.inf
        settled: Bools = now - self._changed_at[:size] >= SETTLED_SECONDS
        if not crowd:
            return settled
        lasted = now - self._waits_since[:size] >= CROWD_SETTLED_SECONDS
        return settled & lasted & (now - self._written_at[:size] >= CROWD_SPACING_SECONDS)

    def _to_refresh(self, told: Bools, now: float, seconds: float) -> Ints:
        """What still holds, with words that may be old: numbers, or what a start waits for."""
        old = np.flatnonzero(told & (now - self._written_at[: len(told)] >= seconds))
        return old[np.argsort(self._written_at[old], kind="stable")][:REFRESHED_AT_ONCE]

    def _with_news(self, spaced: Bools, now: float) -> Ints:
        rows, slots = [], self._source.brain_state.slot_of
        for key in list(self._news):
            slot = slots.get(JobId(key))
            if slot is None:
                self._news.discard(key)
            elif spaced[slot] and self._is_news(key, now - float(self._written_at[slot])):
                rows.append(slot)
                self._news.discard(key)
        return np.array(rows, np.int64)

    def _is_news(self, key: str, since_seconds: float) -> bool:
        """Another percent, another word on whether it can be resized, or a minute's work."""
        observed, told = self._source.observed_jobs.get(key), self._source.told_of(key)
        if observed is None or told is None or since_seconds >= PROGRESS_SECONDS:
            return True
        if told.live is not None and observed.is_live != told.live:
            return True
        if told.offers and observed.offers != told.offers:
            return True
        return told.percent is not None and told.percent != observed.status.get("progress")

    async def _write_from(self, line: Any) -> None:  # noqa: ANN401 - an iterator shared by lanes
        for slot, seq in line:
            try:
                await self._write(slot, seq)
            except Conflict:
                self._metrics.status_written("conflict")
            except NotFound:
                continue
            except ApiError as error:
                self._metrics.status_written("failed")
                await asyncio.sleep(max(error.retry_after_seconds, 1.0))
                return
            except Exception as error:
                spec = self._source.brain_state.specs[slot]
                if spec is None or not self._source.contain(spec.id, error):
                    raise

    async def _write(self, slot: int, seq: int) -> None:
        source, state = self._source, self._source.brain_state
        spec = state.specs[slot] if slot < state.size else None
        if spec is None or int(state.jobs.seq[slot]) != seq or source.is_busy(spec.id):
            return
        observed = source.observed_jobs.get(spec.id)
        standing_state = state.state_of(slot)
        if observed is None or observed.final or standing_state not in OWN:
            return
        now = source.now()
        standing = source.standing(spec.id, standing_state, source.slow_change(spec.id))
        self._written_at[slot] = now
        if _is_told(observed, standing):
            return
        path = jobs_path(observed.namespace, observed.name)
        patch = standing_patch(observed, standing, now)
        began = time.monotonic()
        source.took_job(await self._api.patch(f"{path}/status", patch))
        self._is_slow = time.monotonic() - began > SLOW_SECONDS
        self._metrics.status_written()

    def _grow(self, size: int) -> None:
        before = getattr(self, "_shown", np.zeros(0, np.int64))
        more = size - len(before)
        self._shown: Ints = np.concatenate([before, np.full(more, UNKNOWN, np.int64)])
        self._wanted: Ints = _grown(getattr(self, "_wanted", None), more, float(UNKNOWN)).astype(
            np.int64
        )
        self._seq: Ints = _grown(getattr(self, "_seq", None), more, -1.0).astype(np.int64)
        self._written_at: Floats = _grown(getattr(self, "_written_at", None), more, -np.inf)
        self._waits_since: Floats = _grown(getattr(self, "_waits_since", None), more, np.inf)
        self._changed_at: Floats = _grown(getattr(self, "_changed_at", None), more, -np.inf)


def _codes(state: BrainState) -> Ints:
    """State and, for those that wait, reason, else company, as one number per row."""
    size, company = state.size, state.seating.company
    states = state.jobs.state[:size].astype(np.int64)
    waits = states <= State.ADMITTED
    codes: Ints = states * CODES + np.where(waits, state.jobs.reason[:size], 0)
    for lead in company.leads():
        for slot in company.members(lead):
            if not waits[slot]:
                names = (state.spec(one).id for one in company.members(lead) if one != slot)
                codes[slot] += _code_of_company(names)
    return codes


def _code_of_company(others: Iterable[str]) -> int:
    """Never that of nobody."""
    return 1 + crc32(",".join(sorted(others)).encode()) % (CODES - 1)


def _code_of(observed: ObservedJob) -> int:
    """The same of what is on record; UNKNOWN before anything is."""
    state = STATE_OF_TITLE.get(observed.state)
    if state is None:
        return UNKNOWN
    row = ROW_OF_SLUG.get(str(observed.status.get("reason", "")), 0)
    if state <= State.ADMITTED:
        return int(state) * CODES + row
    others = _others(observed.status)
    return int(state) * CODES + (_code_of_company(others) if others else 0)


def _is_told(observed: ObservedJob, standing: Standing) -> bool:
    """Whether the record says all of this already."""
    status = observed.status
    text = counted(standing.reasons[0].text) if standing.reasons else standing.message or None
    return (
        observed.state == title(standing.state)
        and status.get("message") == text
        and (standing.progress is None or status.get("progress") == standing.progress)
        and (standing.work is None or status.get("work") == standing.work)
        and (standing.live is None or observed.is_live == standing.live)
        and (not standing.offers or observed.offers == standing.offers)
        and _others(status) == (standing.company.others if standing.company else ())
    )


def _others(status: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple((status.get("company") or {}).get("others") or ())


def _grown(before: Floats | None, more: int, fill: float) -> Floats:
    start = np.zeros(0) if before is None else before
    return np.concatenate([start, np.full(more, fill)])
