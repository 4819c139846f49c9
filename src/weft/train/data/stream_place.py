"""Where the stream of the present loop stands, for the reader and for whoever gets the state."""

import time
from collections.abc import Collection, Sequence

from weft.train.data.loader import Loader
from weft.train.data.loops import Loops
from weft.train.data.stream_sharing import StreamSharing
from weft.train.state.book import StateBook


class StreamPlace:
    """Of one process; without a stream in the present loop there is nothing to know."""

    def __init__(self, book: StateBook, loops: Loops) -> None:
        self._book, self._loops = book, loops
        self._sharing: StreamSharing | None = None
        self.streaming: Loader | None = None
        self._learnt: object = None  # what its loader was last told of where it stands

    def share(self, sharing: StreamSharing) -> None:
        """With other workers."""
        self._sharing = sharing

    def arrange(
        self, loader: Loader, epoch: int, members: Sequence[int], sharers: Collection[int]
    ) -> None:
        """Whoever has the state may read, the first of them does."""
        self.streaming = loader if loader.is_stream else None
        self._learn()
        if self._sharing is not None:
            donors = [member for member in members if member in sharers]
            others = [member for member in members if member not in sharers]
            self._sharing.arrange(loader, epoch, self._book.progress.loop, (*donors, *others))

    def note(self) -> None:
        """For whoever gets the state: where the samples of the next step begin."""
        loader = self.streaming
        if loader is None:
            return
        mark = loader.mark(self._loops.read(self._book.progress) * loader.global_batch)
        if mark is not None:
            self._book.streams[str(self._loops.first(loader))] = list(mark)

    def still_seconds(self) -> float:
        """How long it has not moved; one that is read up to where the job stands does not hang."""
        if self.streaming is None:
            return float("inf")
        return time.monotonic() - self.streaming.moved_seconds()

    def cut(self) -> None:
        """Nobody waits for samples from one who may never answer."""
        if self._sharing is not None:
            self._sharing.cut()

    def _learn(self) -> None:
        """What came with the state, if the stream tells its own."""
        if self.streaming is None:
            return
        told = self._book.streams.get(str(self._loops.first(self.streaming)))
        if told is not self._learnt:
            self._learnt = told
            self.streaming.learn(told)
