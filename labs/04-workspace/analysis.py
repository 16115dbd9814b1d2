"""The analysis that both sides do: three steps over `examples/analysis/orders.csv`; the second one takes a while."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS = 4.0
"""How long the second step takes."""
DIE_AFTER_LINES = 80
"""In the middle of it: it prints a line for each order, 180 or so."""
FILES = {
    "orders.csv": EXAMPLES / "analysis" / "orders.csv",
    "step1_clean.py": EXAMPLES / "analysis" / "step1_clean.py",
    "sum_slowly.py": EXAMPLES / "recovery" / "sum_slowly.py",
}
MADE = ("clean.csv", "log.txt", "regions.txt", "report.txt")
"""What it leaves. In the log the second step writes a line each time that it begins."""


class Step(NamedTuple):
    """One step."""

    name: str
    argv: tuple[str, ...]


CLEAN = Step("clean", ("python3", "step1_clean.py"))
SUM = Step("sum", ("python3", "sum_slowly.py", str(SECONDS)))
REPORT = Step("report", ("sh", "-c", "sort -k2 -n -r regions.txt > report.txt"))
STEPS = (CLEAN, SUM, REPORT)


def undisturbed() -> dict[str, str]:
    """Do the analysis in a folder here, where nothing dies; return the files that it makes, as hashes."""
    with tempfile.TemporaryDirectory(prefix="agent-sandbox-lab-") as name:
        folder = Path(name)
        for path, source in FILES.items():
            shutil.copyfile(source, folder / path)
        for _, argv in STEPS:
            quick = [sys.executable if word == "python3" else word for word in argv]
            subprocess.run(
                ["0" if word == str(SECONDS) else word for word in quick],
                cwd=folder,
                check=True,
                capture_output=True,
                timeout=60,
            )
        return hashes({path: (folder / path).read_bytes() for path in MADE})


def hashes(files: dict[str, bytes]) -> dict[str, str]:
    """Return what can be compared."""
    return {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}


def unequal(found: dict[str, str]) -> int:
    """Return how many files are missing, or are not as in a run without a fault."""
    wanted = undisturbed()
    return sum(found.get(path) != value for path, value in wanted.items())
