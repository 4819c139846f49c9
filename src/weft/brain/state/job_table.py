"""The jobs as rows. A row is given back when its job is over, and then another job's."""

from weft.model.snapshot import JobColumns


class JobTable:
    """The columns, which move when they grow, and the rows that are free."""

    def __init__(self) -> None:
        self.columns = JobColumns.empty(64)
        self.size = 0
        self._blocks = self.columns.blocks()
        self._free: list[int] = []

    def take(self) -> int:
        """A row that is nobody's, all zero."""
        if self._free:
            row = self._free.pop()
            for block in self._blocks:
                block[:, row] = 0
            return row
        row = self.size
        self.size += 1
        if row >= len(self.columns.active):
            self.columns = self.columns.grown(2 * row)
            self._blocks = self.columns.blocks()
        return row

    def give_back(self, row: int) -> None:
        self.columns.active[row] = False
        self._free.append(row)

    def copied(self) -> "JobTable":
        twin = JobTable()
        twin.columns, twin.size, twin._free = self.columns.copied(), self.size, list(self._free)
        twin._blocks = twin.columns.blocks()
        return twin
