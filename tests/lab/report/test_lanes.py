"""Which GPUs of a node a sitting is drawn on."""

from weft.lab.report.lanes import Bar, bars_of
from weft.model.ids import JobId, NodeId, PartyId, TenantId
from weft.sim.record import Sitting

N = NodeId("n")


def sat(job: str, gpus: int, begin: float, end: float, party: str = "") -> Sitting:
    return Sitting(JobId(job), TenantId("t"), N, gpus, begin, end, PartyId(party))


def test_the_lowest_free_lanes_are_taken() -> None:
    bars = bars_of([sat("a", 2, 0, 10), sat("b", 1, 0, 5), sat("c", 1, 6, 9)], {N: 4})
    assert [(bar.job, bar.lane, bar.lanes) for bar in bars] == [
        ("b", 0, 1),
        ("a", 1, 2),
        ("c", 0, 1),
    ]


def test_lanes_that_are_apart_become_two_bars() -> None:
    bars = bars_of([sat("a", 1, 0, 5), sat("b", 1, 0, 9), sat("c", 2, 6, 9)], {N: 3})
    assert [bar for bar in bars if bar.job == "c"] == [
        Bar(N, 0, 1, 6, 9, JobId("c")),
        Bar(N, 2, 1, 6, 9, JobId("c")),
    ]


def test_what_is_not_drawn() -> None:
    elsewhere = Sitting(JobId("a"), TenantId("t"), NodeId("m"), 1, 0, 5)
    assert bars_of([elsewhere, sat("b", 1, 3, 3)], {N: 4}) == []


# --- in company -----------------------------------------------------------------------------------


def test_members_of_a_party_are_on_one_lane_in_turns() -> None:
    """Cut where somebody comes or goes; whoever is alone there is whole again."""
    company = [sat("a", 1, 0, 10, "a/1"), sat("b", 1, 4, 20, "a/1"), sat("x", 1, 0, 20, "x/1")]
    bars = [bar for bar in bars_of(company, {N: 2}) if bar.job != "x"]
    assert {(bar.lane, bar.lanes) for bar in bars} == {(0, 1)}
    assert [(bar.job, bar.begin, bar.end, bar.turn, bar.members) for bar in bars] == [
        ("a", 0, 4, 0, 1),
        ("a", 4, 10, 0, 2),
        ("b", 4, 10, 1, 2),
        ("b", 10, 20, 0, 1),
    ]


def test_lanes_of_a_party_are_nobody_elses_until_the_last_has_left() -> None:
    bars = bars_of(
        [sat("a", 1, 0, 5, "a/1"), sat("b", 1, 2, 20, "a/1"), sat("c", 1, 6, 9, "c/1")], {N: 2}
    )
    assert {bar.job: bar.lane for bar in bars} == {"a": 0, "b": 0, "c": 1}


def test_seats_of_one_job_are_no_company() -> None:
    bars = bars_of([sat("a", 1, 0, 9, "a/1"), sat("a", 1, 2, 9, "a/1")], {N: 2})
    assert [(bar.lane, bar.members) for bar in bars] == [(0, 1), (1, 1)]


def test_a_party_of_jobs_with_several_seats_each() -> None:
    four = [sat(job, 1, begin, 9, "a/1") for job, begin in (("a", 0), ("a", 0), ("b", 3), ("b", 3))]
    bars = [bar for bar in bars_of(four, {N: 4}) if bar.begin == 3]
    assert sorted((bar.job, bar.lane, bar.turn, bar.members) for bar in bars) == [
        ("a", 0, 0, 2),
        ("a", 1, 0, 2),
        ("b", 0, 1, 2),
        ("b", 1, 1, 2),
    ]
