"""What the documents say of the tree is so: what is planned is absent, what is linked is there."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.guides.samples import ROOT
from weft.policy.recipes import RECIPES
from weft.spec.recipe import make_recipe
from weft.spec.recipe_parameters import parameters_of
from weft.trace.readers import FORMATS

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")])
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
NAMED = re.compile(r'<a id="([^"]+)">')
SPAN = re.compile(r"`([^`\n]+)`")
MOST_WORDS_OF_OUR_OWN = 40
# What a line that says *planned* speaks of, and what must not be in the source while it does.
PLANNED = {
    "`web`": ["web", "web.py"],
    "probes and preflight": ["failure/probe*", "failure/preflight*"],
    "a solver": ["policy/**/*solver*", "policy/**/*milp*"],
    "Solvers are": ["policy/**/*solver*", "policy/**/*milp*"],
    "**Groups**": ["policy/**/interleav*", "brain/**/interleav*"],
    "What is marked": [],
}


def test_what_is_planned_is_not_there_and_what_is_there_is_not_planned() -> None:
    source = ROOT / "src" / "weft"
    for page in PAGES:
        for line in page.read_text().splitlines() if page.name != "CHANGELOG.md" else ():
            if not re.search(r"\(planned\)|\*planned\*|\*planned:\*", line):
                continue
            spoken = [phrase for phrase in PLANNED if phrase in line]
            assert spoken, f"{page.name}: {line}: say here what must be absent"
            found = [
                file for phrase in spoken for one in PLANNED[phrase] for file in source.glob(one)
            ]
            assert not found, f"{page.name} calls it planned: {found}"


def test_solvers_are_loaded_where_they_are_said_to_be() -> None:
    imports = re.compile(r"^\s*(?:import|from) (?:scipy|rustworkx)\b", re.MULTILINE)
    found = [file for file in (ROOT / "src").rglob("*.py") if imports.search(file.read_text())]
    rooms = {file.parent.name for file in found}
    assert rooms == {"share", "plans"}, "docs/architecture.md says so"
    at_once = re.compile(r"^(?:import|from) (?:scipy|rustworkx)\b", re.MULTILINE)
    assert not [file for file in found if at_once.search(file.read_text())]


def test_links_lead_somewhere() -> None:
    assert not [fault for page in PAGES for fault in _dead_links(page)]


def _dead_links(page: Path) -> Iterator[str]:
    for target, anchor in LINK.findall(page.read_text()):
        file = (page.parent / target).resolve() if target else page
        if not file.exists():
            yield f"{page.relative_to(ROOT)} links to {target}"
        elif anchor and file.suffix == ".md" and anchor not in _anchors(file):
            yield f"{page.relative_to(ROOT)} links to {target}#{anchor}"


@cache
def _anchors(file: Path) -> frozenset[str]:
    text = file.read_text()
    return frozenset({*map(_anchor, HEADING.findall(text)), *NAMED.findall(text)})


def _anchor(title: str) -> str:
    """As GitHub makes it."""
    kept = re.sub(r"[^\w\- ]", "", title.lower().replace("`", ""))
    return kept.strip().replace(" ", "-")


def test_files_and_modules_are_called_as_they_are() -> None:
    named = [(page, span) for page in PAGES for span in SPAN.findall(page.read_text())]
    assert not [
        f"{page.relative_to(ROOT)}: {span}" for page, span in named if _is_absent(page, span)
    ]


def _is_absent(page: Path, span: str) -> bool:
    """Whether the span names a file or a module that is not there."""
    source = ROOT / "src" / "weft"
    if re.fullmatch(r"(\w+/)+\w+\.py", span):
        places = (ROOT, source, source / "kube", page.parent)
        return not any((place / span).exists() for place in places)
    if re.fullmatch(r"weft(\.[a-z_]+)+(?<!\.json)", span):
        return not _is_module(source, span.split(".")[1:])
    return False


def _is_module(folder: Path, names: list[str]) -> bool:
    """Whether the names lead to a module, or to something that a module speaks of."""
    first, *rest = names
    file = (folder / first).with_suffix(".py")
    if file.exists():
        return not rest or rest[0] in file.read_text()
    if (folder / first).is_dir():
        return not rest or _is_module(folder / first, rest)
    return not rest and first in (folder / "__init__.py").read_text()


def test_every_document_is_found_from_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    pages = [page.name for page in (ROOT / "docs").glob("*.md") if page.name != "index.md"]
    assert not [name for name in pages if f"({name})" not in index]


def test_the_glossary_has_words_of_our_own_only() -> None:
    words = re.findall(r"^\| \*\*", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    assert 0 < len(words) <= MOST_WORDS_OF_OUR_OWN


def test_nobody_is_sent_to_a_package_index() -> None:
    """No package of this name is ours there."""
    files = [*PAGES, *(ROOT / "src").rglob("*.py")]
    named = re.compile(r"pip install '?weft\b|install weft\[")
    assert not [file for file in files if named.search(file.read_text())]


def test_recipes_are_written_as_they_are_read() -> None:
    for page in PAGES:
        for span in SPAN.findall(page.read_text()):
            name, _, rest = span.partition("(")
            if name in RECIPES and rest.endswith(")") and "…" not in rest:
                make_recipe(span)


def test_parameters_of_elastic_recipes_are_read_as_they_are_written() -> None:
    takers = {knob.name: name for name in RECIPES for knob in parameters_of(RECIPES[name])}
    spans = SPAN.findall((ROOT / "docs" / "elastic.md").read_text())
    written = [span for span in spans if re.fullmatch(r"[a-z_]+=(true|false|True|False|\d+)", span)]
    assert "packed=true" in written and "host=true" in written
    for span in written:
        make_recipe(f"{takers[span.partition('=')[0]]}({span})")


def test_the_readme_names_the_formats_that_are_read() -> None:
    readme = (ROOT / "README.md").read_text().lower()
    for known in FORMATS:
        assert known.name in readme or known.name in ("weft", "listing"), known.name
    line = next(line for line in readme.splitlines() if line.startswith("- **readers**"))
    assert "not in their raw form" in line
