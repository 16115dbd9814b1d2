"""The three workspaces, and what one per cent of change is in each.

w1: a Python environment and a node_modules folder, some 28,000 small files. w2: one SQLite database of 1 GiB, half of it
random. w3: a git repository of 200 commits and its sources. They are made once and kept in the user's cache folder.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from harness.running import CannotMeasure, say

PYTHON_PACKAGES = ("numpy", "pandas", "requests", "pytest", "fastapi")
NODE_PACKAGES = (
    "typescript", "webpack", "webpack-cli", "eslint", "react", "react-dom", "lodash", "date-fns", "rxjs", "jest",
    "@babel/core", "@babel/preset-env",
)  # fmt: skip
SOURCES = ("pandas", "numpy", "pip", "pydantic", "fastapi", "requests")
COMMITS = 200
DATABASE_BYTES = 1 << 30
PAGE_BYTES = 4096
INSTALL_S = 1800.0
GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0")


def make(name: str, folder: Path, scale: float) -> Path:
    """Return a workspace, made if it is not there.

    Args:
        name: `w1`, `w2` or `w3`.
        folder: where workspaces are kept.
        scale: size, as a part of the whole one.

    Raises:
        CannotMeasure: what it is made of can't be installed.
    """
    folder = folder.resolve()  # what makes them runs in the workspace
    place = folder / f"{name}-{scale:g}"
    if place.is_dir():
        return place
    say(f"making {name}")
    folder.mkdir(parents=True, exist_ok=True)
    making = folder / f"{place.name}.making"
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir()
    {"w1": _make_w1, "w2": _make_w2, "w3": _make_w3}[name](making, folder, scale)
    making.rename(place)
    return place


def change(name: str, place: Path, seed: int) -> None:
    """Change one per cent."""
    chance = random.Random(seed)
    if name == "w2":
        _change_pages(place / "data.sqlite", chance)
        return
    files = sorted(one for one in _files(place) if ".git" not in one.parts)
    if name == "w3":
        files = [one for one in files if one.suffix == ".py"]
        for one in chance.sample(files, min(8, len(files))):
            _edit(one, chance)
        _run([*GIT, "commit", "-qam", f"change {seed}"], place)
    for one in chance.sample(files, max(1, len(files) // 100)):
        _edit(one, chance)


def _make_w1(place: Path, _folder: Path, scale: float) -> None:
    _run([sys.executable, "-m", "venv", str(place / "venv")], place)
    python = place / "venv/bin/python"
    _run([str(python), "-m", "pip", "-q", "install", *PYTHON_PACKAGES], place)
    (place / "app").mkdir()
    _run(["npm", "init", "-y"], place / "app")
    quiet = ("--silent", "--no-audit", "--no-fund")
    _run(["npm", "install", *quiet, *NODE_PACKAGES], place / "app")
    if scale < 1:
        files = sorted(_files(place))
        for one in random.Random(1).sample(files, len(files) - round(scale * len(files))):
            one.unlink()


def _make_w2(place: Path, _folder: Path, scale: float) -> None:
    chance = random.Random(7)
    words = [f"w{chance.getrandbits(28):x}" for _ in range(5000)]
    file = place / "data.sqlite"
    base = sqlite3.connect(file)
    for setting in ("page_size=4096", "journal_mode=off", "synchronous=off"):
        base.execute(f"pragma {setting}")
    base.execute("create table t(id integer primary key, k text, v blob)")
    number = 0
    while not file.exists() or file.stat().st_size < scale * DATABASE_BYTES:
        rows = []
        for _ in range(2000):
            rows.append((number, " ".join(chance.choices(words, k=60)), chance.randbytes(450)))
            number += 1
        base.executemany("insert into t values(?,?,?)", rows)
        base.commit()
    base.close()


def _make_w3(place: Path, folder: Path, scale: float) -> None:
    packages = next(make("w1", folder, 1).glob("venv/lib/python3*/site-packages"))
    for name in SOURCES:
        if (packages / name).is_dir():
            shutil.copytree(packages / name, place / name, ignore=_no_sources)
    chance = random.Random(3)
    _run([*GIT, "init", "-q"], place)
    _run([*GIT, "add", "-A"], place)
    _run([*GIT, "commit", "-qm", "first"], place)
    files = sorted(one for one in _files(place) if one.suffix == ".py" and ".git" not in one.parts)
    for number in range(1, max(2, round(scale * COMMITS))):
        for one in chance.sample(files, 8):
            lines = one.read_text(errors="surrogateescape").split("\n")
            at = chance.randrange(len(lines))
            lines[at:at] = [f"# change {number} {chance.getrandbits(64):x}" for _ in range(3)]
            one.write_text("\n".join(lines), errors="surrogateescape")
        _run([*GIT, "commit", "-qam", f"change {number}"], place)


def _no_sources(_folder: str, names: list[str]) -> list[str]:
    return [one for one in names if one == "__pycache__" or one.endswith((".so", ".pyc", ".exe"))]


def _files(place: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(place):
        for name in names:
            one = Path(folder, name)
            if not one.is_symlink():
                yield one


def _edit(file: Path, chance: random.Random) -> None:
    """Insert twelve bytes."""
    data = bytearray(file.read_bytes())
    at = chance.randrange(len(data) + 1)
    data[at:at] = chance.randbytes(12)
    mode = file.stat().st_mode
    file.chmod(mode | 0o200)
    with file.open("r+b") as output:
        output.write(data)
    file.chmod(mode)


def _change_pages(file: Path, chance: random.Random) -> None:
    count = file.stat().st_size // PAGE_BYTES
    with file.open("r+b") as base:
        for number in chance.sample(range(1, count), max(1, count // 100)):
            base.seek(number * PAGE_BYTES)
            page = base.read(PAGE_BYTES)
            at = chance.randrange(1, PAGE_BYTES)
            base.seek(number * PAGE_BYTES)
            base.write(page[at:] + page[:at])


def _run(command: list[str], folder: Path) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=INSTALL_S)
    except FileNotFoundError as exc:
        raise CannotMeasure(f"{command[0]} is not installed") from exc
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as exc:
        said = (exc.stderr or b"").decode(errors="replace").strip()[-300:]
        raise CannotMeasure(f"{' '.join(command[:4])}: {said or exc}") from exc
