"""Where the operator's journal goes: a file for each term, because a fresh brain begins each."""

from pathlib import Path
from typing import TYPE_CHECKING

from weft import __version__
from weft.model.errors import SpecError

if TYPE_CHECKING:
    from io import FileIO

    from weft.brain.brain import Settings
    from weft.brain.journal import Journal
    from weft.model.queue import QueueTree


class TermJournals:
    """Opens the next one when called.

    The first term writes `journal.jsonl`, the second `journal-2.jsonl`; what is there already is
    left alone. Each record is written through, so that a kill loses none of them.
    """

    def __init__(self, path: str) -> None:
        if path.endswith(".gz"):
            hint = "write .jsonl, and compress it afterwards"
            raise SpecError(f"'{path}': a running journal is not compressed", hint=hint)
        self._path = Path(path) if path else None
        self._open: FileIO | None = None

    def __call__(self, recipe: str, tree: "QueueTree", settings: "Settings") -> "Journal":
        import orjson

        from weft.brain.journal import FORMAT, Journal
        from weft.kube.operator.no_journal import NoJournal
        from weft.lab.journals.journal_file import Header

        if self._path is None:
            return NoJournal()
        self.close()
        self._open = _next_free(self._path).open("wb", buffering=0)
        header = Header(
            weft=__version__, recipe=recipe, seed=0, queues=tree.queues, settings=settings
        )
        fields = orjson.loads(orjson.dumps(header))
        self._open.write(orjson.dumps({"format": FORMAT, **fields}) + b"\n")
        return Journal(self._open)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()


def _next_free(path: Path) -> Path:
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_stem(f"{path.stem}-{number}")
    return free
