"""Which servers a connection knows."""

from __future__ import annotations

from collections.abc import Sequence

from shared.bus.bus import Bus


def know_servers(bus: Bus, servers: Sequence[str]) -> None:
    """Look for a server at these addresses from the next reconnect on; a connection that is there stays.

    For whoever reaches servers by addresses that change, as those of pods do when their node is booted.
    """
    bus._link.client.set_server_pool(list(servers))
