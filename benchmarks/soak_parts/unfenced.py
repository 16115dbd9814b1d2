"""The negative control: a build in which an owner's epoch fences nothing, and others that are broken on purpose. Only tests
run them; no switch leads here.

The packages are copied into a folder of their own and changed there; the cluster's processes import them from there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.running import ROOT, CannotMeasure

SOURCES = (
    ROOT / "shared" / "src",
    ROOT / "sdk" / "src",
    ROOT / "services" / "worker-agent" / "src",
    ROOT / "services" / "pool-manager" / "src",
    ROOT / "services" / "local-node" / "src",
    ROOT / "services" / "checkpointer" / "src",
)
Changes = Sequence[tuple[str, str, str]]
"""File, what stands there once, what stands there then."""
CHANGES: Changes = (
    (
        "worker_agent/loops/commit.py",  # whoever has the session, the owner writes on
        "    if found is None or not is_mine(found[0], held.hold):\n",
        "    if found is None:\n",
    ),
    (
        "worker_agent/loops/beat.py",  # and lets user code go on
        "        if found is None or not is_mine(found[0], held.hold):\n",
        "        if found is None:\n",
    ),
    (
        "worker_agent/adapters/store.py",  # a result is stored whatever was stored before
        "                    messages.encode(result),\n                    expected_seq=0,\n",
        "                    messages.encode(result),\n",
    ),
    (
        "worker_agent/adapters/store.py",
        "                    messages.encode(record),\n                    expected_seq=expected_seq,\n",
        "                    messages.encode(record),\n",
    ),
)


def build(folder: Path, changes: Changes = CHANGES) -> None:
    """Copy the packages and take the fence away, or something else.

    Raises:
        CannotMeasure: the source has changed, and with it what must be changed here.
    """
    for source in SOURCES:
        shutil.copytree(
            source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    take_away(folder, changes)


def take_away(folder: Path, changes: Changes = CHANGES) -> None:
    """Take the fence, or something else, out of a copy.

    Raises:
        CannotMeasure: what is to be taken away is not there.
    """
    for name, before, after in changes:
        path = folder / name
        text = path.read_text()
        if text.count(before) != 1:
            raise CannotMeasure(f"{name}: what the negative control takes away is not there once")
        path.write_text(text.replace(before, after))


@contextmanager
def used(folder: Path) -> Iterator[None]:
    """Let the processes that are started meanwhile import from there first."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
