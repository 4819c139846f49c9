"""Smaller pieces: the page of reasons, facts of a workload, and words for numbers."""

from pathlib import Path

import pytest

from weft.lab.failures_page import page as failures_page
from weft.lab.reasons_page import page
from weft.lab.time_words import number, rough, scale_of, span, unit_for
from weft.lab.workloads.facts import facts_of
from weft.lab.workloads.size_class import size_class
from weft.model.reason import ReasonCode
from weft.trace.generator import generate
from weft.trace.workload import Workload

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_reasons_is_up_to_date() -> None:
    assert (DOCS / "reasons.md").read_text(encoding="utf-8") == page()


def test_the_page_of_failures_is_up_to_date() -> None:
    assert (DOCS / "failures.md").read_text(encoding="utf-8") == failures_page()


def test_a_rule_shows_its_own_retry_where_its_class_has_another() -> None:
    rows = [row.split(" | ") for row in failures_page().splitlines()]
    own = {row[0]: row[3].strip() for row in rows if row[0].startswith("| `")}
    assert (own["| `disk_full`"], own["| `node_fail`"]) == ("back off", "")


@pytest.mark.parametrize("code", ReasonCode)
def test_every_reason_has_its_anchor(code: ReasonCode) -> None:
    name, _, anchor = code.anchor.partition("#")
    assert f'<a id="{anchor}"></a>' in (DOCS / name).read_text(encoding="utf-8")


def test_facts_of_a_workload() -> None:
    workload = generate(jobs=200, seed=0, gpus=64)
    facts = facts_of(workload)
    assert facts.jobs == sum(size.jobs for size in facts.sizes) == 200
    assert sum(size.gpu_time_share for size in facts.sizes) == pytest.approx(1.0)
    assert facts.gpu_hours == pytest.approx(workload.gpu_seconds / 3600)


def test_facts_of_nothing() -> None:
    assert facts_of(Workload(name="none", jobs=())).sizes == ()


@pytest.mark.parametrize(
    ("gpus", "name"), [(0, "0"), (1, "1"), (2, "2–4"), (4, "2–4"), (8, "5–8"), (9, ">8")]
)
def test_classes_of_width(gpus: int, name: str) -> None:
    assert size_class(gpus) == name


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.5, "59.5 s"), (600, "10 min"), (36_000, "10 h"), (864_000, "10 d")],
)
def test_times_in_the_unit_that_fits(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_digits() -> None:
    assert (number(1234.5), number(0.12345), rough(12.3), rough(0.123)) == (
        "1,234",
        "0.123",
        "12",
        "0.12",
    )
    assert unit_for(-7300.0) == "h"
    assert (scale_of("%"), scale_of("h"), scale_of("×")) == (0.01, 3600.0, 1.0)
