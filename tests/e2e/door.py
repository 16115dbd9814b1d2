"""A gateway of a test's own before the shared cluster, with a tenants' file that the test writes."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
from websockets.asyncio.client import connect

from agent_sandbox import places
from agent_sandbox.embedded.folder import Folder
from gateway import app
from gateway.settings import GatewaySettings
from shared.cluster.ports import LOOPBACK
from shared.identity import load_identity, roles, write_credential
from shared.service import Stop
from shared.testing.look import until

MINE, OTHERS = places.TENANT, "other"
STREAM = {"accept": "text/event-stream"}


def find_free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


class Door:
    """The gateway."""

    def __init__(self, embedded: Folder, folder: Path) -> None:
        """Know two tenants, and let nobody in yet."""
        self.file = folder / "tenants.json"
        signer = load_identity(embedded.servers / "identity.json").client_signer
        self._credentials = {MINE: embedded.client_credential, OTHERS: folder / "other.creds"}
        write_credential(
            self._credentials[OTHERS],
            signer.mint("client-other", roles.publisher(OTHERS), by_edge=True),
        )
        self.settings = GatewaySettings(
            name="gateway-door",
            servers=embedded.read().servers,
            tenants_file=str(self.file),
            port=find_free_port(),
            drain_s=1.0,
        )
        self.url = f"http://{LOOPBACK}:{self.settings.port}"

    def admit(self, tokens: dict[str, list[str]]) -> None:
        """Let in by these tokens and no others: tenant -> tokens."""
        tenants = {
            tenant: {
                "token_sha256s": [hashlib.sha256(token.encode()).hexdigest() for token in some],
                "credential": str(self._credentials[tenant]),
            }
            for tenant, some in tokens.items()
        }
        draft = self.file.with_suffix(".new")
        draft.write_bytes(msgspec.json.encode({"tenants": tenants}))
        draft.chmod(0o600)
        draft.replace(self.file)

    def http(self, token: str) -> httpx.AsyncClient:
        """Return a client that comes in by this token."""
        headers = {"authorization": f"Bearer {token}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=20, verify=False)

    def socket(self, path: str, token: str) -> Any:
        """Return a WebSocket, not yet open."""
        headers = {"authorization": f"Bearer {token}"}
        url = self.url.replace("http", "ws", 1) + path
        return connect(url, additional_headers=headers, proxy=None)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Serve while inside."""
        stop = Stop()
        serving = asyncio.create_task(app.run(self.settings, stop))
        try:

            async def listens() -> bool:
                async with httpx.AsyncClient(verify=False) as http:
                    try:
                        return (await http.get(f"{self.url}/v1/openapi.json")).status_code == 200
                    except httpx.TransportError:
                        return False

            await until(listens, within_s=15)
            yield
        finally:
            stop.set("the test is over")
            await asyncio.wait({serving}, timeout=15)
            serving.result()
