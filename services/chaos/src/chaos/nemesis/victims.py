"""Sessions of a fault's own, and the processes of their workers."""

from __future__ import annotations

import asyncio
import signal

from agent_sandbox.demo.victims import find_worker
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.pools import read_declared
from agent_sandbox.embedded.procs import wait_gone
from agent_sandbox.embedded.table import read_table
from agent_sandbox.places import TENANT
from chaos.nemesis.base import aside
from chaos.nemesis.processes import GONE_S
from chaos.ports import NoVictim, Site
from shared import messages, subjects
from shared.errors import OutcomeUnknown, Unavailable
from shared.ids import home
from shared.record import ENDED, Record

OWNED_S = 30.0
POLL_S = 0.1


def own_pool(folder: Folder) -> str:
    """Return the pool in which a fault has sessions of its own: the first."""
    return read_declared(folder)[0].name


async def owned(site: Site, session: str, after_epoch: int = 0) -> Record:
    """Wait until somebody owns a session under a later epoch; return its record.

    Raises:
        NoVictim: not within OWNED_S seconds, or it has ended.
    """
    try:
        async with asyncio.timeout(OWNED_S):
            while True:
                record = await _record(site, session)
                if record is not None and record.state == "running" and record.epoch > after_epoch:
                    return record
                if record is not None and record.state in ENDED:
                    raise NoVictim(f"the session is {record.state}")
                await asyncio.sleep(POLL_S)
    except TimeoutError as exc:
        raise NoVictim(f"nobody owns the session after {OWNED_S:g} s") from exc


async def revoked(site: Site, session: str, epoch: int) -> None:
    """Wait until an owner of a session is given up.

    Raises:
        NoVictim: not within OWNED_S seconds.
    """
    end_s = site.now() + OWNED_S
    while (record := await _record(site, session)) is None or record.epoch <= epoch:
        if site.now() >= end_s:
            raise NoVictim(f"the session's owner is not given up after {OWNED_S:g} s")
        await asyncio.sleep(POLL_S)


async def _record(site: Site, session: str) -> Record | None:
    try:
        stored = await site.admin.read_last(
            subjects.state_stream(home(session)), subjects.any_pool_record(TENANT, session)
        )
    except (Unavailable, OutcomeUnknown):
        return None
    return None if stored is None else messages.decode(stored.data, Record)


async def kill_owner(site: Site, record: Record) -> None:
    """Kill the worker that owns a session, and wait until it is gone.

    Raises:
        NoVictim: its process is not found.
    """
    table = read_table(site.folder)
    if table is None or record.owner is None:
        raise NoVictim("the session has no owner")
    worker = await aside(find_worker, site.folder, record.owner, table.supervisor.pid)
    if worker is None or not worker.send(signal.SIGKILL):
        raise NoVictim(f"{record.owner} has no process")
    await aside(wait_gone, [worker], GONE_S)
