"""Nothing starts on a machine of which a probe fails, and all goes on when it passes again."""

import asyncio

from tests.waiting import until_async
from weft.agent.probes.probe import Result
from weft.local.machine.fitness import Fitness, reason_of

GOOD = Result(probe="disk", passed=True, value=500.0, unit="MB/s")
BAD = Result(probe="disk", passed=False, text="mebibyte 3 is not what was written")


def test_it_is_told_when_it_changes_and_only_then() -> None:
    answers = iter([GOOD, BAD, BAD, GOOD])
    told: list[str] = []

    async def work() -> None:
        fitness = Fitness(lambda: [next(answers)], lambda: told.append(fitness.unfit))
        looks = [await fitness.look() for _ in range(4)]
        assert looks == [True, False, False, True]

    asyncio.run(work())
    assert told == ["disk: mebibyte 3 is not what was written", ""]
    assert "nothing starts on it: disk" in reason_of(told[0]).text


def test_a_suspect_failure_has_it_probed_soon_but_not_each_of_many() -> None:
    probed = 0

    def probing() -> list[Result]:
        nonlocal probed
        probed += 1
        return [GOOD]

    async def work() -> None:
        fitness = Fitness(probing, lambda: None, every_seconds=3600.0, least_seconds=0.05)
        task = asyncio.create_task(fitness.run())
        for turn in range(1, 3):
            for _ in range(20):
                fitness.ask()
                await asyncio.sleep(0)
            await until_async(lambda: probed >= turn, "a probe")  # noqa: B023 - asked at once
            assert probed == turn, "one probe answers all that ask before it"
        task.cancel()

    asyncio.run(work())


def test_a_gang_waits_for_a_probe_and_nothing_less_makes_up_for_one_that_failed() -> None:
    ill, tried = [False], {"quick": 0, "gang": 0}

    def probing() -> list[Result]:
        tried["quick"] += 1
        return [GOOD]

    def gang_probing() -> list[Result]:
        tried["gang"] += 1
        return [BAD if ill[0] else GOOD]

    async def work() -> None:
        fitness = Fitness(probing, lambda: None, gang_probing=gang_probing, gang_seconds=3600.0)
        assert await asyncio.gather(*(fitness.before_gang() for _ in range(5))) == [True] * 5
        assert tried == {"quick": 0, "gang": 1}, "five gangs at once wait for one probe"
        assert await fitness.before_gang()
        assert tried == {"quick": 0, "gang": 1}, "it holds for a while"
        fitness._gang_seconds = 0.0
        ill[0] = True
        assert not await fitness.before_gang()
        assert not await fitness.look(), "the quick probes would pass"
        ill[0], fitness._gang_seconds = False, 3600.0
        assert await fitness.look() and await fitness.before_gang()
        assert tried == {"quick": 0, "gang": 4}
        assert await fitness.look() and tried["quick"] == 1

    asyncio.run(work())


def test_where_gangs_are_not_probed_none_waits() -> None:
    async def work() -> None:
        assert await Fitness(lambda: [BAD], lambda: None).before_gang()

    asyncio.run(work())
