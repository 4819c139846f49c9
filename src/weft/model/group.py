"""A group: jobs interleaved on the same GPUs, their steps offset so that stages alternate.

Muri's form: members take turns on storage, CPU, GPU and network. Alone is a group of one and is
written as no group at all.
"""

from dataclasses import dataclass

from weft.model.ids import GroupId, JobId


@dataclass(frozen=True, slots=True)
class Group:
    """Members in order of their stage offset; all hold the same seats."""

    id: GroupId
    members: tuple[JobId, ...]
    offsets: tuple[int, ...] = ()
