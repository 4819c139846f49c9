"""The page of a run: self-contained, safe with any text, and every plot draws something."""

import re
import shutil
import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from weft.lab.comparison import compare
from weft.lab.experiment import Experiment, Outcome, run
from weft.lab.interval import Interval
from weft.lab.report.report import (
    COMPARISON_FIGURES,
    RUN_FIGURES,
    Figure,
    comparison_page,
    run_page,
)
from weft.lab.workloads.source import FromFile, Generated
from weft.model.ids import JobId, TenantId
from weft.model.job import Job
from weft.model.request import Width
from weft.model.truth import Work
from weft.trace.store import write
from weft.trace.workload import Workload

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MEASURING = """<script>
const wide = [document.documentElement, ...document.querySelectorAll('.scroll')];
document.body.dataset.tooWide = wide.filter((one) => one.scrollWidth > one.clientWidth).length;
</script>"""
NASTY = "</script><script>document.title='taken'</script><b>&\u2028"


@pytest.fixture(scope="module")
def comparison_text() -> str:
    experiment = Experiment(source=Generated(jobs=20), cluster="1x8")
    return comparison_page(compare(experiment, recipes=["fifo", "las"], seeds=[0, 1]))


@pytest.fixture
def nasty(tmp_path: Path) -> str:
    """A page of jobs and tenants with the worst of names."""
    jobs = tuple(
        Job.told(
            id=JobId(f"{NASTY}{i}"),
            width=Width.fixed(1),
            work=Work(60.0),
            tenant=TenantId(NASTY + str(i % 2)),
        )
        for i in range(12)
    )
    path = tmp_path / "nasty.csv"
    write(Workload(name="nasty", jobs=jobs), path)
    experiment = Experiment(source=FromFile(path=str(path)), cluster="1x4")
    return run_page(run(experiment, keep_sittings=True))


def seen_in_browser(page: str, folder: Path, *, size: str = "1200,900") -> str:
    """What a browser made of the page."""
    assert CHROMIUM is not None, "apt-get install chromium"
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
    more = "--disable-background-networking --disable-component-update --virtual-time-budget=3000"
    return subprocess.run(
        [
            *(CHROMIUM, *flags.split(), *more.split(), f"--user-data-dir={folder / 'profile'}"),
            *(f"--window-size={size}", "--dump-dom", path.as_uri()),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=100,
    ).stdout


def drawn_by_plot(page: str, folder: Path) -> dict[str, int]:
    """How much of each plot a browser drew."""
    dom = seen_in_browser(page, folder)
    assert "taken</title>" not in dom
    figures = re.findall(r"<figure [^>]*>", dom)
    return {
        _attribute(figure, "data-plot"): int(_attribute(figure, "data-drawn")) for figure in figures
    }


def _attribute(tag: str, name: str) -> str:
    found = re.search(rf'{name}="([^"]*)"', tag)
    assert found is not None, tag
    return found[1]


def test_the_page_loads_nothing(outcome: Outcome, comparison_text: str) -> None:
    for page in (run_page(outcome), comparison_text):
        assert not re.search(r"\b(?:src|href)=", page)
        assert "default-src 'none'" in page
        addresses = set(re.findall(r"https?://[^'\"\s]+", page))
        assert addresses == {"http://www.w3.org/2000/svg"}


def test_every_plot_has_a_title_and_says_what_if_empty() -> None:
    for figure in (*RUN_FIGURES, *COMPARISON_FIGURES):
        assert isinstance(figure, Figure)
        assert figure.title
        assert figure.reading.endswith(".")
        assert figure.empty.endswith(".")


def test_no_text_of_a_user_becomes_markup(nasty: str) -> None:
    assert "<b>" not in nasty
    assert nasty.count("</script>") == 2


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
@pytest.mark.parametrize("kind", ["run", "comparison", "nasty"])
def test_every_plot_draws_something(
    kind: str, outcome: Outcome, comparison_text: str, nasty: str, tmp_path: Path
) -> None:
    pages = {"run": run_page(outcome), "comparison": comparison_text, "nasty": nasty}
    figures = COMPARISON_FIGURES if kind == "comparison" else RUN_FIGURES
    drawn = drawn_by_plot(pages[kind], tmp_path)
    assert set(drawn) == {figure.plot for figure in figures}
    assert all(count > 0 for count in drawn.values()), drawn


@pytest.mark.slow
def test_a_comparison_fits_the_screen_and_one_outlier_flattens_nothing(tmp_path: Path) -> None:
    experiment = Experiment(source=Generated(jobs=20), cluster="1x8")
    recipes = ["fifo", "las", "tiresias(limits=(3250.0, 7200.0), promote=8.0)", "srtf"]
    found = compare(experiment, recipes=recipes, seeds=[0, 1])
    far = (1.0, 2.0, 3.0, 500.0)
    rows = tuple(
        replace(row, metrics={name: Interval(mean, 0.1) for name in row.metrics})
        for row, mean in zip(found.rows, far, strict=True)
    )
    page = comparison_page(replace(found, rows=rows))
    dom = seen_in_browser(page + MEASURING, tmp_path, size="1400,900")
    assert _attribute(dom, "data-too-wide") == "0"
    dots = dom.partition('data-plot="dots"')[2].partition('data-plot="cdf"')[0]
    plot = dots.partition("mean JCT</h3>")[2].partition("</svg>")[0]
    places = [float(place) for place in re.findall(r'<circle cx="([^"]+)"', plot)]
    assert len(places) == 3, "the one that is far off is drawn as a mark, with its value"
    assert 'class="cut"' in plot
    assert "8.33 min" in plot
    assert min(b - a for a, b in pairwise(places)) > 25


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
def test_plots_of_nothing_say_so(tmp_path: Path) -> None:
    job = Job.told(id=JobId("wide"), width=Width.fixed(64), work=Work(60.0))
    path = tmp_path / "wide.csv"
    write(Workload(name="wide", jobs=(job,)), path)
    experiment = Experiment(source=FromFile(path=str(path)), cluster="1x4")
    drawn = drawn_by_plot(run_page(run(experiment, keep_sittings=True)), tmp_path)
    assert drawn["cdf"] == drawn["gantt"] == drawn["tenants"] == 0
