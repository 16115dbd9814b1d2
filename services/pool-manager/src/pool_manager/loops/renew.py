"""Renews workers' credentials, for as long as their pods are wanted."""

from __future__ import annotations

import time

from pool_manager.core.world import World
from pool_manager.ports import Heard, Mint, Replies
from shared import logs, messages
from shared.errors import Forbidden, ServiceError
from shared.renewals import RenewAnswer, RenewAsk

log = logs.get(__name__)


class Renewer:
    """Serves `renew.<pool>.<worker>`: only that worker may publish there, so the subject says who asks."""

    def __init__(self, world: World, mint: Mint, replies: Replies) -> None:
        """Renew for pods that `world` knows."""
        self._world = world
        self._mint = mint
        self._replies = replies

    async def heard(self, message: Heard) -> None:
        """Answer a request."""
        _, pool, pod = message.subject.split(".")
        try:
            ask = messages.decode(message.data, RenewAsk)
            # One that was ended, or lost its session, keeps what it has until that ends, and gets no more.
            if not self._world.has_use_for(pool, pod, time.monotonic()):
                raise Forbidden(f"pod {pod} of pool {pool} is not known, or not any more")
            answer = RenewAnswer(jwt=self._mint.renew(ask.jwt, pool, pod))
        except ServiceError as exc:
            log.warning("renewal.refused", pod=pod, pool=pool, error=str(exc))
            answer = RenewAnswer(error=exc.info())
        if message.reply:
            await self._replies.answer(message.reply, messages.encode(answer))
