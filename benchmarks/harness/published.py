"""Figures that documents show come from the results that are kept, by this program: never by hand.

    ./dev figures            writes README.md, benchmarks/README.md and docs/results/README.md anew
    ./dev figures --check    only says whether they are what it would write; exit code 1 if not

`benchmarks/published.toml` has the rows of README.md: what was measured in words, the benchmark, and where in its words
which figure stands. What benchmarks/README.md shows are all figures that have something to reach. Of the chaos lab whole reports
are kept, under docs/results (`harness.chaos_reports`).
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import chaos_reports

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
ROWS = ROOT / "benchmarks" / "published.toml"
BEGIN = "<!-- figures: written by ./dev figures -->"
END = "<!-- /figures -->"


class NotPublished(Exception):
    """A row or a page does not fit what was measured; the text says which."""


@dataclass(frozen=True)
class Row:
    """One line of the first page's table."""

    what: str
    """Words with figures of the benchmark in them, as `{kills:,.0f}`."""
    value: str
    bench: str


Results = Mapping[str, Mapping[str, Any]]
"""By benchmark: the last line of the run that is kept (`figures`, `targets`, …)."""


def fill(text: str, bench: str, results: Results) -> str:
    """Return words with their figures.

    Raises:
        NotPublished: the benchmark was not kept, or has no such figure.
    """
    if bench not in results:
        raise NotPublished(f"{bench}: no result is kept; ./dev bench {bench} --save")
    try:
        return text.format_map(results[bench]["figures"])
    except (KeyError, ValueError) as exc:
        raise NotPublished(f"{bench}: {text!r}: {exc}") from None


def first_page(rows: Sequence[Row], results: Results) -> str:
    """Return the table of what was measured, in words."""
    lines = ["| what | measured | `./dev bench` |", "|---|---|---|"]
    for row in rows:
        what, value = (fill(text, row.bench, results) for text in (row.what, row.value))
        lines.append(f"| {what} | {value} | `{row.bench}` |")
    return "\n".join(lines)


def targets_page(results: Results) -> str:
    """Return the table of all figures that have something to reach, by benchmark."""
    lines = ["| `./dev bench` | figure | measured | to reach |", "|---|---|---|---|"]
    for bench in sorted(results):
        for figure, target in results[bench]["targets"].items():
            sign = "≥" if target["at_least"] else "≤"
            reach = f"{sign} {target['reach']:,.10g}" + ("" if target["ok"] else ", **missed**")
            lines.append(f"| {bench} | `{figure}` | {target['value']:,.10g} | {reach} |")
    return "\n".join(lines)


def put(page: str, table: str, begin: str = BEGIN, end: str = END) -> str:
    """Return a page with its table anew, between two marks.

    Raises:
        NotPublished: it has no place for it, or more than one.
    """
    if page.count(begin) != 1 or page.count(end) != 1:
        raise NotPublished(f"one {begin} and one {end} expected")
    head, rest = page.split(begin)
    return f"{head}{begin}\n{table}\n{end}{rest.split(end)[1]}"


def read_results(folder: Path) -> dict[str, Mapping[str, Any]]:
    """Return what is kept, by benchmark.

    Raises:
        NotPublished: two results of one benchmark: which of them counts?
    """
    found: dict[str, Mapping[str, Any]] = {}
    for path in sorted(folder.glob("*.json")):
        result = json.loads(path.read_text())
        bench = result["bench"]
        if bench in found:
            raise NotPublished(f"{bench}: more than one result is kept; delete the older ones")
        found[bench] = result
    return found


def pages() -> dict[Path, str]:
    """Return the pages as they ought to be.

    Raises:
        NotPublished: see there.
    """
    results = read_results(RESULTS)
    rows = [Row(**row) for row in tomllib.loads(ROWS.read_text())["row"]]
    tables = {
        ROOT / "README.md": first_page(rows, results),
        ROOT / "benchmarks" / "README.md": targets_page(results),
    }
    ought = {path: put(path.read_text(), table) for path, table in tables.items()}
    first, chaos = ROOT / "README.md", chaos_reports.readme_block(ROOT)
    ought[first] = put(ought[first], chaos, chaos_reports.BEGIN, chaos_reports.END)
    ought[ROOT / chaos_reports.RESULTS / "README.md"] = chaos_reports.results_page(ROOT)
    return ought


def main() -> int:
    """Write the pages, or say whether they are right."""
    parser = argparse.ArgumentParser(prog="./dev figures", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    try:
        ought = pages()
    except NotPublished as exc:
        print(f"figures: {exc}", file=sys.stderr)
        return 2
    stale = [path for path, text in ought.items() if path.read_text() != text]
    for path in stale:
        print(
            f"figures: {path.relative_to(ROOT)} {'is not what was measured' if check else 'written'}"
        )
        if not check:
            path.write_text(ought[path])
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
