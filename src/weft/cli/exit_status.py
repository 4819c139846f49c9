"""Exit statuses: scripts rely on them, so there is one list, and it only grows."""

from enum import IntEnum


class Exit(IntEnum):
    """With its meaning attached, for the page that documents the commands."""

    meaning: str

    OK = 0, "done; for wait and logs -f: the job succeeded"
    FAILED = 1, "Weft found something wrong by itself, the job failed, or somebody said no"
    USAGE = 2, "something written cannot be used: an option, a name, a job file, a missing job"
    CANCELLED = 3, "the job was cancelled or deleted"
    TIMEOUT = 4, "the time was up before the job got there"
    WORLD = 5, "the cluster or the machine's own world could not be reached, or refused"
    INTERRUPTED = 130, "Ctrl-C; a job goes on without being looked at"

    def __new__(cls, value: int, meaning: str) -> "Exit":
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member


def of_job(state: str | None) -> Exit:
    """What a job's last state means for whoever waited for it; None where it was deleted."""
    if state is None or state == "Cancelled":
        return Exit.CANCELLED
    return Exit.FAILED if state == "Failed" else Exit.OK
