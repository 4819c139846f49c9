"""A party: who holds seats. One job today; a group of jobs that take turns on them later.

This is the seam for interleaving. Seats, what a node has given away, and what a queue uses are
asked by party, and a party has one row among the seats whoever its members are. A job that has its
GPUs to itself is a party of one, whose row is its own slot; so naming parties costs nothing. What a
party of several will need beside that row is its members and who answers for its quota: a table
from members to `PartyRow`, read where a job is started, resized or stopped. Everything that counts
seats is then right as it stands.
"""

from typing import TypeAlias

PartyRow: TypeAlias = int
"""The row of a party in `SeatColumns.slot`: of a job alone, its slot."""
