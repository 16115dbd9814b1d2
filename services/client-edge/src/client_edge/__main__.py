"""Start a client edge: `python -m client_edge`, settings in `EDGE_…` variables."""

from __future__ import annotations

import asyncio
import os
import sys

from client_edge import app
from client_edge.settings import PREFIX, EdgeSettings
from shared import logs, service
from shared.settings import SettingsError, load

DRAIN_S = 2.0


def main() -> int:
    """Run the edge until it is asked to leave; return its exit code."""
    try:
        settings = load(EdgeSettings, PREFIX, os.environ)
    except SettingsError as exc:
        sys.stderr.write(f"client-edge: {exc}\n")
        return 2
    logs.configure(service="client-edge", level=settings.log_level, instance=settings.name)
    return asyncio.run(service.run(lambda stop: app.run(settings, stop), drain_s=DRAIN_S))


if __name__ == "__main__":
    sys.exit(main())
