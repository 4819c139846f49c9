"""The pages for those who install Weft or come from elsewhere say only what is so."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from weft.cli.front import COMMANDS
from weft.cli.spec.group import COMMANDS as SPEC_COMMANDS
from weft.kube.pods import PodMaker, WorkerSettings
from weft.kube.resources.queue import QueueSpec
from weft.model.ids import NodeId
from weft.model.placement import Seat
from weft.policy.recipes import RECIPES
from weft.spec.job_file import JobSpec
from weft.spec.reading import parse_job_file
from weft.spec.slurm import from_slurm

DOCS = Path(__file__).parents[3] / "docs"
SLURM, KUEUE, INSTALL = (
    DOCS / name for name in ("coming-from-slurm.md", "coming-from-kueue.md", "install.md")
)
PAGES = pytest.mark.parametrize("page", [SLURM, KUEUE, INSTALL], ids=lambda page: page.stem)


@PAGES
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@PAGES
def test_commands_exist(page: Path) -> None:
    text = page.read_text()
    assert set(re.findall(r"`weft ([a-z]+)", text)) <= {*COMMANDS}
    assert set(re.findall(r"`weft spec ([a-z-]+)", text)) <= {*SPEC_COMMANDS}


@PAGES
def test_examples_are_taken(page: Path) -> None:
    for document in documents(page):
        if document.get("kind") == "Queue":
            QueueSpec.model_validate(document["spec"])
        else:
            parse_job_file(yaml.safe_dump(document))


@PAGES
def test_reasons_exist(page: Path) -> None:
    known = re.findall(r"^### (\S+)$", (DOCS / "reasons.md").read_text(), re.MULTILINE)
    causes = "|".join({slug.partition(".")[0] for slug in known})
    assert set(re.findall(rf"`((?:{causes})\.[A-Z]\w+)`", page.read_text())) <= {*known}


def test_every_reason_has_its_counterpart_in_slurm() -> None:
    known = re.findall(r"^### (\S+)$", (DOCS / "reasons.md").read_text(), re.MULTILINE)
    told = SLURM.read_text()
    assert [slug for slug in known if f"`{slug}`" not in told and slug != "Round.Pending"] == []


def test_every_field_of_the_job_file_has_its_counterpart_in_slurm() -> None:
    told = set(re.findall(r"[a-z_]+", SLURM.read_text()))
    assert [name for name in JobSpec.model_fields if name not in told] == []


def test_variables_are_set() -> None:
    row = re.compile(r"^\| [^|]+ \| ([^|]+) \|", re.MULTILINE)
    section = SLURM.read_text().partition("## Variables in a job")[2].partition("\n## ")[0]
    told = {name for cell in row.findall(section) for name in re.findall(r"`([A-Z_]+)`", cell)}
    by_torchrun = {"RANK", "LOCAL_RANK", "WORLD_SIZE"}
    assert told - by_torchrun <= worker_variables()


def test_recipes_exist() -> None:
    for page in (SLURM, KUEUE):
        named = re.findall(r"recipes? `([a-z-]+)`", page.read_text())
        named += re.findall(r"^recipe: (\S+)$", page.read_text(), re.MULTILINE)
        assert set(named) <= {*RECIPES}


def test_the_example_script_can_be_translated() -> None:
    script = re.findall(r"```bash\n(.*?)```", SLURM.read_text(), re.DOTALL)[0]
    (written,) = documents(SLURM)
    job = yaml.safe_load(from_slurm(script))
    for field in ("name", "queue", "nodes", "duration"):
        assert job[field] == written[field]
    assert job["resources"]["gpus"] == written["resources"]["gpus"]


def documents(page: Path) -> Iterator[dict[str, Any]]:
    for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL):
        yield from yaml.safe_load_all(block)


def worker_variables() -> set[str]:
    spec = JobSpec.model_validate({"run": "true", "image": "x", "checkpoint": {"path": "/ckpt"}})
    maker = PodMaker(
        WorkerSettings(report_url="http://weft"), namespace="a", name="b", uid="c", spec=spec
    )
    seats = (Seat(node=NodeId("n"), gpus=1), Seat(node=NodeId("m"), gpus=1))
    pod = maker.pod(epoch=1, seats=seats, number=0, leader=1)
    return {entry["name"] for entry in pod["spec"]["containers"][0]["env"]}
