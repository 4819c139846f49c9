"""A release is made offline by one command, and says what it holds."""

import hashlib
import json
import shutil
import tarfile
import zipfile
from functools import partial
from pathlib import Path
from shutil import which
from typing import IO

import pytest
import yaml
from packaging.utils import canonicalize_name as canonical

import weft
from tools.release import __main__ as release
from tools.release.__main__ import SUMS, main
from tools.release.sbom import sbom
from tools.testcluster.binaries import missing
from tools.testcluster.packages import wanted

V = weft.__version__


def test_a_dry_run_makes_nothing_and_says_what_would_be_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "dist"
    assert main(["--out", str(out), "--dry-run"]) == 0
    assert not out.exists()
    assert {Path(line).name for line in capsys.readouterr().out.splitlines()} == {
        f"weft-{V}-py3-none-any.whl",
        f"weft-{V}.tar.gz",
        f"weft-chart-{V}.tgz",
        f"weft-operator-{V}.cdx.json",
        f"weft-operator-{V}.image.tar",
        f"weft-train-{V}.cdx.json",
        f"weft-train-{V}.image.tar",
        SUMS,
    }


@pytest.mark.skipif(bool(missing(["helm"])), reason="not found: helm")
def test_everything_but_images_is_made_offline(tmp_path: Path) -> None:
    assert main(["--out", str(tmp_path), "--without", "image"]) == 0
    lines = [line.split() for line in (tmp_path / SUMS).read_text().splitlines()]
    sums = {name: digest for digest, name in lines}
    made = {path.name: path for path in tmp_path.iterdir() if path.name != SUMS}
    assert sums == {n: hashlib.sha256(p.read_bytes()).hexdigest() for n, p in made.items()}
    with tarfile.open(made[f"weft-chart-{V}.tgz"]) as chart:
        names = chart.getnames()
        about = yaml.safe_load(chart.extractfile("weft/Chart.yaml").read())  # type: ignore[union-attr]
    assert about["version"] == V
    assert {"weft/crds/trainingjobs.yaml", "weft/files/alerts.yaml"} <= {*names}
    with zipfile.ZipFile(made[f"weft-{V}-py3-none-any.whl"]) as wheel:
        assert "weft/kube/operator/main.py" in wheel.namelist()


def without_docker(name: str, path: str | None = None) -> str | None:
    return None if name == "docker" else which(name, path=path)


@pytest.mark.slow
def test_the_operators_image_is_made_without_docker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the Dockerfile would make, from this environment; it holds what the bill lists."""
    monkeypatch.setattr(release, "IMAGES", {"operator": ("kube",)})
    monkeypatch.setattr(shutil, "which", without_docker)
    others = [word for one in ("chart", "wheel", "sdist") for word in ("--without", one)]
    assert main(["--out", str(tmp_path / "dist"), *others]) == 0
    assert sorted(path.name for path in (tmp_path / "dist").iterdir()) == [
        SUMS,
        f"weft-operator-{V}.cdx.json",
        f"weft-operator-{V}.image.tar",
    ]
    with tarfile.open(tmp_path / "dist" / f"weft-operator-{V}.image.tar") as archive:
        read = partial(_blob, archive)
        (entry,) = json.load(archive.extractfile("index.json"))["manifests"]  # type: ignore[arg-type]
        assert entry["annotations"]["io.containerd.image.name"].endswith(f"weft-operator:{V}")
        manifest = json.loads(read(entry["digest"]).read())
        start = json.loads(read(manifest["config"]["digest"]).read())["config"]
        assert (start["User"], start["Cmd"]) == ("65532:65532", ["python"])
        held: set[str] = set()
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=read(layer["digest"])) as files:
                held |= set(files.getnames())
    assert "venv/bin/weft" in held
    folders = {Path(name).name for name in held if Path(name).parent.name == "site-packages"}
    bill = json.loads((tmp_path / "dist" / f"weft-operator-{V}.cdx.json").read_text())
    metas = [name.removesuffix(".dist-info") for name in folders if name.endswith(".dist-info")]
    dists = {canonical(name.rpartition("-")[0]) for name in metas}
    listed = {canonical(one["name"]) for one in bill["components"]}
    assert listed <= dists, listed - dists


def _blob(archive: tarfile.TarFile, digest: str) -> IO[bytes]:
    found = archive.extractfile(f"blobs/sha256/{digest.removeprefix('sha256:')}")
    assert found is not None
    return found


def test_a_folder_with_something_in_it_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old.whl").touch()
    assert main(["--out", str(tmp_path), "--without", "image"]) == 1
    assert "is not empty\n  name another folder" in capsys.readouterr().err


def test_the_bill_lists_what_is_installed_and_is_the_same_each_time() -> None:
    text = sbom(V, ("kube",), 1.7e9)
    assert text == sbom(V, ("kube",), 1.7e9)
    said = json.loads(text)
    assert (said["bomFormat"], said["specVersion"]) == ("CycloneDX", "1.5")
    assert said["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    listed = {(one["name"], one["version"]) for one in said["components"]}
    assert listed == {(each.name, each.version) for each in wanted("kube")}
    assert "torch" not in {name for name, _ in listed}
    assert all(one["purl"].startswith("pkg:pypi/") for one in said["components"])
    refs = {one["bom-ref"] for one in said["components"]} | {f"pkg:pypi/weft@{V}"}
    needs = {one["ref"]: one["dependsOn"] for one in said["dependencies"]}
    assert set(needs) == refs
    assert all(need in refs for each in needs.values() for need in each)
    assert any(need.startswith("pkg:pypi/aiohttp@") for need in needs[f"pkg:pypi/weft@{V}"])
