"""When a key comes up again."""

from collections.abc import Callable

from tests import virtual_time
from weft.reconcile.delays import Delays

SOON, LATER = 1.0, 5.0


def rung(ask: Callable[[Delays], None], seconds: float = 2 * LATER) -> list[str]:
    """Which keys came up, in their order."""

    async def play() -> list[str]:
        found: list[str] = []
        delays = Delays(found.append)
        ask(delays)
        await virtual_time.pass_time(seconds)
        delays.clear()
        return found

    return virtual_time.run(play())


def test_the_earliest_time_counts_and_only_once() -> None:
    def ask(delays: Delays) -> None:
        delays.set("late", LATER)
        delays.set("both", LATER)
        delays.set("both", SOON)
        delays.set("both", LATER)

    assert rung(ask) == ["both", "late"]


def test_a_time_that_has_passed_is_now() -> None:
    assert rung(lambda delays: delays.set("past", -3.0), SOON) == ["past"]


def test_what_is_forgotten_or_cleared_does_not_come_up() -> None:
    def ask(delays: Delays) -> None:
        delays.set("gone", SOON)
        delays.set("stays", SOON)
        delays.forget("gone")
        delays.forget("never heard of")

    assert rung(ask) == ["stays"]

    def ask_and_clear(delays: Delays) -> None:
        delays.set("gone", SOON)
        delays.clear()

    assert rung(ask_and_clear) == []


def test_a_key_may_ask_again_when_it_comes_up() -> None:
    async def play() -> list[str]:
        found: list[str] = []

        def due(key: str) -> None:
            found.append(key)
            if len(found) < 3:
                delays.set(key, 0.0)

        delays = Delays(due)
        delays.set("again", 0.0)
        await virtual_time.pass_time(SOON)
        return found

    assert virtual_time.run(play()) == ["again"] * 3
