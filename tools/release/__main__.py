"""Make a release of this checkout.

    python -m tools.release --out dist              everything
    python -m tools.release --out dist --dry-run    say what would be made
    python -m tools.release --out dist --without image

Nothing is uploaded. Images are built by docker where it is there, with their base from a registry.
Elsewhere the writer that the tests on real nodes use makes them, from the environment that runs
this: offline, as all else. `docker load` and `ctr images import` take either.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import weft
from tools.release.sbom import sbom
from tools.testcluster.images import make_one
from tools.testcluster.oci import write_archive
from weft.model.errors import WeftError, WorldError

ROOT: Final = Path(__file__).parents[2]
SUMS: Final = "SHA256SUMS"
IMAGES: Final = {"operator": ("kube",), "train": ("kube", "train")}
"""Targets of the Dockerfile, with the extras that each installs."""
USERS: Final = {"operator": "65532:65532", "train": "1000:1000"}


@dataclass(frozen=True)
class Step:
    """One thing to make; `files` are what comes of it."""

    name: str
    files: tuple[str, ...]
    make: Callable[[Path], None]


def steps(version: str) -> tuple[Step, ...]:
    """In order: what is checked comes before what is long."""
    return (
        Step("chart", (f"weft-chart-{version}.tgz",), _make_chart),
        Step("wheel", (f"weft-{version}-py3-none-any.whl",), _make_wheel),
        Step("sdist", (f"weft-{version}.tar.gz",), _make_sdist),
        Step("sbom", tuple(f"weft-{one}-{version}.cdx.json" for one in IMAGES), _make_sboms),
        Step("image", tuple(f"weft-{one}-{version}.image.tar" for one in IMAGES), _make_images),
    )


def main(words: list[str] | None = None) -> int:
    """0 where all was made."""
    wanted = _parser().parse_args(words)
    chosen = [step for step in steps(weft.__version__) if step.name not in wanted.without]
    files = [name for step in chosen for name in step.files]
    if wanted.dry_run:
        sys.stdout.write("".join(f"{wanted.out / name}\n" for name in [*files, SUMS]))
        return 0
    try:
        _release(chosen, wanted.out)
    except WeftError as error:
        sys.stderr.write(f"{error}\n  {error.hint}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description="Make a release.")
    names = [step.name for step in steps(weft.__version__)]
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="an empty or new folder")
    parser.add_argument("--dry-run", action="store_true", help="say what would be made")
    parser.add_argument("--without", action="append", default=[], choices=names, metavar="STEP")
    return parser


def _release(chosen: list[Step], out: Path) -> None:
    if out.exists() and any(out.iterdir()):
        raise WorldError(f"{out} is not empty", hint="name another folder with --out")
    out.mkdir(parents=True, exist_ok=True)
    for step in chosen:
        step.make(out)
        missing = [name for name in step.files if not (out / name).is_file()]
        if missing:
            raise WorldError(f"{step.name} made no {', '.join(missing)}", hint="see above")
    made = sorted(path for path in out.iterdir())
    (out / SUMS).write_text("".join(f"{_digest(path)}  {path.name}\n" for path in made))


def _make_wheel(out: Path) -> None:
    _backend("build_wheel", out)


def _make_sdist(out: Path) -> None:
    _backend("build_sdist", out)


def _backend(what: str, out: Path) -> None:
    """In a process of its own: the backend builds the folder that it stands in."""
    code = f"import sys; from hatchling.build import {what}; {what}(sys.argv[1])"
    _run(sys.executable, "-c", code, str(out.resolve()))


def _make_chart(out: Path) -> None:
    """Under another name than helm gives it: the sdist's differs by its ending alone."""
    _run(_program("helm"), "lint", "--strict", str(ROOT / "charts" / "weft"))
    _run(_program("helm"), "package", str(ROOT / "charts" / "weft"), "--destination", str(out))
    version = weft.__version__
    (out / f"weft-{version}.tgz").rename(out / f"weft-chart-{version}.tgz")


def _make_sboms(out: Path) -> None:
    for name, extras in IMAGES.items():
        text = sbom(weft.__version__, extras, _moment())
        (out / f"weft-{name}-{weft.__version__}.cdx.json").write_text(text)


def _make_images(out: Path) -> None:
    docker = shutil.which("docker")
    for name in IMAGES:
        path, tag = (
            out / f"weft-{name}-{weft.__version__}.image.tar",
            f"weft-{name}:{weft.__version__}",
        )
        if docker is None:
            _write_image(name, f"docker.io/library/{tag}", path)
        else:
            _run(docker, "build", "--target", name, "--tag", tag, str(ROOT))
            _run(docker, "save", "--output", str(path), tag)


def _write_image(name: str, tag: str, path: Path) -> None:
    """Without docker; its layers lie beside it meanwhile, for they may be larger than /tmp."""
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch, path.open("wb") as file:
        extras = IMAGES[name]
        image = make_one(tag, Path(scratch), train="train" in extras, user=USERS[name])
        write_archive(file, [image])


def _moment() -> float:
    """Of the release: SOURCE_DATE_EPOCH, or the commit's own time."""
    told = os.environ.get("SOURCE_DATE_EPOCH")
    return float(told or _run("git", "log", "-1", "--format=%ct").strip())


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None and name == "helm":
        from tools.testcluster.binaries import find  # noqa: PLC0415 - of a contributor's machine

        found = str(find(name))
    if found is None:
        raise WorldError(f"{name} is not there", hint=f"install {name}, or leave the step out")
    return found


def _run(*words: str) -> str:
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise WorldError(f"{' '.join(words[:3])} failed: {said[-2000:]}", hint="mend it and repeat")
    return done.stdout


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    sys.exit(main())
