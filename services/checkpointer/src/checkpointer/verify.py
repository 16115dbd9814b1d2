"""Check a store of packs: `python -m checkpointer.verify`, told by the same `CHECKPOINTER_…` variables as the service.

Prints one JSON object. With servers it asks them which snapshots there must be; without, or where they do not answer, it
goes by what lies in the store. Exit code 0: all is whole; 1: something is damaged; 2: it cannot be told.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from checkpointer.adapters.contents import StoredContents
from checkpointer.adapters.heads import StreamHeads
from checkpointer.adapters.records import StreamRecords
from checkpointer.adapters.stores.opening import open_store
from checkpointer.adapters.stores.over_nats import PENDING_BYTES
from checkpointer.loops.patient_store import PatientStore
from checkpointer.loops.verify_store import verify_store, wanted_by_heads
from shared import logs
from shared.bus import Bus, BusOptions
from shared.errors import ServiceError, Unavailable
from shared.identity.files import read_credential
from shared.settings import SettingsError, load
from shared.verified import StoreVerified

PREFIX = "CHECKPOINTER_"
STALL_S = 30.0
CONNECT_S = 5.0


class VerifySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which store, and whom to ask what must be in it."""

    store: str
    """As `CheckpointerSettings.store`."""
    store_credentials_file: str | None = None
    servers: tuple[str, ...] = ()
    """NATS servers; none: whatever the store holds is gone by."""
    credential_file: str | None = None
    """File with a checkpointer's NATS user."""


def main() -> int:
    """Verify; return the exit code."""
    logs.configure(service="verify", level="critical")
    try:
        settings = load(VerifySettings, PREFIX, os.environ)
        report = asyncio.run(run(settings))
    except (SettingsError, ServiceError) as exc:
        sys.stderr.write(f"verify: {exc}\n")
        return 2
    sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    return 1 if report.damage else 0


async def run(settings: VerifySettings) -> StoreVerified:
    """Verify a store.

    Raises:
        ServiceError: it cannot be opened, or not all can be read.
    """
    async with AsyncExitStack() as closing:
        bus = await _connect(settings)
        if bus is not None:
            closing.push_async_callback(bus.close)
        if settings.store == "nats" and bus is None:
            raise Unavailable("the servers that hold the store do not answer: is the cluster up?")
        packs = None
        if settings.store == "nats":
            packs = await _connect(settings)
        opened = await open_store(
            settings.store, settings.store_credentials_file, packs, adopt=False
        )
        closing.push_async_callback(opened.close)
        store = PatientStore(opened, stall_s=STALL_S)
        wanted = None
        if bus is not None:
            wanted = await wanted_by_heads(StreamHeads(bus), StreamRecords(bus))
        return await verify_store(store, StoredContents(store), wanted)


async def _connect(settings: VerifySettings) -> Bus | None:
    path = settings.credential_file
    if not settings.servers or path is None:
        return None
    options = BusOptions(
        servers=settings.servers,
        name="verify",
        credential=read_credential(Path(path)),
        pending_bytes_max=PENDING_BYTES,
    )
    try:
        return await Bus.connect(options, deadline_s=CONNECT_S)
    except Unavailable:
        return None


if __name__ == "__main__":
    sys.exit(main())
