"""A party: who holds seats. One job, or several that take turns on them.

Seats, what a node has given away, and what a queue uses are asked by party. A job that has its GPUs
to itself is a party of one, whose row is its own slot. Where several take turns, one of them, the
*lead*, holds the GPUs, and the others, its *companions*, sit on the same nodes with their cores and
memory and no GPU of their own; so everything that counts GPUs is right as it stands. When a lead
goes, the GPUs pass to a companion.
"""

from typing import TypeAlias

PartyRow: TypeAlias = int
"""The row of a party in `SeatColumns.slot`: of a job alone, its slot."""
