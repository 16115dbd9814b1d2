"""`up` and `down`, as the one who calls them sees it: start the supervisor, wait for it, end it and all it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import msgspec

from agent_sandbox.embedded.__main__ import DRAIN_S, EXIT_IN_USE
from agent_sandbox.embedded.child import last_lines, last_words, trim_log
from agent_sandbox.embedded.folder import MARK_VARIABLE, ClusterFile, Folder, translating
from agent_sandbox.embedded.procs import (
    ProcessId,
    descendants,
    end,
    identify,
    marked,
    wait_gone,
)
from agent_sandbox.embedded.programs import inherited
from agent_sandbox.embedded.table import Table, read_table
from agent_sandbox.embedded.wishes import Kept, Wishes, digest, keep
from shared.errors import Forbidden, InvalidMessage, Rejected, Unavailable

POLL_S = 0.05
SUPERVISOR_S = 10.0
"""Longest time until a started supervisor says something."""
GRACE_S = 3.0
KILL_S = 5.0

Say = Callable[[str], None]


class UpFailed(Unavailable):
    """The cluster did not come up; the message says what is missing or broken."""

    code = "up_failed"


class NotApplied(UpFailed):
    """What was wished can't be had here; the cluster runs on as it was, and the folder is as it was."""

    code = "not_applied"


class Up(msgspec.Struct, frozen=True, kw_only=True):
    """What `up` did."""

    did: Literal["started", "found", "applied"]
    cluster: ClusterFile
    took_s: float


def up(folder: Folder, wishes: Wishes, *, wait_s: float, say: Say) -> Up:
    """Have the cluster of a folder run as wished; return when workers are warm.

    Args:
        folder: state folder, made where it is missing.
        wishes: what to change.
        wait_s: longest wait, seconds. After it the cluster goes on starting.
        say: told what it waits for, at each change.

    Raises:
        Rejected: the folder or a wish can't be used (says why).
        UpFailed: it did not come up (says what is missing).
        NotApplied: it runs, but a wish can't be had here (says why); all is as it was.
    """
    began = time.monotonic()
    cluster = folder.create()
    locked = folder.is_locked()
    if locked and wishes.base_port is not None and (wishes.base_port or None) != cluster.base_port:
        raise InvalidMessage(
            "port: can't be changed while the cluster runs; `agent-sandbox down` first"
        )
    before = Kept(folder)
    cluster = keep(folder, cluster, wishes)
    wished = digest(folder)
    did: Literal["started", "found", "applied"] = "found"
    spawned: subprocess.Popen[bytes] | None = None
    if not locked:
        clean_up_after_crash(folder, cluster)
        spawned = _spawn(folder, cluster)
        did = "started"
    else:
        table = _live_table(folder, SUPERVISOR_S)
        if table.applied != wished and table.phase == "ready":
            table.supervisor.send(signal.SIGHUP)
            did = "applied"
    try:
        _wait_ready(folder, wished, spawned, until=began + wait_s, say=say)
    except NotApplied:
        before.restore()
        raise
    finally:
        if spawned is not None and spawned.poll() is None:
            spawned.returncode = 0  # it outlives us: nobody waits for it, so nobody is to be warned
    return Up(did=did, cluster=folder.read(), took_s=time.monotonic() - began)


def down(folder: Folder, *, say: Say) -> bool:
    """End everything that runs for the folder; its data stays. Return whether anything ran.

    Raises:
        Rejected: no cluster in the folder.
        Forbidden: something of another user's is left (named).
        Unavailable: something would not end (named).
    """
    cluster = folder.read()
    table = read_table(folder)
    supervisor = table.supervisor if table is not None and table.is_live() else None
    if supervisor is None:
        return clean_up_after_crash(folder, cluster)
    # User code has no mark, and may have made itself nobody's child by the time that we look again.
    below = descendants(supervisor.pid)
    say("stopping")
    supervisor.send(signal.SIGTERM)
    if wait_gone([supervisor], DRAIN_S + GRACE_S):
        say("the supervisor does not end: killing it")
        below += descendants(supervisor.pid)
        end([supervisor], grace_s=0, kill_s=KILL_S)
    clean_up_after_crash(folder, cluster, also=below)
    return True


def clean_up_after_crash(
    folder: Folder, cluster: ClusterFile, *, also: Iterable[ProcessId] = ()
) -> bool:
    """End what a supervisor left: what its table names, what bears the cluster's mark, and all below those.

    Raises:
        Forbidden: something of another user's is left (named).
        Unavailable: something would not end (named).
    """
    found = set(also) | set(running_processes(folder))
    found |= {below for process in list(found) for below in descendants(process.pid)}
    found = {process for process in found if process.is_alive()}
    left = end(found, grace_s=GRACE_S, kill_s=KILL_S)
    # What died may have started something meanwhile.
    left += end(marked(cluster.mark), grace_s=0, kill_s=KILL_S)
    if left:
        pids = ", ".join(str(process.pid) for process in left)
        if any(_owner(process) not in (os.geteuid(), None) for process in left):
            raise Forbidden(f"processes of another user are left: {pids}")
        raise Unavailable(f"processes that would not end: {pids}")
    return bool(found)


def running_processes(folder: Folder) -> list[ProcessId]:
    """Return every process that runs for the folder, by its table and by its mark."""
    table = read_table(folder)
    named = table.processes() if table else []
    found = {p.pid: p for p in [*named, *marked(folder.read().mark)] if p.is_alive()}
    return list(found.values())


def _owner(process: ProcessId) -> int | None:
    try:
        return Path(f"/proc/{process.pid}").stat().st_uid
    except FileNotFoundError:
        return None


def _spawn(folder: Folder, cluster: ClusterFile) -> subprocess.Popen[bytes]:
    """Start the supervisor in a session of its own: it outlives us and the terminal."""
    log_file = folder.log("supervisor")
    with translating(log_file):
        trim_log(log_file)
        with log_file.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "agent_sandbox.embedded", str(folder.path)],
                env=inherited(os.environ, traces=True)
                | {MARK_VARIABLE: cluster.id, "PYTHONUNBUFFERED": "1"},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )


def _live_table(folder: Folder, wait_s: float) -> Table:
    """Return the running supervisor's table; one that has just started has not written it yet.

    Raises:
        UpFailed: none within `wait_s`.
    """
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        table = read_table(folder)
        if table is not None and table.is_live():
            return table
        time.sleep(POLL_S)
    raise UpFailed(
        f"{folder.path} is in use, but its supervisor says nothing: see {folder.log('supervisor')}"
    )


def _wait_ready(
    folder: Folder, wished: str, spawned: subprocess.Popen[bytes] | None, *, until: float, say: Say
) -> None:
    me = identify(spawned.pid) if spawned else None
    said = ""
    while True:
        table = read_table(folder)
        code = spawned.poll() if spawned else None
        if code is not None and code != EXIT_IN_USE:
            raise _why_ended(folder, table, me, code)
        if table is not None and table.is_live():
            if table.phase == "ready" and table.applied == wished:
                if table.error:
                    raise NotApplied(f"{table.error.message}. The cluster runs on as it was")
                return
            if table.phase in ("stopping", "stopped"):
                raise UpFailed(
                    "it is being stopped: wait for `agent-sandbox down`, then run `up` again"
                )
            if table.detail and table.detail != said:
                said = table.detail
                say(said)
        elif spawned is None or code is not None:
            raise UpFailed(
                f"the supervisor is gone: {last_words(last_lines(folder.log('supervisor'), 5))}"
            )
        if time.monotonic() > until:
            raise UpFailed(
                f"not ready in time: {said or 'no word from the supervisor'}. It goes on starting: "
                "look again with `agent-sandbox status`, end it with `agent-sandbox down`"
            )
        time.sleep(POLL_S)


def _why_ended(
    folder: Folder, table: Table | None, me: ProcessId | None, code: int
) -> Rejected | UpFailed:
    if table is not None and table.error is not None and table.supervisor == me:
        return UpFailed(table.error.message)
    words = last_words(last_lines(folder.log("supervisor"), 5))
    return UpFailed(f"the supervisor ended with code {code}: {words or 'it wrote nothing'}")
