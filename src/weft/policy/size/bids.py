"""Bids: what a hand-out of GPUs has to know of each job, as columns in rank order."""

from dataclasses import dataclass, fields

import numpy as np

from weft.model.menu import Menus
from weft.model.snapshot import Bools, Floats, Ints, Snapshot
from weft.model.state import State
from weft.policy.supply import Supply


@dataclass(frozen=True, slots=True)
class Bids:
    """One row per job, best rank first.

    `work` is what is left in the unit of the job's menu, so that `work / speed` of a row is the
    seconds left there on the GPU type that it would have; NaN where nobody knows. `held` is the
    width of a job that runs, 0 of one that waits. A job is `stuck` if it runs and cannot be resized
    live. Jobs of one `pool` are supplied from the same budgets.
    """

    menu: Ints
    pool: Ints
    work: Floats
    least: Ints
    most: Ints
    held: Ints
    stuck: Bools
    attained: Floats
    seq: Ints

    @classmethod
    def of(cls, snapshot: Snapshot, slots: Ints, supply: Supply) -> "Bids":
        jobs = snapshot.jobs
        runs = jobs.state[slots] == State.RUNNING
        with np.errstate(divide="ignore", invalid="ignore"):
            work = snapshot.remaining_work(slots) / (jobs.scale[slots] * supply.type_speed)
        return cls(
            menu=jobs.menu[slots],
            pool=supply.pool,
            work=work,
            least=jobs.min_gpus[slots],
            most=jobs.max_gpus[slots],
            held=np.where(runs, jobs.width[slots], 0),
            stuck=runs & ~jobs.live[slots],
            attained=snapshot.attained(slots),
            seq=jobs.seq[slots],
        )

    def useful(self, menus: Menus, least: Ints) -> Ints:
        """The widest that each may be and gains by; never less than the given least."""
        return np.maximum(np.minimum(self.most, menus.widest[self.menu]), least)

    def of_rows(self, rows: Ints) -> "Bids":
        return Bids(**{column.name: getattr(self, column.name)[rows] for column in fields(self)})
