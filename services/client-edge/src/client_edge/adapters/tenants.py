"""Whose client a credential makes."""

from __future__ import annotations

from typing import Any

from shared.identity.tokens import read_claims

SAYS = "session."
"""A client may publish to `session.<its tenant>.…` (`shared.identity.roles.publisher`)."""


def tenant_of(token: str) -> str:
    """Return the tenant that a client's JWT names, else the user's own key; empty: it is no JWT.

    Nothing is checked: whoever believes it has heard a server take it.
    """
    try:
        claims = read_claims(token)
    except ValueError:
        return ""
    rights: Any = claims.get("nats")
    allowed = rights.get("pub", {}).get("allow", []) if isinstance(rights, dict) else []
    for subject in allowed if isinstance(allowed, list) else []:
        if isinstance(subject, str) and subject.startswith(SAYS):
            return subject.split(".")[1]
    return str(claims.get("sub", ""))
