"""A stream that tells its own state is resumed there, and not read again from its beginning."""

import copy
import logging
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import IterableDataset

from weft.train.data.loader import Loader
from weft.train.data.split import Share, shares

BATCH, SAMPLES = 4, 10


class Counting(IterableDataset[int]):
    """Counts in itself how many of a pass it has given, and all that it ever gave."""

    def __init__(self) -> None:
        self.at = 0
        self.given: list[int] = []

    def __iter__(self) -> Iterator[int]:
        while self.at < SAMPLES:
            self.at += 1
            self.given.append(self.at - 1)
            yield self.at - 1
        self.at = 0

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at = state["at"]


class Shuffling(Counting):
    """Has another order in each pass, by a counter and a generator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.passes = 0

    def __iter__(self) -> Iterator[int]:
        order = torch.randperm(
            SAMPLES, generator=torch.Generator().manual_seed(self.passes)
        ).tolist()
        while self.at < SAMPLES:
            self.at += 1
            self.given.append(order[self.at - 1])
            yield order[self.at - 1]
        self.at, self.passes = 0, self.passes + 1

    def state_dict(self) -> dict[str, Any]:
        return {"at": torch.tensor(self.at), "passes": (self.passes,)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at, (self.passes,) = int(state["at"]), state["passes"]


class GoesBack(Counting):
    """Begins where it was told to whenever it is iterated, also in its next pass."""

    def __init__(self) -> None:
        super().__init__()
        self.start = {"at": 0}

    def __iter__(self) -> Iterator[int]:
        self.at = self.start["at"]
        for number in range(self.at, SAMPLES):
            self.at += 1
            self.given.append(number)
            yield number

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.start = state


class Iterated(IterableDataset[int]):
    """Its iterator tells the state, and it has none itself."""

    def __init__(self) -> None:
        self.given: list[int] = []

    def __iter__(self) -> "Place":
        return Place(self.given)


class Place:
    def __init__(self, given: list[int]) -> None:
        self.at, self.given = 0, given

    def __iter__(self) -> "Place":
        return self

    def __next__(self) -> int:
        if self.at == SAMPLES:
            raise StopIteration
        self.at += 1
        self.given.append(self.at - 1)
        return self.at - 1

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at = state["at"]


def whole(step: int) -> Share:
    (share,) = shares(step, BATCH, 1, 0)
    return share


Maker = Callable[[Any], Loader]


@pytest.fixture
def a_loader() -> Iterator[Maker]:
    """Makes loaders that are closed with the test."""
    made: list[Loader] = []

    def make(dataset: IterableDataset[int]) -> Loader:
        made.append(Loader(dataset, BATCH))
        return made[-1]

    yield make
    for loader in made:
        loader.close()


def steps(loader: Loader, numbers: range) -> list[list[int]]:
    return [loader.fetch(whole(number)).data.tolist() for number in numbers]


KINDS: list[Any] = [Counting, Shuffling, GoesBack, Iterated]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", range(1, 9))
def test_another_process_goes_on_at_any_step_and_reads_nothing_twice(
    a_loader: Maker, kind: type[Counting], at: int
) -> None:
    """Also at the end of a pass, within the second one and beyond it."""
    expected = steps(a_loader(kind()), range(12))
    first = a_loader(kind())
    assert steps(first, range(at + 1)) == expected[: at + 1], "one step ahead of the training"
    mark = first.mark(at * BATCH)
    assert mark is not None
    assert mark[0] == at * BATCH

    dataset = kind()
    again = a_loader(dataset)
    again.fetch(Share(0, 2, last=True))  # to warm up on
    warmed = len(dataset.given)
    again.learn(list(mark))
    assert steps(again, range(at, 12)) == expected[at:]
    spared = GoesBack is kind  # which reads one sample of a pass in vain, to be found out
    assert len(dataset.given) - warmed <= (12 - at) * BATCH + spared
    assert steps(again, range(at - 1, at + 1)) == expected[at - 1 : at + 1], "back by a step"


def test_what_is_told_to_another_worker_is_the_same(
    a_loader: Maker, caplog: pytest.LogCaptureFixture
) -> None:
    loader = a_loader(Shuffling())
    steps(loader, range(3))
    read = loader.read_for_another(Share(9, 11, last=True))
    follower = a_loader(Shuffling())
    follower.follow(lambda share: read)
    follower.fetch(Share(9, 11, last=True))
    follower.follow(None)
    assert steps(follower, range(2, 5)) == steps(loader, range(2, 5))
    for nonsense in (None, [1], [-4, {}], [8, {"$": "code"}], "x", [8, {"at": {"$": "leaf"}}]):
        follower.learn(nonsense)
    assert "cannot be used" in caplog.text


class CountsLate(Counting):
    """As a generator is often written: the state is right only when the next one is asked for."""

    def __iter__(self) -> Iterator[int]:
        while self.at < SAMPLES:
            yield self.at
            self.at += 1
        self.at = 0


class Unsavable(Counting):
    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at, "random": random.Random(self.at)}


@pytest.mark.parametrize(
    ("kind", "why"), [(CountsLate, "same before and after"), (Unsavable, "stream/random")]
)
def test_a_state_that_would_repeat_samples_or_cannot_be_kept_is_not_used(
    a_loader: Maker, kind: type[Counting], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        loader = a_loader(kind())
        found = steps(loader, range(5))
    assert found == steps(a_loader(Counting()), range(5))
    assert loader.mark(8) is None
    assert why in caplog.text
    assert caplog.text.count("read from its beginning") == 1


def test_states_are_copies_and_few_are_kept(a_loader: Maker) -> None:
    class Living(Counting):
        def __init__(self) -> None:
            super().__init__()
            self.state = {"at": 0}

        def state_dict(self) -> dict[str, Any]:
            self.state["at"] = self.at
            return self.state

    loader = a_loader(Living())
    steps(loader, range(1))
    early = copy.deepcopy(loader.mark(BATCH))
    steps(loader, range(1, 2))
    assert loader.mark(BATCH) == early
    steps(loader, range(2, 40))
    assert loader._stream is not None
    assert len(loader._stream.marks._states) <= 8


def test_a_stream_that_tells_its_state_no_more_is_gone_through(
    a_loader: Maker, caplog: pytest.LogCaptureFixture
) -> None:
    class Plain(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(range(SAMPLES))

    before = a_loader(Counting())
    expected = steps(before, range(5))
    now = a_loader(Plain())
    now.learn(list(before.mark(4 * BATCH) or ()))
    assert steps(now, range(4, 5)) == expected[4:]
    assert "told its state before" in caplog.text
