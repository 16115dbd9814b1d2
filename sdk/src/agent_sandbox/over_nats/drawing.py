"""Ids for new sessions: drawn so that a session's home has a leader, as far as the pool-managers say."""

from __future__ import annotations

import time

from agent_sandbox.orders import make_task_id
from shared import logs, messages, subjects
from shared.bus import Bus, Message
from shared.errors import Forbidden, InvalidMessage
from shared.shards import Homes, ShardsDown

log = logs.get(__name__)


class IdDrawer:
    """Draws ids that were never published; a try under an id that was is never repeated under another."""

    def __init__(self) -> None:
        """Believe all homes to be up."""
        self._homes = Homes()

    async def listen(self, bus: Bus) -> None:
        """Hear which shards are down; close the connection where that can not be asked for.

        Raises:
            Unavailable: not connected, or no answer.
        """
        try:
            await bus.subscribe(subjects.SHARDS_DOWN, self._heard)
        except (
            Forbidden
        ):  # a credential of an earlier version: ids are drawn without that knowledge
            log.info("shards.not_heard")
        except BaseException:
            await bus.close()
            raise

    def draw(self) -> str:
        """Return a new id."""
        return self._homes.draw(make_task_id, time.monotonic())

    def _heard(self, message: Message) -> None:
        try:
            said = messages.decode(message.data, ShardsDown)
        except InvalidMessage:  # of a newer system
            return
        self._homes.heard(said, time.monotonic())
