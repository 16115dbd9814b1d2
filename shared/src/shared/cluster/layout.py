"""The state folder of a cluster: a second start finds identities, ports and data again.

identity.json        0600: seeds of operator and accounts
cluster.json         names, ports, and whose cluster it is
n1/ n2/ n3/          one folder for each server: nats.conf, log, out, pid, js/
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from shared.cluster.errors import ClusterFailed
from shared.cluster.ports import (
    ServerPorts,
    find_free_base,
    find_free_ports,
    gateway_ports_from,
    ports_from,
)
from shared.errors import InvalidMessage
from shared.identity import Identity, load_identity, write_secret

SERVERS = 3


class ClusterFile(msgspec.Struct, frozen=True, kw_only=True):
    """What `cluster.json` holds."""

    v: int = 1
    name: str
    operator: str
    """Public key of the operator under which the data was written."""
    ports: tuple[ServerPorts, ...]
    gateways: tuple[int, ...] = ()
    """Ports of the gateways; none: an older version's file."""


class ServerFiles(msgspec.Struct, frozen=True):
    """Paths of one server."""

    name: str
    folder: Path

    @property
    def config(self) -> Path:
        """The server's configuration."""
        return self.folder / "nats.conf"

    @property
    def log(self) -> Path:
        """The server's own log."""
        return self.folder / "log"

    @property
    def output(self) -> Path:
        """What the server printed before it had a log: errors in its configuration."""
        return self.folder / "out"

    @property
    def pid(self) -> Path:
        """Number of the running process."""
        return self.folder / "pid"

    @property
    def store(self) -> Path:
        """Streams."""
        return self.folder / "js"


class Layout(msgspec.Struct, frozen=True):
    """An opened state folder."""

    root: Path
    file: ClusterFile
    identity: Identity

    def servers(self) -> tuple[ServerFiles, ...]:
        """Return the files of each server."""
        return tuple(
            ServerFiles(f"n{number}", self.root / f"n{number}")
            for number in range(1, len(self.file.ports) + 1)
        )


def open_layout(root: Path, *, base_port: int | None = None, name: str = "agent-sandbox") -> Layout:
    """Return the state folder at `root`, made where it is missing.

    Args:
        root: absolute path.
        base_port: first of fourteen ports in a row; None: the kept ones, or free ones the first time.
        name: name of a new cluster.

    Raises:
        ClusterFailed: the folder cannot be used: damaged, not writable, or of another cluster.
    """
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        identity = load_identity(root / "identity.json")
        file = _load_file(root, identity, base_port, name)
        layout = Layout(root, file, identity)
        for files in layout.servers():
            files.folder.mkdir(exist_ok=True, mode=0o700)
    except OSError as exc:
        raise ClusterFailed(f"state folder {root}: {exc.strerror or exc}") from exc
    except InvalidMessage as exc:
        raise ClusterFailed(f"state folder {root}: {exc}") from exc
    return layout


def _with_edges(ports: tuple[ServerPorts, ...]) -> tuple[ServerPorts, ...]:
    """Return the ports with one for each edge: an older version's file has none."""
    if all(each.edge for each in ports):
        return ports
    free = find_free_ports(len(ports))
    return tuple(
        msgspec.structs.replace(each, edge=other.edge)
        for each, other in zip(ports, free, strict=True)
    )


def _load_file(root: Path, identity: Identity, base_port: int | None, name: str) -> ClusterFile:
    path = root / "cluster.json"
    if not path.exists():
        if any((root / f"n{number}" / "js").exists() for number in range(1, SERVERS + 1)):
            raise InvalidMessage(
                "holds data of a cluster, but no cluster.json: move it away, or restore that file"
            )
        base = find_free_base(SERVERS) if base_port is None else base_port
        file = _placed(ClusterFile(name=name, operator=identity.operator.public, ports=()), base)
    else:
        try:
            kept = msgspec.json.decode(path.read_bytes(), type=ClusterFile)
        except (msgspec.DecodeError, msgspec.ValidationError) as exc:
            raise InvalidMessage(f"cluster.json is damaged: {exc}") from exc
        if kept.operator != identity.operator.public:
            raise InvalidMessage(
                f"its data belongs to operator {kept.operator}, identity.json to {identity.operator.public}: "
                "it was mixed with another cluster's folder; restore the right identity.json, or use a new folder"
            )
        file = _completed(kept) if base_port is None else _placed(kept, base_port)
        if file == kept:
            return kept
    write_secret(path, msgspec.json.format(msgspec.json.encode(file)).decode() + "\n")
    return file


def _placed(file: ClusterFile, base: int) -> ClusterFile:
    """Return the file with all ports in the row that starts at `base`."""
    return msgspec.structs.replace(
        file, ports=ports_from(base, SERVERS), gateways=gateway_ports_from(base, SERVERS)
    )


def _completed(file: ClusterFile) -> ClusterFile:
    """Return the file with a port for each gateway and each edge: an older version's has none."""
    gateways = file.gateways or gateway_ports_from(find_free_base(SERVERS), SERVERS)
    return msgspec.structs.replace(file, ports=_with_edges(file.ports), gateways=gateways)
