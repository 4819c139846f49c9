"""Nothing starts on a machine of which a probe fails, and all goes on when it passes again."""

import asyncio
import time

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
    probed: list[float] = []

    def probing() -> list[Result]:
        probed.append(time.monotonic())
        return [GOOD]

    async def work() -> None:
        fitness = Fitness(probing, lambda: None, every_seconds=60.0, least_seconds=0.2)
        task = asyncio.create_task(fitness.run())
        for _ in range(40):
            fitness.ask()
            await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(work())
    assert 1 <= len(probed) <= 3
