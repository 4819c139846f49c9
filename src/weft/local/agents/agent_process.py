"""A process that is to become an agent, and what it prints before it is one."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO, Final

from weft.local.agents.account import Account

MAX_BYTES: Final = 4096


class AgentProcess(subprocess.Popen[bytes]):
    """Leads a session under an account.

    Its standard error goes to memory until the agent opens its log: that says why a start failed.
    """

    def __init__(
        self,
        command: Sequence[str],
        account: Account,
        environment: Mapping[str, str],
        order: IO[bytes],
    ) -> None:
        self._errors = os.memfd_create("weft-start", os.MFD_CLOEXEC)
        super().__init__(
            command,
            stdin=order,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            cwd="/",
            env=environment,
            start_new_session=True,
            **account.switch,
        )

    def said(self) -> str:
        """The end of what it printed."""
        size = os.fstat(self._errors).st_size
        printed = os.pread(self._errors, MAX_BYTES, max(size - MAX_BYTES, 0))
        return printed.decode(errors="replace")

    def __del__(self) -> None:
        if hasattr(self, "_errors"):
            os.close(self._errors)
        super().__del__()
