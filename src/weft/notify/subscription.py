"""Who is told of what: rules of whoever runs the world, and the wish of a job's file."""

from collections.abc import Mapping
from dataclasses import dataclass

from weft.notify.notice import Notice, Occasion


@dataclass(frozen=True, slots=True)
class Rule:
    """On these occasions tell those targets; empty fields hold for every queue and owner."""

    on: frozenset[Occasion]
    to: tuple[str, ...]
    queue: str = ""
    owner: str = ""

    def fits(self, notice: Notice) -> bool:
        return (
            notice.occasion in self.on
            and self.queue in ("", notice.queue)
            and self.owner in ("", notice.namespace)
        )


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """All rules; nobody is told the same thing twice."""

    rules: tuple[Rule, ...] = ()

    def targets(self, notice: Notice, asked: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
        named = [name for rule in self.rules if rule.fits(notice) for name in rule.to]
        return tuple(dict.fromkeys((*asked.get(notice.occasion.value, ()), *named)))
