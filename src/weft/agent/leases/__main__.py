"""`python -m weft.agent.leases FOLDER`: the lease server of the jobs that meet in a folder."""

import ctypes
import os
import signal
import sys
from pathlib import Path

from weft.agent.leases.server import serve

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Until whoever started it ends."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    try:
        serve(Path(sys.argv[1]))
    except OSError as error:
        sys.exit(f"no leases in {sys.argv[1]}: {error}")


if __name__ == "__main__":
    main()
