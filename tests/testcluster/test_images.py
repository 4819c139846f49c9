"""Images are written by hand: what is in them is what containerd and the loader expect."""

import ctypes
import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from tools.testcluster import hollow, oci
from tools.testcluster.layers import LayerWriter


@pytest.fixture
def layer(tmp_path: Path) -> oci.Layer:
    (tmp_path / "program").write_text("#!/bin/sh\n")
    (tmp_path / "program").chmod(0o700)
    with LayerWriter(tmp_path / "layer.tar") as writer:
        writer.folder("tmp", 0o1777)
        writer.text("etc/motd", "hello\n")
        writer.file("usr/bin/program", tmp_path / "program")
        writer.link("bin", "usr/bin")
    return oci.Layer.of(tmp_path / "layer.tar")


def test_everyone_may_read_a_layer_and_nobody_owns_it(layer: oci.Layer) -> None:
    with tarfile.open(layer.path) as tar:
        modes = {info.name: info.mode for info in tar}
        assert {(info.uid, info.gid) for info in tar} == {(0, 0)}
    assert modes["tmp"] == 0o1777
    assert modes["etc"] == modes["usr/bin"] == modes["usr/bin/program"] == 0o755
    assert modes["etc/motd"] == 0o644
    assert list(modes).index("usr") < list(modes).index("usr/bin")


def test_a_layer_that_failed_is_not_left_half_written(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), LayerWriter(tmp_path / "layer.tar"):
        raise ZeroDivisionError
    assert not (tmp_path / "layer.tar").exists()


def test_an_archive_holds_what_it_names_by_digest(layer: oci.Layer) -> None:
    image = oci.Image("docker.io/weft/some:test", (layer,), ("sh",), ("PATH=/bin",))
    blobs = _archive([image])
    index = json.loads(blobs["index.json"])
    assert index["manifests"][0]["annotations"] == {"io.containerd.image.name": image.name}
    manifest = json.loads(blobs[_name(index["manifests"][0]["digest"])])
    config = json.loads(blobs[_name(manifest["config"]["digest"])])
    assert config["rootfs"]["diff_ids"] == [layer.digest]
    assert blobs[_name(layer.digest)] == layer.path.read_bytes()
    for name, body in blobs.items():
        if name.startswith("blobs/"):
            assert name.endswith(hashlib.sha256(body).hexdigest())


def test_a_layer_that_is_known_does_not_travel(layer: oci.Layer) -> None:
    image = oci.Image("docker.io/weft/some:test", (layer,), ("sh",))
    blobs = _archive([image], known=[layer])
    assert _name(layer.digest) not in blobs


def test_a_hollow_library_defines_every_name_and_does_nothing(tmp_path: Path) -> None:
    real = next(Path("/usr/lib").rglob("libcrypto.so.3"))
    (tmp_path / "libcrypto-hollow.so").write_bytes(hollow.hollow(real))
    assert (tmp_path / "libcrypto-hollow.so").stat().st_size < real.stat().st_size / 4
    emptied = ctypes.CDLL(str(tmp_path / "libcrypto-hollow.so"))
    assert ctypes.CDLL(str(real)).OpenSSL_version_num() > 0
    assert emptied.OpenSSL_version_num() == 0
    with pytest.raises(AttributeError):
        _ = emptied.no_such_name


def test_only_libraries_that_the_framework_needs_are_kept(tmp_path: Path) -> None:
    files = {
        "site/torch/lib/libtorch.so": next(Path("/usr/lib").rglob("libssl.so.3")),
        "site/nvidia/cu13/lib/libcrypto.so.3": next(Path("/usr/lib").rglob("libcrypto.so.3")),
        "site/nvidia/cu13/lib/libnever.so.1": tmp_path / "never",
        "site/nvidia/cu13/include/some.h": tmp_path / "never",
        "site/nvidia/__init__.py": tmp_path / "never",
    }
    kept = hollow.kept_libraries(files)
    assert kept.hollow == frozenset()  # it is small
    assert {Path(name).name for name in kept.useless} == {"libnever.so.1", "some.h"}


def _archive(images: list[oci.Image], known: list[oci.Layer] | None = None) -> dict[str, bytes]:
    written = io.BytesIO()
    oci.write_archive(written, images, known or ())
    written.seek(0)
    with tarfile.open(fileobj=written) as tar:
        return {info.name: _content(tar, info) for info in tar}


def _content(tar: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(info)
    assert file is not None
    return file.read()


def _name(digest: str) -> str:
    return digest.replace("sha256:", "blobs/sha256/")
