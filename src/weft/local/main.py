"""`serve(options)`: the daemon, in this process, until it is told to stop."""

import asyncio
import logging
import sys
from contextlib import closing

from weft.local.daemon import Daemon
from weft.local.journals import Journals
from weft.local.options import LocalOptions


def serve(options: LocalOptions) -> None:
    """Blocks; what it has to say goes to standard error."""
    logging.basicConfig(
        stream=sys.stderr,
        level=options.log_level.upper(),
        format="%(asctime)s %(levelname)s %(message)s",
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    with closing(Journals(options.journal)) as journals:
        asyncio.run(_serve(options, journals))


async def _serve(options: LocalOptions, journals: Journals) -> None:
    await Daemon(options, journals).serve()
