"""Is a store whole? What its objects hold, read byte by byte, and what that means for the sessions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from checkpointer.core.bounds import ID_BYTES
from checkpointer.core.frames import BODY, Codec
from checkpointer.core.ids import make_id
from checkpointer.core.keys import parse_key
from checkpointer.core.packs import MAGIC, TRAILER, read_contents, tail_of
from checkpointer.core.snapshot import Snapshot, decode_snapshot, keys_of
from shared.errors import Damaged, InvalidMessage, LimitExceeded
from shared.verified import PackDamage
from shared.workspace import SnapshotRef

MISSING = "it is not there"
"""`PackDamage.what` of a pack that a snapshot needs and the store lacks."""
NO_PACK = "it does not begin like a pack"


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot that was found in a pack."""

    tenant: str
    session: str
    ref: SnapshotRef
    needs: frozenset[str]
    """Keys of all that it consists of."""
    index: tuple[str, bytes] | None = None
    """Key and id of its index object."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One object of the store, read whole."""

    key: str
    size_bytes: int
    id: bytes = b""
    """Hash of what it holds."""
    bodies: tuple[Body, ...] = ()
    is_pack: bool = True
    damage: str = ""
    """What is wrong with it by itself; empty: nothing."""


Wanted = tuple[str, SnapshotRef]
"""`<tenant>/<session>`, and a snapshot that it must have."""


def look_at(data: bytes, key: str, codec: Codec) -> Seen:
    """Return what an object holds: each frame is unpacked, each chunk compared with its name."""
    seen = Seen(key=key, size_bytes=len(data), id=make_id(data), is_pack=data.startswith(MAGIC))
    if not seen.is_pack:
        return seen  # an index, if a snapshot names it so
    try:
        return msgspec.structs.replace(seen, bodies=tuple(_read_pack(data, key, codec)))
    except (Damaged, InvalidMessage, LimitExceeded) as exc:
        return msgspec.structs.replace(seen, damage=str(exc))


def _read_pack(data: bytes, key: str, codec: Codec) -> Iterable[Body]:
    view = memoryview(data)
    if len(data) < len(MAGIC) + TRAILER.size:
        raise Damaged(f"{key}: {len(data)} bytes are no pack")
    contents = read_contents(
        view[len(data) - tail_of(view, len(data), key) :], len(data), codec, key
    )
    chunk = 0
    for frame, kind in enumerate(contents.kinds):
        offset = contents.offsets[frame]
        where = f"{key}: frame at {offset}"
        stored = view[offset : offset + contents.stored[frame]]
        raw = memoryview(codec.unpack(stored, contents.raw[frame], where))
        at = 0
        for number in range(chunk, chunk + contents.counts[frame]):
            one = contents.ids[number * ID_BYTES : (number + 1) * ID_BYTES]
            piece = raw[at : at + contents.lengths[number]]
            at += len(piece)
            if make_id(piece) != one:
                raise Damaged(f"{where}: a chunk has another hash than its name")
            if kind == BODY:
                yield _body(decode_snapshot(piece, one.hex(), key), one.hex(), key)
        chunk += contents.counts[frame]


def _body(snapshot: Snapshot, one: str, key: str) -> Body:
    ref = SnapshotRef(
        id=one,
        pack=key,
        at_ms=snapshot.at_ms,
        entries=snapshot.entries,
        bytes=snapshot.content_bytes,
        lineage=snapshot.lineage,
    )
    index = snapshot.index
    return Body(
        tenant=snapshot.tenant,
        session=snapshot.session,
        ref=ref,
        needs=frozenset(keys_of(snapshot, ref)),
        index=None if index is None else (index.key, index.id),
    )


def newest_of_each(seen: Iterable[Seen]) -> list[Wanted]:
    """Return each session's newest snapshot, by what lies in the store alone."""
    newest: dict[str, SnapshotRef] = {}
    for body in (body for one in seen for body in one.bodies):
        name = f"{body.tenant}/{body.session}"
        known = newest.get(name)
        if known is None or (body.ref.lineage, body.ref.at_ms) > (known.lineage, known.at_ms):
            newest[name] = body.ref
    return sorted(newest.items())


def judge(
    seen: Mapping[str, Seen], wanted: Sequence[Wanted], *, by_heads: bool
) -> tuple[PackDamage, ...]:
    """Return what is wrong.

    Args:
        seen: all objects, by key.
        wanted: snapshots that must be there.
        by_heads: that list is the cluster's; else a damaged pack may have held a newer one of its own session.
    """
    bodies = {(body.ref.id, body.ref.pack): body for one in seen.values() for body in one.bodies}
    needers: dict[str, set[str]] = {}
    wrong: dict[tuple[str, str], set[str]] = {}
    for name, ref in wanted:
        body = bodies.get((ref.id, ref.pack))
        for key in body.needs if body else (ref.pack,):
            needers.setdefault(key, set()).add(name)
            if key not in seen:
                wrong.setdefault((key, MISSING), set()).add(name)
        if body is None and ref.pack in seen and not seen[ref.pack].damage:
            is_pack = seen[ref.pack].is_pack
            text = f"snapshot {ref.id[:12]} is not in it" if is_pack else NO_PACK
            wrong.setdefault((ref.pack, text), set()).add(name)
        if body and body.index and body.index[0] in seen:
            key, index_id = body.index
            if seen[key].id != index_id:
                wrong.setdefault((key, "the index has another hash"), set()).add(name)
        for key in body.needs if body else ():
            is_index = body is not None and body.index is not None and key == body.index[0]
            if key in seen and not seen[key].is_pack and not is_index:
                wrong.setdefault((key, NO_PACK), set()).add(name)
    for key, one in seen.items():
        if one.damage:
            where = parse_key(key)
            own = set() if by_heads else {f"{where.tenant}/{where.session}"}
            if who := needers.get(key, set()) | own:
                wrong.setdefault((key, one.damage), set()).update(who)
    return tuple(
        PackDamage(pack=key, what=what, sessions=tuple(sorted(who)))
        for (key, what), who in sorted(wrong.items())
    )
