"""What every source check reads: the files of the repository, and the one place where they are listed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IGNORED_FOLDERS = {
    ".git",
    ".venv",
    ".cache",
    ".agent-sandbox",
    ".hypothesis",
    "__pycache__",
    "dist",
}
IGNORED_FOLDERS |= {".pytest_cache", ".ruff_cache", ".mypy_cache", ".import_linter_cache"}


def _files_by_git() -> list[Path] | None:
    """Return tracked files and new ones that are not ignored; None where git cannot say."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        found = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return [ROOT / name for name in found.stdout.decode().split("\0") if name]


def _files_by_walk() -> list[Path]:
    """Return all files outside the folders that no clone has."""
    files = []
    for folder, names, here in os.walk(ROOT):
        names[:] = [name for name in names if name not in IGNORED_FOLDERS]
        files += [Path(folder) / name for name in here if name != "uv.lock"]
    return files


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's folder."""
    return ROOT


@pytest.fixture(scope="session")
def texts() -> dict[str, str]:
    """Every text file of the repository: its path from the root, and what it says."""
    by_git = _files_by_git()
    texts = {}
    for path in by_git if by_git is not None else _files_by_walk():
        if not path.is_file() or path.is_symlink():
            continue
        content = path.read_bytes()
        if b"\0" not in content[:8192]:
            texts[str(path.relative_to(ROOT))] = content.decode("utf-8", errors="replace")
    return texts


@pytest.fixture(scope="session")
def modules(texts: dict[str, str]) -> dict[str, str]:
    """The Python files among them."""
    return {path: text for path, text in texts.items() if path.endswith(".py")}
