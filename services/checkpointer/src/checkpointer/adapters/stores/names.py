"""New names for packs."""

from __future__ import annotations

import secrets
import time

from checkpointer.core.keys import RANDOM_BYTES, folder, name_of


def new_key(tenant: str, session: str, place: str = "") -> str:
    """Return a key that nobody has used; see `core.keys.name_of`."""
    name = name_of(int(time.time() * 1000), secrets.token_bytes(RANDOM_BYTES), place)
    return folder(tenant, session) + name
