"""A pod as one builds it: an interpreter, the agent's libraries, a connection, and then the user's code."""

import time

BEGAN = time.time()

import asyncio  # noqa: E402 - what it costs is what is measured
import json  # noqa: E402 - likewise
import sys  # noqa: E402 - likewise

import agent_sandbox  # noqa: E402, F401 - what an agent needs: the client, HTTP, NATS, serialisation
from shared.bus import Bus, BusOptions  # noqa: E402 - likewise

IMPORTED = time.time()


async def main(server: str) -> None:
    """Connect, run the user's code, tell when what was done."""
    bus = await Bus.connect(BusOptions(servers=(server,), name="pod"))
    connected = time.time()
    exec("x = 6 * 7", {})
    print(json.dumps([BEGAN, IMPORTED, connected, time.time()]), flush=True)
    await bus.close()


asyncio.run(main(sys.argv[1]))
