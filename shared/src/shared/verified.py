"""What reading a whole store came to: said by the checkpointer's `verify`, read by the command line."""

from __future__ import annotations

import msgspec


class PackDamage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that is not as it was saved."""

    pack: str
    what: str
    sessions: tuple[str, ...]
    """`<tenant>/<session>` of everybody who needs it."""


class StoreVerified(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What reading a whole store came to."""

    store: str
    by_heads: bool
    """Which snapshots must be there was asked of the cluster; else each session's newest one must be."""
    packs: int
    bytes: int
    sessions: int
    snapshots: int
    """That must be there."""
    damage: tuple[PackDamage, ...] = ()
