"""What a kind costs while code runs in it: one program, the same everywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

PROGRAM = """
import json, os, time

def took_ms(work):
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000

def compute():
    total = 0
    for number in range(1_000_000): total += number

def calls():
    for _ in range(50_000): os.getppid()

def files():
    for number in range(300):
        with open(f"file-{number}", "w") as file: file.write("x" * 2000)
    for number in range(300):
        with open(f"file-{number}") as file: file.read()
        os.unlink(f"file-{number}")

print(json.dumps([min(took_ms(work) for _ in range(3)) for work in (compute, calls, files)]))
"""


class Costs(NamedTuple):
    """What a kind costs."""

    start_ms: float
    memory_mib: float
    """Of one that waits, with all processes that it needs: its share of what they share (PSS)."""
    compute_ms: float
    calls_ms: float
    files_ms: float


def read_work(told: str) -> tuple[float, float, float]:
    """Return what the program measured."""
    compute, calls, files = json.loads(told.splitlines()[-1])
    return compute, calls, files


def pss_mib(*pids: int) -> float:
    """Return the proportional memory of processes, MiB; one that is gone has none."""
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return total / 1024
