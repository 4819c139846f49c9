"""How an agent comes into the world: this file, run by itself under the account of the job's owner.

Everything that is done in the owner's folders is done here, as the owner. Creating the token is
what counts as the start: it can be created once, so of two births of one incarnation one ends at
once, and an incarnation that was declared void before can never begin. The agent is imported
before that, from where the order says, whatever the job's own environment says: an account that
cannot read it has not started anything.
"""

import json
import os
import sys
import time
from importlib import import_module
from typing import Any

EXISTS_STATUS = 17
FAILED_STATUS = 70
INFRASTRUCTURE = ("infrastructure", 75)
MOST_WORDS = 500


def main() -> None:
    """What to do comes as JSON on standard input, where no other user can read it."""
    order = json.loads(sys.stdin.buffer.read())
    sys.path[:0] = order["paths"]
    agent = import_module(order["agent"])
    if order.get("check"):
        return
    os.umask(0o077)
    folder: str = order["folder"]
    os.makedirs(folder, mode=0o700, exist_ok=True)
    _once(os.path.join(folder, order["token"]))
    try:
        _settle_in(order)
    except OSError as error:
        _last_words(order, f"{error.filename or ''}: {error.strerror or error}".lstrip(": "))
        sys.exit(FAILED_STATUS)
    # The same process, so that its number stays what the daemon wrote down.
    sys.argv = [order["agent"], *order["arguments"]]
    try:
        agent.main()
    except Exception as error:
        if not os.path.exists(os.path.join(folder, order["outcome"])):
            _last_words(order, f"the agent has failed: {error}", INFRASTRUCTURE, retryable=True)
        raise


def _once(token: str) -> None:
    try:
        handle = os.open(token, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        sys.exit(EXISTS_STATUS)
    os.write(handle, str(os.getpid()).encode())
    os.fsync(handle)
    os.close(handle)


def _settle_in(order: dict[str, Any]) -> None:
    """Into the folder where the job works, with nothing to read and a log to write to."""
    for path in order["need"]:
        os.listdir(path)
    for path in order["make"]:
        os.makedirs(path, mode=0o700, exist_ok=True)
    os.chdir(order["workdir"])
    log = os.open(order["log"], os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for handle, stream in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(handle, stream)
    os.close(log)
    os.close(nothing)
    os.umask(0o022)


def _last_words(
    order: dict[str, Any],
    why: str,
    ending: tuple[str, int] = ("user error", FAILED_STATUS),
    *,
    retryable: bool = False,
) -> None:
    """What an agent would have said, had there been one."""
    outcome, code = ending
    words = {
        "outcome": outcome,
        "exit_code": code,
        "why": why[:MOST_WORDS],
        "retryable": retryable,
        "ended_at": time.time(),
    }
    path = os.path.join(order["folder"], order["outcome"])
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(words, file)
    os.replace(f"{path}.new", path)


if __name__ == "__main__":
    main()
