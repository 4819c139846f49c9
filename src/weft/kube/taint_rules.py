"""Taints that somebody gives to devices by rule (DeviceTaintRule), as if their driver had.

A rule selects by driver, pool and name, all that it says must fit. What it selects by expressions,
as early versions could, cannot be told here; such a rule is left out.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from weft.kube.claims import Manifest
from weft.kube.client.errors import NotFound
from weft.kube.devices import KEEPS_AWAY, MOST_TOLD, ObservedSlice, taint_trouble
from weft.kube.trouble import Trouble

if TYPE_CHECKING:
    from weft.kube.client.api import Api

VERSIONS: Final = ("v1", "v1beta2", "v1alpha3")  # the newest that is served counts
NOT_TOLD_HERE: Final = "selectors"


@dataclass(frozen=True, slots=True)
class TaintRule:
    """Which devices, None for any; and the taint."""

    driver: str | None
    pool: str | None
    device: str | None
    taint: tuple[tuple[str, str], ...]

    def selects(self, one: ObservedSlice) -> frozenset[str]:
        """Those of the slice that it taints."""
        if self.driver not in (None, one.driver) or self.pool not in (None, one.pool):
            return frozenset()
        return one.names if self.device is None else one.names & {self.device}

    def trouble(self, device: str) -> Trouble:
        return taint_trouble(device, dict(self.taint))


@dataclass(frozen=True, slots=True)
class ServedRules:
    """Those that keep somebody away, and the version by which they are served."""

    version: str
    rules: tuple[TaintRule, ...]


async def served_rules(
    api: "Api", gpu_class: str, versions: Iterable[str] = VERSIONS
) -> ServedRules | None:
    """By the first of these versions that is served; None where none is."""
    for version in versions:
        try:
            found = await api.get(rules_path(version))
        except NotFound:
            continue
        read = (read_rule(raw, gpu_class) for raw in found.get("items") or ())
        return ServedRules(version, tuple(rule for rule in read if rule is not None))
    return None


def rules_path(version: str) -> str:
    return f"/apis/resource.k8s.io/{version}/devicetaintrules"


def read_rule(raw: Manifest, gpu_class: str) -> TaintRule | None:
    """None where it keeps nobody away, or selects nothing that can be told."""
    spec = raw.get("spec") or {}
    selector, taint = spec.get("deviceSelector"), spec.get("taint") or {}
    if selector is None or taint.get("effect") not in KEEPS_AWAY or selector.get(NOT_TOLD_HERE):
        return None
    if selector.get("deviceClassName", gpu_class) != gpu_class:
        return None
    driver = gpu_class if "deviceClassName" in selector else selector.get("driver")
    said = {key: str(taint[key]) for key in ("key", "value", "timeAdded") if taint.get(key)}
    return TaintRule(driver, selector.get("pool"), selector.get("device"), tuple(said.items()))


def with_rules(one: ObservedSlice, rules: Iterable[TaintRule]) -> ObservedSlice:
    """The slice as if its driver had said all of it."""
    for rule in rules:
        away = rule.selects(one)
        if not away:
            continue
        told = (*one.tainted, *map(rule.trouble, sorted(away)))[:MOST_TOLD]
        one = replace(
            one,
            devices=one.devices - len(away),
            names=one.names - away,
            kept_away=one.kept_away | away,
            tainted=told,
        )
    return one
