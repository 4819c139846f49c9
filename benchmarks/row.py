"""A row: one figure, the bar it is held to, and what stands beside it.

A bar is text that carries its relation (`<= 30`), so that a table and a JSON reader see the same; a
row without a bar tells something and can fail nothing. An aim is a bar that may be missed: it is
said, and fails nothing.
"""

from dataclasses import dataclass, replace

Figure = float | int | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a suite's table. `peer` names what was measured beside it in the same run."""

    name: str
    value: Figure
    unit: str
    bar: str | None = None
    holds: bool = True
    aim: bool = False
    peer: str | None = None
    peer_value: Figure = None

    @property
    def fails(self) -> bool:
        return not self.holds and not self.aim


def told(
    name: str, value: Figure, unit: str, *, peer: str | None = None, peer_value: Figure = None
) -> Row:
    """A figure that is held to nothing."""
    return Row(name=name, value=value, unit=unit, peer=peer, peer_value=peer_value)


def at_most(
    name: str,
    value: float,
    unit: str,
    bar: float,
    *,
    peer: str | None = None,
    peer_value: Figure = None,
) -> Row:
    """A figure that must not exceed its bar; NaN does not hold."""
    holds = value <= bar
    text = f"<= {bar:,g}"
    return Row(
        name=name, value=value, unit=unit, bar=text, holds=holds, peer=peer, peer_value=peer_value
    )


def aims_at(
    name: str,
    value: float,
    unit: str,
    aim: float,
    *,
    peer: str | None = None,
    peer_value: Figure = None,
) -> Row:
    """A figure that should not exceed its aim; NaN misses it."""
    row = at_most(name, value, unit, aim, peer=peer, peer_value=peer_value)
    return replace(row, aim=True)


def clocked(row: Row, *, short: bool) -> Row:
    """A figure by this machine's clock: an aim in a short run, beside which the machine may build.

    Processor time is of the same kind: a slower machine has another bar.
    """
    return replace(row, aim=row.aim or short)


def with_aim(row: Row, aim: float) -> Row:
    """The same figure, which should not exceed the aim."""
    assert isinstance(row.value, float)
    return replace(row, bar=f"<= {aim:,g}", holds=row.value <= aim, aim=True)


def at_least(name: str, value: float, unit: str, bar: float) -> Row:
    """A figure that must reach its bar; NaN does not hold."""
    return Row(name=name, value=value, unit=unit, bar=f">= {bar:,g}", holds=value >= bar)


def exactly(name: str, value: int, unit: str, bar: int) -> Row:
    """A count that must be met to the last one."""
    return Row(name=name, value=value, unit=unit, bar=f"= {bar:,d}", holds=value == bar)


def below_peer(name: str, value: float, unit: str, *, peer: str, peer_value: float) -> Row:
    """A figure that must be less than the one beside it."""
    return Row(
        name=name,
        value=value,
        unit=unit,
        bar="< peer",
        holds=value < peer_value,
        peer=peer,
        peer_value=peer_value,
    )


def broken(name: str, why: str) -> Row:
    """A measurement that did not come about."""
    return Row(name=name, value=why, unit="", bar="runs", holds=False)
