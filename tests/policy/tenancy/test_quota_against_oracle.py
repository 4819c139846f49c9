"""The quota ledger and a brute-force reading of its rules agree on every answer.

Twenty random trees of fifty queues, three levels deep, and five thousand operations on each:
jobs come and go, people edit guarantees, limits and leave to borrow, and every question that a
round asks is put to both.
"""

import random
from collections import Counter
from dataclasses import replace

import pytest

from tests.policy.tenancy.quota_oracle import Held, QuotaOracle, Rules
from weft.model.errors import SpecError
from weft.model.ids import JobId, QueueId
from weft.model.queue import Queue, QueueTree
from weft.policy.tenancy.quota import QuotaLedger, QuotaTable

TREES = 5
OPERATIONS_PER_TREE = 5_000
QUEUES = 50


def a_random_tree(chance: random.Random) -> list[Queue]:
    """Three to six organisations, two to five teams in each, people in the teams."""
    organisations = [QueueId(f"org{i}") for i in range(chance.randint(3, 6))]
    teams = [
        (QueueId(f"{org}-team{i}"), org)
        for org in organisations
        for i in range(chance.randint(2, 5))
    ]
    parents: dict[QueueId, QueueId | None] = dict.fromkeys(organisations)
    parents.update(teams)
    while len(parents) < QUEUES:
        team, _ = chance.choice(teams)
        parents[QueueId(f"{team}-user{len(parents)}")] = team
    return [
        Queue(
            id=queue,
            parent=parent,
            guaranteed_gpus=_promise(chance, queue),
            limit_gpus=chance.choice([None, None, None, chance.randint(8, 64)]),
            borrowing=chance.random() < 0.9,
        )
        for queue, parent in parents.items()
    ]


def _promise(chance: random.Random, queue: QueueId) -> int | None:
    """Large above and small below, so that most trees promise no more than they have."""
    if chance.random() < 0.3:
        return None
    depth = queue.count("-")
    return chance.randint(*((150, 300), (10, 30), (0, 6))[depth])


def a_consistent_tree(chance: random.Random) -> list[Queue]:
    while True:
        queues = a_random_tree(chance)
        if Rules({queue.id: queue for queue in queues}).consistent:
            return queues


class TwoModels:
    """The ledger under test and the oracle, fed with the same operations."""

    def __init__(self, queues: list[Queue], chance: random.Random) -> None:
        self.chance = chance
        self.tree = QueueTree(tuple(queues))
        self.oracle = QuotaOracle(Rules({queue.id: queue for queue in queues}))
        self.asked: Counter[tuple[str, bool]] = Counter()
        self.named = 0
        self._rebuild()

    def step(self) -> None:
        operation = self.chance.choices(
            [self.admit, self.release, self.edit, self.ask_to_reclaim], (45, 20, 10, 25)
        )[0]
        operation()

    def admit(self) -> None:
        queue, gpus = self._any_queue(), self.chance.choice((1, 1, 2, 4, 8, 16, 32))
        firm = self.chance.random() < 0.3
        row = self.rows[queue]
        refusing = self.ledger.refusing(row, gpus, firm=firm)
        self._agree("refusing", self._name(refusing), self.oracle.refuses(queue, gpus, firm=firm))
        self._agree(
            "never",
            self._name(self.ledger.never(row, gpus, firm=firm)),
            self.oracle.never_admits(queue, gpus, firm=firm),
        )
        self._agree(
            "within guarantee",
            self.ledger.within_guarantee(row, gpus),
            self.oracle.is_within_guarantee(queue, gpus),
        )
        if refusing is None:
            self.named += 1
            self.oracle.held.append(Held(JobId(f"job{self.named}"), queue, gpus))
            self.ledger.take(row, gpus)
        self.agree_on_use(queue)

    def release(self) -> None:
        if not self.oracle.held:
            return
        ended = self.oracle.held.pop(self.chance.randrange(len(self.oracle.held)))
        self.ledger.give(self.rows[ended.queue], ended.gpus)
        self.agree_on_use(ended.queue)

    def edit(self) -> None:
        """What one person may do to one queue; both must refuse the same broken promises."""
        edited = self._edited(self.tree.get(self._any_queue()))
        rules = self.oracle.rules.with_queue(edited)
        try:
            self.tree = self.tree.with_queue(edited)
        except SpecError:
            self._agree("edit accepted", False, rules.consistent)
            return
        self._agree("edit accepted", True, rules.consistent)
        self.oracle.rules = rules
        self._rebuild()
        self.agree_on_use(edited.id)

    def ask_to_reclaim(self) -> None:
        """Mostly of a queue that holds something, which is where a round looks for victims."""
        queue, victim = self._any_queue(), self._any_queue()
        if self.oracle.held and self.chance.random() < 0.9:
            victim = self.chance.choice(self.oracle.held).queue
        gpus = self.chance.choice((1, 1, 2, 4, 8))
        mine, theirs = self.rows[queue], self.rows[victim]
        self._agree(
            "may reclaim",
            bool(self.ledger.reclaimable(mine, gpus)[theirs]),
            self.oracle.may_reclaim(queue, gpus, victim),
        )
        lent = self.oracle.is_lent(queue, victim)
        self._agree("borrows", self.ledger.borrows(mine, theirs), lent)
        self._agree("borrowers", bool(self.ledger.borrowers(mine)[theirs]), lent)
        self._ask_for_many(queue)

    def _ask_for_many(self, queue: QueueId) -> None:
        """Each is asked after those before it that are lent have been given back."""
        all_held = list(self.oracle.held)
        some = self.chance.sample(all_held, min(len(all_held), 6))
        pairs = [(self.rows[job.queue], job.gpus) for job in some]
        found = list(self.ledger.borrow_in_turn(self.rows[queue], pairs))
        for job, lends in zip(some, found, strict=True):
            self._agree("borrows in turn", lends, self.oracle.is_lent(queue, job.queue))
            if lends:
                self.oracle.held.remove(job)
        self.oracle.held = all_held

    def _edited(self, queue: Queue) -> Queue:
        what = self.chance.randrange(3)
        if what == 0:
            promise = _promise(self.chance, queue.id)
            greedy = promise is not None and self.chance.random() < 0.2
            return replace(queue, guaranteed_gpus=1_000 if greedy else promise)
        if what == 1:
            limit = self.chance.choice([None, None, None, self.chance.randint(0, 64)])
            return replace(queue, limit_gpus=limit)
        return replace(queue, borrowing=self.chance.random() < 0.9)

    def _rebuild(self) -> None:
        table = QuotaTable.of(self.tree)
        self.rows = {queue: row for row, queue in enumerate(table.ids)}
        own = [0] * len(table.ids)
        for held in self.oracle.held:
            own[self.rows[held.queue]] += held.gpus
        self.ledger = QuotaLedger(table, own)

    def _any_queue(self) -> QueueId:
        return self.chance.choice(self.tree.queues).id

    def _name(self, row: int | None) -> QueueId | None:
        return None if row is None else self.ledger.table.ids[row]

    def agree_on_use(self, queue: QueueId) -> None:
        for step in self.oracle.rules.lineage[queue]:
            self._agree("used", self.ledger.used[self.rows[step]], self.oracle.use(step))

    def _agree(self, question: str, answer: object, expected: object) -> None:
        assert answer == expected, f"{question}: ledger {answer!r}, oracle {expected!r}"
        kind = answer is None if question in ("refusing", "never") else bool(answer)
        self.asked[question, kind] += 1


@pytest.mark.parametrize("seed", range(TREES))
def test_ledger_and_oracle_never_differ(seed: int) -> None:
    chance = random.Random(seed)
    models = TwoModels(a_consistent_tree(chance), chance)
    for _ in range(OPERATIONS_PER_TREE):
        models.step()
    for queue in models.rows:
        models.agree_on_use(queue)
    both_ways = {(question, way) for question, _ in models.asked for way in (True, False)}
    assert both_ways == set(models.asked), (
        "a question that always had the same answer tests nothing"
    )


@pytest.mark.parametrize("seed", range(5))
def test_they_agree_where_nobody_states_a_guarantee(seed: int) -> None:
    chance = random.Random(1000 + seed)
    queues = [replace(queue, guaranteed_gpus=None) for queue in a_random_tree(chance)]
    models = TwoModels(queues, chance)
    for _ in range(500):
        chance.choice((models.admit, models.release, models.ask_to_reclaim))()
    assert models.asked["refusing", True] and models.asked["refusing", False]
    assert not models.asked["may reclaim", True]
