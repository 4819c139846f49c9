"""A worker gets the samples of its shares, whatever was hinted, retried or resized before."""

import threading
import traceback
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any, NamedTuple, TypeAlias

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import IterableDataset, TensorDataset

from tests.waiting import HANG_SECONDS
from weft.model.errors import InvariantBreach, SpecError
from weft.train.data.loader import Loader, MicroBatch
from weft.train.data.split import Share, shares

Maker: TypeAlias = Callable[..., Loader]


class Squares:
    """Sample i is (i, i²); it tells which were read and by which threads."""

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self.read: list[int] = []
        self.threads: set[int] = set()

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[int, int]:
        self.read.append(index)
        self.threads.add(threading.get_ident())
        return index, index * index


class Gated(Squares):
    """Its reading stops at one sample until the gate is opened."""

    def __init__(self, samples: int, at: int) -> None:
        super().__init__(samples)
        self.at = at
        self.reached, self.gate = threading.Event(), threading.Event()

    def __getitem__(self, index: int) -> tuple[int, int]:
        sample = super().__getitem__(index)
        if index == self.at:
            self.reached.set()
            assert self.gate.wait(HANG_SECONDS)
        return sample


class Numbers(IterableDataset[int]):
    """The stream 0, 1, … of one pass; it tells what was given and how often it was opened."""

    def __init__(self, samples: int, first: int = 0) -> None:
        self.samples = samples
        self.first = first
        self.given: list[int] = []
        self.opened = 0

    def __iter__(self) -> Iterator[int]:
        self.opened += 1
        for number in range(self.first, self.samples):
            self.given.append(number)
            yield number


class Skipping(Numbers):
    """The same with a `skip`, whose parts report to the whole."""

    def __init__(self, samples: int, first: int = 0) -> None:
        super().__init__(samples, first)
        self.skips: list[int] = []

    def skip(self, count: int) -> "Skipping":
        rest = Skipping(self.samples, self.first + count)
        self.skips.append(count)
        rest.given = self.given
        return rest


class Thing:
    """A sample of which it can be seen whether anybody still holds it."""

    def __init__(self, number: int) -> None:
        self.number = number


def numbers_of(samples: list[Thing]) -> list[int]:
    return [thing.number for thing in samples]


def as_tuple(samples: list[Any]) -> tuple[Any, ...]:
    return tuple(samples)


def whole(step: int, batch: int) -> Share:
    (share,) = shares(step, batch, 1, 0)
    return share


def loader_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "weft-loader" in thread.name]


@pytest.fixture
def a_loader() -> Iterator[Maker]:
    """Makes loaders that are closed with the test, and leave no thread behind."""
    made: list[Loader] = []

    def make(*given: Any, **named: Any) -> Loader:
        made.append(Loader(*given, **named))
        return made[-1]

    yield make
    for loader in made:
        loader.close()
    assert loader_threads() == []


# --- what a micro-batch is ----------------------------------------------------------------------


def test_samples_are_collated_and_unpack(a_loader: Maker) -> None:
    loader = a_loader(Squares(8), global_batch=4, shuffle=False, micro=3)
    batch = loader.fetch(Share(4, 6, last=False))
    x, y = batch
    assert (x.tolist(), y.tolist()) == ([4, 5], [16, 25])
    assert (batch.x.tolist(), batch.y.tolist(), batch[1].tolist()) == ([4, 5], [16, 25], [16, 25])
    assert (batch.ids, batch.samples, batch.step) == ((4, 5), 2, 1)
    assert (batch.last, batch.warmup) == (False, False)
    again = loader.fetch(Share(6, 8, last=True), warmup=True)
    assert (again.ids, again.last, again.warmup) == ((6, 7), True, True)
    assert (loader.global_batch, loader.micro, loader.seed) == (4, 3, 0)


def test_a_collate_function_of_the_user_is_used(a_loader: Maker) -> None:
    loader = a_loader(Squares(4), global_batch=2, shuffle=False, collate=as_tuple)
    assert loader.fetch(whole(0, 2)).data == ((0, 0), (1, 1))


def a_batch(data: object) -> MicroBatch:
    return MicroBatch(data, ids=(3,), step=0, last=True)


def test_a_bare_tensor_is_its_own_x() -> None:
    batch = a_batch(torch.ones(1, 2))
    assert batch.x is batch.data
    with pytest.raises(SpecError, match="no y"):
        _ = batch.y


def test_a_batch_that_is_no_pair_is_taken_by_key() -> None:
    batch = a_batch({"text": torch.ones(1)})
    assert batch["text"].tolist() == [1.0]
    assert list(batch) == ["text"]
    with pytest.raises(SpecError, match="dict has no x"):
        _ = batch.x


class Pair(NamedTuple):
    left: torch.Tensor
    name: str


def test_a_batch_moves_to_a_device_as_a_whole() -> None:
    data = [torch.ones(1), {"a": (torch.ones(1), "words")}, Pair(torch.ones(1), "pair")]
    batch = a_batch(data)
    moved = batch.to("meta")
    assert moved[0].device.type == moved[1]["a"][0].device.type == "meta"
    assert moved[2].left.device.type == "meta"
    assert (moved[1]["a"][1], moved[2].name) == ("words", "pair")
    assert (moved.ids, moved.last, moved.step) == (batch.ids, batch.last, batch.step)
    assert batch[0].device.type == "cpu", "the batch itself stays where it is"


# --- datasets with an index ----------------------------------------------------------------------


@given(
    samples=st.integers(1, 30),
    batch=st.integers(1, 12),
    crowds=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    micro=st.none() | st.integers(1, 4),
)
def test_every_sample_is_used_once_per_pass_for_any_sequence_of_worlds(
    samples: int, batch: int, crowds: list[int], micro: int | None
) -> None:
    used: list[int] = []
    for step, workers in enumerate(crowds):
        for rank in range(workers):
            with closing(Loader(Squares(samples), batch, seed=5, micro=micro)) as loader:
                for share in shares(step, batch, workers, rank, micro):
                    used += loader.fetch(share).ids
    passes, rest = divmod(len(used), samples)
    counts = Counter(used)
    assert all(counts[index] in (passes, passes + (rest > 0)) for index in range(samples))
    assert sum(counts[index] > passes for index in range(samples)) == rest


def test_a_torch_dataset_is_read_several_at_a_time_where_it_can(a_loader: Maker) -> None:
    class Several(Squares):
        def __getitems__(self, indices: list[int]) -> list[tuple[int, int]]:
            self.asked = indices
            return [(index, -index) for index in indices]

    dataset = Several(6)
    loader = a_loader(dataset, 6, shuffle=False)
    assert loader.fetch(whole(0, 6)).y.tolist() == [0, -1, -2, -3, -4, -5]
    assert (dataset.asked, dataset.read) == ([0, 1, 2, 3, 4, 5], [])


def test_a_dataset_that_gives_too_few_samples_is_refused(a_loader: Maker) -> None:
    class Forgetful(Squares):
        def __getitems__(self, indices: list[int]) -> list[tuple[int, int]]:
            return [(0, 0)] * (len(indices) - 1)

    loader = a_loader(Forgetful(4), 4)
    with pytest.raises(SpecError, match="3 samples for 4 indices"):
        loader.fetch(whole(0, 4))


def test_the_dataset_is_asked_by_one_thread_that_is_not_the_caller(a_loader: Maker) -> None:
    dataset = Squares(12)
    loader = a_loader(dataset, 4, workers=1)
    loader.expect([whole(1, 4)])
    for step in (0, 1, 2):
        loader.fetch(whole(step, 4))
    assert len(dataset.threads) == 1
    assert threading.get_ident() not in dataset.threads


def test_workers_read_one_share_side_by_side(a_loader: Maker) -> None:
    meeting = threading.Barrier(3)

    class Meeting(Squares):
        def __getitem__(self, index: int) -> tuple[int, int]:
            meeting.wait(HANG_SECONDS)
            return super().__getitem__(index)

    loader = a_loader(Meeting(6), 6, shuffle=False, workers=3)
    assert loader.fetch(whole(0, 6)).ids == (0, 1, 2, 3, 4, 5)
    assert loader.fetch(whole(0, 6)).x.tolist() == [0, 1, 2, 3, 4, 5]


def test_steps_of_a_pass() -> None:
    assert Loader(Squares(8), 4).steps_per_epoch == 2
    assert Loader(Squares(9), 4).steps_per_epoch == 3
    assert Loader(TensorDataset(torch.ones(3)), 4).steps_per_epoch == 1
    assert Loader(Numbers(8), 4).steps_per_epoch is None


# --- reading ahead -------------------------------------------------------------------------------


def test_what_is_expected_is_read_in_the_background_and_only_once(a_loader: Maker) -> None:
    dataset = Gated(8, at=7)
    loader = a_loader(dataset, 4, shuffle=False)
    loader.expect([whole(0, 4), whole(1, 4)])
    assert dataset.reached.wait(HANG_SECONDS), "all of it was read and nothing fetched"
    dataset.gate.set()
    assert [loader.fetch(whole(step, 4)).ids for step in (0, 1)] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert dataset.read == list(range(8))


def test_a_hint_serves_whether_or_not_it_knew_which_share_is_the_last(a_loader: Maker) -> None:
    dataset = Squares(4)
    loader = a_loader(dataset, 4, shuffle=False)
    loader.expect([Share(0, 2, last=False)])
    assert loader.fetch(Share(0, 2, last=True)).last
    assert dataset.read == [0, 1]


def test_a_hint_that_is_replaced_is_no_longer_read(a_loader: Maker) -> None:
    dataset = Gated(16, at=0)
    loader = a_loader(dataset, 4, shuffle=False)
    loader.expect([whole(0, 4), whole(1, 4), whole(2, 4)])
    assert dataset.reached.wait(HANG_SECONDS)
    loader.expect([whole(2, 4), whole(3, 4)])
    dataset.gate.set()
    assert loader.fetch(whole(3, 4)).ids == (12, 13, 14, 15)
    assert dataset.read == [0, 1, 2, 3, *range(8, 16)]


def test_what_nobody_expected_is_read_before_all_hints(
    a_loader: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = Gated(16, at=0)
    surprise = whole(3, 4)
    submit = ThreadPoolExecutor.submit

    def opening_the_gate(pool: ThreadPoolExecutor, /, *work: Any) -> Future[Any]:
        begun = submit(pool, *work)
        if surprise in work:
            dataset.gate.set()
        return begun

    monkeypatch.setattr(ThreadPoolExecutor, "submit", opening_the_gate)
    loader = a_loader(dataset, 4, shuffle=False)
    loader.expect([whole(0, 4), whole(1, 4), whole(2, 4)])
    assert dataset.reached.wait(HANG_SECONDS)
    assert loader.fetch(surprise).ids == (12, 13, 14, 15)
    assert dataset.read[:8] == [0, 1, 2, 3, 12, 13, 14, 15]
    assert loader.fetch(whole(2, 4)).ids == (8, 9, 10, 11)
    assert dataset.read[8:] == [4, 5, 6, 7, 8, 9, 10, 11], "the hints were read after it"


def test_no_more_is_held_than_what_was_hinted(a_loader: Maker) -> None:
    alive: weakref.WeakSet[Thing] = weakref.WeakSet()

    class Things(Squares):
        def __getitem__(self, index: int) -> Thing:  # type: ignore[override]
            thing = Thing(index)
            alive.add(thing)
            return thing

    loader = a_loader(Things(400), 4, shuffle=False, collate=as_tuple)
    for step in range(50):
        loader.expect([whole(step + 50, 4), whole(step, 4)])
        batch = loader.fetch(whole(step, 4))
        del batch
        assert len(alive) <= 3 * 4, "two hints and one that was withdrawn while it was read"
    loader.close()
    assert len(alive) == 0


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("hinted", [False, True])
def test_what_the_dataset_raises_comes_out_of_fetch(
    a_loader: Maker, workers: int, hinted: bool
) -> None:
    class Broken(Squares):
        def __getitem__(self, index: int) -> tuple[int, int]:
            if index == 2:
                raise KeyError("no file for sample 2")
            return super().__getitem__(index)

    loader = a_loader(Broken(8), 4, shuffle=False, workers=workers)
    for _ in range(2):
        if hinted:
            loader.expect([whole(0, 4), whole(1, 4)])
        with pytest.raises(KeyError, match="sample 2") as raised:
            loader.fetch(whole(0, 4))
        frames = traceback.extract_tb(raised.value.__traceback__)
        assert frames[-1].filename == __file__
        assert frames[-1].name == "__getitem__"
        assert loader.fetch(whole(1, 4)).ids == (4, 5, 6, 7), "the loader goes on"


@pytest.mark.parametrize("workers", [0, 3])
def test_a_closed_loader_leaves_no_thread_and_can_be_used_again(
    a_loader: Maker, workers: int
) -> None:
    dataset = Gated(40, at=0)
    loader = a_loader(dataset, 4, shuffle=False, workers=workers)
    loader.close()
    loader.expect([whole(step, 4) for step in range(10)])
    assert dataset.reached.wait(HANG_SECONDS)
    assert loader_threads() != []
    dataset.gate.set()
    loader.close()
    loader.close()
    assert loader_threads() == []
    assert loader.fetch(whole(9, 4)).ids == (36, 37, 38, 39)
    loader.close()
    assert loader_threads() == []


def test_a_loader_that_nobody_holds_any_more_ends_its_threads() -> None:
    loader = Loader(Squares(8), 4, workers=2)
    loader.fetch(whole(0, 4))
    threads = [thread for thread in threading.enumerate() if "weft-loader" in thread.name]
    assert threads
    del loader
    for thread in threads:
        thread.join(HANG_SECONDS)
    assert not any(thread.is_alive() for thread in threads)


# --- streams -------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [Numbers, Skipping])
def test_a_stream_is_shared_out_and_runs_over_its_passes(
    a_loader: Maker, make: type[Numbers]
) -> None:
    seen: list[tuple[int, int]] = []
    for rank in range(3):
        loader = a_loader(make(10), 4, collate=as_tuple)
        for step in range(6):
            for share in shares(step, 4, 3, rank):
                batch = loader.fetch(share)
                seen += zip(batch.ids, batch.data, strict=True)
    assert sorted(seen) == [(position, position % 10) for position in range(24)]


def test_a_step_can_be_repeated_without_reading_again(a_loader: Maker) -> None:
    stream = Numbers(100)
    loader = a_loader(stream, 8)
    first, second = shares(3, 8, 2, 1, micro=2)
    before = [loader.fetch(share).data.tolist() for share in (first, second)]
    given = len(stream.given)
    after = [loader.fetch(share).data.tolist() for share in (first, second)]
    assert before == after == [[28, 29], [30, 31]]
    assert (stream.opened, len(stream.given)) == (1, given)


def test_a_repeated_step_may_need_what_was_anothers_before(a_loader: Maker) -> None:
    stream = Numbers(100)
    loader = a_loader(stream, 8)
    assert loader.fetch(*shares(3, 8, 2, 1)).ids == (28, 29, 30, 31)
    loader.expect(shares(4, 8, 2, 1))
    assert loader.fetch(whole(3, 8)).data.tolist() == list(range(24, 32))
    assert loader.fetch(whole(4, 8)).data.tolist() == list(range(32, 40))
    assert stream.opened == 1
    assert stream.given == list(range(40))


def test_a_step_can_be_repeated_when_the_next_one_was_read_already(a_loader: Maker) -> None:
    reached = threading.Event()

    class Watched(Numbers):
        def __iter__(self) -> Iterator[int]:
            for number in super().__iter__():
                if number == 35:
                    reached.set()
                yield number

    stream = Watched(100)
    loader = a_loader(stream, 8)
    assert loader.fetch(*shares(3, 8, 2, 0)).ids == (24, 25, 26, 27)
    loader.expect(shares(4, 8, 2, 0))
    assert reached.wait(HANG_SECONDS)
    assert loader.fetch(whole(3, 8)).data.tolist() == list(range(24, 32))
    assert loader.fetch(whole(4, 8)).data.tolist() == list(range(32, 40))
    assert (stream.opened, stream.given) == (1, list(range(40)))


def test_a_stream_can_go_back_to_any_step(a_loader: Maker) -> None:
    stream = Numbers(100)
    loader = a_loader(stream, 8)
    for step in (5, 2, 3, 0):
        assert loader.fetch(whole(step, 8)).data.tolist() == list(range(step * 8, step * 8 + 8))
    assert stream.opened == 3, "once for each step back"


class Things(IterableDataset[Thing]):
    """A stream that can tell how many of its samples somebody still holds."""

    def __init__(self) -> None:
        self.alive: weakref.WeakSet[Thing] = weakref.WeakSet()

    def __iter__(self) -> Iterator[Thing]:
        for number in range(10_000):
            thing = Thing(number)
            self.alive.add(thing)
            yield thing
            del thing


def test_a_stream_keeps_the_newest_step_and_what_is_expected(a_loader: Maker) -> None:
    stream = Things()
    loader = a_loader(stream, 4, collate=numbers_of)
    loader.expect([whole(100, 4)])
    loader.expect([whole(600, 4)])
    for step in range(500, 530):
        loader.expect([whole(step, 4), whole(step + 1, 4)])
        assert loader.fetch(whole(step, 4)).data == list(range(step * 4, step * 4 + 4))
        assert len(stream.alive) <= 1 + 3 * 4, "this step, the next and one just withdrawn"
    loader.close()
    assert len(stream.alive) <= 1, "what the stream, which stays open, has given last"


def test_a_stream_forgets_hints_that_were_used(a_loader: Maker) -> None:
    stream = Things()
    loader = a_loader(stream, 4, collate=numbers_of)
    loader.expect([whole(1, 4), whole(2, 4)])
    for step in range(1, 6):
        loader.fetch(whole(step, 4))
    assert len(stream.alive) <= 1 + 2 * 4, "the newest step and the one before it"


def test_a_resumed_stream_skips_what_it_can(a_loader: Maker) -> None:
    stream = Skipping(100)
    loader = a_loader(stream, 8)
    assert loader.fetch(*shares(5, 8, 2, 1)).data.tolist() == [44, 45, 46, 47]
    assert (stream.skips, stream.given) == ([40], list(range(40, 48)))


def test_a_stream_skips_ahead_only_where_most_of_the_way_is_left(a_loader: Maker) -> None:
    stream = Skipping(10_000)
    loader = a_loader(stream, 8)
    for step in (0, 50, 60, 200):
        assert loader.fetch(whole(step, 8)).data.tolist() == list(range(step * 8, step * 8 + 8))
    assert stream.skips == [400, 1600]
    assert stream.given == [*range(8), *range(400, 488), *range(1600, 1608)]


def test_a_stream_is_read_on_from_step_to_step(a_loader: Maker) -> None:
    stream = Skipping(100)
    loader = a_loader(stream, 8)
    for step in range(4):
        loader.fetch(*shares(step, 8, 8, 0))
    assert (stream.skips, stream.given) == ([], list(range(25)))


@pytest.mark.parametrize("samples", [20, 16])
def test_a_resumed_stream_skips_over_whole_passes(a_loader: Maker, samples: int) -> None:
    stream = Skipping(samples)
    loader = a_loader(stream, 8)
    assert loader.fetch(whole(6, 8)).data.tolist() == [at % samples for at in range(48, 56)]
    assert stream.skips == [48, 48 % samples], "in vain, then measured by reading one pass"
    assert loader.fetch(whole(2, 8)).data.tolist() == [at % samples for at in range(16, 24)]
    assert stream.skips[2:] == [16 % samples]


def test_a_stream_that_cannot_skip_is_read_on(a_loader: Maker) -> None:
    stream = Numbers(20)
    loader = a_loader(stream, 8)
    assert loader.fetch(whole(6, 8)).data.tolist() == [8, 9, 10, 11, 12, 13, 14, 15]
    assert (stream.opened, len(stream.given)) == (3, 56)


def test_a_stream_that_failed_is_opened_again_at_the_same_place(a_loader: Maker) -> None:
    class Flaky(Numbers):
        def __iter__(self) -> Iterator[int]:
            for number in super().__iter__():
                if number == 6 and self.opened == 1:
                    raise OSError("connection lost")
                yield number

    loader = a_loader(Flaky(10), 4)
    assert loader.fetch(whole(0, 4)).data.tolist() == [0, 1, 2, 3]
    with pytest.raises(OSError, match="lost"):
        loader.fetch(whole(1, 4))
    assert loader.fetch(whole(1, 4)).data.tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize("make", [Numbers, Skipping])
@pytest.mark.parametrize("step", [0, 3])
def test_a_stream_without_samples_is_refused(
    a_loader: Maker, make: type[Numbers], step: int
) -> None:
    loader = a_loader(make(0), 4)
    with pytest.raises(SpecError, match="no sample in a whole pass"):
        loader.fetch(whole(step, 4))


def test_any_iterable_is_a_stream(a_loader: Maker) -> None:
    class Plain:
        def __iter__(self) -> Iterator[int]:
            return iter((7, 8, 9))

    loader = a_loader(Plain(), 2)
    assert [loader.fetch(whole(step, 2)).data.tolist() for step in range(3)] == [
        [7, 8],
        [9, 7],
        [8, 9],
    ]


def test_a_share_of_several_steps_is_a_defect(a_loader: Maker) -> None:
    loader = a_loader(Numbers(20), 4)
    with pytest.raises(InvariantBreach, match="several steps"):
        loader.fetch(Share(2, 6, last=True))


# --- everything together -------------------------------------------------------------------------

asked = st.tuples(
    st.booleans(), st.integers(0, 12), st.integers(1, 3), st.integers(0, 2), st.none() | st.just(2)
)


@given(
    samples=st.integers(1, 20),
    batch=st.integers(1, 6),
    script=st.lists(asked, max_size=25),
    kind=st.sampled_from(["table", "stream", "skipping"]),
    workers=st.integers(0, 2),
)
def test_hints_retries_and_resizes_never_change_what_a_share_holds(
    samples: int,
    batch: int,
    script: list[tuple[bool, int, int, int, int | None]],
    kind: str,
    workers: int,
) -> None:
    made: dict[str, Any] = {"table": range, "stream": Numbers, "skipping": Skipping}
    dataset = made[kind](samples)
    with closing(
        Loader(dataset, batch, shuffle=False, collate=as_tuple, workers=workers)
    ) as loader:
        for is_hint, step, world, rank, micro in script:
            mine = shares(step, batch, world, rank % world, micro)
            if is_hint:
                loader.expect(mine)
                continue
            for share in mine:
                fetched = loader.fetch(share)
                positions = tuple(range(share.start, share.stop))
                values = tuple(position % samples for position in positions)
                assert fetched.data == values
                assert fetched.ids == (values if kind == "table" else positions)
                assert fetched.step == step


# --- what cannot be loaded -----------------------------------------------------------------------


def test_an_iterator_can_be_read_only_once_and_is_refused() -> None:
    with pytest.raises(SpecError, match="generator can be read only once"):
        Loader((number for number in range(9)), 3)


def test_a_dataset_must_tell_its_length() -> None:
    class Endless:
        def __getitem__(self, index: int) -> int:
            return index

    with pytest.raises(SpecError, match="Endless does not tell its length"):
        Loader(Endless(), 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"global_batch": 0}, "global batch of 0"),
        ({"global_batch": 4, "micro": 0}, "micro-batch of at most 0"),
        ({"global_batch": 4, "fixed": True}, "of no size"),
        ({"global_batch": 4, "workers": -1}, "-1 workers"),
        ({"global_batch": 4, "dataset": []}, "0 samples"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(SpecError, match=why):
        Loader(**({"dataset": Squares(4)} | settings))
