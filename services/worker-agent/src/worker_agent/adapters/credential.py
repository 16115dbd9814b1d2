"""The worker's credential: a newer one is asked for under the present one, which proves who asks."""

from __future__ import annotations

from shared import messages, subjects
from shared.bus import Bus
from shared.errors import Forbidden
from shared.messages import Credential, PodSpec
from shared.renewals import RenewAnswer, RenewAsk

ASK_S = 2.0
"""Longest wait for a pool-manager's answer."""


class Renewals:
    """Asks the pool-managers for a new JWT; the key, whose seed only this worker has, stays."""

    def __init__(self, bus: Bus, spec: PodSpec) -> None:
        """Ask for the pod of `spec`."""
        self._bus = bus
        self._subject = subjects.renew(spec.pool, spec.pod)
        self._present = spec.credential

    async def fetch(self) -> Credential:
        """Return the next credential.

        Raises:
            Forbidden: the pool-managers do not know this pod (yet, or any more).
            ServiceError: none answered.
        """
        ask = messages.encode(RenewAsk(jwt=self._present.jwt))
        reply = await self._bus.request(self._subject, ask, timeout_s=ASK_S)
        answer = messages.decode(reply.data, RenewAnswer)
        if answer.error is not None:
            raise Forbidden(answer.error.message)
        self._present = Credential(jwt=answer.jwt, seed=self._present.seed)
        return self._present
