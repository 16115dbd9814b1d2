"""Ports: four for each server (services, routes, monitoring, its edge), two for the gateways, given by a base or found free and then kept."""

from __future__ import annotations

import errno
import random
import socket

import msgspec

from shared.cluster.errors import ClusterFailed

LOOPBACK = "127.0.0.1"
# Below the range from which systems take ports for outgoing connections (32768 on Linux): a port that a killed server
# left would otherwise sometimes be gone when it comes back.
_FIRST = 20_000
_LAST = 32_000
_TRIES = 200
GATEWAYS = 2
"""Gateways of an embedded cluster; their ports are the last of the row."""


class ServerPorts(msgspec.Struct, frozen=True):
    """Loopback ports of one server."""

    client: int
    """Of the server itself; clients of tenants come through the edge."""
    route: int
    monitor: int
    edge: int = 0
    """Of the client edge before this server, a process of its own; 0: an older version's file has none."""

    def named(self) -> tuple[tuple[str, int], ...]:
        """Return (use, port) of each that the server takes."""
        return (("clients", self.client), ("routes", self.route), ("monitoring", self.monitor))


def ports_from(base: int, servers: int) -> tuple[ServerPorts, ...]:
    """Return the ports of `servers` servers counted up from `base`: edges first, then the servers themselves, routes, monitoring."""
    return tuple(
        ServerPorts(
            edge=base + index,
            client=base + servers + index,
            route=base + 2 * servers + index,
            monitor=base + 3 * servers + index,
        )
        for index in range(servers)
    )


def gateway_ports_from(base: int, servers: int) -> tuple[int, ...]:
    """Return the gateways' ports in the row that starts at `base`: behind those of the servers."""
    return tuple(base + 4 * servers + index for index in range(GATEWAYS))


def find_free_base(servers: int) -> int:
    """Return the first of a row of ports that are free now, for servers and gateways.

    Raises:
        ClusterFailed: no row of free ports was found.
    """
    size = 4 * servers + GATEWAYS
    for _ in range(_TRIES):
        base = random.randrange(_FIRST, _LAST - size)
        if all(why_taken(port) is None for port in range(base, base + size)):
            return base
    raise ClusterFailed(f"no {size} free ports in a row between {_FIRST} and {_LAST}")


def find_free_ports(servers: int) -> tuple[ServerPorts, ...]:
    """Return ports that are free now, in one block.

    Raises:
        ClusterFailed: no block of free ports was found.
    """
    return ports_from(find_free_base(servers), servers)


def why_taken(port: int) -> str | None:
    """Return why nothing can listen on a loopback port now; None: it can."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as exc:
            return "is in use" if exc.errno == errno.EADDRINUSE else (exc.strerror or str(exc))
        return None
