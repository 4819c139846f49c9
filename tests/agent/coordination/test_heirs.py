"""Who leads next, whom a new head waits for, and what it makes of what they say."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from weft.agent.coordination.heirs import Succession, heirs_of
from weft.agent.coordination.limits import Limits
from weft.agent.coordination.worker import WorkerState
from weft.agent.messages import STATELESS, Brought, Heirs, Here
from weft.agent.plan import Plan
from weft.agent.pods.discovery import Announcer, Head, PlanOrder, Word, present, tell
from weft.agent.pods.mandate import Search
from weft.agent.reports.operator_client import Answer, Destination
from weft.agent.run_folder import RunFolder
from weft.agent.settings import Pod
from weft.train.membership.heads import Heads

KEY = "ab" * 32
NOW = 100.0
MEMBERS = (1, 2)


# ------------------------------------------------------------------------------- who is next


@pytest.mark.parametrize(
    ("members", "closed", "expected"),
    [
        ({}, (), ()),
        ({2: 1, 1: 1}, (), (1, 2)),
        ({1: 1, 2: 1, 3: 1}, (1,), (2, 3, 1)),
        ({1: 1, 2: 1}, (1, 2), (1, 2)),
        ({1: 0, 2: 1}, (), (2,)),
        ({1: 0, 2: 1}, (2,), (2,)),
        (dict.fromkeys(range(1, 9), 1), (), (1, 2, 3)),
    ],
)
def test_heirs_are_those_that_stay(
    members: dict[int, int], closed: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert heirs_of(members, closed) == expected


def a_search(seat: int, *heirs: int) -> Search:
    told = Heirs(1, (1, 2, 3), heirs, MEMBERS, 4)
    pod = Pod(seat=seat, gpus=1, host=f"10.0.0.{seat}")
    return Search(told, pod, Head("10.0.0.9:1", KEY), Limits(), NOW)


def test_the_first_heir_claims_at_once_and_the_next_a_moment_later() -> None:
    first, second, other = a_search(2, 2, 1), a_search(1, 2, 1), a_search(3, 2, 1)
    assert first.may_claim(NOW, MEMBERS, leaves=False) == 2
    assert second.may_claim(NOW + 0.4, MEMBERS, leaves=False) is None
    assert second.may_claim(NOW + 0.5, MEMBERS, leaves=False) == 2
    assert other.may_claim(NOW + 50.0, MEMBERS, leaves=False) is None
    assert first.may_claim(NOW + 1.0, MEMBERS, leaves=True) is None, "who leaves is the last"
    assert first.may_claim(NOW + 1.5, MEMBERS, leaves=True) == 2


@pytest.mark.parametrize("standing", [(), (9,)])
def test_without_a_member_nobody_claims(standing: tuple[int, ...]) -> None:
    """The others could train on, and would not notice."""
    assert a_search(2, 2).may_claim(NOW + 50.0, standing, leaves=False) is None


def test_a_claim_that_nobody_stands_behind_is_followed_by_another() -> None:
    search = a_search(1, 1)
    dead = Head("10.0.0.2:1", KEY, term=2)
    assert search.leads(dead)
    search.is_dead(dead)
    assert not search.leads(dead)
    assert search.may_claim(NOW, MEMBERS, leaves=False) == 3
    assert not search.leads(Head("10.0.0.1:1", KEY, term=3)), "a claim of its own, unanswered"
    assert not search.leads(search.lost)


def test_a_search_ends_with_time_or_when_the_head_has_done_without_this_seat() -> None:
    search = a_search(1, 1)
    assert not search.ends(None, NOW + 60.0)
    assert "no other was found" in search.ends(None, NOW + 60.1)
    assert "as lost" in search.ends(Head("10.0.0.9:1", KEY, lost=(1,)), NOW)
    assert not search.ends(Head("10.0.0.9:1", KEY, lost=(2,)), NOW)


# ------------------------------------------------------------------------- what a new head finds


def here(*members: int, epoch: int = 4, latest: int = 4, settled: bool = True) -> Here:
    committed = 7 if members else STATELESS
    return Here(epoch if members else 0, latest, members, committed, ready=True, settled=settled)


def a_succession(*numbers: int, **said: Here) -> Succession:
    """Seat by seat one worker has been brought; those who have spoken have said this."""
    found = Succession(2, frozenset(), NOW, (1, 2), owed=False, next_worker=5)
    for number in numbers:
        found.brought[number] = number, Brought(number, number, 0, 1)
    found.here = {int(name.removeprefix("w")): one for name, one in said.items()}
    return found


def test_all_members_of_one_epoch_train_on_as_they_are() -> None:
    found = a_succession(1, 2, 3, w1=here(1, 2), w2=here(1, 2), w3=here(latest=6)).inherited(NOW)
    assert (found.intact, found.members, found.epoch, found.latest) == (True, (1, 2), 4, 6)
    states = {worker.number: worker.state for worker in found.workers}
    active, ready = WorkerState.ACTIVE, WorkerState.READY
    assert states == {1: active, 2: active, 3: ready}
    assert found.next_worker == 5


@pytest.mark.parametrize(
    "second",
    [here(1, 2, settled=False), here(1, 2, 9), here(1, 2, epoch=5, latest=5), None],
)
def test_else_they_are_asked_how_far_they_are(second: Here | None) -> None:
    said = {"w1": here(1, 2)} | ({"w2": second} if second else {})
    found = a_succession(1, 2, **said).inherited(NOW)
    assert not found.intact
    assert found.members == ((1, 2) if second else (1,))
    assert found.silent == (() if second else (2,))
    assert found.epoch == found.latest == (second.latest if second else 4)


def test_a_joiner_of_which_only_a_member_knows_is_not_forgotten() -> None:
    """The last head had armed the epoch, and had not heard yet that it began."""
    found = a_succession(1, 3, w1=here(1, 3))
    assert not found.complete(NOW - 1.0)
    assert found.inherited(NOW).silent == (3,)


def test_a_new_head_waits_for_all_who_trained_but_not_for_ever() -> None:
    waiting = a_succession(1, 2, 3, w1=here(1, 2))
    waiting.deadline, waiting.expected = NOW + 2.0, frozenset({7})
    assert not waiting.complete(NOW)
    waiting.came.add(7)
    assert not waiting.complete(NOW), "worker 2 has not spoken; worker 3 has not begun"
    assert replace(waiting, ended={2: -9}).complete(NOW)
    assert waiting.complete(NOW + 2.0)
    waiting.left(2)
    assert waiting.complete(NOW)
    assert sorted(waiting.brought) == [1, 3]


# ----------------------------------------------------------------------------- what is said


class Desk:
    """An operator that answers as it is told."""

    def __init__(self, folder: Path, status: int, body: object = None) -> None:
        (folder / "token").write_text("secret")
        self.at = Destination(url="http://operator", token_file=folder / "token", epoch=3)
        self._answer = Answer(status, error="seat 2 leads", body=json.dumps(body).encode())
        self.heard: list[dict[str, object]] = []

    def ask(
        self, _: Destination, token: str, method: str, below: str, body: bytes | None
    ) -> Answer:
        self.heard.append(json.loads(body) if body else {})
        return self._answer


def test_an_older_operator_is_told_nothing_that_it_does_not_know(tmp_path: Path) -> None:
    desk = Desk(tmp_path, 200, {"accepted": True})
    head = Head("10.0.0.1:1", KEY)
    word = tell(desk.at, head, ask=desk.ask)
    assert desk.heard == [{"epoch": 3, "address": "10.0.0.1:1", "key": KEY}]
    assert word is not None
    assert (word.leads, word.moves) == (True, False)


def test_what_the_operator_answers_is_a_word_on_who_leads(tmp_path: Path) -> None:
    head = Head("10.0.0.1:1", KEY, term=2, lost=(4,))
    desk = Desk(tmp_path, 200, {"term": 2, "closed": [1, 3], "stopping": True, "lost": [4, 5]})
    word = tell(desk.at, head, ask=desk.ask)
    assert (desk.heard[0]["term"], desk.heard[0]["lost"]) == (2, [4])
    assert word is not None
    assert (word.moves, word.stopping, sorted(word.closed)) == (True, True, [1, 3])
    assert sorted(word.lost) == [4, 5]
    refused = tell(desk.at, head, ask=Desk(tmp_path, 410).ask)
    assert refused is not None
    assert (refused.leads, refused.why) == (False, "seat 2 leads")
    for status in (403, 409, 429, 503):
        assert tell(desk.at, head, ask=Desk(tmp_path, status).ask) is None
    assert tell(desk.at, head, ask=Desk(tmp_path, 200, "odd").ask) is not None


ORDER = {"serial": 3, "plan": "tensor=2", "width": 4, "leaving": [1]}


@pytest.mark.parametrize(
    ("told", "orders", "order"),
    [
        ({}, False, None),
        ({"order": None}, True, None),
        ({"order": ORDER}, True, PlanOrder(3, Plan(tensor=2), 4, frozenset({1}))),
        ({"order": ORDER | {"plan": "replicated", "leaving": []}}, True, PlanOrder(3, Plan(), 4)),
        ({"order": ORDER | {"plan": "tensor=0"}}, True, None),
        ({"order": ORDER | {"plan": "sideways=2"}}, True, None),
        ({"order": ORDER | {"width": "wide"}}, True, None),
        ({"order": "odd"}, True, None),
        ({"order": {}}, True, None),
    ],
)
def test_a_word_may_bring_an_order_to_go_to_another_plan(
    tmp_path: Path, told: dict[str, object], orders: bool, order: PlanOrder | None
) -> None:
    desk = Desk(tmp_path, 200, {"term": 1, **told})
    word = tell(desk.at, Head("10.0.0.1:1", KEY), ask=desk.ask)
    assert word is not None
    assert (word.leads, word.moves, word.orders, word.order) == (True, True, orders, order)


def test_whoever_was_begun_for_another_plan_is_let_go_by_a_new_head() -> None:
    """The last head was on its way to it: who trained goes on, and who stood by does not."""
    found = replace(a_succession(1, 2, 3, w1=here(1, 2), w2=here(1, 2)), members=(1, 2))
    assert found.inherited(NOW).silent == ()
    turning = replace(found, turning=True).inherited(NOW)
    assert (turning.intact, turning.members, turning.silent) == (True, (1, 2), (3,))
    aside = replace(a_succession(1, 2, 3, w1=here(1, 2), w2=here(1, 2), w3=here(3)), turning=True)
    new = replace(aside, members=(3,)).inherited(NOW)
    assert (new.intact, new.members, new.silent) == (True, (3,), (1, 2))


def test_an_announcer_names_those_it_has_lost_and_passes_on_what_it_hears(tmp_path: Path) -> None:
    desk = Desk(tmp_path, 200, {"term": 1})
    heard: list[Word] = []
    announcer = Announcer(desk.at, Head("10.0.0.1:1", KEY), desk.ask, heard.append)
    announcer.lose({3})
    announcer.lose({1, 3})
    announcer.turn()
    assert desk.heard[0]["lost"] == [1, 3]
    assert [word.moves for word in heard] == [True]


def test_who_leads_is_asked_once(tmp_path: Path) -> None:
    told = {"address": "10.0.0.2:1", "key": KEY, "term": 2, "lost": [0]}
    found = present(Desk(tmp_path, 200, told).at, Desk(tmp_path, 200, told).ask)
    assert found == Head("10.0.0.2:1", KEY, 2, (0,))
    assert present(Desk(tmp_path, 404).at, Desk(tmp_path, 404).ask) is None
    assert KEY not in repr(found)


# ------------------------------------------------------------------------ what a worker sees


@pytest.fixture
def run_folder(tmp_path: Path) -> Iterator[RunFolder]:
    made = RunFolder(tmp_path / "pod")
    made.open("job", 1)
    yield made
    made.close()


def test_a_worker_sees_which_head_leads_and_whether_its_agent_lives(run_folder: RunFolder) -> None:
    run_folder.write_head(1, "10.0.0.1:1")
    heads = Heads(run_folder.head, "as started")
    assert not heads.look(), "the one it was started for"
    assert (heads.term, heads.address) == (1, "10.0.0.1:1")
    assert not heads.is_newer()
    run_folder.write_head(2, "10.0.0.2:1")
    assert heads.is_newer()
    assert heads.look()
    assert (heads.term, heads.address) == (2, "10.0.0.2:1")
    run_folder.write_head(1, "10.0.0.1:1")
    assert not heads.look(), "an older one is none"
    run_folder.head.write_text("{")
    assert not heads.look()
    assert heads.agent_lives()
    run_folder.close()
    assert not heads.agent_lives()
    assert not heads.wait(60.0), "nobody waits for a head without an agent"
