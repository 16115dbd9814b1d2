"""The state folder: what lies where, which folder is ours, and the lock that one supervisor holds."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from agent_sandbox import places
from shared.errors import Forbidden, InvalidMessage, LimitExceeded, NotFound, Rejected, Unavailable

FORMAT = 1
FREE_BYTES_MIN = 256 * 1024 * 1024
"""Less free space than this, and the servers' streams could soon not be written any more."""
MARK_VARIABLE = "AGENT_SANDBOX_CLUSTER"
"""In the environment of each process of a cluster; the value is the cluster's id."""

Port = Annotated[int, Meta(ge=1, le=65535)]


class ClusterFile(msgspec.Struct, frozen=True, kw_only=True):
    """`cluster.json`: makes a folder ours, and holds what was asked of `up`."""

    product: Literal["agent-sandbox"] = "agent-sandbox"
    format: int = FORMAT
    id: str
    """Random; marks the cluster's processes."""
    created_ms: int
    servers: tuple[str, ...] = ()
    """Addresses for clients, on loopback: the edges. Empty: it was never up."""
    direct: tuple[str, ...] = ()
    """Addresses for services: the NATS servers themselves."""
    gateways: tuple[str, ...] = ()
    """Addresses of the gateways, on loopback: `http://…`."""
    base_port: Port | None = None
    """First of fourteen ports in a row; None: free ones, kept from the first start on."""
    nodes: Annotated[int, Meta(ge=1, le=64)] = 2
    isolation: str | None = None
    """Class for the pools that say `auto`; None: the strongest that the nodes have."""
    store: str = "nats"
    """Where snapshots of workspaces lie: `nats` (the cluster's own servers), `local:/folder` or `s3://bucket/prefix?…`."""
    store_credentials: str | None = None
    """File with the key of an S3 store."""
    environ: dict[str, dict[str, str]] = {}
    """For experiments: name of a service -> variables that it gets besides. A node's checkpointer has its node's."""

    @property
    def mark(self) -> str:
        """What stands in the environment of each of the cluster's processes."""
        return f"{MARK_VARIABLE}={self.id}"


class Folder:
    """One state folder. Only `create` writes; everything else reads."""

    def __init__(self, path: Path) -> None:
        """Name the folder; nothing is touched."""
        self.path = path.expanduser().absolute()
        self.cluster_file = self.path / places.CLUSTER_FILE
        self.pools_file = self.path / "pools.toml"
        self.effective_pools_file = self.path / "pools.effective.toml"
        self.table_file = self.path / places.TABLE_FILE
        self.lock_file = self.path / "lock"
        self.credentials = self.path / "credentials"
        self.edge_file = self.credentials / "edge.json"
        self.signer_file = self.credentials / "signer.json"
        self.client_credential = self.path / places.CREDENTIAL_FILE
        self.token_file = self.path / places.TOKEN_FILE
        self.tenants_file = self.credentials / "tenants.json"
        self.status_credential = self.credential("status")
        self.servers = self.path / "servers"
        self.nodes = self.path / "nodes"
        self.logs = self.path / "logs"
        self.ready = self.path / "ready"
        self.probes = self.path / "probes"

    def credential(self, name: str) -> Path:
        """Return the credential file of a service."""
        return self.credentials / f"{name}.creds"

    def log(self, name: str) -> Path:
        """Return the log file of a process."""
        return self.logs / f"{name}.log"

    def exists(self) -> bool:
        """Return whether there is a cluster's folder here (of whatever format)."""
        return self.cluster_file.exists()

    def read(self) -> ClusterFile:
        """Return what `cluster.json` says.

        Raises:
            Rejected: no cluster here, not ours, damaged or of another format.
            Forbidden: it can't be read.
        """
        try:
            cluster = msgspec.json.decode(self.cluster_file.read_bytes(), type=ClusterFile)
        except (FileNotFoundError, NotADirectoryError) as exc:
            raise NotFound(f"no cluster in {self.path}: start one with `agent-sandbox up`") from exc
        except OSError as exc:
            raise translate(exc, self.cluster_file) from exc
        except (msgspec.DecodeError, msgspec.ValidationError) as exc:
            raise InvalidMessage(
                f"{self.cluster_file} is damaged or not ours ({exc}): remove the folder, or choose another with --state"
            ) from exc
        if cluster.format != FORMAT:
            raise InvalidMessage(
                f"{self.path} has format {cluster.format}, this version reads {FORMAT}: "
                "use the version that made it, or choose another folder with --state"
            )
        return cluster

    def write(self, cluster: ClusterFile) -> None:
        """Replace `cluster.json`.

        Raises:
            Forbidden: the folder can't be written.
            LimitExceeded: the disk is full.
        """
        with translating(self.cluster_file):
            replace_file(self.cluster_file, msgspec.json.format(msgspec.json.encode(cluster)))

    def create(self) -> ClusterFile:
        """Make the folder where it is missing and return its `cluster.json`, new or as it stands.

        Raises:
            InvalidMessage: there is something else in it, or it is damaged.
            Forbidden: it can't be made, or belongs to another user.
            LimitExceeded: the disk is full.
        """
        with translating(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self.check()  # damaged, foreign or of another format: nothing is touched
            if not self.exists():
                # Sandboxes with a uid of their own must get through to their workspace below.
                self.path.chmod(0o711 if os.geteuid() == 0 else 0o700)
            for folder in (self.credentials, self.logs, self.ready, self.probes):
                folder.mkdir(mode=0o700, exist_ok=True)
            for folder in (self.servers, self.nodes):
                folder.mkdir(mode=0o711, exist_ok=True)
            free = shutil.disk_usage(self.path).free
        if free < FREE_BYTES_MIN:
            raise LimitExceeded(
                f"disk almost full: {free >> 20} MiB free at {self.path}, {FREE_BYTES_MIN >> 20} MiB needed"
            )
        if not self.exists():
            self.write(ClusterFile(id=secrets.token_hex(8), created_ms=int(time.time() * 1000)))
        return self.read()

    def check(self) -> None:
        """Check that a cluster lives here or can; a folder that is missing can be made.

        Raises:
            InvalidMessage: there is something else in it, or it is damaged.
            Forbidden: it can't be read, or belongs to another user.
        """
        with translating(self.path):
            if not self.path.exists():
                return
            _check_owner(self.path)
            if self.exists():
                self.read()
            else:
                _check_empty(self.path)

    def is_locked(self) -> bool:
        """Return whether a supervisor holds the folder."""
        try:
            with self.lock():
                return False
        except Unavailable:
            return True

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder; the lock goes with the process, however it ends.

        Raises:
            Unavailable: another process holds it.
            Forbidden: the folder can't be written.
        """
        with translating(self.lock_file):
            descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as exc:
                raise Unavailable(f"{self.path} is in use by a running supervisor") from exc
            yield
        finally:
            os.close(descriptor)


def _check_owner(path: Path) -> None:
    owner = path.stat().st_uid
    if owner != os.geteuid():
        raise Forbidden(
            f"{path} belongs to user id {owner}, this is {os.geteuid()}: choose another folder with --state"
        )


def _check_empty(path: Path) -> None:
    foreign = sorted(entry.name for entry in path.iterdir())[:3]
    if foreign:
        raise InvalidMessage(
            f"{path} is no state folder of Agent Sandbox (it holds {', '.join(foreign)}): "
            "choose an empty or new folder with --state"
        )


def replace_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file whole or not at all, by one rename."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def translate(exc: OSError, path: Path) -> Rejected:
    """Return what an operating system's error means for the person who asked."""
    name = exc.filename or path
    match exc.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return LimitExceeded(f"disk full: cannot write {name}")
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return Forbidden(f"no permission: {name} ({os.strerror(exc.errno)})")
        case errno.ENOTDIR | errno.EEXIST:
            return InvalidMessage(f"{name} is not a folder: choose another with --state")
        case _:
            return Rejected(f"{name}: {exc.strerror or exc}")


@contextmanager
def translating(path: Path) -> Iterator[None]:
    """Raise our errors for the operating system's."""
    try:
        yield
    except OSError as exc:
        raise translate(exc, path) from exc
