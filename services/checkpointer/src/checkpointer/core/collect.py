"""Which packs of a session go. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Set

import msgspec

from checkpointer.core.keys import StoredPack

SHARE_MAX = 0.6
"""Of a session's bytes. A collection that would take more is done only after all that stays was found to be whole."""


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """What a collection would do."""

    garbage: tuple[StoredPack, ...] = ()
    kept_bytes: int = 0
    garbage_bytes: int = 0

    @property
    def is_much(self) -> bool:
        """Whether it would remove so much that an error in finding the roots is likelier than that."""
        return self.garbage_bytes > SHARE_MAX * (self.kept_bytes + self.garbage_bytes)


def sweep(candidates: Iterable[StoredPack], live: Set[str]) -> Sweep:
    """Return what goes of the packs that were listed *before* the head was written.

    Args:
        candidates: packs of the session.
        live: keys of the packs of all snapshots that stay, by the head that was written.
    """
    garbage, kept_bytes, garbage_bytes = [], 0, 0
    for pack in candidates:
        if pack.key in live:
            kept_bytes += pack.size_bytes
        else:
            garbage.append(pack)
            garbage_bytes += pack.size_bytes
    return Sweep(garbage=tuple(garbage), kept_bytes=kept_bytes, garbage_bytes=garbage_bytes)
