"""`serve(options)`: the daemon, in this process, until it is told to stop."""

import asyncio
import logging
import os
import sys
from contextlib import closing

from weft.api.peer import user_name
from weft.local.daemon import Daemon
from weft.local.journals import Journals
from weft.local.options import LocalOptions
from weft.local.record.entry import Owner
from weft.view.health import Verdict

log = logging.getLogger(__name__)


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
    daemon = Daemon(options, journals)
    checking = asyncio.create_task(asyncio.to_thread(_check_users, daemon))
    await daemon.serve()
    await checking


def _check_users(daemon: Daemon) -> None:
    """A service has no terminal: its log says that other users cannot start jobs."""
    uid = os.getuid()
    found = daemon.user_check.finding(Owner(user_name(uid), uid, os.getgid()))
    if found.verdict is Verdict.FAIL:
        log.warning("%s: %s; remedy: %s", found.check, found.text, found.remedy)
