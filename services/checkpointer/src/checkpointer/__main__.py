"""Start one node's checkpointer: `python -m checkpointer`, settings in `CHECKPOINTER_…` variables."""

from __future__ import annotations

import asyncio
import os
import sys

from checkpointer import app
from checkpointer.adapters.engine.collector import calm_collector
from checkpointer.settings import PREFIX, CheckpointerSettings
from shared import logs, service
from shared.settings import SettingsError, load


def main() -> int:
    """Run the checkpointer until it is asked to leave; return its exit code."""
    try:
        settings = load(CheckpointerSettings, PREFIX, os.environ)
    except SettingsError as exc:
        sys.stderr.write(f"checkpointer: {exc}\n")
        return 2
    logs.configure(service="checkpointer", level=settings.log_level, instance=settings.node)
    calm_collector()
    return asyncio.run(service.run(lambda stop: app.run(settings, stop), drain_s=settings.drain_s))


if __name__ == "__main__":
    sys.exit(main())
