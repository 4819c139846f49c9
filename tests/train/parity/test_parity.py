"""Each row comes to what plain PyTorch comes to, at every width and through all changes."""

import fcntl
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.train.alone import run_alone
from tests.train.driving import driven
from tests.train.lines import finals
from tests.train.parity import crew as crew_script
from tests.train.parity import ddp, elastic, models, plain
from tests.train.parity.crew import NEED_AN_AGENT, WIDTH
from tests.train.parity.feature import BATCH, WIDE, Feature, furthest, short
from tests.train.parity.features import BY_NAME, FEATURES, ODD_SUMS, RESIZED, RESIZED_BY_DDP
from tests.train.parity.page import PATH, page
from weft.model.errors import SpecError
from weft.train.data.split import shares

SCRIPT = str(Path(elastic.__file__))
EQUAL = [one for one in FEATURES if not one.refused and not one.differs]
REFUSED = [one for one in FEATURES if one.refused]
DIFFERING = [one for one in FEATURES if one.differs]
WITH_AGENT = [one for one in EQUAL if one.name in NEED_AN_AGENT or one.name == "plain"]
WITHOUT_AGENT = [one for one in EQUAL if one.name not in NEED_AN_AGENT]
State = dict[str, list[float]]


@pytest.fixture(autouse=True)
def _exact() -> Iterator[None]:
    """Sums in another order differ in the last bits: of sixteen digits these are none of ours."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def check(found: list[State], expected: State, feature: Feature) -> None:
    assert len(found) > 1
    for state in found:
        assert furthest(state, expected) < feature.tolerance
        assert state == found[0], "workers differ"


def named(features: list[Feature]) -> list[object]:
    return [pytest.param(feature, id=feature.name) for feature in features]


CHANGES = [
    pytest.param(feature, by, id=f"{feature.name}-{by}")
    for by, names in (("weft", RESIZED), ("ddp", RESIZED_BY_DDP))
    for feature in EQUAL
    if feature.name in names
]


@pytest.mark.parametrize("feature", named([one for one in EQUAL if one.name in ODD_SUMS]))
def test_alone_by_ddp(feature: Feature) -> None:
    row = short(feature)
    found = elastic.train(row, communication="ddp")
    assert furthest(found, plain.train(row)) < feature.tolerance


@pytest.mark.parametrize("feature", named([*EQUAL, *DIFFERING]))
def test_alone(feature: Feature) -> None:
    whole = Feature(**{**vars(feature), "micro": None}) if feature.differs else feature
    if feature.name == "dropout":
        pytest.skip("chance is seeded by the place in the run")
    assert furthest(elastic.train(whole), plain.train(whole)) < feature.tolerance


@pytest.mark.parametrize("communication", ["weft", "ddp"])
@pytest.mark.parametrize("feature", named(REFUSED))
def test_refused(feature: Feature, communication: str) -> None:
    with pytest.raises((SpecError, ZeroDivisionError), match=feature.refused.split("(")[0]):
        elastic.train(feature, communication=communication)


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What three processes have learnt in each row: once for all workers of a test run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "crew"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            script = Path(crew_script.__file__)
            done = run_alone(script, str(folder), folder=folder, most_seconds=600.0)
            assert done.code == 0, done.complaints
            (folder / "done").touch()
    return folder


@pytest.mark.slow
@pytest.mark.timeout(700)
@pytest.mark.parametrize("feature", named(WITHOUT_AGENT))
def test_three_workers(crew: Path, feature: Feature) -> None:
    check(learnt(crew, f"{feature.name}-weft"), plain.train(feature), feature)
    check(learnt(crew, f"{feature.name}-ddp"), plain.train(short(feature)), feature)


def learnt(crew: Path, row: str) -> list[State]:
    return [json.loads((crew / f"{row}-{rank}.json").read_text()) for rank in range(WIDTH)]


def test_a_crew_shares_its_batches(crew: Path) -> None:
    """Else these two, in which samples see each other, would be as in plain PyTorch."""
    for feature in (BY_NAME["batch-norm"], BY_NAME["contrastive"]):
        for communication, row in (("weft", feature), ("ddp", short(feature))):
            found = learnt(crew, f"{feature.name}-{communication}")
            assert furthest(found[0], plain.train(row)) > 1e-3


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("communication", ["weft", "ddp"])
@pytest.mark.parametrize("feature", named(WITH_AGENT))
def test_three_workers_of_an_agent(tmp_path: Path, feature: Feature, communication: str) -> None:
    with driven(tmp_path, SCRIPT, feature.name, "0", communication, agent=("-n", "3")) as job:
        assert job.wait() == 0, job.logs()
    check([end["state"] for end in finals(job.lines())], plain.train(feature), feature)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("feature", "communication"), CHANGES)
def test_resized_and_robbed(tmp_path: Path, feature: Feature, communication: str) -> None:
    """1 → 3, one is killed and replaced, → 2."""
    row = (feature.name, str(feature.pace), communication)
    with driven(tmp_path, SCRIPT, *row, agent=("-n", "1")) as job:
        job.reached(1)
        job.order("resize 3")
        epoch = job.steady(3)["epoch"]
        job.reached(job.newest_step + 1)
        job.signal(signal.SIGKILL, worker=0)
        epoch = job.steady(3, after=epoch)["epoch"]
        job.order("resize 2")
        job.steady(2, after=epoch)
        (tmp_path / "hurry").touch()
        assert job.wait() == 0, job.logs()
    check([end["state"] for end in finals(job.lines())], plain.train(feature), feature)


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_ddp_comes_to_what_the_page_says(tmp_path: Path) -> None:
    done = run_alone(Path(ddp.__file__), str(tmp_path), folder=tmp_path)
    assert done.code == 0, done.complaints
    found = dict(line.split(" ", 1) for line in done.out.splitlines())
    assert found == {one.name: one.ddp for one in FEATURES if not one.refused}


def test_the_page_is_up_to_date() -> None:
    assert PATH.read_text() == page(), "python -m tests.train.parity"


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["error", "twice"])
def test_what_is_refused_ends_the_job(tmp_path: Path, name: str) -> None:
    (feature,) = (one for one in REFUSED if one.name == name)
    with driven(tmp_path, SCRIPT, name, "0", agent=("-n", "2")) as job:
        assert job.wait() == 1, job.logs()
        assert feature.refused in job.logs()


def test_compiling_does_not_follow_the_width() -> None:
    """The second size that is seen is compiled for any, but one sample alone is another matter."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model = models.compiled()
    for workers in (1, 3, 2, 4, 5, 3, 1):
        for rank in range(workers):
            (share,) = shares(0, BATCH, workers, rank)
            model(torch.randn(share.samples, WIDE)).sum().backward()
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 2
