"""Writes docs/parity.md from the rows: `python -m tests.train.parity`; a test compares the two."""

from tests.train.parity.page import PATH, page

if __name__ == "__main__":
    PATH.write_text(page())
