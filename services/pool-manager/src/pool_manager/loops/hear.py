"""Ears: what is said on the bus becomes what the world knows. Short functions; they decode, note and wake loops."""

from __future__ import annotations

import time

import msgspec

from pool_manager.core.peers import ManagerBeat
from pool_manager.core.stocks import StockRecord
from pool_manager.core.wakes import Wake
from pool_manager.core.world import World
from pool_manager.loops.recover import Recoverer
from pool_manager.loops.refill import Refiller
from pool_manager.loops.ring import Ringer
from pool_manager.loops.wake import Waker
from pool_manager.ports import Heard
from shared import headers, logs, subjects
from shared.classes import asked_class
from shared.errors import InvalidMessage
from shared.ids import can_be_found
from shared.messages import NodeBeat, PodGone, Slot, WorkerBeat
from shared.record import ENDED, Record
from shared.workspace import CheckpointerBeat

log = logs.get(__name__)

SEQUENCE = "Nats-Sequence"
"""On a republished message: its sequence in the stream."""
STOCK_END = f".{subjects.STOCK}"

_records = msgspec.json.Decoder(Record)
_workers = msgspec.json.Decoder(WorkerBeat)
_nodes = msgspec.json.Decoder(NodeBeat)
_checkpointers = msgspec.json.Decoder(CheckpointerBeat)
_gone = msgspec.json.Decoder(PodGone)
_slots = msgspec.json.Decoder(Slot)
_stocks = msgspec.json.Decoder(StockRecord)
_managers = msgspec.json.Decoder(ManagerBeat)


class _Client(msgspec.Struct):
    name: str = ""
    id: int = 0
    """Counted by its server, anew for each connection."""


class _Server(msgspec.Struct):
    name: str = ""


class _ConnectionEvent(msgspec.Struct):
    """The part of the servers' own events that matters here."""

    client: _Client
    server: _Server


_events = msgspec.json.Decoder(_ConnectionEvent)


def _is_said_by(message: Heard, *tokens: str) -> bool:
    """Return whether a body says of itself what its subject says: on subjects the servers check permissions."""
    if message.subject == ".".join(tokens):
        return True
    log.warning("message.false", subject=message.subject, claims=".".join(tokens)[:200])
    return False


class Ears:
    """One function for each subject."""

    def __init__(
        self, world: World, refiller: Refiller, recoverer: Recoverer, waker: Waker, ringer: Ringer
    ) -> None:
        """Note in `world`, and wake whom it concerns."""
        self._world = world
        self._refiller = refiller
        self._recoverer = recoverer
        self._waker = waker
        self._ringer = ringer

    def record(self, message: Heard) -> None:
        """A record was stored."""
        record = _records.decode(message.data)
        if not _is_said_by(message, "rec", record.pool, record.tenant, record.session):
            return
        seq = int(message.headers[SEQUENCE])
        # It was stored just now: the stream's own stamp would tell the same, for more work.
        stored_ms = int(time.time() * 1000)
        now = time.monotonic()
        if self._world.on_record(record, seq, now=now, stored_ms=stored_ms):
            self._refiller.wanted.set()
        self._waker.noticed(record, now)
        if record.state in ENDED:
            self._waker.ended(record, now)

    def worker(self, message: Heard) -> None:
        """A worker lives."""
        beat = _workers.decode(message.data)
        if not _is_said_by(message, "hb", beat.pool, beat.worker):
            return
        match self._world.on_worker(beat, time.monotonic()):
            case "slot":
                self._refiller.wanted.set()
            case "bell":
                self._ringer.wanted.set()

    def node(self, message: Heard) -> None:
        """A node lives, with these pods."""
        beat = _nodes.decode(message.data)
        if _is_said_by(message, "hbn", beat.node) and self._world.on_node(beat, time.monotonic()):
            self._refiller.wanted.set()
            self._recoverer.wanted.set()

    def checkpointer(self, message: Heard) -> None:
        """A node's checkpointer lives."""
        beat = _checkpointers.decode(message.data)
        if _is_said_by(message, "hbc", beat.node):
            self._world.checkpointers.heard(beat, time.monotonic())

    def gone(self, message: Heard) -> None:
        """A pod is no more."""
        gone = _gone.decode(message.data)
        pool = message.subject.split(".")[1]
        if not _is_said_by(message, "gone", pool, gone.pod):
            return
        if self._world.on_gone(pool, gone, time.monotonic()):
            self._refiller.wanted.set()
        if self._world.table.owned_by(gone.pod) is not None:
            self._recoverer.wanted.set()

    def slot(self, message: Heard) -> None:
        """A slot's record was stored, or what was decided for a pool's stock."""
        if message.subject.endswith(STOCK_END):
            stock = _stocks.decode(message.data)
            self._world.on_stock(stock, int(message.headers[SEQUENCE]), time.monotonic())
            self._refiller.wanted.set()
            return
        slot = _slots.decode(message.data)
        self._world.on_slot(slot, int(message.headers[SEQUENCE]), time.monotonic())

    def manager(self, message: Heard) -> None:
        """Another pool-manager lives, or leaves."""
        self._world.peers.heard(_managers.decode(message.data), time.monotonic())

    def wake(self, message: Heard) -> None:
        """Something entered an inbox."""
        _, tenant, session = message.subject.split(".")
        if not can_be_found(session):
            return  # there is none of such a name
        try:
            asked = asked_class(message.headers.get(headers.CLASS))
        except InvalidMessage:
            asked = None  # its worker will say what is wrong with it
        seq = int(message.headers[SEQUENCE])
        trace = self._waker.trace_of(message.headers, tenant, session)
        wake = Wake(tenant, session, seq, frozenset({asked}), time.monotonic(), trace)
        self._waker.heard(wake)

    def bell(self, message: Heard) -> None:
        """A message was stored in a lane, or somebody rings for it again."""
        pool, klass, shard = subjects.parse_bell(message.subject)
        seq = message.headers.get(SEQUENCE)
        self._ringer.heard_bell(pool, klass, shard, int(seq) if seq else None)

    def connected(self, message: Heard) -> None:
        """A server has a new client."""
        event = _events.decode(message.data)
        client = event.client
        self._world.detector.connected(client.name, event.server.name, client.id)

    def disconnected(self, message: Heard) -> None:
        """A server lost a client."""
        event = _events.decode(message.data)
        client, now = event.client, time.monotonic()
        self._world.detector.dropped(client.name, event.server.name, now, client.id)
