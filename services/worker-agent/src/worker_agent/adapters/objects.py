"""One tenant's objects, as a worker reads and stores them."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from shared.bus import Bus
from shared.files import ObjectRef
from shared.objects import BusChunks, ObjectWriter, read_object


class TenantObjects:
    """Implements `ports.Objects`."""

    def __init__(self, bus: Bus, tenant: str, *, stall_s: float) -> None:
        """Use the worker's connection; a chunk that takes longer than `stall_s` seconds fails its task."""
        self._bus = bus
        self._tenant = tenant
        self._stall_s = stall_s

    def read(self, reference: ObjectRef) -> AsyncGenerator[bytes, None]:
        """Yield an object's content."""
        return read_object(self._bus, self._tenant, reference, stall_s=self._stall_s)

    def writer(self) -> ObjectWriter:
        """Return what stores a new object."""
        return ObjectWriter(BusChunks(self._bus, self._tenant), stall_s=self._stall_s)
