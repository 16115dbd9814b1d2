"""A checkpointer that speaks the real messages about what needs no pod, for tests of whoever asks it."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from shared import messages, subjects
from shared.bus import Bus, Message
from shared.errors import NotFound
from shared.ids import home
from shared.snapshots import CompareAsk, DiffRow, KeeperAnswer, LabelAsk, PinAsk
from shared.workspace import Pin, WorkspaceHead


class CheckpointerPeer:
    """Answers `ckpt.any.>` as the real one does, or as it is told."""

    def __init__(self, bus: Bus, tenant: str) -> None:
        """Use a checkpointer's own rights."""
        self._bus, self._tenant = bus, tenant
        self.heard: list[tuple[str, msgspec.Struct]] = []
        self.silent = 0
        """Asks that it carries out and does not answer."""
        self.changes: list[DiffRow] = []

    async def start(self) -> None:
        """Listen."""
        await self._bus.subscribe("ckpt.any.*", self._hear, queue="checkpointer")

    async def write(self, head: WorkspaceHead, seq: int = 0) -> int:
        """Write a head."""
        where = subjects.workspace_head(head.pool, head.tenant, head.session)
        return await self._bus.compare_and_set(where, messages.encode(head), expected_seq=seq)

    async def read(self, session: str) -> tuple[WorkspaceHead | None, int]:
        """Read a head."""
        stored = await self._bus.read_last(
            subjects.state_stream(home(session)),
            subjects.workspace_head("*", self._tenant, session),
        )
        return (
            (None, 0)
            if stored is None
            else (messages.decode(stored.data, WorkspaceHead), stored.seq)
        )

    async def _hear(self, message: Message) -> None:
        op = message.subject.rpartition(".")[2]
        answer = KeeperAnswer()
        match op:
            case "pin":
                pin = messages.decode(message.data, PinAsk)
                self.heard.append((op, pin))
                head, seq = await self.read(pin.session)
                if head is None or all(one.snapshot != pin.snapshot for one in head.retained):
                    answer = KeeperAnswer(
                        error=NotFound("snapshot: it is not kept any more").info()
                    )
                else:
                    made = Pin(snapshot=pin.snapshot.id, session=pin.fork)
                    if made not in head.pins:
                        await self.write(replace(head, pins=(*head.pins, made)), seq)
            case "name":
                label = messages.decode(message.data, LabelAsk)
                self.heard.append((op, label))
                head, seq = await self.read(label.session)
                assert head is not None
                retained = tuple(
                    replace(one, name=label.name) if one.snapshot.id == label.snapshot else one
                    for one in head.retained
                )
                await self.write(replace(head, retained=retained), seq)
            case _:
                compare = messages.decode(message.data, CompareAsk)
                self.heard.append((op, compare))
                page = self.changes[compare.skip : compare.skip + compare.limit]
                more = compare.skip + len(page) < len(self.changes)
                answer = KeeperAnswer(changes=tuple(page), more=more)
        if self.silent:
            self.silent -= 1
            return
        await self._bus.publish(message.reply, messages.encode(answer))
