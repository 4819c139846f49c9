"""Who reads a stream, and how the others come by their samples.

A stream is read by one worker: the first member that has the state. The others ask it for their
shares. After a resize or a loss there may be another first; it opens the stream and goes to where
the job stands. Each worker that is started also reads one micro-batch for itself, to warm up on,
because there is no epoch yet in which anyone could be asked.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final

from weft.model.errors import WorldError
from weft.train.data.loader import Loader
from weft.train.data.loader_processes import Read
from weft.train.data.sample_post import Gone, SampleAsker, SampleGiver
from weft.train.data.split import Share
from weft.train.groups.agent_store import AgentStore
from weft.train.membership.contact import Contact

PREFIX: Final = "samples/"
LOOK_SECONDS: Final = 0.2
PAUSE_SECONDS: Final = 0.01


class StreamSharing:
    """One worker's side of it, from epoch to epoch and from loop to loop."""

    def __init__(self, contact: Contact, halted: Callable[[], bool]) -> None:
        self._contact, self._halted = contact, halted
        self._place: tuple[int, int] | None = None  # the epoch and the loop that are arranged for
        self._giver: SampleGiver | None = None
        self._asker: SampleAsker | None = None
        self._led: tuple[int, Loader] | None = None
        self._changed = threading.Condition()
        if contact.heads is not None:
            contact.heads.moved.append(self._tell_again)

    def arrange(self, loader: Loader, epoch: int, loop: int, members: tuple[int, ...]) -> None:
        """Before a step: `members` are those who may read, in their order."""
        if not loader.is_stream or self._place == (epoch, loop):
            return
        self._place = epoch, loop
        self._let_go()
        if members[0] != self._contact.worker:
            find = self._finder(members[0])
            self._asker = SampleAsker(find, self._contact.key, loop)
            loader.follow(self._asker.read)
            return
        loader.follow(None)
        if self._giver is None and len(members) > 1:
            self._giver = SampleGiver(self._contact.host, self._contact.key, self._read)
            self._tell_first(self._giver.address)
        with self._changed:
            self._led = loop, loader
            self._changed.notify_all()

    def cut(self) -> None:
        """The epoch is broken: nobody waits for an answer that may not come."""
        if self._asker is not None:
            self._asker.close()

    def _let_go(self) -> None:
        self.cut()
        with self._changed:
            self._led = None

    def _read(self, loop: int, share: Share) -> Read:
        """For another, who may have come to the next loop before this worker has."""
        with self._changed:
            while self._led is None or self._led[0] < loop:
                self._changed.wait()
            led, loader = self._led
        if led > loop:
            raise Gone("that loop is over")
        return loader.read_for_another(share)

    def _tell_first(self, address: str) -> None:
        """If there is no head at the moment, the next one will be told."""
        try:
            self._tell(address)
        except WorldError:
            if self._contact.heads is None:
                raise

    def _tell_again(self) -> None:
        """Another head's store does not know where the reader is."""
        with suppress(WorldError):
            if self._giver is not None:
                self._tell(self._giver.address)

    def _tell(self, address: str) -> None:
        self._store().set(str(self._contact.worker), address)

    def _finder(self, reader: int) -> Callable[[], str]:
        def find() -> str:
            store = self._store()
            try:
                while not self._halted():
                    try:
                        store.follow()
                        return store.get(str(reader)).decode()
                    except WorldError:
                        time.sleep(PAUSE_SECONDS)  # it has not come to its step yet
            finally:
                store.close()
            raise Gone("the epoch is over")

        return find

    def _store(self) -> AgentStore:
        seconds = timedelta(seconds=LOOK_SECONDS)
        return AgentStore(self._contact, PREFIX, seconds, follows=True)
