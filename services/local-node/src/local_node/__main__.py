"""Start one node: `python -m local_node`, settings in `LOCAL_NODE_…` variables."""

from __future__ import annotations

import asyncio
import os
import sys

from local_node import app
from local_node.settings import NodeSettings
from shared import logs, service
from shared.settings import SettingsError, load


def main() -> int:
    """Run the node until it is asked to leave; return its exit code."""
    try:
        settings = load(NodeSettings, "LOCAL_NODE_", os.environ)
    except SettingsError as exc:
        sys.stderr.write(f"{exc}\n")
        return 2
    logs.configure(service="local-node", level=settings.log_level, instance=settings.name)
    return asyncio.run(service.run(lambda stop: app.run(settings, stop), drain_s=settings.drain_s))


if __name__ == "__main__":
    sys.exit(main())
