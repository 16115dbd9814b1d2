"""Which store of packs the settings name, opened."""

from __future__ import annotations

from pathlib import Path

import msgspec

from checkpointer.adapters.stores.local import LocalStore
from checkpointer.adapters.stores.over_nats import PENDING_BYTES, NatsStore
from checkpointer.ports.blobs import BlobStore
from shared.bus import Bus, BusOptions

NATS = "nats"


async def open_store(name: str, options: BusOptions) -> BlobStore:
    """Return the store; the caller closes it.

    Args:
        name: `nats`, or the absolute path of a folder.
        options: how to connect to the NATS servers.

    Raises:
        ServiceError: it cannot be used now; says why.
    """
    if name != NATS:
        return await LocalStore.open(Path(name))
    own = msgspec.structs.replace(
        options, name=f"{options.name}-packs", pending_bytes_max=PENDING_BYTES
    )
    bus = await Bus.connect(own)
    try:
        return await NatsStore.open(bus)
    except BaseException:
        await bus.close()
        raise
