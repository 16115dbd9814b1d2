"""From a setting to a store."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import msgspec

from checkpointer.adapters.stores.local import LocalStore
from checkpointer.adapters.stores.over_nats import NatsStore
from checkpointer.adapters.stores.s3 import S3Address, S3Store
from checkpointer.ports.blobs import BlobStore
from shared.bus import Bus
from shared.errors import InvalidMessage

FORMS = "nats, /absolute/folder (or local:/absolute/folder) or s3://bucket/prefix?endpoint=https://host&region=name"
CREDENTIALS = ("access_key_id", "secret_access_key", "session_token")
_ASKED = frozenset({"endpoint", "region"})


async def open_store(
    address: str, credentials_file: str | None, bus: Bus | None, *, adopt: bool = True
) -> BlobStore:
    """Return the store that a setting names.

    Args:
        address: `nats`, `/folder` or `local:/folder`, or `s3://bucket/prefix?endpoint=…&region=…`.
        credentials_file: of an S3 store: JSON with `access_key_id` and `secret_access_key`, readable by its owner
            alone; None: the environment (`AWS_ACCESS_KEY_ID`, …) or the machine says who we are.
        bus: the connection for packs, which is the store's from now on where that is `nats`. None: nobody's cluster,
            for one who only looks.
        adopt: mark a store that is nobody's as this cluster's.

    Raises:
        InvalidMessage: the address or the file is none.
        Rejected: the store is another cluster's.
        ServiceError: it cannot be used now.
    """
    if address == "nats":
        if bus is None:
            raise InvalidMessage("store nats: there is no connection to a cluster")
        return await NatsStore.open(bus)
    parsed = parse_address(address, credentials_file)
    cluster = await NatsStore.cluster_of(bus) if bus is not None and adopt else ""
    if isinstance(parsed, Path):
        return await LocalStore.open(parsed, cluster)
    return await S3Store.open(parsed, cluster)


def parse_address(address: str, credentials_file: str | None) -> Path | S3Address:
    """Return where a store outside the servers is.

    Raises:
        InvalidMessage: the address or the file is none; names what is wrong, and no secret.
    """
    if address.startswith("/"):
        return Path(address)
    parts = urlsplit(address)
    if parts.scheme == "local" and parts.path.startswith("/") and not parts.netloc:
        return Path(parts.path)
    if parts.scheme != "s3" or not parts.hostname:
        raise InvalidMessage(f"store: {FORMS} expected")
    if "@" in parts.netloc or parts.port is not None:
        raise InvalidMessage(f"store: no user, password or port in the address; {FORMS} expected")
    asked = dict(parse_qsl(parts.query))
    if unknown := asked.keys() - _ASKED:
        raise InvalidMessage(f"store: unknown in its address: {', '.join(sorted(unknown))}")
    known = _credentials(Path(credentials_file)) if credentials_file else _environment(os.environ)
    return S3Address(bucket=parts.netloc, prefix=parts.path.strip("/"), **asked, **known)


def _credentials(file: Path) -> dict[str, str]:
    try:
        mode = file.stat().st_mode
        known = msgspec.json.decode(file.read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError) as exc:
        kind = exc.strerror or exc if isinstance(exc, OSError) else "not JSON with text values"
        raise InvalidMessage(f"store: credentials file {file}: {kind}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InvalidMessage(
            f"store: credentials file {file}: others may read it; mode 0600 expected"
        )
    if not known.keys() <= set(CREDENTIALS) or not set(CREDENTIALS[:2]) <= known.keys():
        raise InvalidMessage(f"store: credentials file {file}: {', '.join(CREDENTIALS)} expected")
    return known


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    found = {name: variables.get(f"AWS_{name.upper()}", "") for name in CREDENTIALS}
    return {name: value for name, value in found.items() if value}
