"""Who is looked at next, and that a long queue holds nobody else up."""

import asyncio

from weft.kube.operator.executor.work_queue import WorkQueue


def test_each_waits_once_and_in_order() -> None:
    async def scene() -> None:
        queue = WorkQueue()
        for key in ("a", "b", "a", "c"):
            queue.put(key)
        assert len(queue) == 3 and "b" in queue
        assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]
        assert len(queue) == 0 and "b" not in queue

    asyncio.run(scene())


def test_whoever_was_decided_about_goes_first_and_only_once() -> None:
    async def scene() -> None:
        queue = WorkQueue()
        for key in ("a", "b", "c"):
            queue.put(key)
        queue.put_first("c")
        queue.put_first("d")
        queue.put_first("c")
        queue.put("d")
        assert len(queue) == 4
        assert [await queue.get() for _ in range(4)] == ["c", "d", "a", "b"]

    asyncio.run(scene())


def test_one_that_came_forward_may_wait_again() -> None:
    async def scene() -> None:
        queue = WorkQueue()
        queue.put("a")
        queue.put("b")
        queue.put_first("b")
        assert await queue.get() == "b"
        queue.put("b")
        assert [await queue.get() for _ in range(2)] == ["a", "b"]
        assert len(queue) == 0
        waiting = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        assert not waiting.done()
        queue.put("z")
        assert await waiting == "z"

    asyncio.run(scene())


def test_a_line_that_never_ends_lets_others_have_their_turn() -> None:
    async def scene() -> None:
        queue = WorkQueue()
        queue.put("a")

        async def for_ever() -> None:
            while True:
                queue.put(await queue.get())

        workers = [asyncio.create_task(for_ever()) for _ in range(4)]
        for _ in range(10):
            await asyncio.sleep(0)
        for worker in workers:
            worker.cancel()

    asyncio.run(scene())
