"""A neighbour's copy of a snapshot is the snapshot, byte for byte."""

import threading
from collections import defaultdict
from pathlib import Path
from queue import Queue

import torch
from torch import Tensor

from tests.waiting import HANG_SECONDS
from weft.agent.checkpoint.slot import Slot
from weft.train.groups.flight import Pending
from weft.train.groups.group import Alone
from weft.train.state.book import StateBook
from weft.train.state.peers import PeerCopies
from weft.train.state.snapshot import Snapshots

SEED = 7


class Post:
    """Messages between threads that stand for workers."""

    def __init__(self) -> None:
        self.boxes: defaultdict[tuple[int, int, int], Queue[Tensor]] = defaultdict(Queue)
        self.lock = threading.Lock()

    def box(self, sender: int, to: int, tag: int) -> "Queue[Tensor]":
        with self.lock:
            return self.boxes[sender, to, tag]


class Arrival:
    """A tensor on its way."""

    def __init__(self, box: "Queue[Tensor]", tensor: Tensor) -> None:
        self.box, self.tensor = box, tensor

    def wait(self) -> None:
        self.tensor.copy_(self.box.get(timeout=HANG_SECONDS))


class Thread(Alone):
    """One member of a group of threads."""

    def __init__(self, post: Post, rank: int, size: int) -> None:
        self.post, self.rank, self.size = post, rank, size

    def send(self, tensor: Tensor, to: int, tag: int) -> Pending:
        self.post.box(self.rank, to, tag).put(tensor.clone())
        return Alone().sum(tensor)

    def receive(self, tensor: Tensor, sender: int, tag: int) -> Pending:
        return Arrival(self.post.box(sender, self.rank, tag), tensor)


def snapshot(folder: Path, worker: int) -> Path:
    torch.manual_seed(SEED + worker)
    model = torch.nn.Linear(40, 30)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    saver = Snapshots(folder, worker, StateBook(model, optimizer), job="job", incarnation=1)
    taken = saver.take(5, 80, epoch=2)
    saver.close()
    assert taken is not None
    return taken.path


def test_everyone_keeps_the_snapshot_of_the_one_before(tmp_path: Path) -> None:
    post, size = Post(), 3
    folders = [tmp_path / str(worker) for worker in range(size)]
    slots = []
    for worker, folder in enumerate(folders):
        folder.mkdir()
        slots.append(snapshot(folder, worker))
    told: dict[int, Path] = {}
    copies = [
        PeerCopies(Thread(post, worker, size), folders[worker], origin=(worker - 1) % size)
        for worker in range(size)
    ]
    for worker, copy in enumerate(copies):
        copy.exchange(slots[worker], lambda path, worker=worker: told.update({worker: path}))  # type: ignore[misc]
    for copy in copies:
        copy.wait()
        assert copy.failure is None
    for worker, path in told.items():
        origin = (worker - 1) % size
        assert path.read_bytes() == slots[origin].read_bytes()
        with Slot(path) as held:
            assert (held.sealed.stamp.worker, held.sealed.stamp.step) == (origin, 5)
    assert sorted(told) == [0, 1, 2]


def test_who_took_no_snapshot_sends_none(tmp_path: Path) -> None:
    post = Post()
    folders = [tmp_path / "0", tmp_path / "1"]
    for folder in folders:
        folder.mkdir()
    slot = snapshot(folders[0], 0)
    copies = [PeerCopies(Thread(post, n, 2), folders[n], origin=1 - n) for n in (0, 1)]
    arrived: list[Path] = []
    copies[0].exchange(slot, arrived.append)
    copies[1].exchange(None, arrived.append)
    for copy in copies:
        copy.wait()
    assert [path.parent for path in arrived] == [folders[1]]
    assert not list(folders[0].glob("*.arriving"))
