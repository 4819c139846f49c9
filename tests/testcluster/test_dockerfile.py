"""The Dockerfile makes what the tests run: the same files, the same start, the chart's user."""

import configparser
import json
import re
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.release.__main__ import IMAGES, USERS, main
from tools.testcluster import images, packages
from tools.testcluster.layers import LayerWriter

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def stages() -> dict[str, dict[str, Any]]:
    """By name: the stage below, and its instructions with what follows them."""
    found: dict[str, dict[str, Any]] = {}
    here: dict[str, Any] = {}
    plain = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE))
    for line in filter(None, plain.splitlines()):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            below, _, name = rest.partition(" AS ")
            here = found[name] = {"FROM": below, "COPY": [], "RUN": []}
        elif word in ("COPY", "RUN"):
            here[word].append(rest)
        else:
            here[word] = rest
    return found


def stack(name: str) -> dict[str, Any]:
    """A stage with what it takes over from below."""
    below = stages().get(stages()[name]["FROM"])
    return {**stack(stages()[name]["FROM"]), **stages()[name]} if below else stages()[name]


@pytest.mark.parametrize("name", IMAGES)
def test_a_container_starts_in_the_same_way(name: str) -> None:
    stage = stack(name)
    told = dict(pair.split("=", 1) for pair in stage["ENV"].split())
    ours = dict(pair.split("=", 1) for pair in images._ENVIRONMENT)
    assert told.pop("PATH").split(":")[0] == ours.pop("PATH").split(":")[0] == "/venv/bin"
    assert told == ours
    config = json.loads(images._base(images.OPERATOR).config())["config"]
    assert (json.loads(stage["CMD"]), stage["WORKDIR"]) == (config["Cmd"], config["WorkingDir"])


def test_users_are_those_of_the_chart() -> None:
    text = (ROOT / "charts" / "weft" / "templates" / "deployment.yaml").read_text()
    user, group = (re.findall(rf"{key}: (\d+)", text)[0] for key in ("runAsUser", "runAsGroup"))
    assert stack("operator")["USER"] == f"{user}:{group}"
    values = yaml.safe_load((ROOT / "charts" / "weft" / "values.yaml").read_text())
    assert stack("train")["USER"] == "{0}:{0}".format(values["workers"]["runAsUser"])
    assert {name: stack(name)["USER"] for name in IMAGES} == USERS


@pytest.mark.parametrize(("name", "extras"), IMAGES.items())
def test_the_same_extras_are_installed(name: str, extras: tuple[str, ...]) -> None:
    (source,) = [line for line in stages()[name]["COPY"] if "/venv" in line]
    build = source.split()[0].removeprefix("--from=")
    (install,) = stages()[build]["RUN"]
    assert f"/src[{','.join(extras)}]" in install


def test_the_operator_is_built_unless_another_is_named() -> None:
    assert list(stages())[-1] == "operator"


def test_the_wheel_holds_what_the_image_writer_writes(tmp_path: Path) -> None:
    """The Dockerfile installs the wheel of the same sources; scripts and examples beside it."""
    without = [word for step in ("chart", "sdist", "sbom", "image") for word in ("--without", step)]
    assert main(["--out", str(tmp_path / "dist"), *without]) == 0
    (path,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        packed = {name for name in wheel.namelist() if name.startswith("weft/")}
        (points,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
        scripts = configparser.ConfigParser()
        scripts.read_string(wheel.read(points).decode())
    with LayerWriter(tmp_path / "weft.tar") as writer:
        packages.write_weft(writer, ROOT / "src" / "weft")
    with tarfile.open(tmp_path / "weft.tar") as layer:
        files = [info.name for info in layer if info.isfile()]
    site = f"{packages._SITE}/"
    written = {name.removeprefix(site) for name in files if name.startswith(f"{site}weft/")}
    assert {name for name in written if "__pycache__" not in name} == packed
    commands = {name.rpartition("/")[2] for name in files if name.startswith("venv/bin/")}
    assert commands == set(scripts["console_scripts"])
    assert "COPY examples/*.py /examples/" in DOCKERFILE
