"""Start a keeper: `python -m volume_keeper`, settings in `KEEPER_…` variables."""

from __future__ import annotations

import asyncio
import os
import sys

from shared import logs, service
from shared.settings import SettingsError, load
from volume_keeper import app
from volume_keeper.settings import PREFIX, KeeperSettings

DRAIN_S = 5.0


def main() -> int:
    """Run the keeper until it is asked to leave; return its exit code."""
    try:
        settings = load(KeeperSettings, PREFIX, os.environ)
    except SettingsError as exc:
        sys.stderr.write(f"volume-keeper: {exc}\n")
        return 2
    logs.configure(service="volume-keeper", level=settings.log_level, instance=settings.name)
    return asyncio.run(service.run(lambda stop: app.run(settings, stop), drain_s=DRAIN_S))


if __name__ == "__main__":
    sys.exit(main())
