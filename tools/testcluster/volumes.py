"""Storage that pods on every node share: a folder of this machine behind a claim.

PodSecurity `restricted` forbids hostPath in a pod, but not the claim of a volume that is one.
"""

import os
import shutil
import time
from pathlib import Path
from typing import Final

from tools.testcluster.control_plane import ControlPlane
from weft.model.errors import WorldError

USER: Final = 1000
_CLASS: Final = ""  # no provisioner: bound by name
_SIZE: Final = "10Gi"
_PATIENCE_SECONDS: Final = 30.0


def add_shared_volume(plane: ControlPlane, namespace: str, claim: str) -> Path:
    """A claim that pods of uid and gid 1000 may write to from any node; returns its folder."""
    folder = plane.layout.folder / "volumes" / namespace / claim
    folder.mkdir(parents=True)
    os.chown(folder, USER, USER)  # fsGroup does nothing for hostPath
    _create(plane, namespace, claim, folder)
    _wait_until_bound(plane, f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}")
    return folder


def remove_shared_volume(plane: ControlPlane, namespace: str, claim: str) -> None:
    """Once its namespace is gone, and the claim with it."""
    plane.kubectl("delete", "persistentvolume", f"{namespace}-{claim}")
    shutil.rmtree(plane.layout.folder / "volumes" / namespace / claim)


def _create(plane: ControlPlane, namespace: str, claim: str, folder: Path) -> None:
    name = f"{namespace}-{claim}"
    shared = {"accessModes": ["ReadWriteMany"], "storageClassName": _CLASS}
    volume = {
        **shared,
        "capacity": {"storage": _SIZE},
        "hostPath": {"path": str(folder), "type": "Directory"},
        "claimRef": {"namespace": namespace, "name": claim},
    }
    asked = {**shared, "volumeName": name, "resources": {"requests": {"storage": _SIZE}}}
    plane.api.must(
        "POST", "/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": volume}
    )
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    plane.api.must("POST", path, {"metadata": {"name": claim}, "spec": asked})


def _wait_until_bound(plane: ControlPlane, path: str) -> None:
    """Before that the scheduler would lay a pod aside for some seconds."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while plane.api.must("GET", path)["status"].get("phase") != "Bound":
        if time.monotonic() > deadline:
            raise WorldError(f"{path} is not bound", hint="is its namespace there?")
        time.sleep(0.05)
