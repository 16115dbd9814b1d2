"""Snapshots of three workspaces beside restic and `tar | zstd -1`: first, no change, one per cent changed, restore.

    ./dev bench snapshot [--only w1 …] [--rounds 3] [--scale 1] [--save]

Ratios are of CPU seconds (user and system) to restic's in the same run, and of stored bytes. What the figures mean:
benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import filecmp
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.machine import describe_machine, find_commit
from harness.pictures import Picture
from harness.report import Report, Target, table
from harness.running import ROOT, CannotMeasure, add_common_options, fresh_folder, run, say
from snapshot_parts import workspaces
from snapshot_parts.child import Cost
from snapshot_parts.tools import Ours, Restic, Tar, Tool

NAMES = ("w1", "w2", "w3")
STEPS = ("first", "nochange", "onepercent", "restore")
SMALL = {"first": 0.4, "nochange": 0.33, "onepercent": 0.33, "restore": 0.5}
LARGE = {"first": 0.67, "nochange": 0.33, "onepercent": 0.33, "restore": 1.0}
TARGETS = (
    *(
        Target(f"{name}_{step}_cpu", reach)
        for name in NAMES
        for step, reach in (LARGE if name == "w2" else SMALL).items()
    ),
    *(Target(f"{name}_bytes", 1.02) for name in NAMES),
    Target("w2_onepercent_bytes", 0.15),
)
MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 4 << 30

Costs = dict[str, list[Cost]]


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench snapshot", description=(__doc__ or "").split("\n")[0]
    )
    add_common_options(parser)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser.add_argument("--only", action="append", choices=NAMES, help="of these workspaces")
    parser.add_argument("--rounds", type=int, default=3, help="measured, medians count (3)")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the workspaces (1)")
    parser.add_argument(
        "--workspaces", type=Path, default=cache / "agent-sandbox/bench", help="where they are kept"
    )
    options = parser.parse_args()
    if not 0 < options.scale <= 1 or options.rounds < 1:
        parser.error("--scale: above 0 and at most 1; --rounds: 1 at least")
    return options


async def measure(given: argparse.Namespace) -> tuple[Report, Sequence[Picture]]:
    """Measure all workspaces with all tools."""
    report = Report("snapshot", find_commit(ROOT), describe_machine(), TARGETS)
    gates: list[float] = []
    firsts: list[float] = []
    for name in given.only or NAMES:
        kept = await asyncio.to_thread(workspaces.make, name, given.workspaces, given.scale)
        costs: dict[str, Costs] = {}
        sizes: dict[str, list[tuple[int, int]]] = {}
        for number in range(given.rounds):
            await asyncio.to_thread(_round, (name, number), kept, costs, sizes)
        _enter(report, name, costs, sizes)
        restores = costs[Ours.name]["restore"]
        gates.append(statistics.median(cost.wall_s for cost in restores))
        firsts += [cost.first_s for cost in restores]
    report.add("gate_open_s", max(gates))
    report.add("first_files_s", statistics.median(firsts))
    version = await asyncio.to_thread(find_version) if Restic.is_here() else ""
    report.notes.append(
        f"{version}: it encrypts and starts for each step;"
        " the checkpointer does not encrypt, and runs already when it is asked"
        if version
        else "restic is not installed (on Debian: apt-get install restic): there are no ratios"
    )
    report.notes.append(
        f"restored to {'memory' if _in_memory() else 'disk'}, saved from and to disk"
    )
    if given.scale < 1:
        report.notes.append(f"workspaces of {given.scale:g} of their size: no figures to publish")
    return report, ()


def find_version() -> str:
    """Return which restic this is."""
    said = subprocess.run(["restic", "version"], capture_output=True, text=True, check=False)
    return said.stdout.partition(" compiled")[0].strip()


def _round(
    which: tuple[str, int],
    kept: Path,
    costs: dict[str, Costs],
    sizes: dict[str, list[tuple[int, int]]],
) -> None:
    """Take one round of all tools, each on a copy of the workspace, with the same change."""
    name, number = which
    for make in (Ours, Restic, Tar) if Restic.is_here() else (Ours, Tar):
        with fresh_folder() as base:
            workspace = base / "workspace"
            subprocess.run(["cp", "-a", kept, workspace], check=True)
            subprocess.run(["sync", "-f", base], check=True)
            tool: Tool = make(workspace, base)
            mine = costs.setdefault(tool.name, {step: [] for step in STEPS})
            mine["first"].append(tool.save())
            first_bytes = tool.stored_bytes()
            mine["nochange"].append(tool.save())
            between_bytes = tool.stored_bytes()
            workspaces.change(name, workspace, number + 1)
            subprocess.run(["sync", "-f", base], check=True)
            mine["onepercent"].append(tool.save())
            added = tool.stored_bytes() - (0 if make is Tar else between_bytes)
            sizes.setdefault(tool.name, []).append((first_bytes, added))
            with _target(base) as target:
                mine["restore"].append(tool.restore(target))
                if not _is_same(workspace, target):
                    raise CannotMeasure(f"{name}: {tool.name} restored something else")
        shown = ", ".join(f"{step} {mine[step][-1].cpu_s:.2f}" for step in STEPS)
        say(f"{name}, round {number + 1}, {tool.name}: CPU s: {shown}")


def _in_memory() -> bool:
    """Return whether restores go to a file system in memory: a disk's is slow where files were deleted just before."""
    return MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES_MIN


@contextmanager
def _target(base: Path) -> Iterator[Path]:
    """Make an empty folder to restore to."""
    if not _in_memory():
        (base / "target").mkdir()
        yield base / "target"
        return
    folder = Path(tempfile.mkdtemp(prefix="agent-sandbox-bench-", dir=MEMORY))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_same(workspace: Path, target: Path) -> bool:
    """Return whether each file came back."""
    for folder, _, names in os.walk(workspace):
        other = target / Path(folder).relative_to(workspace)
        plain = [name for name in names if not Path(folder, name).is_symlink()]
        if filecmp.cmpfiles(folder, other, plain, shallow=False)[0] != plain:
            return False
    return True


def _enter(
    report: Report, name: str, costs: dict[str, Costs], sizes: dict[str, list[tuple[int, int]]]
) -> None:
    """Enter ratios of one workspace, and a table of what they are made of."""
    ours, restic = costs[Ours.name], costs.get(Restic.name)
    if restic is not None:
        for step in STEPS:
            report.add(f"{name}_{step}_cpu", _cpu(ours[step]) / _cpu(restic[step]))
        own, other = _bytes(sizes[Ours.name]), _bytes(sizes[Restic.name])
        report.add(f"{name}_bytes", sum(own) / sum(other))
        report.add(f"{name}_onepercent_bytes", own[1] / other[1])
    for step in STEPS:
        report.add(f"{name}_{step}_s", statistics.median(one.wall_s for one in ours[step]))
    report.add(f"{name}_memory_mib", max(one.memory_mib for each in ours.values() for one in each))
    rows = []
    for tool, mine in costs.items():
        steps = [
            f"{_cpu(mine[step]):.2f} / {statistics.median(one.wall_s for one in mine[step]):.2f}"
            for step in STEPS
        ]
        first, added = _bytes(sizes[tool])
        rows.append([tool, *steps, f"{first / 1e6:.1f} + {added / 1e6:.2f}"])
    head = [f"{name}: CPU / wall, s", "first", "no change", "1 %", "restore", "MB + 1 %"]
    report.sections.append(table(head, rows))


def _cpu(costs: list[Cost]) -> float:
    return statistics.median(one.cpu_s for one in costs)


def _bytes(sizes: list[tuple[int, int]]) -> tuple[float, float]:
    firsts, seconds = zip(*sizes, strict=True)
    return statistics.median(firsts), statistics.median(seconds)


def main() -> int:
    """Measure; return the exit code: 1 where a target is missed."""
    given = parse()
    return run(
        lambda: measure(given), save=given.save, part="+".join(given.only or ()),
        must_reach=given.scale == 1 and not given.only,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
