"""Whether a story has left nothing behind: no owned session, no token, no pod too many or too few."""

from __future__ import annotations

from faults_parts.stories import Cast
from faults_parts.world import World
from shared import messages, subjects
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
        ]
    except (Unavailable, OutcomeUnknown) as exc:
        return [f"the streams do not answer: {exc}"]


async def _sessions(world: World, cast: Cast) -> list[str]:
    left = []
    for session in {one.session for one in cast.expected.values()}:
        subject = subjects.any_pool_record(cast.tenant, session)
        stored = await world.admin.read_last(subjects.state_stream(home(session)), subject)
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


async def _pods(world: World, cast: Cast) -> list[str]:
    spec = next(pool for pool in world.pools if pool.name == cast.pool)
    pods = sorted(pod for pod in world.pods if pod.startswith(f"{cast.pool}-"))
    if len(pods) == spec.stock:
        return []
    return [f"{len(pods)} pods, {spec.stock} wanted: {', '.join(pods)}"]
