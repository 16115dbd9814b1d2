"""`processes.json`: what the supervisor says about itself and its processes, for `up`, `down` and `status`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from agent_sandbox.embedded.folder import Folder, replace_file
from agent_sandbox.embedded.procs import ProcessId
from shared.errors import ErrorInfo

Phase = Literal[
    "servers", "streams", "services", "warming", "ready", "stopping", "stopped", "failed"
]
"""How far the supervisor is. `ready` was reached once and stays, whatever dies and is restarted later."""
RowState = Literal["starting", "running", "restarting", "stopped"]
Kind = Literal["server", "edge", "manager", "node", "checkpointer", "gateway"]


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One process that the supervisor keeps."""

    name: str
    kind: Kind
    state: RowState = "starting"
    process: ProcessId | None = None
    started_ms: int = 0
    restarts: int = 0
    last_exit: str = ""
    """How it ended the last time, in words."""


class Table(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The supervisor's view; rewritten at each change."""

    boot: str
    """The kernel's id of this boot: after a reboot no process of the table lives."""
    supervisor: ProcessId
    phase: Phase = "servers"
    detail: str = ""
    """What it waits for, in words."""
    error: ErrorInfo | None = None
    rows: tuple[Row, ...] = ()
    applied: str = ""
    """Digest of the wishes (`wishes.py`) that were applied last."""

    def processes(self) -> list[ProcessId]:
        """Return the processes that it names, the supervisor last; none after a reboot."""
        if self.boot != boot_id():
            return []
        return [row.process for row in self.rows if row.process] + [self.supervisor]

    def is_live(self) -> bool:
        """Return whether the supervisor that wrote it lives."""
        return self.boot == boot_id() and self.supervisor.is_alive()


def boot_id() -> str:
    """Return the kernel's id of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def read_table(folder: Folder) -> Table | None:
    """Return the table, or None where there is none that can be read."""
    try:
        return msgspec.json.decode(folder.table_file.read_bytes(), type=Table)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return None


def write_table(folder: Folder, table: Table) -> None:
    """Replace the table.

    Raises:
        OSError: the folder can't be written.
    """
    replace_file(folder.table_file, msgspec.json.encode(table))
