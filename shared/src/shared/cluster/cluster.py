"""Three servers on loopback: one object to start, watch and stop them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shared.cluster import monitor
from shared.cluster.binary import find_binary
from shared.cluster.config import ServerLimits, ServerSettings, Trust, render
from shared.cluster.errors import ClusterFailed
from shared.cluster.layout import Layout, ServerFiles, open_layout
from shared.cluster.ports import LOOPBACK, ServerPorts, why_taken
from shared.cluster.server import ServerProcess
from shared.identity import Identity
from shared.mappings import account_mappings

READY_POLL_S = 0.02


class Cluster:
    """A cluster in one state folder.

    Everything here blocks; from asyncio call it through `asyncio.to_thread`. `servers` are plain processes.
    """

    def __init__(self, layout: Layout, binary: Path, limits: ServerLimits) -> None:
        """Use `open_cluster`."""
        self.layout = layout
        self.limits = limits
        self.servers = tuple(
            self._make_server(binary, files, ports)
            for files, ports in zip(layout.servers(), layout.file.ports, strict=True)
        )

    def _make_server(self, binary: Path, files: ServerFiles, ports: ServerPorts) -> ServerProcess:
        return ServerProcess(binary, files, ports)

    @property
    def identity(self) -> Identity:
        """Keys of the cluster."""
        return self.layout.identity

    @property
    def urls(self) -> tuple[str, ...]:
        """Where services connect."""
        return tuple(server.url for server in self.servers)

    @property
    def edge_urls(self) -> tuple[str, ...]:
        """Where tenants' clients connect, once edges run there."""
        return tuple(f"nats://{LOOPBACK}:{server.ports.edge}" for server in self.servers)

    def server(self, name: str) -> ServerProcess:
        """Return the server of that name (`n1`, `n2`, `n3`)."""
        return next(server for server in self.servers if server.name == name)

    def write_configs(
        self, mappings: Mapping[str, Sequence[Mapping[str, Any]]] | None = None
    ) -> None:
        """Write each server's configuration file.

        Args:
            mappings: the account's subject mappings; None: those of the topology.

        Raises:
            ClusterFailed: the folder cannot be written.
        """
        identity = self.identity
        trust = Trust(
            operator_token=identity.operator_token(),
            system_account=identity.system.public,
            edge=identity.edge.public,
            account_tokens=identity.account_tokens(
                account_mappings() if mappings is None else mappings
            ),
        )
        for server in self.servers:
            settings = self._settings_of(server, trust)
            try:
                server.files.config.write_text(render(settings))
            except OSError as exc:
                raise ClusterFailed(
                    f"{server.files.config} cannot be written: {exc.strerror or exc}"
                ) from exc

    def _settings_of(self, server: ServerProcess, trust: Trust) -> ServerSettings:
        return ServerSettings(
            name=server.name,
            cluster=self.layout.file.name,
            ports=server.ports,
            routes=[f"{other.host}:{other.ports.route}" for other in self.servers],
            store_dir=str(server.files.store),
            log_file=str(server.files.log),
            trust=trust,
            limits=self.limits,
        )

    def start(self, *, die_with_parent: bool = False) -> None:
        """Write the configurations and start all servers; if one cannot start, none stays.

        Raises:
            ClusterFailed: a server could not be started.
        """
        self.write_configs()
        for server in self.servers:  # its edge comes later, and would then be the last to tell
            if (why := why_taken(server.ports.edge)) is not None:
                raise ClusterFailed(
                    f"port {server.ports.edge} (edge of {server.name}) {why}: "
                    "stop what uses it, or choose another base port"
                )
        try:
            for server in self.servers:
                server.start(die_with_parent=die_with_parent)
        except ClusterFailed:
            self.kill()
            raise

    def wait_ready(self, *, deadline_s: float = 30.0) -> None:
        """Wait until all servers form one cluster with a leader, and every stream has one.

        Raises:
            ClusterFailed: a server ended, or the deadline passed; says what was missing.
        """
        end = time.monotonic() + deadline_s
        places = {server.name: (server.host, server.ports.monitor) for server in self.servers}
        while True:
            for server in self.servers:
                server.check()
            missing = monitor.what_is_missing(places)
            if missing is None:
                return
            if time.monotonic() >= end:
                raise ClusterFailed(f"the cluster is not ready after {deadline_s:.0f} s: {missing}")
            time.sleep(READY_POLL_S)

    def stop(self, *, grace_s: float = 5.0) -> None:
        """Stop all servers in good order, at most `grace_s` seconds each."""
        for server in self.servers:
            server.stop(grace_s=grace_s)

    def kill(self) -> None:
        """Kill all servers at once."""
        for server in self.servers:
            server.kill()


def open_cluster(
    root: Path,
    *,
    base_port: int | None = None,
    binary: str | Path | None = None,
    limits: ServerLimits | None = None,
) -> Cluster:
    """Return the cluster whose state is in `root`; nothing is started.

    Args:
        root: state folder, made where it is missing.
        base_port: first of fourteen ports in a row; None: the kept ones, or free ones the first time.
        binary: the server program; None: the installed one.
        limits: bounds of each server.

    Raises:
        ClusterFailed: the folder cannot be used, or there is no server program.
    """
    program = find_binary(binary)
    return Cluster(
        open_layout(root.resolve(), base_port=base_port), program, limits or ServerLimits()
    )
