"""What jobs may name for their pods, as an administrator allows it.

Who may read a secret is asked by the API server when the job is created, through a policy of the
chart. Where that policy is not installed nobody has asked, and jobs that name one are refused.
"""

from dataclasses import dataclass
from typing import Final

from weft.spec.job_file import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """`lending`: whether a policy has asked who may use what a job names."""

    lending: bool = False
    priority_classes: tuple[str, ...] = ()
    tolerations: tuple[str, ...] = ()

    @property
    def guarded(self) -> bool:
        """Whether the chart's policies act: that one comes with all others."""
        return self.lending

    def refusal(self, spec: JobSpec) -> str:
        """Why a job cannot have what it names, with a way out; empty where it can."""
        if not self.lending and (spec.secrets or spec.config_maps or spec.service_account):
            return (
                "nobody checks here who may use secrets, ConfigMaps and service accounts: ask for "
                "the chart's admissionPolicy.enabled, or leave them out"
            )
        if spec.priority_class and spec.priority_class not in self.priority_classes:
            return _not_allowed("priority_class", spec.priority_class, self.priority_classes)
        for key in spec.tolerations:
            if key not in self.tolerations:
                return _not_allowed("tolerations", key, self.tolerations)
        return ""


ALL_PERMITTED: Final = Permissions(lending=True)


def _not_allowed(field: str, name: str, allowed: tuple[str, ...]) -> str:
    known = f"one of {', '.join(allowed)}" if allowed else "none"
    return f"{field} names {name}, and this cluster allows {known}: choose another, or remove it"
