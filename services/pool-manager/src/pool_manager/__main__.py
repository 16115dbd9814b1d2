"""Start a pool-manager: `python -m pool_manager`, settings in `POOL_…` variables."""

from __future__ import annotations

import asyncio
import os
import sys

from pool_manager import app
from pool_manager.settings import PREFIX, PoolSettings
from shared import logs, service
from shared.errors import ServiceError
from shared.settings import SettingsError, load, to_environ
from shared.traces.settings import open_traces


def main(arguments: list[str]) -> int:
    """Run until a signal; return the exit code. With `--print-settings` only show the effective settings."""
    try:
        settings = load(PoolSettings, PREFIX, os.environ)
    except SettingsError as exc:
        sys.stderr.write(f"pool-manager: {exc}\n")
        return 2
    if "--print-settings" in arguments:
        for name, value in to_environ(settings, PREFIX).items():
            sys.stdout.write(f"{name}={value}\n")
        return 0
    logs.configure(service="pool-manager", level=settings.log_level, instance=settings.name)
    traces = open_traces(os.environ, "pool-manager", settings.name)
    try:
        return asyncio.run(
            service.run(lambda stop: app.run(settings, stop, traces), drain_s=settings.drain_s)
        )
    except (ServiceError, OSError) as exc:
        logs.get(__name__).error("manager.not_started", error=str(exc))
        return service.EXIT_FAILED
    finally:
        if traces is not None:
            traces.sink.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
