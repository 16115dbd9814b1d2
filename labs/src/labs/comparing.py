"""Both sides of a lab beside each other: for a terminal, and for its README. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from labs.frame import Figures, Need

BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
RUN_DEPTH = 2
"""Objects within the run, and within its sides, have a line for each of their entries."""
BLOCK = re.compile(re.escape(BEGIN) + r".*?" + re.escape(END), re.DOTALL)


class Row(NamedTuple):
    """One figure of both sides."""

    figure: str
    wall: str
    answer: str
    bound: str
    """What the check asks for; empty: nothing."""


def rows(wall: Figures, answer: Figures, needs: Sequence[Need]) -> list[Row]:
    """Return what both sides told, what the check asks for first; lists are for pictures."""
    bounds = {need.figure: need.bound for need in needs}
    names = [*bounds, *(name for name in {**wall, **answer} if name not in bounds)]
    return [
        Row(name, shown(wall.get(name)), shown(answer.get(name)), bounds.get(name, ""))
        for name in names
        if not any(isinstance(told.get(name), list | dict) for told in (wall, answer))
    ]


def shown(value: Any) -> str:
    """Return a figure as people read it; nothing for none."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"
    return "-" if value is None else str(value)


def run_text(run: Mapping[str, Any]) -> str:
    """Return a run as it is kept: JSON with a figure on each line, however long the lists for its picture are."""
    return _lines(run, " ") + "\n"


def _lines(value: Any, indent: str) -> str:
    if not isinstance(value, Mapping) or len(indent) > RUN_DEPTH:
        return json.dumps(value, ensure_ascii=False)
    rows = [f"{indent}{json.dumps(key)}: {_lines(one, indent + ' ')}" for key, one in value.items()]
    return "{\n" + ",\n".join(rows) + f"\n{indent[1:]}}}"


def readme_block(run: Mapping[str, Any], needs: Sequence[Need], more: str = "") -> str:
    """Return what a README says of a run: the table, and of which machine and commit it is."""
    machine = run["machine"]
    lines = [
        BEGIN,
        "![wall and answer](run.svg)",
        "",
        "| figure | wall | answer | the check asks for |",
        "|---|---|---|---|",
    ]
    for row in rows(run["wall"], run["answer"], needs):
        lines.append(f"| `{row.figure}` | {row.wall} | {row.answer} | {row.bound} |")
    lines += ["", more] if more else []
    lines += [
        "",
        f"A run of {run['took_s']:.0f} s on {machine['cores']} cores ({machine['cpu']}, Linux {machine['kernel']}), commit "
        f"`{run['commit']}`; written by `agent-sandbox lab {run['lab']} --keep`.",
        END,
    ]
    return "\n".join(lines)


def with_block(readme: str, block: str) -> str:
    """Return a README with its figures replaced.

    Raises:
        ValueError: it has no place for them, or several.
    """
    if len(BLOCK.findall(readme)) != 1:
        raise ValueError(f"one place for figures expected, between {BEGIN} and {END}")
    return BLOCK.sub(lambda _: block, readme)
