"""The page on workloads says what the schema says."""

from pathlib import Path

from weft.trace.schema import describe

PAGE = Path(__file__).parents[2] / "docs" / "workloads.md"


def test_the_page_holds_the_schema_as_it_is() -> None:
    text = PAGE.read_text()
    table = text.split("by a test -->")[1].split("<!-- schema: end")[0]
    assert table.strip() == describe().strip()
