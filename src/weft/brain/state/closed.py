"""What is kept of jobs that are over, so that copies of a brain share it."""

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass

from weft.failure.diagnosis import Diagnosis
from weft.model.ids import JobId
from weft.model.state import State


@dataclass(frozen=True, slots=True)
class Closed:
    """How it ended, and what it had cost by then.

    Of one that failed, `why` it is given up, and its last `diagnosis` where there is one.
    """

    state: State
    at: float
    waits_seconds: tuple[float, ...]
    attained_gpu_seconds: float
    preemptions: int
    failures: int
    why: str = ""
    diagnosis: Diagnosis | None = None


class ClosedJobs(MutableMapping[JobId, Closed]):
    """By job, in the order of their ends.

    A cluster that has run for long has closed far more jobs than it has. So a copy takes none of
    them along: what there is at that time becomes a layer that both sides share and neither changes
    any more (None: forgotten since). Small layers are merged, so that there are few of them.
    """

    def __init__(self) -> None:
        self._layers: tuple[dict[JobId, Closed | None], ...] = ()
        self._latest: dict[JobId, Closed | None] = {}
        self._count = 0

    def __getitem__(self, job: JobId) -> Closed:
        found = self._find(job)
        if found is None:
            raise KeyError(job)
        return found

    def __setitem__(self, job: JobId, closed: Closed) -> None:
        if self._find(job) is None:
            self._count += 1
            self._latest.pop(job, None)  # one that was forgotten and ends again ends last
        self._latest[job] = closed

    def __delitem__(self, job: JobId) -> None:
        if self._find(job) is None:
            raise KeyError(job)
        self._count -= 1
        if self._layers:
            self._latest[job] = None
        else:
            del self._latest[job]

    def __iter__(self) -> Iterator[JobId]:
        layers = (*self._layers, self._latest)
        for depth, layer in enumerate(layers):
            later = layers[depth + 1 :]
            for job, closed in layer.items():
                if closed is not None and not any(job in newer for newer in later):
                    yield job

    def __len__(self) -> int:
        return self._count

    def copied(self) -> "ClosedJobs":
        """The same jobs, without copying them."""
        self._set_down()
        twin = ClosedJobs()
        twin._layers, twin._count = self._layers, self._count
        return twin

    def _set_down(self) -> None:
        """What is here becomes a layer, together with those that are not much larger."""
        layers, top = list(self._layers), self._latest
        if not top:
            return
        while layers and len(layers[-1]) <= 2 * len(top):
            below = layers.pop()
            top = {job: end for job, end in below.items() if job not in top} | top
        if not layers:
            top = {job: end for job, end in top.items() if end is not None}
        self._layers, self._latest = (*layers, top), {}

    def _find(self, job: JobId) -> Closed | None:
        if job in self._latest:
            return self._latest[job]
        for layer in reversed(self._layers):
            if job in layer:
                return layer[job]
        return None
