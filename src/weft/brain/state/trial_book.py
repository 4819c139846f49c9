"""Which gangs are to be tried on one GPU first, whose trials are under way, and who is trusted."""

from dataclasses import dataclass, field

from weft.model.ids import JobId, TenantId

Program = tuple[TenantId, str]


@dataclass(slots=True)
class TrialBook:
    """`candidates` in the order of their submission; `arrived` is when the last of them came."""

    candidates: dict[JobId, None] = field(default_factory=dict)
    under_way: dict[JobId, None] = field(default_factory=dict)
    trusted: set[Program] = field(default_factory=set)
    arrived: tuple[float, ...] = ()

    def copied(self) -> "TrialBook":
        return TrialBook(
            dict(self.candidates), dict(self.under_way), set(self.trusted), self.arrived
        )
