"""Who may run where, after any sequence of changes to queues, namespaces and jobs (`tenancy`).

Whoever is given a seat must be allowed to have it by what the objects say at that moment; whoever
is allowed one gets it, since there is room for all. `python -m tools.explore --kind operator` plays
other sequences.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from tests.kube.operator.tenancy import Play
from weft.brain.event import Event, QueueChanged
from weft.kube.operator import intake
from weft.kube.operator.decider import Decider
from weft.kube.operator.intake import Intake
from weft.kube.operator.observation import queue_tree as rules
from weft.kube.operator.observation.queue import ObservedQueue
from weft.model.ids import QueueId, TenantId
from weft.model.queue import QueueTree

SEQUENCES = 60
CHUNKS = 2

Queues = Mapping[str, ObservedQueue]


def played(seeds: range) -> tuple[int, int, int]:
    """Steps, seats and refusals in all."""
    steps = seats = refusals = 0

    async def scene() -> None:
        nonlocal steps, seats, refusals
        for seed in seeds:
            play = Play(seed)
            try:
                play.play()
            except Exception as error:
                error.add_note(f"seed {seed}")
                raise
            steps, seats, refusals = (
                steps + play.steps,
                seats + play.seats,
                refusals + play.refusals,
            )

    asyncio.run(scene())
    return steps, seats, refusals


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_nobody_is_ever_seated_where_the_objects_do_not_allow_it(chunk: int) -> None:
    each = SEQUENCES // CHUNKS
    steps, seats, refusals = played(range(chunk * each, (chunk + 1) * each))
    print(f"{each} sequences, {steps} steps, {seats} seats, {refusals} refusals")  # noqa: T201
    assert min(seats, refusals) > each, "sequences in which nothing is at stake show nothing"


# --- what the sequences must find -----------------------------------------------------------------

_for, _tree, _deliver = rules.queue_for, rules.build_tree, Decider.deliver
_changed = Intake.queue_changed


def once(state: object, jobs: object, queues: object) -> bool:
    """Membership is looked at when a job is submitted, and never again."""
    return False


def any_priority(asked: QueueId, tenant: TenantId, priority: int, queues: Queues) -> QueueId:
    return _for(asked, tenant, -1000, queues)


def alike(queue: ObservedQueue | None, namespace: str) -> bool:
    """A namespace that begins like one on the list is let in."""
    named = queue.spec.namespaces if queue and queue.spec else []
    return not named or any(namespace.startswith(one) for one in named)


def open_where_none_is_usable(queues: Queues) -> tuple[QueueTree, dict[str, str]]:
    tree, faults = _tree(queues)
    return (QueueTree() if tree == rules.CLOSED else tree), faults


def without_parents(queues: Queues) -> tuple[QueueTree, dict[str, str]]:
    """A queue whose parent is not there is taken for a root."""
    return _tree({name: _as_root(queue, queues) for name, queue in queues.items()})


def _as_root(queue: ObservedQueue, queues: Queues) -> ObservedQueue:
    if queue.spec is None or queue.spec.parent in (None, *queues):
        return queue
    return replace(queue, spec=queue.spec.model_copy(update={"parent": None}))


def deaf_to_limits(self: Decider, event: Event) -> None:
    if not isinstance(event, QueueChanged):
        _deliver(self, event)


def deaf_to_removals(
    self: Intake, key: str, old: ObservedQueue | None, new: ObservedQueue | None
) -> None:
    if new is not None:
        _changed(self, key, old, new)


MUTANTS: dict[str, tuple[object, str, Callable[..., Any]]] = {
    "membership is looked at once": (intake, "misplaced", once),
    "any priority will do": (rules, "queue_for", any_priority),
    "names that are alike are the same": (rules, "admits", alike),
    "unusable queues leave the door open": (intake, "build_tree", open_where_none_is_usable),
    "a missing parent is none": (intake, "build_tree", without_parents),
    "limits are not told": (Decider, "deliver", deaf_to_limits),
    "removed queues stay": (Intake, "queue_changed", deaf_to_removals),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_sequences_find(mutant: str) -> None:
    where, name, wrong = MUTANTS[mutant]
    with patch.object(where, name, wrong), pytest.raises(AssertionError):
        played(range(150))
