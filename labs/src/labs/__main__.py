"""`python -m labs`, which `agent-sandbox lab` starts: the wall, the answer, and both beside each other."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from chaos.adapters.machine import describe_machine, find_commit
from labs.comparing import readme_block, rows, run_text, with_block
from labs.frame import (
    EXIT_INTERRUPTED,
    EXIT_RED,
    EXIT_SYSTEM,
    CannotRun,
    Figures,
    is_green,
    run_side,
)
from labs.shelf import Lab, lab, labs

SIDES = ("wall", "answer")
PIPE_WIDTH = 200


def main(words: Sequence[str]) -> int:
    """Run the command line; return the exit code."""
    given = parse(words)
    try:
        if given.what == "list":
            return _list()
        return _run(lab(int(given.what)), given)
    except CannotRun as exc:
        print(f"agent-sandbox lab: {exc}", file=sys.stderr)  # noqa: T201 - for people
        return EXIT_SYSTEM
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="agent-sandbox lab",
        description="Labs: each breaks something first, then adds the part that mends it.",
    )
    parser.add_argument("what", metavar="list|N", help="list: which there are; N: run one")
    parser.add_argument("--out", type=Path, help="folder for the picture (a new temporary one)")
    parser.add_argument(
        "--keep", action="store_true", help="write this run's figures into the lab's README"
    )
    given = parser.parse_args(words)
    if given.what != "list" and not given.what.isdigit():
        parser.error(f"list or a number expected, got {given.what!r}")
    return given


def _list() -> int:
    table = Table("lab", "what breaks, and what mends it", "folder", box=None, pad_edge=False)
    for one in labs():
        table.add_row(str(one.number), one.title, f"labs/{one.folder.name}")
    # In a pipe a row is one line.
    Console(width=None if sys.stdout.isatty() else PIPE_WIDTH).print(table)
    return 0


def _run(one: Lab, given: argparse.Namespace) -> int:
    began, commit = time.monotonic(), find_commit()
    console = Console(stderr=True)
    console.print(f"Lab {one.number}: {one.title}", style="bold", highlight=False)
    needs = one.needs()
    told = {which: _run_side(one, which, console) for which in SIDES}
    green = {which: is_green(needs, told[which]) for which in SIDES}
    out = given.out or Path(tempfile.mkdtemp(prefix=f"agent-sandbox-lab-{one.number}-"))
    out.mkdir(parents=True, exist_ok=True)
    drawn = out / f"lab-{one.number}.svg"
    drawn.write_text(one.draw(told["wall"], told["answer"]), encoding="utf-8")
    table = Table("figure", "wall", "answer", "the check asks for")
    for row in rows(told["wall"], told["answer"], needs):
        table.add_row(*row)
    console.print(table)
    for which in SIDES:
        console.print(
            f"check on the {which}: {'green' if green[which] else 'red'}", highlight=False
        )
    console.print(f"picture: {drawn}", highlight=False, soft_wrap=True)
    is_as_it_must = green["answer"] and not green["wall"]
    if given.keep and is_as_it_must:
        took_s = round(time.monotonic() - began, 1)
        keep(one, {"lab": one.number, "commit": commit, "took_s": took_s, **told})
    line = {
        "lab": one.number,
        **told,
        "check_red": not green["wall"],
        "check_green": green["answer"],
        "pictures": [str(drawn)],
        "took_s": round(time.monotonic() - began, 1),
    }
    print(json.dumps(line), flush=True)  # noqa: T201 - the result
    return 0 if is_as_it_must else EXIT_RED


def _run_side(one: Lab, which: str, console: Console) -> Figures:
    """Run one side; its progress moves in one line on a terminal, and is lines elsewhere."""
    if not console.is_terminal:
        return run_side(
            one.program(which),
            lambda line: console.print(
                f"{which} {line}", markup=False, highlight=False, soft_wrap=True
            ),
        )
    with console.status(f"{which} …") as status:
        return run_side(
            one.program(which),
            lambda line: status.update(f"{which} {line[:100]}".replace("[", r"\[")),
        )


def keep(one: Lab, run: dict[str, Any]) -> None:
    """Write a run's figures and picture into the lab's folder, and its README's block anew."""
    machine = {key: value for key, value in describe_machine("").items() if value != ""}
    run = {**run, "machine": machine}
    drawn = one.draw(run["wall"], run["answer"])
    block = readme_block(run, one.needs(), one.tell(run["wall"], run["answer"]))
    text = with_block(one.readme.read_text(encoding="utf-8"), block)
    one.run_file.write_text(run_text(run), encoding="utf-8")
    one.picture_file.write_text(drawn, encoding="utf-8")
    one.readme.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
