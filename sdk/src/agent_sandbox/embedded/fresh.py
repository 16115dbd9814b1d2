"""A folder for something that runs for a while: a benchmark, a lab, a chaos run, each with a cluster of its own in it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def fresh_folder(what: str) -> Iterator[Path]:
    """Make a folder that is gone at the end; sandboxes with a uid of their own get through it.

    Args:
        what: is done in it, in its name: whoever finds one that a killed process left knows whose it was.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"agent-sandbox-{what}-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
