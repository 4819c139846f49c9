"""Container images written by hand: layers as plain tar files, and an archive that names them.

No registry and no builder is needed: `ctr images import` takes an OCI layout in a tar. A layer that
containerd has already may be left out of the archive. Layers are not compressed: they travel over a
pipe, and packing torch would take longer than everything else.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_INDEX: Final = "application/vnd.oci.image.index.v1+json"
_NAME: Final = "io.containerd.image.name"
_CHUNK: Final = 1 << 20


@dataclass(frozen=True)
class Layer:
    """A tar on disk."""

    path: Path
    digest: str
    size: int

    @classmethod
    def of(cls, path: Path) -> "Layer":
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256")
        return cls(path, f"sha256:{found.hexdigest()}", path.stat().st_size)


@dataclass(frozen=True)
class Image:
    """Layers from the lowest up, and how a container of it starts unless the pod says otherwise."""

    name: str
    layers: tuple[Layer, ...]
    command: tuple[str, ...]
    environment: tuple[str, ...] = ()
    user: str = ""

    def config(self) -> bytes:
        start: dict[str, Any] = {"Cmd": self.command, "Env": self.environment, "WorkingDir": "/"}
        return _json(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": start | ({"User": self.user} if self.user else {}),
                "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in self.layers]},
            }
        )

    def manifest(self) -> bytes:
        config = self.config()
        return _json(
            {
                "schemaVersion": 2,
                "mediaType": _MANIFEST,
                "config": _descriptor(_CONFIG, _digest(config), len(config)),
                "layers": [_descriptor(_LAYER, each.digest, each.size) for each in self.layers],
            }
        )


def write_archive(into: IO[bytes], images: Iterable[Image], known: Collection[Layer] = ()) -> None:
    """What `ctr images import` reads; layers that containerd knows are left out."""
    images = tuple(images)
    manifests = [image.manifest() for image in images]
    entries = [
        {**_descriptor(_MANIFEST, _digest(body), len(body)), "annotations": {_NAME: image.name}}
        for image, body in zip(images, manifests, strict=True)
    ]
    index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": entries}
    with tarfile.open(fileobj=into, mode="w|", bufsize=_CHUNK) as archive:
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(archive, "index.json", _json(index))
        for body in (*manifests, *(image.config() for image in images)):
            _add(archive, _blob(_digest(body)), body)
        for layer in {layer for image in images for layer in image.layers} - set(known):
            _add_file(archive, _blob(layer.digest), layer.path)


def _add(archive: tarfile.TarFile, name: str, body: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(body)
    archive.addfile(info, io.BytesIO(body))


def _add_file(archive: tarfile.TarFile, name: str, path: Path) -> None:
    info = tarfile.TarInfo(name)
    info.size = path.stat().st_size
    with path.open("rb") as file:
        archive.addfile(info, file)


def _blob(digest: str) -> str:
    return digest.replace("sha256:", "blobs/sha256/")


def _descriptor(media_type: str, digest: str, size: int) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest, "size": size}


def _digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
