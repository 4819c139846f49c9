"""The fence of an object store, where nothing can be locked.

An incarnation claims the place in two puts: first a mark, `claims/inc-<n>`, then its fence,
`fence/inc-<n>.json`, which lists the checkpoints that it found after the mark was there. A writer
puts its manifest, and then looks for marks of newer incarnations. So for every checkpoint one of
two things holds: its writer saw no mark, then the newer incarnation lists after the manifest was
put, and finds it; or its writer saw the mark, and knows that it is over. A checkpoint of an older
incarnation that no list names came too late, and counts for nobody.

A mark without a fence is one whose agent died between the two: it has never begun to train.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Final

from weft.agent.checkpoint.document import Fields, seal, unseal
from weft.agent.checkpoint.errors import Damaged, VaultError, WriterFenced
from weft.agent.checkpoint.folders import Folder
from weft.agent.checkpoint.manifest import MOST_TEXT
from weft.agent.checkpoint.objects.bucket import Bucket

MOST_BYTES: Final = 1 << 20
MOST_LISTED: Final = 10_000
_MARK: Final = re.compile(r"claims/inc-(0|[1-9][0-9]{0,14})")
_FENCE: Final = re.compile(r"fence/inc-(0|[1-9][0-9]{0,14})\.json")

Manifests = Callable[[Mapping[str, int]], list[Folder]]


class Claims:
    """Who may write, and whose checkpoints count."""

    def __init__(self, bucket: Bucket, job: str, incarnation: int) -> None:
        self._bucket, self._job, self._incarnation = bucket, job, incarnation
        self._seen: dict[int, frozenset[str]] = {}

    def make(self, manifests: Manifests) -> None:
        """Mark, list, fence; the same incarnation may do so again."""
        self.check(self._bucket.list())
        mark = f"claims/inc-{self._incarnation}"
        self._bucket.create(mark, self._job.encode())
        names = self._bucket.list()
        self.check(names)
        if fence_name(self._incarnation) in names:
            return
        seen = [one.name for one in self.counting(manifests(names), names)]
        body = {"job": self._job, "incarnation": self._incarnation, "seen": seen[:MOST_LISTED]}
        self._bucket.create(fence_name(self._incarnation), seal(body))

    def check(self, names: Mapping[str, int]) -> None:
        """Refuse a writer that came too late."""
        newest = max(_numbers(_MARK, names), default=self._incarnation)
        if newest > self._incarnation:
            raise WriterFenced(
                f"incarnation {self._incarnation} of {self._job} may not write: {newest} has been "
                "here",
                hint="this process belongs to an older start of the job; end it",
            )

    def counting(self, found: Collection[Folder], names: Mapping[str, int]) -> list[Folder]:
        """Those that the next incarnation after their own has seen, or that have no next one."""
        fences = sorted(_numbers(_FENCE, names))
        kept = []
        for folder in found:
            later = next((one for one in fences if one > folder.incarnation), None)
            if later is None or folder.name in self._listed_by(later):
                kept.append(folder)
        return kept

    def _listed_by(self, incarnation: int) -> frozenset[str]:
        """A fence never changes, so it is read once."""
        if incarnation not in self._seen:
            self._seen[incarnation] = self._read(incarnation)
        return self._seen[incarnation]

    def _read(self, incarnation: int) -> frozenset[str]:
        name = fence_name(incarnation)
        try:
            fields = Fields(unseal(self._bucket.read(name, most=MOST_BYTES), name), name)
            fields.only("job", "incarnation", "seen")
            job = fields.text("job", most=MOST_TEXT)
            seen = frozenset(map(str, fields.items("seen", most=MOST_LISTED)))
        except Damaged as error:
            raise VaultError(
                f"the fence of {self._bucket.url} cannot be read: {error}",
                hint=f"remove {name} if the checkpoints of earlier starts are to count",
            ) from error
        if job != self._job:
            raise VaultError(
                f"these checkpoints belong to the job {job!r}",
                hint="give each job a prefix of its own",
            )
        return seen


def fence_name(incarnation: int) -> str:
    return f"fence/inc-{incarnation}.json"


def _numbers(pattern: re.Pattern[str], names: Collection[str]) -> list[int]:
    return [int(found[1]) for name in names if (found := pattern.fullmatch(name))]
