"""What a store outside the servers says of itself: who it is, and whose packs it holds.

Two clusters in one store would collect each other's packs as garbage: nobody's record names them.
"""

from __future__ import annotations

from uuid import uuid4

import msgspec

from shared.errors import InvalidMessage, Rejected

NAME = "store.json"


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a store's mark."""

    id: str
    cluster: str
    """Whose packs it holds: the id of the cluster's own store."""


def fresh(kind: str, cluster: str) -> Mark:
    """Return the mark of a store that is new."""
    return Mark(id=f"{kind}-{uuid4().hex}", cluster=cluster)


def write(mark: Mark) -> bytes:
    """Return a mark as it is stored."""
    return msgspec.json.encode(mark)


def read(data: bytes, where: str, cluster: str) -> Mark:
    """Return a stored mark.

    Args:
        data: what is stored.
        where: the store, for people.
        cluster: whose packs it must hold; empty: whoever's, for one who only reads.

    Raises:
        InvalidMessage: it cannot be read.
        Rejected: it is another cluster's store.
    """
    try:
        mark = msgspec.json.decode(data, type=Mark)
    except msgspec.DecodeError as exc:
        raise InvalidMessage(f"{where}: its {NAME} cannot be read: {exc}") from exc
    if cluster and mark.cluster != cluster:
        raise Rejected(
            f"{where} holds the packs of another cluster ({mark.cluster}, this one is {cluster}): "
            "each cluster needs a folder, a bucket or a prefix of its own"
        )
    return mark
