"""Where to connect and as whom: named, from the environment, or from an embedded cluster's state folder.

Addresses that start with `http` are gateways, others NATS servers; a gateway asks for a token, the servers for a credential.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from agent_sandbox import places
from agent_sandbox.tracing import find_tracer
from shared.bus import BusOptions, Tls
from shared.errors import Forbidden, InvalidMessage, NotFound, Unavailable
from shared.identity import read_credential
from shared.messages import Credential

SCHEMES = ("nats", "tls", "http", "https")
NOBODY_S = 0.25
"""How long nobody must take a task until the pool-managers are asked whether there is such a pool (`publishing`)."""


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a client connects, and how long it tries."""

    state: Path | None = None
    """State folder of an embedded cluster."""
    servers: tuple[str, ...] = ()
    """Addresses instead of a state folder: of NATS servers (`nats://…`, `tls://…`), or of gateways (`http://…`,
    `https://…`), of which another is asked when one is silent."""
    credential: Path | None = None
    """Credential file (`.creds`) for NATS servers; the state folder's where absent."""
    token: str | None = None
    """Token for gateways; else `$AGENT_SANDBOX_TOKEN`, else the file that `$AGENT_SANDBOX_TOKEN_FILE` names, else, for
    gateways on this machine, the state folder's."""
    ca: Path | None = None
    """Certificates (PEM) of the authority that vouches for servers or gateways; else `$AGENT_SANDBOX_CA`, else those
    that the system believes."""
    server_name: str | None = None
    """Name that the NATS servers' certificate must have, where their addresses are not in it; None: that of the address."""
    tenant: str = places.TENANT
    """Tenant of the credential; a gateway knows it by the token."""
    connect_s: float = 10.0
    """Longest wait for a connection, seconds."""
    publish_s: float = 15.0
    """Longest wait for the acceptance of a task, seconds; a shard that elects a leader takes up to nine."""

    def __repr__(self) -> str:
        """Name all but the token, which belongs in no log."""
        fields = msgspec.structs.asdict(self) | {"token": None if self.token is None else "…"}
        return f"ClientOptions({', '.join(f'{name}={value!r}' for name, value in fields.items())})"


class Access(msgspec.Struct, frozen=True):
    """Servers or gateways, and the credential or token that they know us by."""

    servers: tuple[str, ...]
    credential: Credential | None
    token: str | None = None
    ca: Path | None = None
    """Authority to believe; None: the system's."""
    server_name: str | None = None
    """Name that the servers' certificate must have; None: that of the address."""

    def __repr__(self) -> str:
        """Name what is no secret."""
        return f"Access(servers={self.servers!r})"

    @property
    def is_http(self) -> bool:
        """Whether the addresses are gateways'."""
        return is_gateway(self.servers[0])


class _Cluster(msgspec.Struct):
    servers: tuple[str, ...] = ()


class _Supervisor(msgspec.Struct):
    phase: str = ""


def is_gateway(address: str) -> bool:
    """Return whether an address is a gateway's, by its scheme."""
    return urlsplit(address).scheme in ("http", "https")


def find_access(options: ClientOptions, environ: Mapping[str, str]) -> Access:
    """Return where to connect: what is named, else what the environment names, else the default state folder.

    Raises:
        NotFound: no cluster there, no credential file, no certificates.
        Forbidden: a file can't be read.
        Unavailable: the cluster in the folder has not come up yet, or was ended.
        InvalidMessage: a file is damaged; an address is none.
    """
    state, credential = options.state, options.credential
    servers: Sequence[str] = options.servers
    if not servers and state is None:
        servers = [
            part.strip()
            for part in environ.get(places.SERVERS_VARIABLE, "").split(",")
            if part.strip()
        ]
    _check_addresses(servers)
    kinds = {is_gateway(address) for address in servers}
    if len(kinds) > 1:
        raise InvalidMessage("servers: either NATS servers or gateways, not both")
    ca = _find_ca(options, environ)
    if True in kinds:
        return Access(tuple(servers), None, _token(options, servers, environ), ca)
    if servers:
        named = credential or environ.get(places.CREDENTIAL_VARIABLE)
        known_by = _read(Path(named)) if named else None
        return Access(tuple(servers), known_by, ca=ca, server_name=options.server_name)
    folder = (state or places.default_state(environ)).expanduser()
    try:
        found = msgspec.json.decode((folder / places.CLUSTER_FILE).read_bytes(), type=_Cluster)
    except (FileNotFoundError, NotADirectoryError) as exc:
        raise NotFound(f"no cluster in {folder}: start one with `agent-sandbox up`") from exc
    except OSError as exc:
        raise Forbidden(f"{exc.filename}: {exc.strerror or exc}") from exc
    except (msgspec.DecodeError, msgspec.ValidationError) as exc:
        raise InvalidMessage(f"{folder / places.CLUSTER_FILE} is damaged: {exc}") from exc
    if not found.servers:
        raise Unavailable(f"the cluster in {folder} was never up: start it with `agent-sandbox up`")
    if _is_ended(folder):
        raise Unavailable(f"the cluster in {folder} is down: start it with `agent-sandbox up`")
    return Access(found.servers, _read(credential or folder / places.CREDENTIAL_FILE))


def _find_ca(options: ClientOptions, environ: Mapping[str, str]) -> Path | None:
    named = options.ca or environ.get(places.CA_VARIABLE)
    if not named:
        return None
    if not Path(named).is_file():
        raise NotFound(f"no certificates at {named}")
    return Path(named)


def _check_addresses(servers: Sequence[str]) -> None:
    """Refuse what could only fail later, and with a riddle.

    Raises:
        InvalidMessage: no address, or of a scheme that nobody speaks.
    """
    if isinstance(servers, str):
        raise InvalidMessage(f"servers: a tuple of addresses expected, got the text {servers!r}")
    for address in servers:
        scheme, _, rest = address.partition("://")
        if scheme.lower() not in SCHEMES or not rest:
            known = ", ".join(f"{one}://…" for one in SCHEMES)
            raise InvalidMessage(f"servers: one of {known} expected, got {address!r}")


def _token(
    options: ClientOptions, servers: Sequence[str], environ: Mapping[str, str]
) -> str | None:
    """Return the token for gateways, or None.

    A state folder's token is shown to nobody but this machine, unless the folder was named along with the address.
    """
    if named := options.token or environ.get(places.TOKEN_VARIABLE):
        return named.strip()
    if path := environ.get(places.TOKEN_FILE_VARIABLE):
        return _read_token(Path(path))
    if options.state is None and not all(is_here(address) for address in servers):
        return None
    folder = (options.state or places.default_state(environ)).expanduser()
    path_here = folder / places.TOKEN_FILE
    return _read_token(path_here) if path_here.exists() else None


def is_here(address: str) -> bool:
    """Return whether an address is this machine's own: `localhost`, or a number that means it."""
    host = urlsplit(address).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read_token(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise Forbidden(f"token {path}: {getattr(exc, 'strerror', None) or exc}") from exc


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
        raise Forbidden(f"credential {path}: {exc.strerror or exc}") from exc


def bus_options(access: Access) -> BusOptions:
    """Return how a client connects."""
    return BusOptions(
        servers=access.servers,
        name="client",
        credential=access.credential,
        nobody_s=NOBODY_S,
        tls=None
        if access.ca is None
        else Tls(ca_file=str(access.ca), server_name=access.server_name or ""),
        tracer=find_tracer(),
    )
