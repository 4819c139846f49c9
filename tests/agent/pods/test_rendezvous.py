"""How wide a job is to be follows from its places, and not from each of them alone."""

import pytest

from weft.agent.coordination.limits import Limits
from weft.agent.pods.followers import Followers
from weft.agent.pods.rendezvous import Rendezvous

LIMITS = Limits(warm_seconds=120.0, settle_seconds=1.0, beat_seconds=1.0, beatless_seconds=5.0)


def test_a_start_waits_for_everybody() -> None:
    rendezvous = Rendezvous(4, least_gpus=2, limits=LIMITS)
    assert not rendezvous.may_start(3, now=10.0)
    assert rendezvous.may_start(4, now=11.0)


def test_but_not_for_ever_and_not_with_too_few() -> None:
    rendezvous = Rendezvous(4, least_gpus=2, limits=LIMITS)
    assert not rendezvous.may_start(1, now=10.0)
    assert not rendezvous.may_start(2, now=130.0)
    assert rendezvous.may_start(2, now=130.1)
    assert not rendezvous.may_start(1, now=10_000.0)


@pytest.mark.parametrize(
    ("gpus", "most", "unit", "width"),
    [(3, None, 1, 3), (9, 4, 1, 4), (5, None, 2, 4), (5, 3, 2, 2), (1, None, 2, 0)],
)
def test_the_width_is_in_whole_replicas_and_within_the_range(
    gpus: int, most: int | None, unit: int, width: int
) -> None:
    assert Rendezvous(1, most_gpus=most, unit=unit).width(gpus) == width


def test_half_a_replica_is_not_enough() -> None:
    assert not Rendezvous(1, unit=2).enough(1)
    assert Rendezvous(1, unit=2).enough(3)
    assert not Rendezvous(1, least_gpus=3).enough(2)


def test_seats_that_come_together_are_acted_on_once() -> None:
    rendezvous = Rendezvous(1, limits=LIMITS)
    assert not rendezvous.settled(0.0)
    rendezvous.came(10.0)
    rendezvous.came(10.9)
    assert not rendezvous.settled(11.5)
    assert rendezvous.settled(11.9)
    assert not rendezvous.settled(13.0)


def test_a_follower_that_gives_no_sign_of_life_is_silent() -> None:
    followers = Followers(LIMITS)
    followers.heard(1, 0.0)
    followers.heard(2, 0.0)
    for tenth in range(51):
        assert followers.silent(tenth / 10) == ()
        followers.heard(2, tenth / 10)
    assert followers.silent(5.1) == (1,)


def test_a_head_that_slept_blames_nobody() -> None:
    followers = Followers(LIMITS)
    followers.heard(1, 0.0)
    assert followers.silent(0.1) == ()
    assert followers.silent(60.0) == ()
    assert followers.silent(60.5) == ()


def test_a_sign_of_life_is_due_every_second() -> None:
    followers = Followers(LIMITS)
    followers.heard(1, 100.0)
    assert [bool(followers.to_beat(100.0 + tenth / 10)) for tenth in range(12)] == [
        tenth in (0, 10) for tenth in range(12)
    ]


def test_who_was_forgotten_was_known_once() -> None:
    followers = Followers(LIMITS)
    followers.heard(1, 0.0)
    followers.hosts[1] = "10.0.0.1"
    followers.leaving.add(1)
    assert followers.forget(1)
    assert not followers.forget(1)
    assert not followers.leaving
    assert followers.to_beat(10.0) == ()
