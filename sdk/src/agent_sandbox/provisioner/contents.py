"""What each Secret holds: what is still good of what it held, and new where nothing is. No I/O but the clock."""

from __future__ import annotations

import datetime
import hashlib
import secrets
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from agent_sandbox.provisioner import certificates
from agent_sandbox.provisioner.certificates import Pair
from agent_sandbox.provisioner.settings import ProvisionerSettings
from shared.cluster import ServerSettings, TlsFiles, Trust, render
from shared.cluster.ports import ServerPorts
from shared.errors import InvalidMessage
from shared.identity import (
    Credential,
    Identity,
    Permissions,
    Signer,
    format_credential,
    lifetime,
    make_identity,
    parse_credential,
    read_claims,
    roles,
)
from shared.mappings import account_mappings

Data = dict[str, bytes]

PORTS = ServerPorts(client=4222, route=6222, monitor=8222, edge=4223)
STATEFUL_SET = HEADLESS = "nats"
EDGE_SERVICE = "client-edge"
STORE_DIR = "/data"
CONFIG_DIR = "/etc/nats"
"""Where servers find their Secret."""
TOKEN_BYTES = 32
GATEWAY_DIR = "/etc/agent-sandbox/tenants"
"""Where gateways find their Secret."""
CERTIFICATE, KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"
COUNT = "generation"
"""Key of the number that grows with each change that needs the pods that use it to be replaced."""
INPUTS = "inputs"
"""Key of a digest of what it was made from."""


class Root(msgspec.Struct, frozen=True):
    """The root of trust of one cluster. Whoever holds it can be anybody."""

    identity: Identity
    authority: Pair
    created_ms: int
    """When the cluster was made; streams count from here."""


def root(held: Mapping[str, bytes], now_s: float) -> Data:
    """Return the root of trust: kept as it is, made where there is none."""
    if "root.json" in held:
        return dict(held)
    now = datetime.datetime.fromtimestamp(now_s, datetime.UTC)
    made = Root(make_identity(), certificates.make_authority(now), int(now_s * 1000))
    return {"root.json": msgspec.json.encode(made)}


def read_root(data: Mapping[str, bytes]) -> Root:
    """Return what `root` made.

    Raises:
        InvalidMessage: it is damaged.
    """
    try:
        return msgspec.json.decode(data["root.json"], type=Root)
    except (KeyError, msgspec.DecodeError, msgspec.ValidationError) as exc:
        raise InvalidMessage(f"the root of trust is damaged: {exc}") from exc


def server_names(settings: ProvisionerSettings) -> list[str]:
    """Return the pods of the servers."""
    return [f"{STATEFUL_SET}-{index}" for index in range(settings.servers)]


def server_urls(settings: ProvisionerSettings) -> tuple[str, ...]:
    """Return where services reach the servers."""
    return tuple(f"nats://{name}.{HEADLESS}:{PORTS.client}" for name in server_names(settings))


def host_names(settings: ProvisionerSettings, addresses: tuple[str, ...]) -> list[str]:
    """Return all names under which servers and edges are reached.

    Args:
        settings: the provisioner's.
        addresses: the edges' Service.
    """
    space, domain = settings.namespace, settings.cluster_domain
    bases = [f"{name}.{HEADLESS}" for name in server_names(settings)] + [EDGE_SERVICE]
    names = [
        f"{base}{tail}"
        for base in bases
        for tail in ("", f".{space}", f".{space}.svc", f".{space}.svc.{domain}")
    ]
    return [*names, "localhost", "127.0.0.1", "::1", *addresses, *settings.client_names]


def servers(
    held: Mapping[str, bytes], root: Root, settings: ProvisionerSettings, addresses: tuple[str, ...]
) -> Data:
    """Return the servers' configurations and certificate."""
    now = datetime.datetime.now(datetime.UTC)
    names = host_names(settings, addresses)
    pair = Pair(held.get(CERTIFICATE, b"").decode(), held.get(KEY, b"").decode())
    if not certificates.is_good(pair, root.authority, names, now):
        pair = certificates.make_certificate(
            root.authority, names, settings.certificate_valid_s, now
        )
    identity = root.identity
    trust = Trust(
        operator_token=identity.operator_token(),
        system_account=identity.system.public,
        edge=identity.edge.public,
        account_tokens=identity.account_tokens(account_mappings()),
    )
    data = {
        f"{name}.conf": render(_server(name, settings, trust)).encode()
        for name in server_names(settings)
    }
    data |= {CERTIFICATE: pair.certificate.encode(), KEY: pair.key.encode()}
    data[AUTHORITY] = root.authority.certificate.encode()
    # Tokens hold the time at which they were made: what they claim counts.
    claims = [_lasting(trust.operator_token)] + [
        _lasting(token) for _, token in sorted(trust.account_tokens.items())
    ]
    plain = msgspec.structs.replace(trust, operator_token="", account_tokens={})
    texts = [render(_server(name, settings, plain)) for name in server_names(settings)]
    return counted(held, data, [claims, texts, pair.certificate])


def _server(name: str, settings: ProvisionerSettings, trust: Trust) -> ServerSettings:
    return ServerSettings(
        name=name,
        cluster="agent-sandbox",
        ports=PORTS,
        routes=[f"{other}.{HEADLESS}:{PORTS.route}" for other in server_names(settings)],
        store_dir=STORE_DIR,
        log_file="",
        trust=trust,
        host="0.0.0.0",  # noqa: S104 - a pod's own address; network policies say who reaches it
        tls=TlsFiles(*(f"{CONFIG_DIR}/{file}" for file in (CERTIFICATE, KEY, AUTHORITY))),
        advertise_route=f"{name}.{HEADLESS}:{PORTS.route}",
    )


def _lasting(token: str) -> dict[str, Any]:
    return {key: value for key, value in read_claims(token).items() if key not in ("iat", "jti")}


def counted(held: Mapping[str, bytes], data: Data, inputs: Any) -> Data:
    """Return `data` with its count, or what was held if that was made from the same."""
    digest = hashlib.sha256(msgspec.json.encode(inputs, order="deterministic")).hexdigest().encode()
    if held.get(INPUTS) == digest and data.keys() <= held.keys():
        return dict(held)
    count = int(held.get(COUNT, b"0")) + 1
    return {**data, INPUTS: digest, COUNT: str(count).encode()}


def edge(root: Root) -> Data:
    """Return what an edge needs."""
    return {"edge.json": msgspec.json.encode(root.identity.edge)}


def pool_managers(held: Mapping[str, bytes], root: Root, valid_s: float) -> Data:
    """Return what all pool-managers share."""
    identity = root.identity
    own = roles.pool_manager("pool-manager", beats_as="*")
    watcher = roles.system_watcher("pool-manager-system")
    signer, system = identity.signer, identity.system_signer
    return {
        "pool-manager.creds": credential(held, "pool-manager.creds", signer, own, valid_s),
        "system.creds": credential(held, "system.creds", system, watcher, valid_s),
        "signer.json": msgspec.json.encode(identity.worker_signer),
    }


def checkpointers(held: Mapping[str, bytes], root: Root, valid_s: float) -> Data:
    """Return what all nodes' checkpointers share."""
    role = roles.checkpointer("*", "checkpointer")
    name = "checkpointer.creds"
    return {name: credential(held, name, root.identity.signer, role, valid_s)}


def enrollers(held: Mapping[str, bytes], root: Root, valid_s: float) -> Data:
    """Return that with which new worker pods ask for a credential of their own."""
    key = "enroller.creds"
    return {key: credential(held, key, root.identity.signer, roles.enroller(), valid_s)}


def keepers(held: Mapping[str, bytes], root: Root, valid_s: float) -> Data:
    """Return what all keepers of volumes share."""
    key = "keeper.creds"
    return {key: credential(held, key, root.identity.signer, roles.keeper(), valid_s)}


def tenant(held: Mapping[str, bytes], root: Root, name: str) -> Data:
    """Return what a tenant's clients need: it goes to programs of the user's, so it does not end."""
    role = roles.publisher(name)
    signer = root.identity.client_signer
    token = held.get("token") or secrets.token_urlsafe(TOKEN_BYTES).encode()
    creds = held.get("client.creds", b"")
    if not _holds(creds, signer, role):
        minted = signer.mint(f"client-{name}", role, by_edge=True)
        creds = format_credential(minted).encode()
    return {
        "client.creds": creds,
        "token": token,
        AUTHORITY: root.authority.certificate.encode(),
    }


def gateways(tenants: Mapping[str, Mapping[str, bytes]]) -> Data:
    """Return what gateways need of all tenants' Secrets: tenant -> what that holds."""
    access = {
        name: {
            "token_sha256s": [hashlib.sha256(data["token"]).hexdigest()],
            "credential": f"{GATEWAY_DIR}/{name}.creds",
        }
        for name, data in sorted(tenants.items())
    }
    files = {f"{name}.creds": data["client.creds"] for name, data in tenants.items()}
    return {**files, "tenants.json": msgspec.json.encode({"tenants": access})}


def credential(
    held: Mapping[str, bytes], key: str, signer: Signer, role: Permissions, valid_s: float
) -> bytes:
    """Return a credential file: the one that is held unless it is another role's or has lived half its life."""
    text = held.get(key, b"")
    if _holds(text, signer, role) and not _is_due(text, valid_s):
        return text
    return format_credential(
        signer.mint(key.removesuffix(".creds"), role, expires_s=valid_s)
    ).encode()


def _parsed(text: bytes) -> Credential | None:
    try:
        return parse_credential(text.decode(), "a Secret")
    except (InvalidMessage, UnicodeDecodeError):
        return None


def _holds(text: bytes, signer: Signer, role: Permissions) -> bool:
    """Return whether a credential is of this account and exactly this role."""
    found = _parsed(text)
    if found is None:
        return False
    claims = read_claims(found.jwt)["nats"]
    wanted = role.claims()
    return claims.get("issuer_account") == signer.account and all(
        claims.get(part) == wanted.get(part) for part in ("pub", "sub", "resp")
    )


def _is_due(text: bytes, valid_s: float) -> bool:
    found = _parsed(text)
    life = None if found is None else lifetime(found)
    if life is None:
        return True
    begin, end = life
    return time.time() > begin + min(end - begin, valid_s) / 2
