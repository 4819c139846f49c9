"""Why the jobs of a namespace wait, in one object that changes as often as the reasons do.

A reason that stood in each job's status would cost a write for each job whenever the cluster
changes. Here one write tells of hundreds of jobs. Whoever may read the jobs of a namespace may
read its reports, and nobody else.
"""

from typing import Annotated

from pydantic import Field

from weft.kube.resources.status import Count, Moment, Status, Text, Word

MOST_JOBS = 4_096  # of one part: far above what the operator puts into one
MOST_REASONS = 3 * MOST_JOBS

Reasons = Annotated[list[Count], Field(max_length=8)]
Jobs = Annotated[dict[str, Reasons], Field(max_length=MOST_JOBS)]


class ToldReason(Status):
    """A reason, told once for all jobs that have it."""

    code: Word = Field(description="Its code, from the list of reasons.")
    text: Text = Field(description="The reason with its numbers.")
    remedy: Text = Field("", description="What its owner could do.")


class WaitReportStatus(Status):
    """One part of what is told of a namespace; the operator alone writes it."""

    at: Moment = Field(description="When it was true.")
    leader: Count = Field(0, description="Lease transitions of the operator that tells it.")
    part: Count = Field(description="Which part this is, from 0.")
    parts: Annotated[int, Field(ge=1)] = Field(
        description="How many parts there are; the CRC-32 of a job's name, modulo this, is its own."
    )
    waiting: Count = Field(description="Jobs in this part.")
    reasons: Annotated[list[ToldReason], Field(max_length=MOST_REASONS)] = Field(
        [], description="All reasons of these jobs, each once."
    )
    queued: Jobs = Field(
        {}, description="Jobs that are queued: for each its reasons by their place in the list."
    )
    admitted: Jobs = Field(
        {}, description="Jobs whose seats are assigned and still being freed, in the same way."
    )
