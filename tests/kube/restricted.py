"""The PodSecurity profile `restricted`, and what Weft promises beyond it, checked by hand.

The rules are those of the profile's published definition; the API server's own verdict on the same
pods is taken in the tests that have one.
"""

from collections.abc import Iterator
from typing import Any, Final

Pod = dict[str, Any]

VOLUMES: Final = frozenset(
    (
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    )
)
SECCOMP: Final = ("RuntimeDefault", "Localhost")
# All that a worker's pod ever has.
POD_FIELDS: Final = frozenset(
    (
        "affinity",
        "automountServiceAccountToken",
        "containers",
        "enableServiceLinks",
        "hostname",
        "nodeSelector",
        "priorityClassName",
        "restartPolicy",
        "schedulerName",
        "securityContext",
        "serviceAccountName",
        "subdomain",
        "terminationGracePeriodSeconds",
        "tolerations",
        "volumes",
    )
)
CONTAINER_FIELDS: Final = frozenset(
    (
        "command",
        "env",
        "image",
        "imagePullPolicy",
        "lifecycle",
        "name",
        "resources",
        "securityContext",
        "terminationMessagePolicy",
        "volumeMounts",
        "workingDir",
    )
)
OWN_VOLUMES: Final = frozenset(
    ("configMap", "emptyDir", "persistentVolumeClaim", "projected", "secret")
)
LENDERS: Final = ("configMapKeyRef", "secretKeyRef")
SYSTEM_FOLDERS: Final = (
    "/proc/",
    "/sys/",
    "/dev/",
    "/run/weft/",
    "/run/secrets/",
    "/var/run/weft/",
    "/var/run/secrets/",
)
POD_IP: Final = {
    "name": "WEFT_POD_IP",
    "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
}
TOLERATIONS: Final = [
    {"key": f"{maker}.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    for maker in ("nvidia", "amd")
]


def breaches(pod: Pod) -> list[str]:
    """What speaks against the pod; empty means that it fits."""
    return [*_profile(pod["spec"]), *_promises(pod)]


def _profile(spec: Pod) -> Iterator[str]:
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            yield name
    for volume in spec.get("volumes", ()):
        if set(volume) - {"name"} - VOLUMES:
            yield f"volume {volume}"
    whole = spec.get("securityContext", {})
    if whole.get("sysctls") or whole.get("seLinuxOptions") or whole.get("windowsOptions"):
        yield "securityContext of the pod"
    kinds = ("containers", "initContainers", "ephemeralContainers")
    for container in (one for kind in kinds for one in spec.get(kind, ())):
        yield from _container(container, whole)


def _container(container: Pod, whole: Pod) -> Iterator[str]:
    own = container.get("securityContext", {})
    either = whole | own
    if own.get("privileged") or own.get("allowPrivilegeEscalation") is not False:
        yield "privileges"
    capabilities = own.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", ()):
        yield "capabilities are kept"
    if set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}:
        yield "capabilities are added"
    if either.get("runAsNonRoot") is not True or either.get("runAsUser", 1) == 0:
        yield "root"
    if either.get("seccompProfile", {}).get("type") not in SECCOMP:
        yield "seccomp"
    if own.get("procMount", "Default") != "Default" or own.get("seLinuxOptions"):
        yield "securityContext of a container"
    if any(port.get("hostPort") for port in container.get("ports", ())):
        yield "hostPort"
    if any("exec" not in hook for hook in container.get("lifecycle", {}).values()):
        yield "a hook that calls a host"


def _promises(pod: Pod) -> Iterator[str]:
    spec = pod["spec"]
    if set(spec) - POD_FIELDS:
        yield f"fields {set(spec) - POD_FIELDS}"
    if spec["automountServiceAccountToken"]:
        yield "a token for the API server"
    more = spec["tolerations"][len(TOLERATIONS) :]
    if spec["tolerations"] != TOLERATIONS + more or not all(one.get("key") for one in more):
        yield "tolerations"
    (container,) = spec["containers"]
    if set(container) - CONTAINER_FIELDS:
        yield f"fields {set(container) - CONTAINER_FIELDS}"
    lent = [entry for entry in container["env"] if _is_lent(entry)]
    own = [entry for entry in container["env"] if entry != POD_IP and entry not in lent]
    if any(set(entry) != {"name", "value"} for entry in own):
        yield "environment from elsewhere"
    names = [entry["name"] for entry in container["env"]]
    if len(set(names)) < len(names):
        yield "a variable twice"
    for volume in spec["volumes"]:
        if set(volume) - {"name"} - OWN_VOLUMES:
            yield f"volume {volume}"
    yield from _mounts(container["volumeMounts"])


def _is_lent(entry: Pod) -> bool:
    """One entry of one object, by name."""
    source = entry.get("valueFrom", {})
    return len(source) == 1 and any(
        set(source.get(kind, ())) == {"name", "key"} for kind in LENDERS
    )


def _mounts(mounts: list[Pod]) -> Iterator[str]:
    paths = [mount["mountPath"] for mount in mounts]
    if len(set(paths)) < len(paths):
        yield f"a path twice in {paths}"
    for mount in mounts:
        path = mount["mountPath"]
        if ".." in path.split("/"):
            yield f"mount {path}"
        if mount["name"].startswith("claim-") and f"{path}/".startswith(SYSTEM_FOLDERS):
            yield f"mount {path}"
