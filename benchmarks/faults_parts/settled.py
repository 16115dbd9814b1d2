"""Whether a story has left nothing behind: no owned session, no token, no pod too many or too few, no data of what has ended."""

from __future__ import annotations

from faults_parts.teller import Cast
from faults_parts.world import World
from shared import messages, packs, subjects
from shared.bus import Stored
from shared.errors import OutcomeUnknown, Unavailable
from shared.ids import SHARDS, home
from shared.record import ENDED, Record


async def unsettled(world: World, cast: Cast) -> list[str]:
    """Return what is left; empty: nothing."""
    try:
        return [
            *await _sessions(world, cast),
            *await _lanes(world, cast),
            *await _pods(world, cast),
            *await _saved(world, cast),
        ]
    except (Unavailable, OutcomeUnknown) as exc:
        return [f"the streams do not answer: {exc}"]


async def _sessions(world: World, cast: Cast) -> list[str]:
    left = []
    for session in {one.session for one in cast.expected.values()}:
        stored = await _record(world, cast, session)
        if stored is None:
            left.append(f"session {session} has no record")
            continue
        record = messages.decode(stored.data, Record)
        if record.state not in ENDED and record.state != "idle":
            left.append(f"session {session} is {record.state} of {record.owner}")
    return left


async def _lanes(world: World, cast: Cast) -> list[str]:
    left = []
    for shard in range(SHARDS):
        info = await world.admin.js_api(
            f"STREAM.INFO.{subjects.queue_stream(shard)}", {"subjects_filter": ">"}
        )
        for subject, count in (info["state"].get("subjects") or {}).items():
            if subjects.parse_queue(subject)[1] == cast.tenant:
                left.append(f"{count} messages wait in {subject}")
    return left


async def _saved(world: World, cast: Cast) -> list[str]:
    """Return what is stored of sessions that have ended and of which no fork lives."""
    records = [
        messages.decode(stored.data, Record)
        for session in {one.session for one in cast.expected.values()}
        if (stored := await _record(world, cast, session)) is not None
    ]
    live = [one for one in records if one.state not in ENDED]
    needed = {one.session for one in live} | {one.base.session for one in live if one.base}
    left = []
    for shard in range(SHARDS):
        kinds = {"pack": packs.stream(shard), "workspace head": subjects.state_stream(shard)}
        filters = {
            "pack": f"pack.{shard}.{cast.tenant}.>",
            "workspace head": f"s.{shard}.ws.*.{cast.tenant}.>",
        }
        for kind, stream in kinds.items():
            info = await world.admin.js_api(
                f"STREAM.INFO.{stream}", {"subjects_filter": filters[kind]}
            )
            for subject in info["state"].get("subjects") or {}:
                session = subject.split(".")[3 if kind == "pack" else 5]
                if session not in needed:
                    left.append(f"{kind} {subject} of a session that has ended")
    return left


async def _record(world: World, cast: Cast, session: str) -> Stored | None:
    subject = subjects.any_pool_record(cast.tenant, session)
    return await world.admin.read_last(subjects.state_stream(home(session)), subject)


async def _pods(world: World, cast: Cast) -> list[str]:
    spec = next(pool for pool in world.pools if pool.name == cast.pool)
    pods = sorted(pod for pod in world.pods if pod.startswith(f"{cast.pool}-"))
    if len(pods) == spec.stock:
        return []
    return [f"{len(pods)} pods, {spec.stock} wanted: {', '.join(pods)}"]
