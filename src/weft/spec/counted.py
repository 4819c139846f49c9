"""The unit of a job's work, for worlds that hear of its script's steps.

A job file that states a duration counts work in seconds, and steps are a share of them. One that
does not has the steps of its script for a unit, and learns their total from the script. So whatever
is said of one job (done, kept, per second) is said in one unit.
"""

from weft.model.claim import WorkClaim


def work_in_steps(work: WorkClaim | None, steps: float, total: float | None) -> float | None:
    """So many steps, or so many per second, in the job's unit; None where that cannot be said."""
    if work is None:
        return steps
    if not total or total < 0:
        return None
    return steps / total * work.amount


def stated_by_script(work: WorkClaim | None, total: float | None) -> float | None:
    """The whole work as the script states it, where the job file does not."""
    return None if work is not None or not total or total < 0 else float(total)
