"""Idempotency keys: the same key is the same task, which runs once."""

from __future__ import annotations

import re
import uuid

from gateway.adapters.http.asked import KEY_LENGTH_MAX
from shared.errors import InvalidMessage
from shared.ids import is_unique

_NAMESPACE = uuid.UUID("6f0c3a5e-5a39-5a0e-9a6e-3f6c1f6a2d11")
_PRINTABLE = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?")


def task_id_of(key: str | None, tenant: str, session: str = "") -> str | None:
    """Return the task id that a request's `Idempotency-Key` stands for; None: it has none.

    Args:
        key: a UUID or ULID is the id itself; any other text gives one, the same for the same tenant and session.
        tenant: whose request it is.
        session: of a session's next task; empty: a first task, whether it opens a session that is kept or not.

    Raises:
        InvalidMessage: not 1 to 255 printable characters.
    """
    if key is None:
        return None
    if not _PRINTABLE.fullmatch(key):
        raise InvalidMessage(
            f"idempotency-key: 1 to {KEY_LENGTH_MAX} printable characters expected, got {len(key)}"
        )
    if is_unique(key):
        return key
    return str(uuid.uuid5(_NAMESPACE, "\n".join((tenant, session, key))))
