"""The page about the API says what the routes say."""

from pathlib import Path

from weft.api.page import page

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m weft.api.page > docs/api.md"
