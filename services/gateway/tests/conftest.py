"""A gateway without a cluster behind it: what it answers by itself."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway import app
from gateway.settings import PREFIX, GatewaySettings
from shared.service import Stop
from shared.settings import to_environ
from shared.testing.look import until

TOKEN = "a-token-of-the-tests"
NOBODY = "nats://127.0.0.1:1"
"""Where no edge is."""


def write_tenants(path: Path, tokens: dict[str, str]) -> None:
    """Write a tenants' file: tenant -> token."""
    tenants = {
        tenant: {
            "token_sha256s": [hashlib.sha256(token.encode()).hexdigest()],
            "credential": str(path.with_name("none.creds")),
        }
        for tenant, token in tokens.items()
    }
    draft = path.with_suffix(".new")
    draft.write_bytes(msgspec.json.encode({"tenants": tenants}))
    draft.chmod(0o600)
    draft.replace(path)


class Gateway:
    """A running gateway of a test's own."""

    def __init__(self, settings: GatewaySettings, stop: Stop) -> None:
        self.settings, self.stop = settings, stop

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection to it."""
        return await asyncio.open_connection(self.settings.host, self.settings.port)

    async def say(self, request: bytes, *, until_closed: bool = True) -> bytes:
        """Send bytes as they are and return all that comes back until it closes."""
        reader, writer = await self.connect()
        try:
            writer.write(request)
            async with asyncio.timeout(20):
                return await reader.read() if until_closed else await reader.read(65536)
        finally:
            writer.close()


def settings_for(folder: Path, **given: Any) -> GatewaySettings:
    """Return the settings of a gateway whose files are in `folder`."""
    tenants = folder / "tenants.json"
    write_tenants(tenants, {"default": TOKEN})
    return GatewaySettings(
        name="gateway-test",
        servers=(NOBODY,),
        tenants_file=str(tenants),
        port=find_free_port(),
        ready_file=str(folder / "ready"),
        **{"drain_s": 1.0, **given},
    )


def find_free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(settings: GatewaySettings) -> bool:
    """Return whether a gateway takes connections. It is not ready for that: no server of NATS is there."""
    try:
        socket.create_connection((settings.host, settings.port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway as it comes, a process, for all tests that need no other."""
    settings = settings_for(tmp_path_factory.mktemp("gateway"))
    environ = {**os.environ, **to_environ(settings, PREFIX)}
    process = subprocess.Popen([sys.executable, "-m", "gateway"], env=environ)
    try:
        end = time.monotonic() + 30
        while not listens(settings):
            assert process.poll() is None, "it ended at its start"
            assert time.monotonic() < end
            time.sleep(0.05)
        yield Gateway(settings, Stop())
    finally:
        process.terminate()
        assert process.wait(timeout=20) == 0


Start = Callable[..., Awaitable[Gateway]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Return a function that starts a gateway with these settings; it is stopped after the test."""
    running: list[tuple[Stop, asyncio.Task[None]]] = []

    async def begin(**given: Any) -> Gateway:
        settings = settings_for(tmp_path, **given)
        stop = Stop()
        running.append((stop, asyncio.create_task(app.run(settings, stop))))
        await until(lambda: listens(settings), within_s=10)
        return Gateway(settings, stop)

    yield begin
    for stop, task in running:
        stop.set("the test is over")
        await asyncio.wait({task}, timeout=10)
        task.result()
