"""The nodes' checkpointers, asked over the bus."""

from __future__ import annotations

from shared import messages, subjects
from shared.bus import Bus
from shared.workspace import POLL_S, CheckpointAnswer, CheckpointAsk

ANSWER_S = POLL_S + 0.5


class BusCheckpointers:
    """Implements `ports.checkpointers.Checkpointers`."""

    def __init__(self, bus: Bus) -> None:
        """Use the service's connection."""
        self._bus = bus

    async def look(self, node: str, ask: CheckpointAsk) -> CheckpointAnswer:
        """Ask whether a rescue would be of use."""
        return await self._ask(node, ask, ask.left_s)

    async def rescue(self, node: str, ask: CheckpointAsk) -> CheckpointAnswer:
        """Ask for a rescue, or how far it is."""
        return await self._ask(node, ask, ANSWER_S)

    async def _ask(self, node: str, ask: CheckpointAsk, timeout_s: float) -> CheckpointAnswer:
        reply = await self._bus.request(
            subjects.rescue(node), messages.encode(ask), timeout_s=timeout_s
        )
        return messages.decode(reply.data, CheckpointAnswer)
