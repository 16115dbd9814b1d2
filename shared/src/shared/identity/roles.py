"""What each role may publish and hear, as data. Least privilege: what is not listed is refused by the servers.

Answers come to an inbox of the user's own. Reads of state and inboxes by leaders cannot be scoped by subject; only
trusted roles hold them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from shared import packs, subjects
from shared.classes import CLASSES, CLIENT_CLASSES
from shared.ids import SHARDS

ANSWER_WITHIN_S = 30
"""How long a service may take to answer a request to it."""

_STATES = tuple(subjects.state_stream(shard) for shard in range(SHARDS))
_INBOXES = tuple(subjects.inbox_stream(shard) for shard in range(SHARDS))
_OBJECTS = tuple(subjects.object_stream(shard) for shard in range(SHARDS))
_QUEUES = tuple(subjects.queue_stream(shard) for shard in range(SHARDS))
_PACKS = tuple(packs.stream(shard) for shard in range(SHARDS))
_SLOTS = tuple(subjects.slot_stream(shard) for shard in range(SHARDS))
_BOUNDED = (subjects.DEAD_LETTER_STREAM, subjects.OUTPUT_STREAM)


class Permissions(msgspec.Struct, frozen=True):
    """Subjects that a user may publish to and hear. None: all."""

    publish: tuple[str, ...] | None
    hear: tuple[str, ...] | None
    answers: bool = False
    """May answer each request that it hears, once."""

    def claims(self) -> dict[str, Any]:
        """Return the permissions as a user's JWT has them."""
        claims: dict[str, Any] = {}
        if self.publish is not None:
            claims["pub"] = _allow(self.publish)
        if self.hear is not None:
            claims["sub"] = _allow(self.hear)
        if self.answers:
            claims["resp"] = {"max": 1, "ttl": ANSWER_WITHIN_S * 1_000_000_000}
        return claims


def _allow(listed: tuple[str, ...]) -> dict[str, list[str]]:
    # The servers take an empty list for none at all, that is for everything.
    return {"allow": list(listed)} if listed else {"deny": [">"]}


def _inbox(name: str) -> str:
    return f"_INBOX_{name}.>"


def _each(prefix: str, streams: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{prefix}.{stream}" for stream in streams)


def admin() -> Permissions:
    """Everything in the account: whoever set the cluster up."""
    return Permissions(None, None)


def provisioner() -> Permissions:
    """Makes and changes streams and consumers, and moves their leaders; reads and removes nothing."""
    acts = ("INFO", "CREATE", "UPDATE", "LEADER.STEPDOWN")
    return Permissions(
        (
            *(f"$JS.API.STREAM.{act}.*" for act in acts),
            *(f"$JS.API.CONSUMER.{act}.>" for act in ("INFO", "CREATE", "LEADER.STEPDOWN")),
        ),
        (_inbox("provisioner"),),
    )


def publisher(tenant: str, pools: tuple[str, ...] = ("*",)) -> Permissions:
    """A client: publishes tasks of one tenant and reads what became of them. Minted in the clients' account.

    Args:
        tenant: the only tenant that it can name.
        pools: the only pools that it can name.
    """
    return Permissions(
        (
            *(subjects.task(tenant, pool, klass) for pool in pools for klass in CLIENT_CLASSES),
            f"session.{tenant}.*.*",
            f"result.{tenant}.*.*",
            f"object.*.{tenant}.*.*",
            f"chunk.*.{tenant}.*.*",
            f"cancel.{tenant}.*.*",
            f"ask.{tenant}.*",
            f"tty.*.{tenant}.*.*",
        ),
        (_inbox(f"c-{tenant}"), f"done.{tenant}.>", f"out.{tenant}.>", subjects.SHARDS_DOWN),
    )


def worker(pool: str, name: str) -> Permissions:
    """The trusted half of one pod: pulls its pool's lanes, writes its pool's records and the results.

    With the servers' placeholders as arguments this is the scope of the workers' signing key.
    """
    consumers = tuple(subjects.consumer(pool, klass) for klass in CLASSES)
    return Permissions(
        (
            *(f"$JS.API.CONSUMER.MSG.NEXT.*.{consumer}" for consumer in consumers),
            *(f"$JS.ACK.*.{consumer}.>" for consumer in consumers),
            *_each("$JS.API.STREAM.MSG.GET", _STATES + _INBOXES),
            f"s.*.rec.{pool}.>",
            f"s.*.job.{pool}.>",
            "s.*.done.>",
            "out.>",
            # Chunks that nobody has written yet, and those whose object's id it was told.
            "object.>",
            *(f"{get}.object.>" for get in _each("$JS.API.DIRECT.GET", _OBJECTS)),
            subjects.heartbeat(pool, name),
            subjects.renew(pool, name),
            subjects.checkpoint("*", name),
            subjects.volume(pool, "take", name),
            subjects.spans(pool, name),
            subjects.bells(pool),
            subjects.dead_letter("*", pool),
        ),
        (
            _inbox(name),
            subjects.bells(pool),
            "wake.>",
            subjects.control(name),
            subjects.terminal(name),
            subjects.FULL,
        ),
        answers=True,
    )


ENROLLER = "enroller"
"""The name that all pods share before they have their own."""


def enroller() -> Permissions:
    """A pod before it has a credential of its own: asks for one, and hears the answer. Worth nothing without a proof."""
    return Permissions((subjects.enroll(),), (_inbox(ENROLLER),))


def pool_manager(name: str, beats_as: str | None = None) -> Permissions:
    """Keeps pools at their stock, recovers sessions, answers clients. Trusted in the whole account.

    Args:
        name: of the user.
        beats_as: name in its heartbeats, `*` for replicas that share the user; None: the user's.
    """
    return Permissions(
        (
            "s.>",
            "q.>",
            "slot.>",
            "out.>",
            "dlq.>",
            "bell.>",
            "node.>",
            subjects.manager_heartbeat(beats_as or name),
            subjects.FULL,
            subjects.SHARDS_DOWN,
            "ctl.*",
            "ckpt.*.rescue",
            "ckpt.any.*",
            subjects.volume(op="make"),
            # Answers across the wall: named, because whom it may answer is forgotten when its credential is renewed.
            "_R_.>",
            *_each(
                "$JS.API.STREAM.MSG.GET",
                (*_STATES, *_INBOXES, *_QUEUES, *_SLOTS, *_BOUNDED),
            ),
            # Scans.
            *_each("$JS.API.DIRECT.GET", (*_STATES, *_OBJECTS, *_SLOTS, *_BOUNDED)),
            "$JS.API.STREAM.INFO.*",
            "$JS.API.STREAM.LEADER.STEPDOWN.*",
            "$JS.API.CONSUMER.INFO.*.*",
            "$JS.API.CONSUMER.LEADER.STEPDOWN.*.*",
            # Ended records and results after their time, inbox entries that are done, expired queue messages, dead
            # letters that a client drops.
            *_each("$JS.API.STREAM.PURGE", _STATES + _INBOXES + _OBJECTS),
            *_each(
                "$JS.API.STREAM.MSG.DELETE",
                (*_INBOXES, *_QUEUES, *_SLOTS, subjects.DEAD_LETTER_STREAM),
            ),
        ),
        (
            _inbox(name),
            *(
                "rec.>",
                "done.>",
                "slots.>",
                "hb.>",
                "hbn.>",
                "hbc.>",
                "hbm.>",
                "gone.>",
                "bell.>",
                "wake.>",
                "cancel.>",
                "ask.>",
                "renew.>",
                "enroll.>",
                "span.>",
            ),
        ),
        answers=True,
    )


def local_node(node: str) -> Permissions:
    """One node: takes requests for itself, says what it holds and what is gone."""
    return Permissions(
        (subjects.node_heartbeat(node), subjects.gone("*")),
        (_inbox(f"n-{node}"), f"node.{node}.*"),
        answers=True,
    )


def checkpointer(node: str, name: str | None = None) -> Permissions:
    """One node's checkpointer: hears what workers and pool-managers ask of it, keeps the heads of workspaces.

    It may write any record, for what it rescues; that it writes only those of sessions it was asked for is its code's
    business, and that it purges no state but heads of workspaces that were deleted.

    Args:
        node: its node, `*` for all nodes' checkpointers under one user.
        name: of the user; None: the node's.
    """
    return Permissions(
        (
            subjects.checkpointer_heartbeat(node),
            subjects.spans("*", node),
            "s.*.rec.>",
            "s.*.ws.>",
            *_each("$JS.API.STREAM.MSG.GET", _STATES + _PACKS),
            *_each("$JS.API.DIRECT.GET", _STATES + _PACKS),
            # Packs: each is written once; they are the checkpointers' alone, to remove too.
            "pack.>",
            *(f"{get}.pack.>" for get in _each("$JS.API.DIRECT.GET", _PACKS)),
            # Of state streams, the heads of deleted workspaces: servers do not look at what a purge is of.
            *_each("$JS.API.STREAM.PURGE", _PACKS + _STATES),
            *_each("$JS.API.STREAM.INFO", _PACKS),
        ),
        (
            _inbox(f"ckpt-{name or node}"),
            f"ckpt.{node}.*",
            "ckpt.any.*",
            subjects.RECORDS_LIVE,
        ),
        answers=True,
    )


KEEPER = "keeper"
"""The name that all keepers of volumes share."""


def keeper() -> Permissions:
    """Moves sessions' folders on the volumes of pools: reads whose they are, writes nothing."""
    return Permissions(
        _each("$JS.API.STREAM.MSG.GET", _STATES),
        (_inbox(KEEPER), subjects.volume(), subjects.RECORDS_LIVE, "hb.>"),
        answers=True,
    )


def system_watcher(name: str) -> Permissions:
    """In the servers' own account: hears who connects and disconnects."""
    return Permissions(
        (),
        (_inbox(name), "$SYS.ACCOUNT.*.CONNECT", "$SYS.ACCOUNT.*.DISCONNECT"),
    )
