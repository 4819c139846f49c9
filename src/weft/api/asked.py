"""What a request may hold, checked at the edge: unknown fields are refused, and so is any guess."""

from typing import Annotated, Any

from fastapi import Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from weft.api.backend import CARRIED, Farewell, Identity, JobKey, Origin, Selection
from weft.api.errors import Forbidden
from weft.model.trial import SUFFIX
from weft.spec.job_file import MAX_NAME, NAME_PATTERN
from weft.spec.pod_fields import OBJECT_PATTERN
from weft.view.logs import Which
from weft.view.states import STATES

MOST_RANKS = 1024
OWNER_PATTERN = r"^[A-Za-z0-9._][A-Za-z0-9._@-]*\$?$"  # what useradd takes, and a namespace

Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=MAX_NAME)]
# Nobody submits a trial, but it can be looked at.
SHOWN_PATTERN = f"{NAME_PATTERN.removesuffix('$')}({SUFFIX})?$"
NamePart = Annotated[str, Path(pattern=SHOWN_PATTERN, max_length=MAX_NAME + len(SUFFIX))]
Carried = Annotated[str, Field(pattern=f"^({'|'.join(CARRIED)})$")]
Value = Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=16_384)]
Owner = Annotated[str, Field(pattern=OWNER_PATTERN, max_length=256)]


class Asked(BaseModel):
    """Part of a request."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class From(Asked):
    """Where a job was submitted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    workdir: Annotated[str, Field(pattern=r"^(/[^\x00]*)?$", max_length=4_096)] = ""
    environment: dict[Carried, Value] = {}

    @property
    def origin(self) -> Origin:
        return Origin(self.workdir, dict(self.environment))


class Submission(Asked):
    """A job file, the name that the job gets, and where it comes from."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Name
    spec: dict[str, Any]
    origin: From = From()
    dry_run: bool = False


class Cancelling(Asked):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    dry_run: bool = False


class Stopping(Asked):
    jobs: Farewell = Farewell.DRAIN


class Whose(Asked):
    """Whose jobs; the asker's own where nothing is said."""

    owner: Owner | None = None


class Everyone(Whose):
    """Whose jobs, or everybody's."""

    everyone: bool = False

    def owner_for(self, who: Identity) -> str | None:
        return None if self.everyone else self.owner or who.user


class Listing(Everyone):
    """Which jobs. The empty state is that of a job that nobody has looked at yet."""

    state: list[str] = Field([], max_length=len(STATES) + 1)
    queue: Annotated[str, Field(pattern=OBJECT_PATTERN, max_length=63)] | None = None
    limit: int = Field(0, ge=0, le=1_000_000)

    def selection(self, who: Identity) -> Selection:
        return Selection(self.owner_for(who), frozenset(self.state), self.queue, self.limit or None)


class Looking(Everyone):
    """Whose failures, and how far back."""

    days: float = Field(30.0, gt=0, le=3_650)


class Reading(Whose):
    """Whose log of which workers: `rank` may be repeated, `all` means each of them."""

    rank: list[Annotated[int, Field(ge=0)]] = Field([], max_length=MOST_RANKS)
    all: bool = False
    epoch: int | None = Field(None, ge=0)
    tail: int | None = Field(None, ge=0)
    follow: bool = False

    @property
    def which(self) -> Which:
        ranks = None if self.all else frozenset(self.rank or [0])
        return Which(ranks, self.epoch, self.tail)


def asker(request: Request) -> Identity:
    """Who asks; the gate has let nobody through without."""
    who = request.state.identity
    assert isinstance(who, Identity)
    return who


def own_job(request: Request, name: NamePart, whose: Annotated[Whose, Query()]) -> JobKey:
    """The job that is meant, if it is the asker's to look into."""
    return key_for(asker(request), name, whose.owner)


def key_for(who: Identity, name: str, owner: str | None) -> JobKey:
    key = JobKey(owner or who.user, name)
    if not who.may_open(key.owner):
        raise Forbidden(
            f"{key} belongs to {key.owner}; you are {who.user}",
            hint="weft ls -A shows everybody's jobs; only their owners see into them",
        )
    return key
