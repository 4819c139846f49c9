"""The page about the commands says what they say."""

from pathlib import Path

from weft.cli.page import page

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m weft.cli.page > docs/cli.md"
