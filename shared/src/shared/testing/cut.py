"""Servers of our own whose network can be cut: all that they say to each other and to clients goes through a relay."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec

from shared.cluster import Cluster, ServerLimits, ServerProcess, ServerSettings, Trust, find_binary
from shared.cluster.layout import ServerFiles, open_layout
from shared.cluster.ports import LOOPBACK, ServerPorts
from shared.testing.relay import Link, Relay

NOWHERE = f"{LOOPBACK}:1"
"""What servers tell each other as their address: they must dial the relay, as configured, and nothing else."""


class RelayedServer(ServerProcess):
    """A server whose clients and routes go through a relay. Its monitoring does not."""

    relay: Relay
    clients: Link
    routes: tuple[Link, ...] = ()
    """Links between this server and the others, whoever dials."""

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://{LOOPBACK}:{self.clients.port}"

    def cut(self) -> None:
        """Cut it off from all clients and all other servers."""
        for link in (self.clients, *self.routes):
            self.relay.do(link.cut)

    def cut_clients(self) -> None:
        """Cut it off from its clients alone."""
        self.relay.do(self.clients.cut)

    def heal(self) -> None:
        """Let all through again."""
        for link in (self.clients, *self.routes):
            self.relay.do(link.heal)


class RelayedCluster(Cluster):
    """Three servers that find each other through the relay only."""

    servers: tuple[RelayedServer, ...]

    def __init__(self, root: Path, relay: Relay) -> None:
        """Open the cluster whose state is in `root`; nothing is started."""
        self._relay = relay
        super().__init__(open_layout(root.resolve()), find_binary(), ServerLimits())
        self._routes = {
            (dialler.name, target.name): relay.link(target.ports.route)
            for dialler, target in itertools.permutations(self.servers, 2)
        }
        for server in self.servers:
            server.routes = tuple(
                link for ends, link in self._routes.items() if server.name in ends
            )

    def _make_server(self, binary: Path, files: ServerFiles, ports: ServerPorts) -> RelayedServer:
        server = RelayedServer(binary, files, ports)
        server.relay = self._relay
        server.clients = self._relay.link(ports.client)
        return server

    def _settings_of(self, server: ServerProcess, trust: Trust) -> ServerSettings:
        assert isinstance(server, RelayedServer)
        return msgspec.structs.replace(
            super()._settings_of(server, trust),
            routes=[
                f"{LOOPBACK}:{link.port}"
                for (dialler, _), link in self._routes.items()
                if dialler == server.name
            ],
            advertise_client=f"{LOOPBACK}:{server.clients.port}",
            advertise_route=NOWHERE,
        )
