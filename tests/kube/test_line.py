"""Who is looked at next, and that a long line holds nobody else up."""

import asyncio

from weft.kube.operator.line import Line


def test_each_waits_once_and_in_order() -> None:
    async def scene() -> None:
        line = Line()
        for key in ("a", "b", "a", "c"):
            line.put(key)
        assert len(line) == 3 and "b" in line
        assert [await line.get() for _ in range(3)] == ["a", "b", "c"]
        assert len(line) == 0 and "b" not in line

    asyncio.run(scene())


def test_whoever_was_decided_about_goes_first_and_only_once() -> None:
    async def scene() -> None:
        line = Line()
        for key in ("a", "b", "c"):
            line.put(key)
        line.put_first("c")
        line.put_first("d")
        line.put_first("c")
        line.put("d")
        assert len(line) == 4
        assert [await line.get() for _ in range(4)] == ["c", "d", "a", "b"]

    asyncio.run(scene())


def test_one_that_came_forward_may_wait_again() -> None:
    async def scene() -> None:
        line = Line()
        line.put("a")
        line.put("b")
        line.put_first("b")
        assert await line.get() == "b"
        line.put("b")
        assert [await line.get() for _ in range(2)] == ["a", "b"]
        assert len(line) == 0
        waiting = asyncio.create_task(line.get())
        await asyncio.sleep(0)
        assert not waiting.done()
        line.put("z")
        assert await waiting == "z"

    asyncio.run(scene())


def test_a_line_that_never_ends_lets_others_have_their_turn() -> None:
    async def scene() -> None:
        line = Line()
        line.put("a")

        async def for_ever() -> None:
            while True:
                line.put(await line.get())

        workers = [asyncio.create_task(for_ever()) for _ in range(4)]
        await asyncio.wait_for(asyncio.sleep(0.05), 5.0)
        for worker in workers:
            worker.cancel()

    asyncio.run(scene())
