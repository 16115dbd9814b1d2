"""Start a gateway: `python -m gateway`, settings in `GATEWAY_…` variables."""

from __future__ import annotations

import asyncio
import os
import sys

from gateway import app
from gateway.settings import PREFIX, GatewaySettings
from shared import logs, service
from shared.settings import SettingsError, load
from shared.traces.settings import open_sdk

CLOSE_S = 5.0
"""After the requests under way: what is measured, and the connections to the servers."""


def main() -> int:
    """Run the gateway until it is asked to leave; return its exit code."""
    try:
        settings = load(GatewaySettings, PREFIX, os.environ)
    except SettingsError as exc:
        sys.stderr.write(f"gateway: {exc}\n")
        return 2
    logs.configure(service="gateway", level=settings.log_level, instance=settings.name)
    drain_s = settings.drain_s + CLOSE_S
    telemetry = open_sdk(os.environ, "gateway", settings.name)
    try:
        return asyncio.run(
            service.run(
                lambda stop: app.run(settings, stop, traced=telemetry is not None), drain_s=drain_s
            )
        )
    finally:
        if telemetry is not None:
            telemetry.close()


if __name__ == "__main__":
    sys.exit(main())
