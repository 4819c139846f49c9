"""Command samples of the documents: what a reader would type, and what is said to come of it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = {"cli.md", "parity.md", "benchmarks.md", "recipe-parameters.md"}
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
TYPED = ("", "sh", "console")
SPAN = re.compile(r"`((?:weft|weft-agent|python -m) [^`\n]+)`")
COMMENT = re.compile(r"(\s{2,}|\s)#\s.*$")
COLUMNS_APART = re.compile(r"\s{3,}\S.*$")
PROGRAMS = ("weft ", "weft-agent ", "python -m ", "sudo weft ")


@dataclass(frozen=True, slots=True)
class Sample:
    """A command of a document, and the lines that it is said to print."""

    document: str
    command: str
    printed: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.document}: {self.command}"


def documents() -> list[Path]:
    """Everything that people write for people."""
    pages = [page for page in (ROOT / "docs").glob("*.md") if page.name not in GENERATED]
    return sorted(
        [*pages, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples/README.md"]
    )


def in_blocks(page: Path) -> Iterator[Sample]:
    """What a reader would copy."""
    blocks = [text for kind, text in FENCED.findall(page.read_text()) if kind in TYPED]
    for block in blocks:
        lines = block.replace("\\\n", " ").splitlines()
        shown = any(line.startswith("$ ") for line in lines)
        for number, line in enumerate(lines):
            typed = line.removeprefix("$ ")
            if typed.startswith(PROGRAMS) and shown is line.startswith("$ "):
                yield Sample(page.name, _bare(typed), tuple(_answer(lines[number + 1 :], shown)))


def in_prose(page: Path) -> Iterator[Sample]:
    """What stands between backticks."""
    for span in SPAN.findall(FENCED.sub("", page.read_text())):
        yield Sample(page.name, span)


def _bare(typed: str) -> str:
    """Without the remark behind it, which stands apart or behind a sharp."""
    return COLUMNS_APART.sub("", COMMENT.sub("", typed)).removeprefix("sudo ").strip()


def _answer(lines: list[str], shown: bool) -> Iterator[str]:
    for line in lines:
        if not shown or line.startswith("$ "):
            return
        yield line
