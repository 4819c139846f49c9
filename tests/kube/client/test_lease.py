"""One leader at a time, and always one soon: elections in memory first, then on a real server.

Elections in memory are in virtual time: whatever a test says of seconds is of the election's clock.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests import virtual_time
from tests.kube.client.elections import (
    LOOK_SECONDS,
    PATH,
    Line,
    Store,
    candidate,
    replica,
    until,
    wait_for,
)
from tests.kube.weather import Climate, Fault, Weather
from tests.virtual_time import pass_time
from tools.testcluster import ControlPlane
from weft.kube.client.api import Api
from weft.kube.client.errors import NoAccess, Unavailable
from weft.kube.client.lease import Leadership, LeaseTiming
from weft.model.errors import NotLeading

REAL: dict[str, Any] = {"lease_seconds": 15, "renew_seconds": 10, "retry_seconds": 2}
#: For elections by the clock of the machine, which may be slow: renewed often, lost late.
PATIENT: dict[str, Any] = {"lease_seconds": 60, "renew_seconds": 40, "retry_seconds": 0.1}


def test_a_free_lease_is_taken_kept_and_released() -> None:
    async def scene() -> None:
        store = Store()
        line = Line(store)
        async with candidate(line.make) as one:
            await until(lambda: one.leading)
            one.check()
            assert one.transitions == 1
            assert store.spec["holderIdentity"] == "one"
            assert store.spec["leaseDurationSeconds"] == 2
            await until(lambda: store.writes > 3)
            assert store.spec["leaseTransitions"] == 1
            assert store.spec["renewTime"] > store.spec["acquireTime"]
        assert not one.leading
        assert store.spec["holderIdentity"] == ""
        assert line.closed
        with pytest.raises(NotLeading) as caught:
            one.check()
        assert caught.value.hint

    virtual_time.run(scene())


def test_a_released_lease_passes_on_at_once_and_a_kept_one_after_its_time() -> None:
    async def scene() -> None:
        store = Store()
        async with candidate(Line(store).make) as one, candidate(Line(store).make, "two") as two:
            await until(lambda: one.leading or two.leading)
            first, second = (one, two) if one.leading else (two, one)
            first.stop()
            assert await until(lambda: second.leading) < 0.5
            assert second.transitions == 2
            second.stop(release=False)
            async with candidate(Line(store).make, "three") as three:
                assert 1.5 < await until(lambda: three.leading) < 2.5
                assert three.transitions == 3

    virtual_time.run(scene())


def test_a_dead_leader_is_replaced_within_twenty_seconds() -> None:
    """With the times of an operator: 15, 10 and 2 s."""

    async def scene() -> None:
        store = Store()
        async with candidate(Line(store).make, **REAL) as one:
            await until(lambda: one.leading)
            async with candidate(Line(store).make, "two", **REAL) as two:
                await pass_time(60.0)
                assert [each.identity for each in (one, two) if each.leading] == ["one"]
                one.stop(release=False)
                assert 10.0 < await until(lambda: two.leading) <= 20.0

    virtual_time.run(scene())


def test_who_cannot_renew_leads_no_more_before_another_does() -> None:
    async def scene() -> None:
        store = Store()
        line = Line(store)
        async with candidate(line.make) as one:
            await until(lambda: one.leading)
            async with candidate(Line(store).make, "two") as two:
                line.hangs = True
                await until(lambda: not one.leading)
                assert not two.leading
                await until(lambda: two.leading)
                line.hangs = False
                await pass_time(5.0)
                assert [each.identity for each in (one, two) if each.leading] == ["two"]

    virtual_time.run(scene())


def test_a_frozen_election_is_found_out_by_the_clock() -> None:
    async def scene() -> None:
        store = Store()
        line = Line(store)
        async with candidate(line.make) as one:
            await until(lambda: one.leading)
            line.frozen = True
            assert await until(lambda: not one.leading) <= 1.5
            with pytest.raises(NotLeading):
                one.check()
            async with candidate(Line(store).make, "two") as two:
                await until(lambda: two.leading)
                line.frozen = False
                line.thawed.set()
                await pass_time(5.0)
                assert [each.identity for each in (one, two) if each.leading] == ["two"]

    virtual_time.run(scene())


def test_a_late_answer_does_not_bring_a_term_back() -> None:
    """Begun in time and answered too late: meanwhile we did not lead, and somebody may know it."""

    async def scene() -> None:
        line = Line(Store())
        async with candidate(line.make) as one:
            await until(lambda: one.leading)
            line.fault = lambda _method: Unavailable("away")
            await pass_time(0.8)
            line.delay_seconds, line.fault = 1.0, lambda _method: None
            writes = line.store.writes
            await one.wait_until_lost()
            for _ in range(300):
                assert not one.leading
                await pass_time(LOOK_SECONDS)
            assert line.store.writes == writes + 1

    virtual_time.run(scene())


def test_a_lapsed_term_is_not_renewed() -> None:
    """It would only keep the others waiting."""

    async def scene() -> None:
        store = Store()
        line = Line(store)
        async with candidate(line.make) as one:
            await until(lambda: one.leading)
            line.fault = lambda _method: Unavailable("away")
            await one.wait_until_lost()
            writes, line.fault = store.writes, lambda _method: None
            await pass_time(5.0)
            assert store.writes == writes

    virtual_time.run(scene())


def test_a_lost_term_stays_lost_until_the_main_loop_stands_again() -> None:
    async def scene() -> None:
        store = Store()
        line = Line(store)
        async with candidate(line.make) as one:
            await until(lambda: one.leading)
            line.hangs = True
            await one.wait_until_lost()
            line.hangs = False
            await pass_time(5.0)
            assert not one.leading
            await one.wait_until_leading()
            one.check()
            assert one.transitions == 2

    virtual_time.run(scene())


@pytest.mark.parametrize("spec", [{"holderIdentity": "thief"}, {"holderIdentity": ""}])
def test_who_is_robbed_leads_no_more(spec: dict[str, str]) -> None:
    async def scene() -> None:
        store = Store()
        async with candidate(Line(store).make) as one:
            await until(lambda: one.leading)
            store.edit(**spec)
            assert await until(lambda: not one.leading) < 0.5, "before its own time is over"

    virtual_time.run(scene())


def test_an_edit_by_others_does_not_end_a_term() -> None:
    async def scene() -> None:
        store = Store()
        async with candidate(Line(store).make) as one:
            await until(lambda: one.leading)
            store.edit(strategy="OldestEmulationVersion")
            writes = store.writes
            await until(lambda: store.writes > writes + 2)
            assert one.leading
            assert one.transitions == 1
            assert store.spec["strategy"] == "OldestEmulationVersion"

    virtual_time.run(scene())


def test_a_deleted_lease_ends_the_term_and_the_count_goes_on() -> None:
    async def scene() -> None:
        store = Store()
        async with candidate(Line(store).make) as one:
            await until(lambda: one.leading)
            store.lease = None
            assert await until(lambda: not one.leading) < 0.5
            await one.wait_until_leading()
            assert one.transitions == 2
            assert store.spec["leaseTransitions"] == 2

    virtual_time.run(scene())


def test_lost_answers_do_not_cost_the_lease() -> None:
    """A renewal that was done and not answered looks like a conflict the next time."""

    async def scene() -> None:
        store = Store()
        line = Line(store)
        async with candidate(line.make) as one:
            await until(lambda: one.leading)
            for _ in range(3):
                line.lost_answers = True
                writes = store.writes
                await until(lambda: store.writes > writes)  # noqa: B023
                line.lost_answers = False
                await until(lambda: store.writes > writes + 1)  # noqa: B023
                assert one.leading
            assert one.transitions == 1

    virtual_time.run(scene())


def test_a_restarted_replica_goes_on_at_once_in_a_new_term() -> None:
    """Its name is the pod's, and nobody else in this pod can be leading."""

    async def scene() -> None:
        store = Store()
        async with candidate(Line(store).make) as one:
            await until(lambda: one.leading)
            one.stop(release=False)
            async with candidate(Line(store).make) as again:
                assert await until(lambda: again.leading) < 0.5
                assert again.transitions == 2

    virtual_time.run(scene())


def test_who_stops_leads_no_more_even_before_the_lease_is_released() -> None:
    async def scene() -> None:
        line = Line(Store())
        async with candidate(line.make) as one:
            await until(lambda: one.leading)
            line.delay_seconds = 1.0
            one.stop()
            assert not one.leading
            assert line.store.spec["holderIdentity"] == "one"
        assert line.store.spec["holderIdentity"] == ""

    virtual_time.run(scene())


def test_connecting_may_take_several_tries() -> None:
    async def scene() -> None:
        store = Store()
        tries = []

        async def make() -> Any:  # noqa: ANN401
            tries.append(1)
            if len(tries) < 3:
                raise NoAccess("not yet")
            return Line(store)

        async with candidate(make) as one:
            await until(lambda: one.leading)
        assert len(tries) == 3

    virtual_time.run(scene())


def test_an_election_that_broke_down_is_told_to_who_waits() -> None:
    async def make() -> Any:  # noqa: ANN401
        raise RuntimeError("a defect")

    with replica(make) as one, pytest.raises(NotLeading):
        asyncio.run(one.wait_until_leading())


def test_times_must_make_sense() -> None:
    with pytest.raises(ValueError, match="outlast"):
        LeaseTiming(renew_seconds=15)


@pytest.mark.parametrize("seed", range(4))
def test_never_two_leaders(seed: int) -> None:
    """Five replicas whose calls hang and fail: at every look at most one leads."""
    virtual_time.run(many_terms(seed, seconds=60.0))


async def many_terms(seed: int, *, seconds: float) -> None:
    store = Store()
    terms: dict[int, str] = {}
    async with AsyncExitStack() as stack:
        replicas = [
            await stack.enter_async_context(candidate(Line(store, Random(f"{seed} {n}")).make, n))
            for n in "abcde"
        ]
        while asyncio.get_running_loop().time() < seconds:
            leading = [each for each in replicas if each.leading]
            assert len(leading) <= 1
            for each in leading:
                assert terms.setdefault(each.transitions, each.identity) == each.identity
            for each in replicas:
                each.stand()
            await pass_time(LOOK_SECONDS)
    assert len(terms) > 1


def test_a_main_thread_that_burns_the_processor_keeps_the_lease() -> None:
    """The lease is renewed while the main thread computes without a pause."""
    assert sys.getswitchinterval() <= 0.005
    store = Store()
    with replica(Line(store).make, **PATIENT) as one:
        wait_for(lambda: one.leading)
        writes, total = store.writes, 0
        while store.writes < writes + 5:
            for number in range(20_000):
                total += number * number
        assert one.transitions == 1


# --------------------------------------------------------------------------- with a real server


def real(api_server: ControlPlane) -> Callable[[], Awaitable[Api]]:
    path = str(api_server.kubeconfig())
    return lambda: Api.connect(kubeconfig=path)


def test_a_real_lease(api_server: ControlPlane) -> None:
    make = real(api_server)
    with replica(make, **PATIENT) as one:
        wait_for(lambda: one.leading)
        lease = api_server.api.must("GET", PATH)
        assert lease["spec"]["holderIdentity"] == "one"
        wait_for(
            lambda: (
                api_server.api.must("GET", PATH)["spec"]["renewTime"] > lease["spec"]["renewTime"]
            )
        )
        with replica(make, "two", **PATIENT) as two:
            seen: set[str] = set()

            def follows() -> bool:
                if two._seen:
                    seen.add(two._seen["spec"]["renewTime"])
                return len(seen) >= 5

            wait_for(follows, "the other replica to see five renewals")
            assert one.leading
            assert not two.leading
            one.stop()
            wait_for(lambda: two.leading)
            assert two.transitions == one.transitions + 1


def test_a_server_that_is_frozen_ends_the_term_in_time(api_server: ControlPlane) -> None:
    with replica(real(api_server)) as one:
        wait_for(lambda: one.leading)
        api_server.freeze("kube-apiserver")
        try:
            wait_for(lambda: not one.leading)
        finally:
            api_server.thaw("kube-apiserver")


@asynccontextmanager
async def gated(api_server: ControlPlane, leadership: Leadership) -> AsyncIterator[Api]:
    async with await Api.connect(kubeconfig=str(api_server.kubeconfig())) as api:
        api.write_gate = leadership.check
        yield api


def test_who_does_not_lead_cannot_write(api_server: ControlPlane) -> None:
    path = "/api/v1/namespaces/default/configmaps"

    async def write(leadership: Leadership, name: str) -> None:
        async with gated(api_server, leadership) as api:
            await api.create(path, {"metadata": {"name": name}})

    with replica(real(api_server), **PATIENT) as one:
        wait_for(lambda: one.leading)
        asyncio.run(write(one, "a"))
        one.stop()
        with pytest.raises(NotLeading):
            asyncio.run(write(one, "b"))


@pytest.mark.slow
def test_bad_weather_brings_no_second_leader(api_server: ControlPlane, tmp_path: Path) -> None:
    climate = Climate(rate=0.5, faults=tuple(Fault), delay_seconds=0.3)
    with Weather(api_server.url, ca=api_server.ca, climate=climate, seed=3) as weather:
        path = str(weather.kubeconfig(tmp_path, api_server.admin_token))

        async def make() -> Api:
            return await Api.connect(kubeconfig=path)

        with ExitStack() as stack:
            replicas = [stack.enter_context(replica(make, name)) for name in ("a", "b", "c")]
            terms: set[int] = set()

            def stormy() -> bool:
                leading = leaders(replicas)
                assert len(leading) <= 1
                terms.update(leading.values())
                for each in replicas:
                    each.stand()
                return weather.faults() > 20 and bool(terms)

            wait_for(stormy, "twenty faults and a term")
            weather.calm()
            wait_for(lambda: any(each.leading for each in replicas))


def leaders(replicas: Sequence[Leadership]) -> dict[str, int]:
    """Replicas that lead at one and the same moment, and their terms.

    This thread may be stopped between two looks. So each is looked at twice: one that is found in
    the same term leads all the time from the end of the first round to the start of the second.
    """
    rounds = [{each.identity: each.transitions for each in replicas if each.leading} for _ in "12"]
    return {name: term for name, term in rounds[0].items() if rounds[1].get(name) == term}
