"""The documents as the site needs them.

They are written to be read where they stand, in the repository, so they link to files beside
`docs/` and to the folder of decisions. Here what is linked comes along under `repository/`,
decisions get a list, and the front page gets the navigation. Nothing is written for the site alone.
"""

import posixpath
import re
import shutil
from pathlib import Path

from tools.site.navigation import KINDS

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(\]\()(\.\./[^)#\s]*|adr/)((?:#[^)\s]*)?\))")
TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
BESIDE = ("SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md")
FOR_FOLDERS = ("README.md", "Chart.yaml", "__init__.py")  # what stands for a folder that is linked
DECISIONS = "# Decisions\n\nWhat was chosen, what was rejected, and why; a page each.\n\n"


def gather(folder: Path) -> None:
    """Everything that the site is made of."""
    shutil.copytree(ROOT / "docs", folder, dirs_exist_ok=True)
    for name in BESIDE:
        _copied(folder, name)
    for page in sorted(folder.rglob("*.md")):
        source = page.relative_to(folder).as_posix()
        page.write_text(_led(page.read_text(encoding="utf-8"), source, folder), encoding="utf-8")
    (folder / "adr" / "index.md").write_text(decisions(), encoding="utf-8")
    front = folder / "index.md"
    front.write_text(front.read_text(encoding="utf-8") + navigation(), encoding="utf-8")


def navigation() -> str:
    """The kinds with their documents, as the builder reads them."""
    return "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {kind}\n\n" + "\n".join(names) + "\n```\n"
        for kind, names in KINDS.items()
    )


def decisions() -> str:
    """All records by number."""
    paths = sorted((ROOT / "docs" / "adr").glob("0*.md"))
    titles = [TITLE.search(path.read_text(encoding="utf-8")) for path in paths]
    listed = "".join(
        f"- [{title[1]}]({path.name})\n" for path, title in zip(paths, titles, strict=True) if title
    )
    tree = "\n".join(path.stem for path in paths)
    return f"{DECISIONS}{listed}\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n"


def anchor(title: str) -> str:
    """As GitHub makes it."""
    kept = re.sub(r"[^\w\- ]", "", title.lower().replace("`", ""))
    return kept.strip().replace(" ", "-")


def _led(markdown: str, source: str, folder: Path) -> str:
    """The same text, its links leading to where their targets are in the site."""
    if source.startswith("repository/"):
        up = "../" * source.count("/")
        return re.sub(r"\]\(docs/", f"]({up}", markdown)

    def link(found: re.Match[str]) -> str:
        return f"{found[1]}{_target(found[2], source, folder)}{found[3]}"

    return LINK.sub(link, markdown)


def _target(target: str, source: str, folder: Path) -> str:
    if target == "adr/":
        return "adr/index.md"
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(source), target))
    if path.startswith("docs/"):
        return target
    if (ROOT / path).is_dir():
        path = (
            f"{path}/README.md" if (ROOT / path / "README.md").is_file() else f"{path}/Chart.yaml"
        )
    _copied(folder, path)
    return posixpath.relpath(f"repository/{path}", posixpath.dirname(source) or ".")


def _copied(folder: Path, name: str) -> None:
    target = folder / "repository" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / name, target)
