"""Which files a restore brings first: what changed lately, and what tools look at before anything else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from checkpointer.core.snapshot import HotPath

GENERATIONS: Final = 5
"""A file stays hot for so many snapshots after it changed."""
ACCESSED_AGE: Final = 1
"""A file that was read counts as one that changed a snapshot ago."""
ACCESSED_MAX: Final = 512
PATHS_MAX: Final = 2_048
"""Changed files that a snapshot names."""
PATH_BYTES_MAX: Final = 256 * 1024
"""Bytes of all their paths."""
HOT_BYTES_MAX: Final = 24 * 1024 * 1024
"""Content that is brought before the gate opens."""
HOT_FILE_BYTES_MAX: Final = 4 * 1024 * 1024
"""A larger file is never hot."""

_NAMES: Final = frozenset({
    b".env", b".envrc", b".gitignore", b".npmrc", b".python-version", b".tool-versions", b"Cargo.lock", b"Cargo.toml",
    b"Dockerfile", b"Gemfile", b"Gemfile.lock", b"Makefile", b"Pipfile", b"Pipfile.lock", b"compose.yaml", b"go.mod",
    b"go.sum", b"package-lock.json", b"package.json", b"pnpm-lock.yaml", b"poetry.lock", b"pyproject.toml", b"pyvenv.cfg",
    b"requirements.txt", b"setup.cfg", b"setup.py", b"tsconfig.json", b"uv.lock", b"yarn.lock",
})  # fmt: skip
_SHALLOW: Final = 2
"""Lock and config files are hot in the workspace's root and this far below it: deeper ones belong to packages."""


def is_hot_name(path: bytes) -> bool:
    """Return whether tools look at this file first: git's own but its objects, lock and config files near the root."""
    parts = path.split(b"/")
    if b".git" in parts[:-1]:
        inside = parts[parts.index(b".git") + 1 :]
        return inside[0] != b"objects"
    return len(parts) <= _SHALLOW + 1 and parts[-1] in _NAMES


def next_hot(
    before: Sequence[HotPath], changed: Iterable[bytes], accessed: Sequence[bytes] = ()
) -> tuple[HotPath, ...]:
    """Return the hot list of a snapshot.

    Args:
        before: its parent's.
        changed: paths of files that are new or changed since the parent. Of a first snapshot that is all, which says
            nothing: then give none.
        accessed: paths of files that were read. Very many say nothing either: somebody searched through all of them.
    """
    ages = dict.fromkeys(changed, 0)
    for hot in before:
        if hot.age + 1 < GENERATIONS:
            ages.setdefault(hot.path, hot.age + 1)
    if len(accessed) <= ACCESSED_MAX:
        for path in accessed:
            ages[path] = min(ages.get(path, ACCESSED_AGE), ACCESSED_AGE)
    chosen: list[HotPath] = []
    path_bytes = 0
    for path, age in sorted(ages.items(), key=lambda item: (item[1], item[0])):
        path_bytes += len(path)
        if len(chosen) == PATHS_MAX or path_bytes > PATH_BYTES_MAX:
            break
        chosen.append(HotPath(path, age))
    return tuple(chosen)


def choose_hot(sizes: Iterable[tuple[bytes, int]], listed: Sequence[HotPath]) -> set[bytes]:
    """Return the paths to restore first: listed ones, newest first, then those with hot names, within the bounds.

    Args:
        sizes: path and bytes of each file of the tree.
        listed: the snapshot's list.
    """
    ages = {hot.path: hot.age for hot in listed}
    ranked = sorted(
        (ages.get(path, GENERATIONS), size, path)
        for path, size in sizes
        if size <= HOT_FILE_BYTES_MAX and (path in ages or is_hot_name(path))
    )
    chosen: set[bytes] = set()
    total = 0
    for _, size, path in ranked:
        total += size
        if total > HOT_BYTES_MAX:
            break
        chosen.add(path)
    return chosen
