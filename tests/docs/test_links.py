"""Whatever a document points at is there: pages, headings, files, and one record for each number of a decision."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path
    for path in (
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("labs/**/*.md"),
        ROOT / "benchmarks/README.md",
    )
    if path.name != "template.md"
)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(text: str) -> set[str]:
    """Return what a heading is called in a link."""
    heads = re.findall(r"^#+ +(.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def dead_links(page: Path, text: str) -> list[str]:
    """Return the links of a page that lead nowhere; those that leave the repository are not looked at."""
    dead = []
    for link in LINK.findall(text):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if "://" in link or link.startswith("mailto:"):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            dead.append(link)
    return dead


def spelled_out(name: str) -> list[str]:
    """Return all names that a name with {a,b} stands for, as a shell does."""
    parts = [part.split(",") for part in re.split(r"\{([^{}]*)\}", name)]
    fixed = [[",".join(part)] if n % 2 == 0 else part for n, part in enumerate(parts)]
    return ["".join(words) for words in itertools.product(*fixed)]


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_of_a_document_is_dead(page: Path) -> None:
    """Pages move, headings are reworded."""
    assert dead_links(page, page.read_text()) == []


@pytest.mark.parametrize("name", ["README.md", "docs/operations.md", "docs/faults.md"])
def test_every_file_that_a_document_names_exists(name: str) -> None:
    """Where a newcomer looks first, modules and tests are named by their paths."""
    named = re.findall(
        r"`((?:shared|sdk|services|tests|benchmarks)/[\w./*{},-]+)`", (ROOT / name).read_text()
    )
    paths = [path for word in named for path in spelled_out(word)]

    assert paths
    assert [path for path in paths if not list(ROOT.glob(path.rstrip("/")))] == []


def test_each_decision_has_a_number_of_its_own() -> None:
    """In the file's name and in its title."""
    records = sorted((ROOT / "docs/adr").glob("[0-9]*.md"))
    numbers = [record.name[:4] for record in records]

    assert [number for number, count in Counter(numbers).items() if count > 1] == []
    assert [r.name for r in records if not r.read_text().startswith(f"# {r.name[:4]}. ")] == []


def test_the_checks_find_what_they_look_for() -> None:
    """Planted: a page and a heading that are not there."""
    page = ROOT / "README.md"
    text = "[a](docs/no.md) [b](docs/results.md#no-such) [c](docs/results.md#dead-letters) [d](#try-it)"

    assert dead_links(page, f"## Try it\n{text}") == ["docs/no.md", "docs/results.md#no-such"]
    assert spelled_out("a/{b,c}/d.py") == ["a/b/d.py", "a/c/d.py"]
