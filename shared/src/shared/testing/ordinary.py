"""The ordinary user of this machine, and what it can run."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

ORDINARY_UID = 1000
"""Need not be in the list of users."""


def environment() -> dict[str, str]:
    """Return the variables with which an ordinary user's interpreter finds what ours does."""
    return {
        "PATH": os.defpath,
        "HOME": "/tmp",  # noqa: S108 - everybody has it; nothing is written there
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }


def as_ordinary_user() -> dict[str, Any]:
    """Return the arguments that make `subprocess.run` run as one; nothing where we are one."""
    if os.geteuid() != 0:
        return {}
    return {"user": ORDINARY_UID, "group": ORDINARY_UID, "extra_groups": []}


@cache
def python_for_everybody() -> str | None:
    """Return an interpreter of our version that every user of this machine may run; None: there is none."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base = str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
    for candidate in (base, f"/usr/local/bin/{version}", f"/usr/bin/{version}"):
        try:
            done = subprocess.run(
                [candidate, "-c", "import msgspec, structlog, local_node, sandbox_runner, pytest"],
                env=environment(),
                capture_output=True,
                check=False,
                timeout=30,
                cwd="/",
                **as_ordinary_user(),
            )
        except OSError:
            continue
        if done.returncode == 0:
            return candidate
    return None
