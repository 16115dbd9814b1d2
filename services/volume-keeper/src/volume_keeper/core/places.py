"""What is called how on the volume. Pure.

    pods/<pod>/files                          a session's folder, in that of the pod that has it
    sessions/<tenant>.<session>/<epoch>.<pod>  who took it, under which epoch: where the folder is, or was before
    trash/<tenant>.<session>.<epoch>           what is to be removed

A folder moves by one rename, so it is in one place at any time. The names below `sessions` say where to look for it, newest
first; and whoever finds a newer one than its own is too late.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from shared.errors import InvalidMessage

PODS, SESSIONS, TRASH = "pods", "sessions", "trash"
_EPOCH_DIGITS = 12


class Taking(NamedTuple):
    """A pod took a session's folder, or was about to."""

    epoch: int
    pod: str

    @property
    def name(self) -> str:
        """As it stands below the session."""
        return f"{self.epoch:0{_EPOCH_DIGITS}d}.{self.pod}"


def session_name(tenant: str, session: str) -> str:
    """Return what a session is called below `sessions`.

    Raises:
        InvalidMessage: those are no names.
    """
    for part in (tenant, session):
        if not part or not all(
            char.isascii() and (char.isalnum() or char in "-_") for char in part
        ):
            raise InvalidMessage(f"{part[:80]!r}: no name of a tenant or session")
    return f"{tenant}.{session}"


def read_session(name: str) -> tuple[str, str] | None:
    """Return (tenant, session) of a name below `sessions`; None: it is none, but something on its way there."""
    tenant, _, session = name.partition(".")
    return (tenant, session) if tenant and session and "." not in session else None


def read_takings(names: Iterable[str]) -> list[Taking]:
    """Return what stands below a session, newest first; what can't be read is left out."""
    found = []
    for name in names:
        epoch, _, pod = name.partition(".")
        if epoch.isdecimal() and pod:
            found.append(Taking(int(epoch), pod))
    return sorted(found, reverse=True)
