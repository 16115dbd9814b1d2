"""Pages of the site that are made when it is built: references from code, figures from results, the lists of labs and decisions.

A hook of mkdocs (`mkdocs.yml`); on its own it is no program.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from agent_sandbox.cli import reference as commands
from gateway import reference as routes

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))  # the harness is no installed package
from harness import published  # noqa: E402 - found there

RECOVERY = (
    ("recovery", "Workers and whole nodes are killed"),
    ("soak", "Everything is killed for five minutes"),
    ("chaos", "The chaos lab"),
    ("queue-failover", "The queue's leader is killed, or hangs"),
    ("resume", "Waking a hibernated session"),
    ("kubernetes-recovery", "On Kubernetes"),
)
"""Benchmarks whose kept results the page of recovery figures shows."""
ROW = r"^\| (`[^|]*`) \| ([^|]*) \|(?: (.*) \|)?$"
"""Of a benchmark's table: figures, targets, and where there is one their meaning."""
NO_LABS = "There is none in this version yet."


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add what is made, and fill what is filled."""
    made = {
        "adr/index.md": decisions(),
        "cli-reference.md": filled("cli-reference.md", "commands", commands.reference()),
        "http-reference.md": filled("http-reference.md", "routes", routes.reference()),
        "labs.md": filled("labs.md", "labs", labs()),
        "recovery.md": filled("recovery.md", "figures", figures()),
    }
    for uri, text in made.items():
        if (written := files.get_file_from_path(uri)) is not None:
            files.remove(written)
        files.append(File.generated(config, uri, content=text))
    return files


def filled(name: str, mark: str, text: str) -> str:
    """Return a page with a text in the place of its mark.

    Raises:
        ValueError: it has no such mark.
    """
    before, found, after = (ROOT / "docs" / name).read_text().partition(f"<!-- {mark} -->\n")
    if not found:
        raise ValueError(f"docs/{name} has no <!-- {mark} -->")
    return before + text + after


def decisions() -> str:
    """Return the list of all records of decisions, the newest first."""
    records = sorted((ROOT / "docs/adr").glob("[0-9]*.md"), reverse=True)
    page = "# Decisions\nWhat is hard to undo, each with its reasons.\n\n"
    return page + "".join(f"- [{_title(record)}]({record.name})\n" for record in records)


def labs() -> str:
    """Return the list of all labs that are there."""
    pages = sorted((ROOT / "labs").glob("[0-9]*/README.md"))
    lines = [f"- [{_title(page)}](../labs/{page.parent.name}/README.md)\n" for page in pages]
    return "".join(lines) or f"{NO_LABS}\n"


def figures() -> str:
    """Return what the kept results say of recovery, with the meaning and the target of each figure."""
    meanings = (ROOT / "benchmarks/README.md").read_text()
    results = published.read_results(published.RESULTS)
    kept = {name: title for name, title in RECOVERY if name in results}
    rows = [published.Row(**row) for row in tomllib.loads(published.ROWS.read_text())["row"]]
    summary = published.first_page([row for row in rows if row.bench in kept], results)
    parts = [_of_result(title, results[name], meanings) for name, title in kept.items()]
    return f"## In short\n{summary}\n\n{''.join(parts)}"


def _of_result(title: str, result: Mapping[str, Any], meanings: str) -> str:
    name, commit = result["bench"], result["commit"]
    page = f"## {title}\n"
    page += f"`./dev bench {name}` at `{commit}`, on {result['machine']['cores']} cores.\n\n"
    page += "| figure | measured | target | meaning |\n|---|---|---|---|\n"
    own = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", meanings, re.DOTALL | re.MULTILINE)
    rows = re.findall(ROW, own[1] if own else "", re.MULTILINE)
    for names, target, meaning in rows:
        values = [
            _value(result["figures"][figure])
            for figure in re.findall(r"`(\w+)`", names)
            if figure in result["figures"]
        ]
        if values:
            page += f"| {names} | {' / '.join(values)} | {target} | {meaning} |\n"
    picture = f"{name}-{commit}.svg"
    if (published.RESULTS / picture).exists():
        page += f"\n![{title}](../benchmarks/results/{picture})\n"
    return f"{page}\n"


def _value(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 1000 else f"{figure:.4g}"


def _title(page: Path) -> str:
    """Return a page's title."""
    return page.read_text().partition("\n")[0].removeprefix("#").strip()
