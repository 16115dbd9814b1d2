"""Makes the folders in which everything lies, before anything is mounted below them: `python -m volume_keeper.begin FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from shared.errors import ServiceError
from volume_keeper.adapters.folders import SharedFolders


def main(arguments: list[str]) -> int:
    """Make them; return the exit code."""
    if len(arguments) != 1:
        raise SystemExit("usage: python -m volume_keeper.begin FOLDER")
    try:
        SharedFolders(Path(arguments[0])).begin()
    except ServiceError as exc:
        sys.stderr.write(f"{exc}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
