"""One leader at a time, and always one soon: elections in memory first, then on a real server."""

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.calm import calm
from tests.kube.client.elections import PATH, Line, Store, replica, wait_for
from tests.kube.weather import Climate, Fault, Weather
from tools.testcluster import ControlPlane
from weft.kube.client.api import Api
from weft.kube.client.errors import NoAccess, Unavailable
from weft.kube.client.lease import Leadership
from weft.model.errors import NotLeading

REAL: dict[str, Any] = {"lease_seconds": 15, "renew_seconds": 10, "retry_seconds": 2}


def test_a_free_lease_is_taken_kept_and_released() -> None:
    store = Store()
    line = Line(store)
    with replica(line.make) as one:
        wait_for(lambda: one.leading)
        one.check()
        assert one.transitions == 1
        assert store.spec["holderIdentity"] == "one"
        assert store.spec["leaseDurationSeconds"] == 2
        wait_for(lambda: store.writes > 3)
        assert store.spec["leaseTransitions"] == 1
        assert store.spec["renewTime"] > store.spec["acquireTime"]
    assert not one.leading
    assert store.spec["holderIdentity"] == ""
    assert line.closed
    with pytest.raises(NotLeading) as caught:
        one.check()
    assert caught.value.hint


def test_a_released_lease_passes_on_at_once_and_a_kept_one_after_its_time() -> None:
    store = Store()
    with replica(Line(store).make) as one, replica(Line(store).make, "two") as two:
        wait_for(lambda: one.leading or two.leading)
        first, second = (one, two) if one.leading else (two, one)
        first.stop()
        assert wait_for(lambda: second.leading) < calm(1.2)
        assert second.transitions == 2
        second.stop(release=False)
        with replica(Line(store).make, "three") as three:
            assert wait_for(lambda: three.leading) > 1.2
            assert three.transitions == 3


def test_who_cannot_renew_leads_no_more_before_another_does() -> None:
    store = Store()
    line = Line(store)
    with replica(line.make) as one:
        wait_for(lambda: one.leading)
        with replica(Line(store).make, "two") as two:
            line.hangs = True
            wait_for(lambda: not one.leading)
            assert not two.leading
            wait_for(lambda: two.leading)
            line.hangs = False
            time.sleep(0.5)
            assert not one.leading


def test_a_frozen_thread_is_found_out_by_the_clock() -> None:
    store = Store()
    line = Line(store)
    with replica(line.make) as one:
        wait_for(lambda: one.leading)
        line.freezes.set()
        try:
            assert wait_for(lambda: not one.leading) <= calm(1.5)
            with pytest.raises(NotLeading):
                one.check()
            with replica(Line(store).make, "two") as two:
                wait_for(lambda: two.leading)
                line.freezes.clear()
                line.thawed.set()
                time.sleep(0.3)
                assert two.leading
                assert not one.leading
        finally:
            line.thawed.set()


def test_a_late_answer_does_not_bring_a_term_back() -> None:
    """Begun in time and answered too late: meanwhile we did not lead, and somebody may know it."""
    line = Line(Store())
    with replica(line.make) as one:
        wait_for(lambda: one.leading)
        line.fault = lambda _method: Unavailable("away")
        time.sleep(0.8)
        line.delay_seconds, line.fault = 1.0, lambda _method: None
        asyncio.run(one.wait_until_lost())
        ends_at = time.monotonic() + 1.5
        while time.monotonic() < ends_at:
            assert not one.leading
            time.sleep(0.005)


def test_a_lapsed_term_is_not_renewed() -> None:
    """It would only keep the others waiting."""
    store = Store()
    line = Line(store)
    with replica(line.make) as one:
        wait_for(lambda: one.leading)
        line.fault = lambda _method: Unavailable("away")
        asyncio.run(one.wait_until_lost())
        writes, line.fault = store.writes, lambda _method: None
        time.sleep(0.5)
        assert store.writes == writes


def test_a_lost_term_stays_lost_until_the_main_loop_stands_again() -> None:
    store = Store()
    line = Line(store)
    with replica(line.make) as one:
        wait_for(lambda: one.leading)
        line.hangs = True
        asyncio.run(one.wait_until_lost())
        line.hangs = False
        time.sleep(0.5)
        assert not one.leading
        asyncio.run(one.wait_until_leading())
        one.check()
        assert one.transitions == 2


@pytest.mark.parametrize("spec", [{"holderIdentity": "thief"}, {"holderIdentity": ""}])
def test_who_is_robbed_leads_no_more(spec: dict[str, str]) -> None:
    store = Store()
    with replica(Line(store).make) as one:
        wait_for(lambda: one.leading)
        store.edit(**spec)
        asyncio.run(asyncio.wait_for(one.wait_until_lost(), 1.0))


def test_an_edit_by_others_does_not_end_a_term() -> None:
    store = Store()
    with replica(Line(store).make) as one:
        wait_for(lambda: one.leading)
        store.edit(strategy="OldestEmulationVersion")
        writes = store.writes
        wait_for(lambda: store.writes > writes + 2)
        assert one.leading
        assert one.transitions == 1
        assert store.spec["strategy"] == "OldestEmulationVersion"


def test_a_deleted_lease_ends_the_term_and_the_count_goes_on() -> None:
    store = Store()
    with replica(Line(store).make) as one:
        wait_for(lambda: one.leading)
        store.lease = None
        asyncio.run(asyncio.wait_for(one.wait_until_lost(), 1.0))
        asyncio.run(one.wait_until_leading())
        assert one.transitions == 2
        assert store.spec["leaseTransitions"] == 2


def test_lost_answers_do_not_cost_the_lease() -> None:
    """A renewal that was done and not answered looks like a conflict the next time."""
    store = Store()
    line = Line(store)
    with replica(line.make) as one:
        wait_for(lambda: one.leading)
        for _ in range(3):
            line.lost_answers = True
            writes = store.writes
            wait_for(lambda: store.writes > writes)  # noqa: B023
            line.lost_answers = False
            wait_for(lambda: store.writes > writes + 1)  # noqa: B023
            assert one.leading
        assert one.transitions == 1


def test_a_restarted_replica_goes_on_at_once_in_a_new_term() -> None:
    """Its name is the pod's, and nobody else in this pod can be leading."""
    store = Store()
    with replica(Line(store).make) as one:
        wait_for(lambda: one.leading)
        one.stop(release=False)
    with replica(Line(store).make) as again:
        assert wait_for(lambda: again.leading) < calm(1.2)
        assert again.transitions == 2


def test_who_stops_leads_no_more_even_before_the_lease_is_released() -> None:
    line = Line(Store())
    with replica(line.make) as one:
        wait_for(lambda: one.leading)
        line.delay_seconds = 1.0
        stopping = threading.Thread(target=one.stop)
        stopping.start()
        assert wait_for(lambda: not one.leading) < calm(0.5)
        stopping.join()
    assert line.store.spec["holderIdentity"] == ""


def test_connecting_may_take_several_tries() -> None:
    store = Store()
    tries = []

    async def make() -> Any:  # noqa: ANN401
        tries.append(1)
        if len(tries) < 3:
            raise NoAccess("not yet")
        return Line(store)

    with replica(make) as one:
        wait_for(lambda: one.leading)
    assert len(tries) == 3


def test_an_election_that_broke_down_is_told_to_who_waits() -> None:
    async def make() -> Any:  # noqa: ANN401
        raise RuntimeError("a defect")

    with replica(make) as one, pytest.raises(NotLeading):
        asyncio.run(one.wait_until_leading())


def test_times_must_make_sense() -> None:
    with pytest.raises(ValueError, match="outlast"):
        Leadership(Line(Store()).make, namespace="d", name="w", identity="i", renew_seconds=15)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_never_two_leaders(seed: int) -> None:
    """Five replicas whose calls hang and fail: at every look at most one leads."""
    store = Store()
    terms: dict[int, str] = {}
    with ExitStack() as stack:
        replicas = [
            stack.enter_context(replica(Line(store, Random(f"{seed} {name}")).make, name))
            for name in "abcde"
        ]
        ends_at = time.monotonic() + 6
        while time.monotonic() < ends_at:
            leading = [each for each in replicas if each.leading]
            assert len(leading) <= 1
            for each in leading:
                assert terms.setdefault(each.transitions, each.identity) == each.identity
            for each in replicas:
                each.stand()
            time.sleep(0.002)
    assert terms


# --------------------------------------------------------------------------- with a real server


def real(api_server: ControlPlane) -> Callable[[], Awaitable[Api]]:
    path = str(api_server.kubeconfig())
    return lambda: Api.connect(kubeconfig=path)


def test_a_real_lease(api_server: ControlPlane) -> None:
    make = real(api_server)
    with replica(make) as one:
        wait_for(lambda: one.leading)
        lease = api_server.api.must("GET", PATH)
        assert lease["spec"]["holderIdentity"] == "one"
        wait_for(
            lambda: (
                api_server.api.must("GET", PATH)["spec"]["renewTime"] > lease["spec"]["renewTime"]
            )
        )
        with replica(make, "two") as two:
            time.sleep(2.5)
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
            assert wait_for(lambda: not one.leading) < calm(2)
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

    with replica(real(api_server)) as one:
        wait_for(lambda: one.leading)
        asyncio.run(write(one, "a"))
        one.stop()
        with pytest.raises(NotLeading):
            asyncio.run(write(one, "b"))


def test_a_main_thread_that_burns_the_processor_keeps_the_lease(api_server: ControlPlane) -> None:
    with replica(real(api_server), lease_seconds=3, renew_seconds=2, retry_seconds=0.4) as one:
        wait_for(lambda: one.leading)
        gaps = burn(4.0, one)
        assert gaps == 0
        assert one.transitions >= 1


def burn(seconds: float, leadership: Leadership) -> int:
    """Pure Python without a pause; how often we did not lead meanwhile."""
    assert sys.getswitchinterval() <= 0.005
    gaps, total = 0, 0
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        for number in range(20_000):
            total += number * number
        gaps += not leadership.leading
    return gaps


@pytest.mark.slow
def test_the_real_times(api_server: ControlPlane) -> None:
    """15/10/2 s: 12 s of work do not cost the lease, and a dead leader is replaced within 20 s."""
    with replica(real(api_server), **REAL) as one:
        wait_for(lambda: one.leading)
        with replica(real(api_server), "two", **REAL) as two:
            assert burn(12.0, one) == 0
            one.stop(release=False)
            assert wait_for(lambda: two.leading, 60) <= calm(20)


@pytest.mark.slow
def test_bad_weather_brings_no_second_leader(api_server: ControlPlane, tmp_path: Path) -> None:
    climate = Climate(rate=0.5, faults=tuple(Fault), delay_seconds=0.3)
    with Weather(api_server.url, ca=api_server.ca, climate=climate, seed=3) as weather:
        path = str(weather.kubeconfig(tmp_path, api_server.admin_token))

        async def make() -> Api:
            return await Api.connect(kubeconfig=path)

        with ExitStack() as stack:
            replicas = [stack.enter_context(replica(make, name)) for name in ("a", "b", "c")]
            ends_at = time.monotonic() + 10
            while time.monotonic() < ends_at:
                assert sum(each.leading for each in replicas) <= 1
                for each in replicas:
                    each.stand()
                time.sleep(0.005)
            weather.calm()
            wait_for(lambda: any(each.leading for each in replicas))
        assert weather.faults() > 10
