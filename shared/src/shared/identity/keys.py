"""Ed25519 key pairs in the form that NATS uses (nkeys): operator, account and user keys, and what they sign."""

from __future__ import annotations

import base64
import binascii
import secrets
from typing import Literal

import msgspec
import nkeys

KeyKind = Literal["operator", "account", "user"]

_PREFIXES: dict[KeyKind, int] = {
    "operator": nkeys.PREFIX_BYTE_OPERATOR,
    "account": nkeys.PREFIX_BYTE_ACCOUNT,
    "user": nkeys.PREFIX_BYTE_USER,
}
PUBLIC_BYTES = 35
"""A kind, 32 bytes of key, a check sum of two."""


class Key(msgspec.Struct, frozen=True):
    """One key pair. The seed is the secret; it is never shown."""

    public: str
    seed: str

    def __repr__(self) -> str:
        """Hide the secret."""
        return f"Key({self.public})"

    def sign(self, data: bytes) -> bytes:
        """Return the signature of `data`."""
        return sign(self.seed, data)


def make_key(kind: KeyKind) -> Key:
    """Return a new key pair."""
    seed = nkeys.encode_seed(secrets.token_bytes(32), _PREFIXES[kind])
    return key_of(seed.decode())


def key_of(seed: str) -> Key:
    """Return the pair that belongs to a seed."""
    pair = nkeys.from_seed(bytearray(seed.encode()))
    return Key(public=pair.public_key.decode(), seed=seed)


def is_user_key(public: str) -> bool:
    """Return whether a text is the public key of a user: a base32 form with a check sum."""
    try:
        raw = base64.b32decode(public.encode())
    except (ValueError, UnicodeEncodeError):
        return False
    body, check = raw[:-2], raw[-2:]
    return (
        len(raw) == PUBLIC_BYTES
        and body[0] == nkeys.PREFIX_BYTE_USER
        and binascii.crc_hqx(body, 0) == int.from_bytes(check, "little")
    )


def sign(seed: str, data: bytes) -> bytes:
    """Return the signature of `data` under a seed."""
    signature: bytes = nkeys.from_seed(bytearray(seed.encode())).sign(data)
    return signature


def verify(seed: str, data: bytes, signature: bytes) -> bool:
    """Return whether `signature` is that of `data` under a seed."""
    try:
        return bool(nkeys.from_seed(bytearray(seed.encode())).verify(data, signature))
    except nkeys.ErrInvalidSignature:
        return False


def proxy_signature(key: Key, nonce: str) -> str:
    """Return what a trusted proxy adds to a client's CONNECT: its own signature of the server's nonce."""
    return base64.urlsafe_b64encode(key.sign(nonce.encode())).rstrip(b"=").decode()


def sign_nonce(seed: str, nonce: str) -> bytes:
    """Return what a client answers to the server's nonce: the signature in base64."""
    return base64.b64encode(sign(seed, nonce.encode()))
