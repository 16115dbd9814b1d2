"""Trees of files, and how two of them differ."""

from __future__ import annotations

import filecmp
import os
import random
from pathlib import Path


def make_tree(folder: Path) -> None:
    """Make files of several sizes, a link, an executable and names that are no ASCII."""
    made = random.Random(7)
    for number in range(40):
        path = folder / f"d{number % 5}" / f"f{number}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made.randbytes(made.choice([0, 1, 4095, 70_000, 900_000])))
    (folder / "grüße.txt").write_text("ä\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("d0/f0.bin")


def differences(one: Path, other: Path) -> list[str]:
    """Return what differs between two trees: names, kinds, modes, links, and bytes."""
    found = []
    names = {path.relative_to(top) for top in (one, other) for path in top.rglob("*")}
    for name in sorted(names):
        left, right = one / name, other / name
        if not (os.path.lexists(left) and os.path.lexists(right)):
            found.append(f"{name}: only on one side")
        elif left.is_symlink() or right.is_symlink():
            if not (
                left.is_symlink() and right.is_symlink() and left.readlink() == right.readlink()
            ):
                found.append(f"{name}: another link")
        elif left.is_dir() != right.is_dir():
            found.append(f"{name}: another kind")
        elif left.is_file() and not filecmp.cmp(left, right, shallow=False):
            found.append(f"{name}: other bytes")
        elif (left.stat().st_mode ^ right.stat().st_mode) & 0o111:
            found.append(f"{name}: another mode")
    return found
