"""Keys of packs: `<tenant>/<session>/<name>`. Pure."""

from __future__ import annotations

import re

import msgspec

from shared.errors import InvalidMessage
from shared.ids import parse_name, parse_task_id

_NAME = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}(?:-[0-9a-z]{1,8})?")
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TIME_CHARS, _RANDOM_CHARS = 10, 16
RANDOM_BYTES = 10
"""Random bytes that a name needs."""


class PackKey(msgspec.Struct, frozen=True):
    """A key in its parts."""

    tenant: str
    session: str
    name: str
    place: str = ""
    """What the name says of the place within the store; empty: nothing."""

    @property
    def folder(self) -> str:
        """The part that all packs of the session have in common."""
        return folder(self.tenant, self.session)

    def __str__(self) -> str:
        """Return the key."""
        return f"{self.folder}{self.name}"


class StoredPack(msgspec.Struct, frozen=True):
    """One pack as a listing shows it."""

    key: str
    size_bytes: int
    stored_ms: int
    """When it was stored: the store's clock, milliseconds since 1970."""


def folder(tenant: str, session: str) -> str:
    """Return what all keys of a session begin with."""
    return f"{tenant}/{session}/"


def parse_key(text: str) -> PackKey:
    """Return a key's parts; what could lead elsewhere in a store is no key.

    Raises:
        InvalidMessage: it is none.
    """
    parts = text.split("/")
    if len(parts) != 3 or not _NAME.fullmatch(parts[2]):
        raise InvalidMessage(
            f"key of a pack: <tenant>/<session>/<name> expected, got {text[:200]!r}"
        )
    tenant, session = parse_name(parts[0], "key of a pack: tenant"), parse_task_id(parts[1])
    return PackKey(tenant, session, parts[2], parts[2].partition("-")[2])


def parse_prefix(text: str) -> tuple[str, str]:
    """Return (tenant, session) of what a listing is limited to; empty: not limited by it.

    Raises:
        InvalidMessage: it is neither empty, nor `<tenant>/`, nor `<tenant>/<session>/`.
    """
    match text.split("/"):
        case [""]:
            return "", ""
        case [tenant, ""]:
            return parse_name(tenant, "prefix of packs: tenant"), ""
        case [tenant, session, ""]:
            return parse_name(tenant, "prefix of packs: tenant"), parse_task_id(session)
    raise InvalidMessage(f"prefix of packs: <tenant>/<session>/ expected, got {text[:200]!r}")


def name_of(now_ms: int, random: bytes, place: str = "") -> str:
    """Return a name that nobody else makes: a ULID, and the place within the store where it matters.

    Args:
        now_ms: wall clock, milliseconds since 1970.
        random: `RANDOM_BYTES` random bytes.
        place: up to eight of 0-9 a-z.
    """
    ulid = _encode(now_ms, _TIME_CHARS) + _encode(int.from_bytes(random), _RANDOM_CHARS)
    return f"{ulid}-{place}" if place else ulid


def _encode(value: int, characters: int) -> str:
    digits = []
    for _ in range(characters):
        value, digit = divmod(value, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
