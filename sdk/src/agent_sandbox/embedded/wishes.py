"""What `up` wishes: pools, nodes, isolation, ports. Kept in the folder; the supervisor is told to read it again."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from agent_sandbox.embedded.folder import ClusterFile, Folder, replace_file, translating
from agent_sandbox.embedded.pools import effective, read_declared
from shared.errors import InvalidMessage
from shared.pools import ISOLATION_CLASSES, parse_pools

NODES_MAX = 64
BASE_PORT_MAX = 65521
"""Fourteen ports in a row end at 65534."""


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What was said to `up`; None: as it was, or the default."""

    nodes: int | None = None
    pools: Path | None = None
    isolation: str | None = None
    store: str | None = None
    """`nats`, a folder, or `s3://…`."""
    store_credentials: Path | None = None
    """File with the key of an S3 store."""
    base_port: int | None = None
    """First of fourteen ports in a row; 0: free ones."""


def keep(folder: Folder, cluster: ClusterFile, wishes: Wishes) -> ClusterFile:
    """Write the wishes into the folder and return its `cluster.json` as it is now.

    Raises:
        InvalidMessage: a wish is out of its bounds, or the pools can't be read (names what); nothing was changed.
        Forbidden: a file can't be read or written.
    """
    if wishes.nodes is not None and not 1 <= wishes.nodes <= NODES_MAX:
        raise InvalidMessage(f"nodes: 1 to {NODES_MAX} expected, got {wishes.nodes}")
    if wishes.isolation not in (None, "auto", *ISOLATION_CLASSES):
        raise InvalidMessage(
            f"isolation: auto, {', '.join(ISOLATION_CLASSES)} expected, got {wishes.isolation!r}"
        )
    changed = cluster
    if wishes.nodes is not None:
        changed = msgspec.structs.replace(changed, nodes=wishes.nodes)
    if wishes.isolation is not None:
        chosen = None if wishes.isolation == "auto" else wishes.isolation
        changed = msgspec.structs.replace(changed, isolation=chosen)
    if wishes.store is not None:
        changed = msgspec.structs.replace(changed, store=_store(cluster, wishes.store))
    if wishes.store_credentials is not None:
        path = str(wishes.store_credentials.expanduser().absolute())
        changed = msgspec.structs.replace(changed, store_credentials=path)
    if wishes.base_port is not None:
        changed = msgspec.structs.replace(changed, base_port=wishes.base_port or None)
    if wishes.pools is not None:
        with translating(wishes.pools):
            text = wishes.pools.read_text()
        effective(parse_pools(text), changed)
        with translating(folder.pools_file):
            replace_file(folder.pools_file, text.encode(), mode=0o644)
    else:
        effective(read_declared(folder), changed)
    if changed != cluster:
        folder.write(changed)
    return changed


def store_address(said: str) -> str:
    """Return the address of a store as people name it: a bare folder is taken as `local:`.

    Raises:
        InvalidMessage: it is no such place.
    """
    if said != "nats" and not said.startswith(("local:", "s3:")):
        said = f"local:{Path(said).expanduser().absolute()}"
    if said.startswith("local:") and not said.startswith("local:/"):
        raise InvalidMessage(f"store: an absolute path expected after local:, got {said[:80]!r}")
    return said


def _store(cluster: ClusterFile, wished: str) -> str:
    """Return where snapshots are to lie.

    Raises:
        InvalidMessage: it is no such place, or the cluster has its snapshots elsewhere already.
    """
    wished = store_address(wished)
    if cluster.servers and wished != cluster.store:
        raise InvalidMessage(
            f"store: can't be changed any more: files of sessions lie in {cluster.store}. "
            "Choose another state folder with --state"
        )
    return wished


class Kept:
    """What is wished now, to go back to."""

    def __init__(self, folder: Folder) -> None:
        """Remember the folder's wishes."""
        self._folder = folder
        self._cluster = folder.read()
        self._pools = folder.pools_file.read_bytes() if folder.pools_file.exists() else None

    def restore(self) -> None:
        """Write them back."""
        self._folder.write(
            msgspec.structs.replace(
                self._cluster,
                servers=(now := self._folder.read()).servers,
                direct=now.direct,
                gateways=now.gateways,
            )
        )
        if self._pools is None:
            self._folder.pools_file.unlink(missing_ok=True)
        else:
            replace_file(self._folder.pools_file, self._pools, mode=0o644)


def digest(folder: Folder) -> str:
    """Return a short name for exactly what is wished now.

    Raises:
        Rejected: the folder can't be read.
    """
    cluster = folder.read()
    wished: list[object] = [cluster.nodes, cluster.isolation, cluster.base_port]
    wished += [cluster.store, cluster.store_credentials, cluster.environ]
    with translating(folder.pools_file):
        text = folder.pools_file.read_bytes() if folder.pools_file.exists() else b""
    return hashlib.sha256(msgspec.json.encode(wished) + text).hexdigest()[:16]
