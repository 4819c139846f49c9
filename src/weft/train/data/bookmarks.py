"""Where a stream stands, told by itself: the states that it had at the borders of steps.

A stream that has `state_dict` and `load_state_dict` (itself, or the iterator that it gives, as
torch's loaders of streams have it) is asked for its state whenever the last sample of a step was
read. Reading is ahead of the training, so the states of some steps are kept; the one of the step
that comes next is what a checkpoint holds, and what whoever reads next begins from. A state that
cannot be kept, or that does not change when a sample is given, is of no use: then the stream is
gone through from its beginning, as if it had none, and that is told.
"""

import base64
import copy
import json
import logging
import threading
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

import torch
from torch import Tensor

from weft.agent.checkpoint.document import Json
from weft.agent.checkpoint.errors import CheckpointError, UnsavableState
from weft.agent.checkpoint.facts import fold, unfold
from weft.train.state.holders import Stateful

log = logging.getLogger(__name__)

MOST_SENT_BYTES: Final = 1 << 16
MOST_KNOWN: Final = 8
BEGINNING: Final = 0
_END: Final = object()

Mark = tuple[int, Json]
"""A position, and the state of a stream that gives the sample there next."""


class Bookmarks:
    """The states of one stream by position, and how it is opened at one of them."""

    def __init__(self, dataset: Iterable[Any]) -> None:
        self._dataset = dataset
        self._usable = True
        self._opened = False
        self._first: object = None  # the state of a stream of which nothing was read
        self._states: dict[int, object] = {}
        self._lock = threading.Lock()  # the training thread learns, the reading one reads
        self._resumed = False
        self._behind_mark: object = None  # the state one sample behind where it was resumed

    def begin(self) -> Iterator[Any]:
        """A new pass, from the first position on."""
        if isinstance(self._dataset, Stateful) and self._usable:
            if self._opened:
                self._dataset.load_state_dict(copy.deepcopy(self._first))  # type: ignore[arg-type]
            else:
                self._first = copy.deepcopy(self._dataset.state_dict())
        self._opened, self._resumed = True, False
        return iter(self._dataset)

    def resume(self, position: int) -> Iterator[Any] | None:
        """From a position whose state is known; None if the stream takes no state any more."""
        with self._lock:
            state: Any = copy.deepcopy(self._states[position])
        self._resumed, self._behind_mark = True, None
        if not isinstance(self._dataset, Stateful):
            return self._resumed_iterator(state)
        if not self._opened:
            self._first = copy.deepcopy(self._dataset.state_dict())
        self._opened = True
        self._dataset.load_state_dict(state)
        return iter(self._dataset)

    def _resumed_iterator(self, state: dict[str, Any]) -> Iterator[Any] | None:
        stream = iter(self._dataset)
        if isinstance(stream, Stateful):
            stream.load_state_dict(state)
            return stream
        log.warning("the stream is read from its beginning: it told its state before, not now")
        self._usable = False
        return None

    def next_pass(self) -> Iterator[Any]:
        """The one after another has ended.

        Some streams go back to the state that they were given whenever they are iterated; those are
        given the first one.
        """
        stream = iter(self._dataset)
        if not self._resumed or not isinstance(self._dataset, Stateful):
            return stream
        sample = next(stream, _END)
        if sample is _END or _same(self._behind_mark, self._dataset.state_dict()):
            return self.begin()
        self._resumed = False
        return chain((sample,), stream)

    def nearest(self, position: int) -> int:
        """The last position up to this one whose state is known."""
        with self._lock:
            known = self._states if self._usable else ()
            return max((at for at in known if at <= position), default=BEGINNING)

    def read(self, stream: Iterator[Any], position: int, *, border: bool) -> None:
        """A sample was read, and the next one is that of this position."""
        told = self._teller(stream)
        resumed = self._resumed and self._behind_mark is None
        if told is None or not (border or position == 1 or resumed):
            return
        state = copy.deepcopy(told.state_dict())
        if resumed:
            self._behind_mark = state
        if position == 1 and not self._is_sound(told, state):
            self._usable = False
            return
        if border:
            self._keep(position, state)

    def learn(self, mark: object) -> None:
        """What a checkpoint or another worker has told; what cannot be a mark is none."""
        match mark:
            case [int(position), state] if position > BEGINNING:
                try:
                    self._keep(position, unfold(state, _tensor))
                except (CheckpointError, TypeError, ValueError, RuntimeError) as error:
                    log.warning("the state of the stream cannot be used: %s", error)

    def mark(self, position: int, *, most: int | None = None) -> Mark | None:
        """The state at that position, or the last one before it, for others to learn."""
        at = self.nearest(position)
        with self._lock:
            state = self._states.get(at)
        if state is None:
            return None
        folded = fold(state, "stream", _folded)
        if most is not None and len(json.dumps(folded)) > most:
            return None
        return at, folded

    def forget_before(self, position: int) -> None:
        """But the last one up to there, from which the stream can be begun."""
        first = self.nearest(position)
        with self._lock:
            self._states = {at: state for at, state in self._states.items() if at >= first}

    def _keep(self, position: int, state: object) -> None:
        with self._lock:
            self._states[position] = state
            for at in sorted(self._states)[:-MOST_KNOWN]:
                del self._states[at]

    def _teller(self, stream: Iterator[Any]) -> Stateful | None:
        if not self._usable:
            return None
        for one in (self._dataset, stream):
            if isinstance(one, Stateful):
                return one
        return None

    def _is_sound(self, told: Stateful, state: object) -> bool:
        """Whether it can be kept, and says that a sample was given."""
        try:
            fold(state, "stream", _folded)
            if isinstance(self._dataset, Stateful) and _same(state, self._first):
                raise UnsavableState(
                    "its state is the same before and after a sample",
                    hint="let it count a sample before it is given",
                )
        except UnsavableState as error:
            name = type(told).__name__
            log.warning("%s is read from its beginning after a restart: %s", name, error)
            return False
        return True


def _same(one: object, other: object) -> bool:
    return bool(fold(one, "stream", _folded) == fold(other, "stream", _folded))


def _folded(path: str, value: object) -> Json:
    if not isinstance(value, Tensor):
        raise UnsavableState(
            f"{path} cannot be saved: it is a {type(value).__name__}",
            hint="state_dict() must hold tensors, numbers, text, lists, tuples and dicts only",
        )
    flat = value.detach().cpu().contiguous().reshape(-1)
    data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    kind = str(value.dtype).removeprefix("torch.")
    return [kind, list(value.shape), base64.b64encode(data).decode()]


def _tensor(told: Json) -> Tensor:
    kind, shape, text = told
    dtype = getattr(torch, str(kind), None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"no numbers are called {kind!r:.40}")
    data = bytearray(base64.b64decode(text))
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(data, dtype=dtype).reshape(shape)
