"""A server's configuration file, as text. Pure: the same settings give the same text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from shared.cluster.ports import LOOPBACK, ServerPorts
from shared.topology import BATCH_LIMITS

MIB = 1024 * 1024


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one server."""

    payload_bytes: int = 1 * MIB + 64 * 1024
    """Largest message; above every stream's own limit, whose refusal names it."""
    memory_bytes: int = 512 * MIB
    """Streams in memory: the output of tasks; all else is in files."""
    file_bytes: int = 48 * 1024 * MIB
    """Streams in files; of these the object store has 6 GiB set aside, the store of packs 24."""
    client_ping_s: float = 1.0
    """How often each client is asked for a sign of life, seconds."""
    log_bytes: int = 16 * MIB
    """Size at which the server's log is rotated; one older file stays."""


class Trust(msgspec.Struct, frozen=True):
    """What a server must know to check credentials: the operator, and the accounts that it vouches for."""

    operator_token: str
    system_account: str
    edge: str
    """Public key of the client edge; users who need it connect through it only."""
    account_tokens: Mapping[str, str]
    """Public key of each account -> its JWT."""
    resolver_dir: str | None = None
    """Folder of a full resolver, which keeps accounts on disk and takes updates; None: those above, in memory."""


class TlsFiles(msgspec.Struct, frozen=True):
    """A server's certificate: shown to clients, and both ways between servers."""

    cert: str
    key: str
    ca: str
    """Who vouches for the other servers."""


class ServerSettings(msgspec.Struct, frozen=True):
    """One server of a cluster."""

    name: str
    """Unique and stable: it is the server's place in the cluster."""
    cluster: str
    ports: ServerPorts
    routes: Sequence[str]
    """Where this server reaches the servers of the cluster, `host:port`; itself may be among them."""
    store_dir: str
    log_file: str
    """Empty: it logs to its output."""
    trust: Trust
    limits: ServerLimits = ServerLimits()
    host: str = LOOPBACK
    """Where it listens."""
    tls: TlsFiles | None = None
    """None: nothing is encrypted, as on loopback."""
    advertise_client: str = ""
    """What clients are told as its address, `host:port`; empty: where it listens."""
    advertise_route: str = ""
    """What other servers are told as its address, `host:port`; empty: where it listens."""


def render(settings: ServerSettings) -> str:
    """Return the text of the server's configuration file."""
    limits, ports = settings.limits, settings.ports
    routes = ", ".join(_text(f"nats://{address}") for address in settings.routes)
    return f"""\
server_name: {_text(settings.name)}
listen: "{settings.host}:{ports.client}"
{_advertise("client_advertise", settings.advertise_client)}http: "{settings.host}:{ports.monitor}"
{_tls(settings.tls, verify=False)}{_log(settings)}max_payload: {limits.payload_bytes}

# A client that hangs is noticed after three of these.
ping_interval: "{round(limits.client_ping_s * 1000)}ms"
ping_max: 2

# On SIGTERM leaders are handed over first.
lame_duck_grace_period: "1s"
lame_duck_duration: "30s"

jetstream {{
  store_dir: {_text(settings.store_dir)}
  max_mem: {limits.memory_bytes}
  max_file: {limits.file_bytes}
  # What was acknowledged is on disk on a majority, whatever loses power.
  sync_interval: always
  limits {{ batch {{ {_pairs(BATCH_LIMITS)} }} }}
}}
# The newer layout of acks breaks this client library's ordered consumers.
feature_flags {{ js_ack_fc_v2: false }}

cluster {{
  name: {_text(settings.cluster)}
  listen: "{settings.host}:{ports.route}"
{_advertise("  advertise", settings.advertise_route)}  routes: [{routes}]
  # A server that hangs is left by the others within 1.5 s.
  ping_interval: "500ms"
  ping_max: 2
  # Clients are to know the edges' addresses, and no others.
  no_advertise: true
{_tls(settings.tls, verify=True)}}}

{_trust(settings.trust)}"""


def _log(settings: ServerSettings) -> str:
    if not settings.log_file:
        return ""
    return f"""\
log_file: {_text(settings.log_file)}
logfile_size_limit: {settings.limits.log_bytes}
logfile_max_num: 2
"""


def _tls(files: TlsFiles | None, *, verify: bool) -> str:
    if files is None:
        return ""
    names = {"cert_file": files.cert, "key_file": files.key, "ca_file": files.ca}
    asked = ", verify: true" if verify else ""
    return f"tls {{ {_pairs(names)}{asked}, timeout: 5 }}\n"


def _advertise(option: str, address: str) -> str:
    return f"{option}: {_text(address)}\n" if address else ""


def _trust(trust: Trust) -> str:
    if trust.resolver_dir is None:
        resolver = "resolver: MEMORY"
    else:
        resolver = f'resolver {{ type: full, dir: {_text(trust.resolver_dir)}, allow_delete: true, interval: "2m" }}'
    preload = "\n".join(f"  {account}: {token}" for account, token in trust.account_tokens.items())
    return f"""\
operator: {trust.operator_token}
system_account: {trust.system_account}
proxies {{ trusted: [ {{ key: {trust.edge} }} ] }}
{resolver}
resolver_preload {{
{preload}
}}
"""


def _text(value: str) -> str:
    """Return a quoted string; the characters that would end it are refused."""
    if any(char in value for char in '"\\\n\r'):
        raise ValueError(
            f"a name or path in a server's configuration holds a quote or a line end: {value!r}"
        )
    return f'"{value}"'


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{key}: {_text(value) if isinstance(value, str) else value}"
        for key, value in values.items()
    )
