"""Worker pods: one per seat, made from a closed schema.

A tenant writes a job, never a pod. What ends up in a pod from the job is its command, image,
environment, folders and devices, and names of what its namespace lends it; everything that decides
on rights is written here and is the same for all: the pods fit the PodSecurity profile
`restricted`, have no token for the API server, tolerate what an administrator allows, and are
pinned to the node of their seat. Pods are named by job, epoch and seat, so making one twice is
making it once; a seat that a live resize adds gets a pod of the same kind, in the same epoch.

Where the image has Weft's agent it is the first process: it starts the job's command once, or for
each GPU (`JobSpec.starts_per_gpu`), hears SIGTERM, and lets its workers leave at the end of a step.
Other images run the command in a shell, once.

A gang finds its first worker by name, through a headless service of the job's own. The service is
called `weft-<job>`, because a job may be called as a service that exists, and may begin with a
digit, which a service may not.

Parts that are equal in all pods of a job are built once and shared between the results, which
are therefore to be read, not changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weft.failure.interval import Advice
from weft.kube.claims import CLAIMED, in_pod
from weft.kube.names import (
    API_VERSION,
    EPOCH_LABEL,
    GPU_RESOURCE,
    HEAD_SEAT,
    JOB_KIND,
    JOB_LABEL,
    LEADER_ANNOTATION,
    QUEUE_LABEL,
    RANK_LABEL,
    REPORT_CA_ANNOTATION,
    TOKEN_AUDIENCE,
    pod_name,
)
from weft.kube.node_rules import EVERYWHERE, NodeRules
from weft.kube.pod_environment import (
    MASTER_PORT,
    TOKEN_FOLDER,
    env,
    given_env,
    job_env,
    literal,
    report_env,
    seat_env,
    takes_advice,
    workers_on,
)
from weft.kube.pod_launch import LAUNCH, LAUNCH_PER_GPU, PASS_TERM_ON
from weft.model.errors import SpecError
from weft.model.placement import Seat
from weft.spec.job_file import JobSpec
from weft.spec.pod_fields import Volume
from weft.spec.process_rules import PER_GPU

Manifest = dict[str, Any]

CONTAINER: Final = "worker"
TOKEN_SECONDS: Final = 3600
CA_FILE: Final = f"{TOKEN_FOLDER}/ca.crt"
LOCALHOST: Final = "127.0.0.1"
GIB: Final = 2**30
ROUNDING: Final = 1e-6

CONTAINER_SECURITY: Final[Manifest] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}
# What Weft has placed an autoscaler does not move to save a node; a drain is honoured all the same.
UNDISTURBED: Final = {
    "karpenter.sh/do-not-disrupt": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}
SHARED_MEMORY: Final[Manifest] = {"name": "shm", "emptyDir": {"medium": "Memory"}}
TOKEN: Final[Manifest] = {
    "serviceAccountToken": {
        "audience": TOKEN_AUDIENCE,
        "expirationSeconds": TOKEN_SECONDS,
        "path": "token",
    }
}
# The authority is an annotation of the pod, so that no image and no namespace has to hold it.
AUTHORITY: Final[Manifest] = {
    "downwardAPI": {
        "items": [
            {
                "path": "ca.crt",
                "fieldRef": {"fieldPath": f"metadata.annotations['{REPORT_CA_ANNOTATION}']"},
            }
        ]
    }
}
OWN_MOUNTS: Final[tuple[Manifest, ...]] = (
    {"name": "shm", "mountPath": "/dev/shm"},
    {"name": "weft-token", "mountPath": TOKEN_FOLDER, "readOnly": True},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """What the operator's own settings say about every worker."""

    scheduler_name: str = "default-scheduler"
    default_image: str = ""
    image_pull_policy: str = ""
    run_as_user: int | None = 1000
    report_url: str = ""
    report_ca_path: str = ""
    report_ca: str = ""  # certificates, as PEM; `report_ca_path` stands before it
    isolated: bool = False  # workers of several pods are reached by their own job alone
    reached_from: tuple[tuple[str, str], ...] = ()  # labels of namespaces that reach them too
    nodes: NodeRules = EVERYWHERE

    @property
    def ca_file(self) -> str:
        """Where a worker finds what to check the operator's certificate against."""
        return self.report_ca_path or (CA_FILE if self.report_ca else "")

    @property
    def gives_authority(self) -> bool:
        return bool(self.report_ca and not self.report_ca_path)


@dataclass(frozen=True, slots=True)
class _Gang:
    """What the pods of one placement share; `place` is where a seat stands in it."""

    epoch: int
    seats: tuple[Seat, ...]
    place: dict[int, int]
    env: list[Manifest]


class PodMaker:
    """Makes the pods of one job."""

    def __init__(
        self, settings: WorkerSettings, *, namespace: str, name: str, uid: str, spec: JobSpec
    ) -> None:
        self.uid = uid
        self._settings = settings
        self._namespace = namespace
        self._name = name
        self._owners = [owner_of(name, uid)]
        self._labels = {JOB_LABEL: name, QUEUE_LABEL: spec.queue}
        self._devices = spec.resources.devices_per_gpu or {}
        self._annotations = {**spec.annotations, **UNDISTURBED}
        if settings.gives_authority:
            self._annotations[REPORT_CA_ANNOTATION] = settings.report_ca
        self._env = [*given_env(spec), *job_env(namespace, name, spec)]
        if settings.report_url:
            self._env += report_env(settings.report_url, settings.ca_file, namespace, name)
        self._takes_advice = takes_advice(spec)
        self._container = _container(settings, spec)
        self._pod_spec = _pod_spec(settings, spec)
        self._elastic = spec.resources.width.least < spec.resources.width.most
        self._gang = _Gang(-1, (), {}, [])

    def pod(
        self,
        *,
        epoch: int,
        seats: tuple[Seat, ...],
        number: int,
        leader: int,
        gpu_resource: str = GPU_RESOURCE,
        claim: str = "",
        advice: Advice | None = None,
    ) -> Manifest:
        """The pod of the seat with this number; its rank is the seat's place in the list.

        `gpu_resource` is what GPUs are called on its node; with a `claim` they come from there.
        `advice` says how often to save, where the job does not.
        """
        gang = self._gang_of(epoch, seats)
        rank = gang.place[number]
        seat = seats[rank]
        name = pod_name(self._name, epoch, number)
        container = {
            **self._container,
            "env": [*self._env, *gang.env, *seat_env(seat, rank), *self._advised(advice)],
            "resources": seat_resources(seat, "" if claim else gpu_resource, self._devices),
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": self._namespace,
                "labels": {**self._labels, EPOCH_LABEL: str(epoch), RANK_LABEL: str(number)},
                "annotations": {**self._annotations, LEADER_ANNOTATION: str(leader)},
                "ownerReferences": self._owners,
            },
            "spec": {
                **self._pod_spec,
                **(self._address(name) if self.is_named(seats) else {}),
                **(in_pod(claim) if claim else {}),
                "affinity": _pinned(seat.node),
                "containers": [container],
            },
        }

    def _advised(self, advice: Advice | None) -> list[Manifest]:
        return env(WEFT_SAVE_ADVICE=advice) if advice and self._takes_advice else []

    def pods(self, *, epoch: int, seats: tuple[Seat, ...], leader: int) -> list[Manifest]:
        """One pod for each seat, in rank order."""
        return [
            self.pod(epoch=epoch, seats=seats, number=seat.number, leader=leader) for seat in seats
        ]

    def is_named(self, seats: tuple[Seat, ...]) -> bool:
        """Whether its workers have names: those of a gang, and of one that others may join."""
        return len(seats) > 1 or self._elastic

    def service(self) -> Manifest:
        """Names for the workers of a gang, whether they are ready or not."""
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": service_name(self._name),
                "namespace": self._namespace,
                "labels": self._labels,
                "ownerReferences": self._owners,
            },
            "spec": {
                "clusterIP": "None",
                "selector": {JOB_LABEL: self._name},
                "publishNotReadyAddresses": True,
                "ports": [{"name": "rendezvous", "port": MASTER_PORT}],
            },
        }

    def network_policy(self) -> Manifest:
        """Its workers listen for each other: nobody else reaches them, whatever their key."""
        own: Manifest = {"podSelector": {"matchLabels": {JOB_LABEL: self._name}}}
        others = dict(self._settings.reached_from)
        allowed = [own, *([{"namespaceSelector": {"matchLabels": others}}] if others else [])]
        return {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {
                "name": service_name(self._name),
                "namespace": self._namespace,
                "labels": self._labels,
                "ownerReferences": self._owners,
            },
            "spec": {**own, "policyTypes": ["Ingress"], "ingress": [{"from": allowed}]},
        }

    def _address(self, pod: str) -> Manifest:
        return {"hostname": pod, "subdomain": service_name(self._name)}

    def _gang_of(self, epoch: int, seats: tuple[Seat, ...]) -> _Gang:
        if self._gang.seats is not seats or self._gang.epoch != epoch:
            place = {seat.number: rank for rank, seat in enumerate(seats)}
            self._gang = _Gang(epoch, seats, place, self._gang_env(epoch, seats))
        return self._gang

    def _gang_env(self, epoch: int, seats: tuple[Seat, ...]) -> list[Manifest]:
        master, count = LOCALHOST, len(seats)
        if count > 1:
            first = pod_name(self._name, epoch, HEAD_SEAT)
            master = f"{first}.{service_name(self._name)}.{self._namespace}.svc"
        return env(
            WEFT_EPOCH=epoch,
            WEFT_SEATS=count,
            WEFT_WIDTH=sum(workers_on(seat) for seat in seats),
            MASTER_ADDR=master,
            NNODES=count,
            PET_NNODES=count,
            PET_MASTER_ADDR=master,
            PET_RDZV_ID=f"{self._name}-{epoch}",
        )


def service_name(job: str) -> str:
    """The headless service of a job."""
    return f"weft-{job}"


def image_of(settings: WorkerSettings, spec: JobSpec) -> str:
    """The job's image, or the one that stands in for it."""
    image = spec.image or settings.default_image
    if not image:
        raise SpecError(
            "the job names no image, and this cluster has no default one",
            hint="add image: to the job, or start the operator with --default-image",
        )
    return image


def owner_of(name: str, uid: str) -> Manifest:
    """The job, as the owner of what is made for it."""
    return {
        "apiVersion": API_VERSION,
        "kind": JOB_KIND,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _container(settings: WorkerSettings, spec: JobSpec) -> Manifest:
    launch = LAUNCH_PER_GPU if spec.nproc_per_node == PER_GPU else LAUNCH
    found: Manifest = {
        "name": CONTAINER,
        "image": image_of(settings, spec),
        "command": ["/bin/sh", "-c", literal(launch), "weft", literal(spec.run)],
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", PASS_TERM_ON]}}},
        "securityContext": CONTAINER_SECURITY,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [*OWN_MOUNTS, *_mounts(spec.volumes)],
    }
    if settings.image_pull_policy:
        found["imagePullPolicy"] = settings.image_pull_policy
    if spec.workdir is not None:
        found["workingDir"] = spec.workdir
    return found


def _pod_spec(settings: WorkerSettings, spec: JobSpec) -> Manifest:
    found: Manifest = {
        **pod_base(settings, spec),
        "schedulerName": settings.scheduler_name,
        "serviceAccountName": spec.service_account or "default",
        "terminationGracePeriodSeconds": spec.grace_seconds,
        "volumes": [SHARED_MEMORY, _token(settings), *_lent(spec.volumes)],
    }
    if spec.priority_class is not None:
        found["priorityClassName"] = spec.priority_class
    return found


def _token(settings: WorkerSettings) -> Manifest:
    """What a worker needs to report: who it is and, where that is told, who the operator is."""
    sources = [TOKEN, AUTHORITY] if settings.gives_authority else [TOKEN]
    return {"name": "weft-token", "projected": {"sources": sources}}


def pod_base(settings: WorkerSettings, spec: JobSpec) -> Manifest:
    """Where a pod of the job may go, and that it has no rights: equal for all of them."""
    found: Manifest = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": _pod_security(settings.run_as_user),
        "tolerations": _tolerations(settings.nodes, spec),
    }
    if settings.nodes.selector:
        found["nodeSelector"] = dict(settings.nodes.selector)
    return found


def _tolerations(nodes: NodeRules, spec: JobSpec) -> list[Manifest]:
    """GPU nodes are closed to new pods of others; more than that is said by name."""
    gpus = [
        {"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in nodes.gpu_resources
    ]
    named = dict.fromkeys((*nodes.tolerations, *spec.tolerations))
    return gpus + [{"key": key, "operator": "Exists"} for key in named]


def _pod_security(user: int | None) -> Manifest:
    found: Manifest = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if user is not None:
        found |= {"runAsUser": user, "fsGroup": user, "fsGroupChangePolicy": "OnRootMismatch"}
    return found


def _mounts(volumes: Sequence[Volume]) -> list[Manifest]:
    names = _volume_names(volumes)
    return [
        {
            "name": names[_lender(volume)],
            "mountPath": volume.path,
            "readOnly": volume.read_only or volume.claim is None,
        }
        for volume in volumes
    ]


def _lent(volumes: Sequence[Volume]) -> list[Manifest]:
    """Each claim, Secret or ConfigMap once, however often it is mounted."""
    return [
        {"name": name, kind: {key: lender}}
        for ((kind, key), lender), name in _volume_names(volumes).items()
    ]


def _lender(volume: Volume) -> tuple[tuple[str, str], str]:
    """The kind of a pod's volume and the field that names it, and the name."""
    if volume.claim is not None:
        return ("persistentVolumeClaim", "claimName"), volume.claim
    if volume.secret is not None:
        return ("secret", "secretName"), volume.secret
    assert volume.config_map is not None
    return ("configMap", "name"), volume.config_map


def _volume_names(volumes: Sequence[Volume]) -> dict[tuple[tuple[str, str], str], str]:
    """An object's own name may be too long to name a volume of a pod."""
    lenders = dict.fromkeys(map(_lender, volumes))
    return {lender: f"claim-{number}" for number, lender in enumerate(lenders)}


def _pinned(node: str) -> Manifest:
    """The stock scheduler binds it, and so checks capacity, taints and volumes once more."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def seat_resources(seat: Seat, gpu_resource: str, devices: Mapping[str, float]) -> Manifest:
    """Rounded down, so that a pod never asks for more than was counted; GPUs may be claimed."""
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    if seat.gpus and gpu_resource:
        requests[gpu_resource] = limits[gpu_resource] = str(seat.gpus)
    for name, amount in devices.items():
        if whole := int(amount * seat.gpus + ROUNDING):
            requests[name] = limits[name] = str(whole)
    if seat.cpus:
        milli = int(seat.cpus * 1000 + 1e-6)
        requests["cpu"] = f"{milli}m" if milli % 1000 else str(milli // 1000)
    if seat.memory_gib:
        requests["memory"] = limits["memory"] = str(int(seat.memory_gib * GIB + 1e-3))
    claims = {"claims": [{"name": CLAIMED}]} if seat.gpus and not gpu_resource else {}
    return {"requests": requests, "limits": limits, **claims}
