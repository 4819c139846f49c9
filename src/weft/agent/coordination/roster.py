"""The workers of one job, all that there were, and what is to be done with them.

Workers are numbered as they are started and a number is never used again. Workers whose numbers
follow each other hold one model together where a replica has several: they come and go together.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from itertools import count
from signal import SIGKILL
from typing import Any

from weft.agent.coordination.actions import Action, Note, Send, Signal, Spawn, TakeStacks
from weft.agent.coordination.hangs import Hangs
from weft.agent.coordination.worker import Worker, WorkerState
from weft.agent.messages import Members, Message
from weft.agent.plan import Plan


class Roster:
    """Who there is; orders to them are kept until they are taken."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan  # of whoever is enlisted next
        self.workers: dict[int, Worker] = {}
        self.orders: list[Action] = []
        self.next_number = 0
        self._hangs = Hangs()

    def __getitem__(self, number: int) -> Worker:
        return self.workers[number]

    def taken_orders(self) -> list[Action]:
        """What was ordered since they were taken last."""
        orders, self.orders = self.orders, []
        return orders

    @property
    def unit(self) -> int:
        return self.plan.unit

    def follow(self, plan: Plan) -> None:
        """Whoever is enlisted from now on holds the model so."""
        self.plan = plan
        self.next_number = self.rounded_up(self.next_number)

    # ---------------------------------------------------------------------------- who is who

    def alive(self) -> list[Worker]:
        return [w for w in self.workers.values() if w.state is not WorkerState.EXITED]

    def standing(self, state: WorkerState) -> Members:
        """The numbers of those in that state."""
        return tuple(w.number for w in self.workers.values() if w.state is state)

    def coming(self, members: Members) -> list[Worker]:
        """Those on their way to being members."""
        return [
            w
            for w in self.workers.values()
            if w.number not in members and (w.state.starting or w.state is WorkerState.READY)
        ]

    def answering(self, number: int) -> bool:
        """Whether it belongs to an epoch and can be asked."""
        return self.workers[number].state in (WorkerState.ACTIVE, WorkerState.JOINING)

    def has_left(self, number: int) -> bool:
        left = (WorkerState.LEAVING, WorkerState.EXITED, WorkerState.LOST)
        return self.workers[number].state in left

    def whole_units(self, numbers: Members) -> Members:
        """Only those whose replica group is complete: a part of a replica trains nothing."""
        present = Counter(map(self._first, numbers))
        return tuple(n for n in numbers if present[self._first(n)] == self._unit(n))

    def _unit(self, number: int) -> int:
        return self.workers[number].plan.unit if number in self.workers else self.unit

    def _first(self, number: int) -> int:
        """Of those who hold a model together."""
        return number - number % self._unit(number)

    def rounded_up(self, wanted: int) -> int:
        """In whole replicas."""
        return -(-wanted // self.unit) * self.unit

    def mates(self, number: int) -> list[Worker]:
        """Those who hold a model together with it."""
        first = self._first(number)
        numbers = (n for n in range(first, first + self._unit(number)) if n != number)
        return [self.workers[n] for n in numbers if n in self.workers]

    def lost_its_mates(self, number: int, departed: Collection[int]) -> bool:
        """Whoever holds a model together with one that died fails too, in the user's own code."""
        gone = (WorkerState.LOST, WorkerState.EXITED)
        return any(w.state in gone and w.number not in departed for w in self.mates(number))

    # ------------------------------------------------------------------------------- orders

    def enlist(self, width: int, now: float) -> None:
        """One more, with the lowest rank that nobody alive has: it may stand for a device."""
        taken = {worker.rank for worker in self.alive() if worker.plan == self.plan}
        rank = next(rank for rank in count() if rank not in taken)
        number = self.next_number
        self.next_number += 1
        self.workers[number] = Worker(number, rank=rank, heard_seconds=now, plan=self.plan)
        self.orders.append(Spawn(number, rank, width, self.plan))

    def inherit(self, workers: Iterable[Worker], next_number: int) -> None:
        """Workers that another head has started; a number that it has used is not used again."""
        self.workers = {worker.number: worker for worker in workers}
        for worker in self.workers.values():
            worker.plan = self.plan
        self.next_number = self.rounded_up(max([next_number, *(n + 1 for n in self.workers)]))

    def tell(self, numbers: Iterable[int], message: Message) -> None:
        """Say it to each of them, once."""
        self.orders += [Send(number, message) for number in dict.fromkeys(numbers)]

    def note(self, event: str, **facts: Any) -> None:
        """Let it be known outside."""
        self.orders.append(Note(event, facts))

    def signal(self, worker: Worker, number: int) -> None:
        self.orders.append(Signal(worker.number, number))

    def dismiss(self, workers: Iterable[Worker]) -> None:
        """Let them go, unless they are going."""
        for worker in list(workers):
            if worker.state is not WorkerState.LEAVING:
                self.kill(worker)

    def end_hung(self, hung: Worker, epoch: int, seconds: float, limit_seconds: float) -> int:
        """It makes no progress: where everybody stands is written down, and it goes.

        Who hangs is often not who is at fault. Its own answer is the last, and is waited for. Gives
        how often in a row somebody has hung without coming further.
        """
        facts = {"worker": hung.number, "rank": hung.rank, "seconds": seconds}
        self.note("hung", **facts, limit_seconds=limit_seconds)
        others = (worker for worker in self.alive() if worker is not hung)
        self.orders += [TakeStacks(worker.number) for worker in (*others, hung)]
        self.kill(hung)
        return self._hangs.count(hung.step, epoch)

    def kill(self, worker: Worker) -> None:
        if worker.state in (WorkerState.LOST, WorkerState.EXITED):
            return
        worker.become(WorkerState.LOST)
        self.signal(worker, SIGKILL)
