"""Where to connect and as whom: named, from the environment, or from an embedded cluster's state folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from agent_sandbox import places
from shared.bus import BusOptions
from shared.errors import Forbidden, InvalidMessage, NotFound, Unavailable
from shared.identity import read_credential
from shared.messages import Credential

NOBODY_S = 0.25
"""How long nobody must take a task until the pool-managers are asked whether there is such a pool (`publishing`)."""


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a client connects, and how long it tries."""

    state: Path | None = None
    """State folder of an embedded cluster."""
    servers: tuple[str, ...] = ()
    """Addresses of the NATS servers, instead of a state folder."""
    credential: Path | None = None
    """Credential file (`.creds`); the state folder's where absent."""
    tenant: str = places.TENANT
    connect_s: float = 10.0
    """Longest wait for a connection, seconds."""
    publish_s: float = 15.0
    """Longest wait for the acceptance of a task, seconds; a shard that elects a leader takes up to nine."""


class Access(msgspec.Struct, frozen=True):
    """Servers, and the credential that they know us by."""

    servers: tuple[str, ...]
    credential: Credential | None


class _Cluster(msgspec.Struct):
    servers: tuple[str, ...] = ()


class _Supervisor(msgspec.Struct):
    phase: str = ""


def find_access(
    state: Path | None, servers: Sequence[str], credential: Path | None, environ: Mapping[str, str]
) -> Access:
    """Return where to connect: what is named, else what the environment names, else the default state folder.

    Raises:
        NotFound: no cluster there, no credential file.
        Forbidden: a file can't be read.
        Unavailable: the cluster in the folder has not come up yet, or was ended.
        InvalidMessage: a file is damaged.
    """
    if not servers and state is None:
        servers = [
            part.strip()
            for part in environ.get(places.SERVERS_VARIABLE, "").split(",")
            if part.strip()
        ]
    if servers:
        named = credential or environ.get(places.CREDENTIAL_VARIABLE)
        return Access(tuple(servers), _read(Path(named)) if named else None)
    folder = (state or places.default_state(environ)).expanduser()
    try:
        found = msgspec.json.decode((folder / places.CLUSTER_FILE).read_bytes(), type=_Cluster)
    except (FileNotFoundError, NotADirectoryError) as exc:
        raise NotFound(f"no cluster in {folder}: start one with `agent-sandbox up`") from exc
    except OSError as exc:
        raise Forbidden(f"{exc.filename}: {exc.strerror}") from exc
    except (msgspec.DecodeError, msgspec.ValidationError) as exc:
        raise InvalidMessage(f"{folder / places.CLUSTER_FILE} is damaged: {exc}") from exc
    if not found.servers:
        raise Unavailable(f"the cluster in {folder} was never up: start it with `agent-sandbox up`")
    if _is_ended(folder):
        raise Unavailable(f"the cluster in {folder} is down: start it with `agent-sandbox up`")
    return Access(found.servers, _read(credential or folder / places.CREDENTIAL_FILE))


def _is_ended(folder: Path) -> bool:
    """Return whether the supervisor said so. One that died says nothing; then the servers' silence tells."""
    try:
        told = msgspec.json.decode((folder / places.TABLE_FILE).read_bytes(), type=_Supervisor)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return False
    return told.phase in ("stopped", "failed")


def _read(path: Path) -> Credential:
    try:
        return read_credential(path)
    except OSError as exc:
        raise Forbidden(f"credential {path}: {exc.strerror}") from exc


def bus_options(access: Access) -> BusOptions:
    """Return how a client connects."""
    return BusOptions(
        servers=access.servers,
        name="client",
        credential=access.credential,
        nobody_s=NOBODY_S,
    )
