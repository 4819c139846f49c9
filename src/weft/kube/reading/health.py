"""`weft doctor`: what has to be in place before a job can run, each checked by itself.

A check never raises: what cannot be found out is a finding too. Each finding that is not well
carries the one thing to do about it.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from weft.kube.client.errors import ApiError, Forbidden, NotFound
from weft.kube.names import API_VERSION, GROUP, JOBS, LEASE, QUEUES, VERSION, WAIT_REPORTS
from weft.kube.node_rules import NodeRules
from weft.kube.reading.fields import Plain, count, moment, part
from weft.kube.reading.node_reader import NODES, gpu_resource, selected
from weft.kube.reading.paging import list_all
from weft.kube.reading.queues import list_queues
from weft.kube.reading.settings import read_node_rules
from weft.view.health import Finding, Verdict

if TYPE_CHECKING:
    from weft.kube.client.api import Api

REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
LEASES: Final = "/apis/coordination.k8s.io/v1"
OLDEST_MINOR: Final = 34
SKEW_WARN_SECONDS: Final = 2.0
SKEW_FAIL_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Right:
    """Something a user of Weft does; without a needed one, daily commands fail."""

    verb: str
    resource: str
    group: str = GROUP
    cluster: bool = False
    needed: bool = True
    used_by: str = ""

    @property
    def words(self) -> str:
        return f"{self.verb} {self.resource}"


RIGHTS: Final = (
    Right("create", JOBS, used_by="submit"),
    Right("get", JOBS, used_by="show, why"),
    Right("list", JOBS, used_by="ls"),
    Right("watch", JOBS, used_by="wait, ls --watch"),
    Right("patch", JOBS, used_by="cancel"),
    Right("list", "pods", "", used_by="logs", needed=False),
    Right("get", "pods/log", "", used_by="logs", needed=False),
    Right("list", "events", "", used_by="show", needed=False),
    Right("list", QUEUES, cluster=True, used_by="queues", needed=False),
    Right("list", "nodes", "", cluster=True, used_by="nodes, top", needed=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patient:
    """What is looked at, and from where: our clock may be ahead of the server's."""

    api: "Api"
    namespace: str
    operator_namespace: str | None = None
    skew_seconds: float = 0.0

    def now(self) -> datetime:
        """The server's time."""
        return datetime.now(UTC) - timedelta(seconds=self.skew_seconds)


Check = Callable[[Patient], Awaitable[list[Finding]]]


async def diagnose(patient: Patient) -> tuple[Finding, ...]:
    """All findings, in the order in which they build on each other."""
    findings = [skew_finding(patient.skew_seconds)]
    for name, check in CHECKS.items():
        try:
            findings += await check(patient)
        except ApiError as error:
            findings.append(Finding(name, Verdict.FAIL, str(error), error.hint))
    return tuple(findings)


async def _server(patient: Patient) -> list[Finding]:
    version = await patient.api.get("/version")
    text = f"Kubernetes {version.get('gitVersion', 'of unknown version')}"
    minor = count(str(version.get("minor", "")).rstrip("+"))
    if minor and minor < OLDEST_MINOR:
        hint = f"upgrade to 1.{OLDEST_MINOR} or later; older ones are not tested"
        return [Finding("server", Verdict.WARN, text, hint)]
    return [Finding("server", Verdict.OK, text)]


def skew_finding(skew_seconds: float) -> Finding:
    """Ages and the freshness of the lease are differences between two clocks."""
    off = abs(skew_seconds)
    if off <= SKEW_WARN_SECONDS:
        return Finding("clock", Verdict.OK, "in step with the server's")
    where = "ahead of" if skew_seconds > 0 else "behind"
    verdict = Verdict.FAIL if off > SKEW_FAIL_SECONDS else Verdict.WARN
    text = f"this machine's is {off:.0f} s {where} the server's"
    return Finding("clock", verdict, text, "synchronise it, for example with chrony")


async def _crds(patient: Patient) -> list[Finding]:
    install = "install the chart: helm install weft charts/weft (its crds/ come with it)"
    try:
        served = await patient.api.get(f"/apis/{API_VERSION}")
    except NotFound:
        return [Finding("crds", Verdict.FAIL, await _missing_version(patient.api), install)]
    names = {resource["name"] for resource in served.get("resources") or ()}
    missing = [name for name in (JOBS, f"{JOBS}/status", QUEUES) if name not in names]
    if missing:
        text = f"{API_VERSION} lacks {', '.join(missing)}"
        return [Finding("crds", Verdict.FAIL, text, install)]
    if WAIT_REPORTS not in names:
        text = f"{API_VERSION} lacks {WAIT_REPORTS}: reasons reach each status, slowly in a crowd"
        apply = "kubectl apply --server-side --force-conflicts -f charts/weft/crds"
        return [Finding("crds", Verdict.WARN, text, apply)]
    told = f"{JOBS}, {QUEUES} and {WAIT_REPORTS} of {API_VERSION} are served"
    return [Finding("crds", Verdict.OK, told)]


async def _missing_version(api: "Api") -> str:
    try:
        group = await api.get(f"/apis/{GROUP}")
    except NotFound:
        return f"the server knows nothing of {GROUP}"
    served = ", ".join(version["version"] for version in group.get("versions") or ())
    return f"{GROUP} is served as {served}; this program speaks {VERSION}"


async def _rights(patient: Patient) -> list[Finding]:
    return [await _right(patient, right) for right in RIGHTS]


async def _right(patient: Patient, right: Right) -> Finding:
    namespace = patient.namespace
    resource, _, sub = right.resource.partition("/")
    asked = {"verb": right.verb, "group": right.group, "resource": resource, "subresource": sub}
    asked |= {} if right.cluster else {"namespace": namespace}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer = await patient.api.create(REVIEWS, review)
    where = "in the cluster" if right.cluster else f"in '{namespace}'"
    if part(answer, "status").get("allowed"):
        return Finding("rights", Verdict.OK, f"may {right.words} {where}")
    role = "weft-cluster-view" if right.cluster else "edit"
    verdict = Verdict.FAIL if right.needed else Verdict.WARN
    text = f"may not {right.words} {where} (used by {right.used_by})"
    return Finding("rights", verdict, text, f"ask an administrator for the role '{role}'")


async def _gpus(patient: Patient) -> list[Finding]:
    try:
        rules = await read_node_rules(patient.api)
        nodes = (await list_all(patient.api, NODES, selected(rules))).items
    except Forbidden:
        return [_unseen("gpus", "nodes", "weft-cluster-view")]
    if rules.selector and not nodes:
        text = f"no node has the labels {selected(rules)['labelSelector']}"
        return [
            Finding("gpus", Verdict.FAIL, text, "label nodes, or mend the chart's nodes.selector")
        ]
    found: Counter[str] = Counter()
    for node in nodes:
        resource = gpu_resource(node, rules)
        found[resource] += count(part(node, "status", "allocatable").get(resource))
    having = [name for name in sorted(found) if found[name]]
    if having:
        text = ", ".join(f"{found[name]:,} of {name}" for name in having)
        return [Finding("gpus", Verdict.OK, f"{text} on {_share(nodes, rules)}")]
    text = f"none of {len(nodes):,} nodes offers {' or '.join(rules.gpu_resources)}"
    return [Finding("gpus", Verdict.WARN, text, "install NVIDIA's GPU operator or device plugin")]


def _share(nodes: Sequence[Plain], rules: NodeRules) -> str:
    offers = [part(node, "status", "allocatable").get(gpu_resource(node, rules)) for node in nodes]
    return f"{sum(count(one) > 0 for one in offers):,} of {len(nodes):,} nodes"


async def _lease(patient: Patient) -> list[Finding]:
    named = patient.operator_namespace
    within = f"/namespaces/{named}" if named else ""
    only = {"fieldSelector": f"metadata.name={LEASE}"}
    try:
        leases = (await list_all(patient.api, f"{LEASES}{within}/leases", only)).items
    except Forbidden:
        return [_unseen("operator", "leases", "view in the operator's namespace")]
    return [lease_finding(leases, patient.now())]


def lease_finding(leases: tuple[dict[str, Any], ...], now: datetime) -> Finding:
    """Whether somebody leads, and has said so lately."""
    if not leases:
        text, hint = (
            f"no lease '{LEASE}': no operator ever led here",
            "helm install weft charts/weft",
        )
        return Finding("operator", Verdict.FAIL, text, hint)
    held = [lease for lease in leases if part(lease, "spec").get("holderIdentity")]
    if not held:
        return Finding("operator", Verdict.FAIL, "nobody leads", _LOOK)
    spec = part(held[0], "spec")
    renewed = moment(spec.get("renewTime"))
    age = float("inf") if renewed is None else (now - renewed).total_seconds()
    who = f"{spec['holderIdentity']} in '{held[0]['metadata']['namespace']}'"
    if age > float(spec.get("leaseDurationSeconds") or 0):
        text = f"{who} led until {age:,.0f} s ago" if renewed else f"{who} never renewed its lease"
        return Finding("operator", Verdict.FAIL, text, _LOOK)
    return Finding("operator", Verdict.OK, f"{who} leads, renewed {max(age, 0):.0f} s ago")


_LOOK: Final = (
    "look at the operator's pods and their logs: kubectl get pods -A -l app.kubernetes.io/name=weft"
)


async def _queues(patient: Patient) -> list[Finding]:
    try:
        queues = await list_queues(patient.api)
    except Forbidden:
        return [_unseen("queues", QUEUES, "weft-cluster-view")]
    if not queues:
        hint = "create a Queue (kubectl explain queue.spec); the chart makes one named default"
        return [Finding("queues", Verdict.WARN, "there is no queue", hint)]
    findings = [
        Finding(
            "queues",
            Verdict.FAIL,
            f"'{queue.name}': {queue.message or 'not ready'}",
            "mend its spec",
        )
        for queue in queues
        if queue.ready is False
    ]
    if not any(queue.serves(patient.namespace) for queue in queues):
        text = f"no queue takes jobs of namespace '{patient.namespace}'"
        findings.append(Finding("queues", Verdict.FAIL, text, "add it to a queue's namespaces"))
    unseen = [queue.name for queue in queues if queue.ready is None]
    if unseen:
        text = f"no operator has looked at {', '.join(unseen)}"
        findings.append(Finding("queues", Verdict.WARN, text, "is the operator up?"))
    return findings or [Finding("queues", Verdict.OK, f"{len(queues):,} ready")]


def _unseen(check: str, what: str, role: str) -> Finding:
    return Finding(check, Verdict.WARN, f"you may not list {what}", f"ask for the role '{role}'")


CHECKS: Final[dict[str, Check]] = {
    "server": _server,
    "crds": _crds,
    "rights": _rights,
    "gpus": _gpus,
    "operator": _lease,
    "queues": _queues,
}
