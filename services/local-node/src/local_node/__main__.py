"""Start one node: `python -m local_node`, settings in `LOCAL_NODE_…` variables.

`--probe` starts none: it prints what one would find on this machine, a JSON object, or its error as one.
"""

from __future__ import annotations

import asyncio
import os
import sys

from local_node import app
from local_node.settings import NodeSettings
from shared import logs, service
from shared.errors import ServiceError
from shared.messages import Answer, Message, encode
from shared.settings import SettingsError, load


def main() -> int:
    """Run the node until it is asked to leave; return its exit code."""
    try:
        settings = load(NodeSettings, "LOCAL_NODE_", os.environ)
    except SettingsError as exc:
        sys.stderr.write(f"{exc}\n")
        return 2
    if sys.argv[1:] == ["--probe"]:
        return _probe(settings)
    logs.configure(service="local-node", level=settings.log_level, instance=settings.name)
    return asyncio.run(service.run(lambda stop: app.run(settings, stop), drain_s=settings.drain_s))


def _probe(settings: NodeSettings) -> int:
    logs.configure(service="local-node", level="critical", instance=settings.name)
    answer: Message
    try:
        answer = asyncio.run(app.probe(settings))
    except ServiceError as exc:
        answer = Answer(ok=False, error=exc.info())
    sys.stdout.buffer.write(encode(answer) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
