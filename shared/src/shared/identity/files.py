"""Secrets on disk: mode 0600, written whole or not at all."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import msgspec

from shared.errors import InvalidMessage, NotFound
from shared.identity.accounts import Identity, make_identity
from shared.messages import Credential

_JWT = "NATS USER JWT"
_SEED = "USER NKEY SEED"


def write_secret(path: Path, text: str) -> None:
    """Write `text` to `path` with mode 0600 by one rename; the folder is made with mode 0700 where missing."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)


def write_credential(path: Path, credential: Credential) -> None:
    """Write a credential in the form that the `nats` command line and every NATS client read."""
    write_secret(path, format_credential(credential))


def format_credential(credential: Credential) -> str:
    """Return the text of a credential file."""
    return (
        f"-----BEGIN {_JWT}-----\n{credential.jwt}\n------END {_JWT}------\n\n"
        f"-----BEGIN {_SEED}-----\n{credential.seed}\n------END {_SEED}------\n"
    )


def read_credential(path: Path) -> Credential:
    """Read a credential file.

    Raises:
        NotFound: there is no such file.
        InvalidMessage: it is not a credential file.
    """
    try:
        text = path.read_text()
    except FileNotFoundError as exc:
        raise NotFound(f"no credential file at {path}") from exc
    return parse_credential(text, str(path))


def parse_credential(text: str, where: str) -> Credential:
    """Read the text of a credential file; `where` it was found, for the error.

    Raises:
        InvalidMessage: it is not that of a credential file.
    """
    parts: dict[str, str] = {}
    for line, following in itertools.pairwise(text.splitlines()):
        for part in (_JWT, _SEED):
            if line.startswith("-----BEGIN") and part in line:
                parts[part] = following.strip()
    if set(parts) != {_JWT, _SEED}:
        raise InvalidMessage(f"{where} is no NATS credential file: a JWT and a seed expected")
    return Credential(jwt=parts[_JWT], seed=parts[_SEED])


def load_identity(path: Path) -> Identity:
    """Return the identity kept at `path`; what is missing of it, or all, is made and kept.

    Raises:
        InvalidMessage: the file is damaged.
    """
    kept = b""
    try:
        kept = path.read_bytes()
        identity = msgspec.json.decode(kept, type=Identity)
    except FileNotFoundError:
        identity = make_identity()
    except (msgspec.DecodeError, msgspec.ValidationError) as exc:
        raise InvalidMessage(f"{path} holds no usable identity: {exc}") from exc
    # Not only a new one: to an older version's file the keys are added that it lacks.
    if (whole := msgspec.json.encode(identity)) != kept:
        write_secret(path, whole.decode())
    return identity
