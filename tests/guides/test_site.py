"""The documentation site: it builds, strictly, can be searched, and asks nobody for anything."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guides.samples import ROOT
from tools.site.navigation import KINDS
from tools.site.pages import gather

FETCHED = re.compile(
    r"""<(?:script|img|iframe)[^>]*\bsrc=["']?(?:https?:)?//"""
    r"""|<link[^>]*\bhref=["']?(?:https?:)?//|@import\s+url\(["']?https?:|url\(["']?https?:"""
)

# One worker builds the site, for all of them.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.xdist_group("site")]


def built(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = built("tools.site", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_document_has_its_page(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / name).is_file(), f"{name}: name it in tools/site/navigation.py"
    front = (site / "index.html").read_text()
    assert [*KINDS] == ["Guides", "Concepts", "Reference", "Decisions"]
    assert all(f'<span class="caption-text">{kind}</span>' in front for kind in KINDS)


def test_words_are_found_without_a_server(site: Path) -> None:
    index = (site / "searchindex.js").read_text()
    for word in ("checkpoint", "gang", "preempt"):
        assert f"{word}:[" in index or f'"{word}":' in index, word
    assert (site / "search.html").is_file()


def test_nothing_is_fetched_from_anywhere(site: Path) -> None:
    for page in (*site.rglob("*.html"), *site.rglob("*.css")):
        assert not FETCHED.search(page.read_text()), page.name


def test_what_is_linked_beside_the_documents_comes_along(site: Path) -> None:
    assert (site / "repository" / "SECURITY.html").is_file()
    assert [*site.rglob("history.csv")]


NOWHERE = {
    "[gone](gone.md)": "gone.md",
    "[gone](cli.md#no-such-heading)": "no-such-heading",
    "![gone](images/gone.png)": "gone.png",
}


def test_links_that_lead_nowhere_fail(tmp_path: Path) -> None:
    gather(tmp_path / "docs")
    front = tmp_path / "docs" / "index.md"
    front.write_text(front.read_text() + "\n" + "\n\n".join(NOWHERE) + "\n")
    strict = ("sphinx", "-W", "--keep-going", "-q", "-b", "html", "-c", "tools/site")
    done = built(*strict, tmp_path / "docs", tmp_path / "out")
    assert done.returncode != 0
    assert [told for told in NOWHERE.values() if told not in done.stderr] == []
    assert done.stderr.count("WARNING") == len(NOWHERE), "nothing else is wrong with it"
