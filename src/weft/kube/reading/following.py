"""Keeping a cache up to date for as long as somebody looks at it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.kube.client.cache import Cache


@asynccontextmanager
async def kept_up(*caches: "Cache[Any]") -> AsyncIterator[None]:
    """While inside, the caches follow the server; a broken connection is taken up again."""
    followers = [asyncio.create_task(cache.run()) for cache in caches]
    try:
        yield
    finally:
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)
