"""The same three servers in containers of a Docker engine, through testcontainers.

The image holds the server program and nothing else, so nothing is pulled. The cluster's network is made for it; the
tests reach the containers by their addresses there, as they can on Linux.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import docker
import docker.errors
import msgspec
from docker.types import EndpointConfig, IPAMConfig, IPAMPool
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.image import DockerImage
from testcontainers.core.network import Network

from shared.cluster import (
    Cluster,
    ClusterFailed,
    ServerLimits,
    ServerProcess,
    ServerSettings,
    Trust,
    find_binary,
)
from shared.cluster.layout import ServerFiles, open_layout
from shared.cluster.ports import ServerPorts

DOCKERFILE = 'FROM scratch\nCOPY nats-server /nats-server\nENTRYPOINT ["/nats-server"]\n'
CONFIG = "/nats.conf"
PORTS = ServerPorts(4222, 6222, 8222)
OWNER = "agent-sandbox.tests.pid"
"""Label of all that is made here: the process that will remove it."""
ENGINE_S = 20
NETWORK_TRIES = 20


def why_not() -> str | None:
    """Return why there can be no containers here; None: there can."""
    with warnings.catch_warnings():
        # The library forgets to close the socket with which it tried: let that one go here, not in somebody's test.
        warnings.simplefilter("ignore", ResourceWarning)
        why = _ask_engine()
        gc.collect()
    return why


def _ask_engine() -> str | None:
    try:
        with contextlib.closing(docker.from_env(timeout=ENGINE_S)) as engine:
            engine.ping()
    except (docker.errors.DockerException, OSError) as exc:
        return f"no Docker engine answers: {exc}"
    return None


def sweep() -> None:
    """Remove what earlier runs left that were killed before they could."""
    with contextlib.closing(docker.from_env(timeout=ENGINE_S)) as engine:
        for container in engine.containers.list(all=True, filters={"label": OWNER}):
            if not _lives(container.labels[OWNER]):
                container.remove(force=True, v=True)
        for network in engine.networks.list(filters={"label": OWNER}):
            if not _lives(network.attrs["Labels"][OWNER]):
                network.remove()
        for image in engine.images.list(filters={"label": OWNER}):
            if not _lives(image.labels[OWNER]):
                engine.images.remove(image.id, force=True)


def _lives(pid: str) -> bool:
    return Path(f"/proc/{pid}").exists()


def _labels() -> dict[str, str]:
    return {OWNER: str(os.getpid())}


@contextlib.contextmanager
def server_image(folder: Path) -> Iterator[str]:
    """Build the image from the installed server program; yield its tag, and remove it at the end."""
    testcontainers_config.ryuk_disabled = True  # its image would have to be pulled
    folder.mkdir()
    shutil.copy(find_binary(), folder / "nats-server")
    (folder / "Dockerfile").write_text(DOCKERFILE)
    tag = f"agent-sandbox-nats-test:{os.getpid()}"
    with DockerImage(folder, tag=tag, labels=_labels()):
        yield tag


class ContainerServer(ServerProcess):
    """A server in a container of its own. Kill, pause, stop and cut are the engine's."""

    image: str
    network: Network
    _box: DockerContainer | None = None

    @property
    def running(self) -> bool:
        """Whether the container runs; paused counts as running."""
        return self._status() in {"running", "paused"}

    def start(self, *, die_with_parent: bool = False) -> None:
        """Start the container; the first time it is made. It is removed by `remove`, whoever dies."""
        if self._box is not None:
            self._box.get_wrapped_container().start()
            return
        place = EndpointConfig("1.41", ipv4_address=self.host)
        box = (
            DockerContainer(self.image)
            .with_command(["-c", CONFIG])
            .with_network(self.network)
            .with_copy_into_container(self.files.config.read_bytes(), CONFIG)
            .with_kwargs(networking_config={self.network.name: place}, labels=_labels())
        )
        self._box = box
        box.start()

    def check(self) -> None:
        """Raise if the server ended by itself.

        Raises:
            ClusterFailed: with what it printed last.
        """
        if not self.running:
            raise ClusterFailed(f"{self.name} ended: {self.last_words()}")

    def last_words(self) -> str:
        """Return what the server printed last."""
        return "" if self._box is None else b"".join(self._box.get_logs()).decode()[-1000:]

    def stop(self, *, grace_s: float = 5.0) -> None:
        """SIGTERM, and SIGKILL after `grace_s`."""
        self.resume()
        if self._box is not None and self.running:
            self._box.get_wrapped_container().stop(timeout=round(grace_s))

    def kill(self) -> None:
        """SIGKILL."""
        self.resume()
        if self._box is not None and self.running:
            self._box.get_wrapped_container().kill()

    def pause(self) -> None:
        """Stop its execution; connections stay open."""
        if self._box is not None and self._status() == "running":
            self._box.get_wrapped_container().pause()

    def resume(self) -> None:
        """Let it go on."""
        if self._box is not None and self._status() == "paused":
            self._box.get_wrapped_container().unpause()

    def cut(self) -> None:
        """Take it off its network."""
        if self._box is not None and self._is_on_network():
            self.network._unwrap_network.disconnect(self._box.get_wrapped_container())

    def heal(self) -> None:
        """Put it back, under the same address."""
        if self._box is not None and not self._is_on_network():
            box = self._box.get_wrapped_container()
            self.network._unwrap_network.connect(box, ipv4_address=self.host)

    def _is_on_network(self) -> bool:
        assert self._box is not None
        box = self._box.get_wrapped_container()
        box.reload()
        return self.network.name in box.attrs["NetworkSettings"]["Networks"]

    def remove(self) -> None:
        """Remove the container and what it stored."""
        if self._box is not None:
            with contextlib.suppress(docker.errors.NotFound):
                self._box.stop()
            self._box = None

    def _status(self) -> str:
        if self._box is None:
            return "absent"
        self._box.reload()
        return self._box.status


class ContainerCluster(Cluster):
    """Three containers on a network of their own."""

    servers: tuple[ContainerServer, ...]

    def __init__(self, root: Path, image: str) -> None:
        """Make the network; nothing is started.

        Args:
            root: state folder, for keys and configurations: streams are in the containers.
            image: tag of `server_image`.
        """
        self._image = image
        self._network, self._prefix = _make_network()
        super().__init__(open_layout(root.resolve()), find_binary(), ServerLimits())

    def _make_server(self, binary: Path, files: ServerFiles, _ports: ServerPorts) -> ServerProcess:
        server = ContainerServer(binary, files, PORTS)
        server.image, server.network = self._image, self._network
        server.host = f"{self._prefix}.1{files.name[1:]}"
        return server

    def _settings_of(self, server: ServerProcess, trust: Trust) -> ServerSettings:
        return msgspec.structs.replace(
            super()._settings_of(server, trust),
            host="0.0.0.0",  # noqa: S104 - of the container
            store_dir="/data",
            log_file="",
        )

    def remove(self) -> None:
        """Remove all containers and the network."""
        for server in self.servers:
            server.remove()
        self._network.remove()


def _make_network() -> tuple[Network, str]:
    """Return a network, and the first three numbers of its addresses: an address is kept only where those are given."""
    refusal: Exception | None = None
    for _ in range(NETWORK_TRIES):
        prefix = f"10.{random.randint(64, 127)}.{random.randint(0, 255)}"
        pool = IPAMPool(subnet=f"{prefix}.0/24")
        options = {"ipam": IPAMConfig(pool_configs=[pool]), "labels": _labels()}
        try:
            return Network(docker_network_kw=options).create(), prefix
        except docker.errors.APIError as exc:
            refusal = exc  # the range is taken
    raise ClusterFailed(f"no network for containers: {refusal}") from refusal
