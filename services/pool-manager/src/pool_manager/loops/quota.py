"""Holds tenants to their bounds: says who is full, and rejects inbox entries that are too many."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import partial

from pool_manager.core import ends
from pool_manager.core.quota import Quotas, Session, full_tenants, keep_oldest
from pool_manager.core.table import key_of
from pool_manager.core.world import World
from pool_manager.loops.entries import end_entry
from pool_manager.loops.hands import Hands
from pool_manager.ports import Mint, Truth, Voice
from shared import logs
from shared.errors import ServiceError
from shared.ids import can_be_found
from shared.quota import FULL_EVERY_S, FullTenants, TenantFull

log = logs.get(__name__)

TICK_S = 0.5
AT_ONCE = 2000
"""Entries of one session that are rejected at one go."""


class QuotaKeeper:
    """Tenants' bounds. What a tenant has is counted here, so a bound may be passed by what is on its way."""

    def __init__(
        self, world: World, truth: Truth, voice: Voice, mint: Mint, quotas: Quotas
    ) -> None:
        """Count in what `world` knows; tell workers that live, and those that `mint` will make."""
        self.hands = Hands("quota", count=4, pending_max=1024)
        self._full: tuple[TenantFull, ...] = ()
        self._world = world
        self._truth = truth
        self._voice = voice
        self._mint = mint
        self._quotas = quotas
        self._said_at = 0.0

    async def run(self) -> None:
        """Say who is full, for as long as somebody is; until cancelled."""
        while True:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            before, self._full = self._full, full_tenants(self._world.table.open_of, self._quotas)
            named = {one.tenant for one in self._full}
            self._mint.full_tenants = tuple(sorted(named))
            changed = named != {one.tenant for one in before}
            due = changed or (bool(named) and now - self._said_at >= FULL_EVERY_S)
            if not due or not self._world.peers.is_first("full", now):
                continue
            if changed:
                log.warning("tenants.full", tenants=sorted(named))
            try:
                await self._voice.full(FullTenants(full=self._full))
                self._said_at = now
            except ServiceError as exc:
                log.debug("tenants.not_said", code=exc.code)

    def counted(self, entries: Mapping[Session, int]) -> None:
        """Take in how many inbox entries each session of a shard has."""
        for (tenant, session), stays in keep_oldest(entries, self._quotas).items():
            key = f"excess:{key_of(tenant, session)}"
            self.hands.offer(key, partial(self._reject_newest, tenant, session, stays))

    async def _reject_newest(self, tenant: str, session: str, stays: int) -> None:
        """Leave the oldest entries of an inbox that have yet to run; give the others their end, and remove them."""
        known = await self._truth.read(tenant, session)
        record = known.record if known else None
        after = record.position if record else 0
        end = ends.too_many(self._quotas.inbox_entries_max, self._quotas.tenant_inbox_entries_max)
        for number in range(stays + AT_ONCE):
            entry = await self._truth.next_entry(tenant, session, after)
            if entry is None:
                return
            after = entry.seq
            if number < stays or not can_be_found(entry.task):
                continue
            now_ms, came = int(time.time() * 1000), entry.came
            who = (tenant, session, entry.task)
            result = ends.result_of(who, record, end, now_ms=now_ms, came=came)
            if await end_entry(self._truth, entry.seq, result):
                log.info("task.rejected", session_id=session, task_id=entry.task, reason="limit")
