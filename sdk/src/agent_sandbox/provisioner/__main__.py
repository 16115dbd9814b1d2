"""Start the provisioner: `python -m agent_sandbox.provisioner`, settings in `PROVISIONER_…` variables."""

from __future__ import annotations

import asyncio
import os
import sys

from agent_sandbox.provisioner import app
from agent_sandbox.provisioner.objects import KubeObjects
from agent_sandbox.provisioner.settings import PREFIX, ProvisionerSettings
from shared import logs, service
from shared.errors import ServiceError
from shared.kube.client import Access, open_api
from shared.service import Stop
from shared.settings import SettingsError, load

DRAIN_S = 10.0


def main() -> int:
    """Run the provisioner until it is asked to leave; return its exit code."""
    try:
        settings = load(ProvisionerSettings, PREFIX, os.environ)
    except SettingsError as exc:
        sys.stderr.write(f"provisioner: {exc}\n")
        return 2
    logs.configure(service="provisioner", level=settings.log_level, instance=settings.name)

    async def run(stop: Stop) -> None:
        async with open_api(Access()) as api:
            await app.run(settings, KubeObjects(api), stop)

    try:
        return asyncio.run(service.run(run, drain_s=DRAIN_S))
    except ServiceError as exc:
        logs.get(__name__).error("provisioner.not_started", error=str(exc))
        return service.EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
