"""Everything that a node holds of its machine, opened in order and closed in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from local_node.adapters.cgroups import Groups
from local_node.adapters.lock import DirectoryLock
from local_node.adapters.pod_files import PodFiles
from local_node.adapters.sandboxes import Sandboxes, SandboxSettings
from local_node.adapters.starter import PodStarter
from local_node.adapters.zygote.client import ZygoteConfig, base_python
from local_node.adapters.zygote.kept import KeptZygote
from local_node.settings import NodeSettings
from shared import logs
from shared.errors import Unavailable
from shared.machine import MachineView

log = logs.get(__name__)


class Machine:
    """The node's adapters."""

    def __init__(self, files: PodFiles, sandboxes: Sandboxes, starter: PodStarter) -> None:
        """Hold what `open_machine` made."""
        self.files = files
        self.sandboxes = sandboxes
        self.starter = starter


@contextlib.asynccontextmanager
async def open_machine(
    settings: NodeSettings, on_death: Callable[[str], None]
) -> AsyncIterator[Machine]:
    """Open everything; close it again, with every process that it started, at the end.

    Args:
        settings: the node's.
        on_death: called with its name when a zygote died and was not replaced: the node cannot go on.

    Raises:
        ServiceError: the directory is in use, a module is missing, or the machine refuses.
    """
    async with contextlib.AsyncExitStack() as closing:
        files, groups, sandboxes = _open_parts(settings, closing, on_death)
        sidecars = KeptZygote(
            ZygoteConfig(
                name="worker",
                python=sys.executable,
                settings={"role": "worker", "path": sys.path, "module": settings.sidecar_module},
                signal_by_node=True,
            ),
            on_death,
        )
        closing.push_async_callback(sidecars.close)
        launching = asyncio.ensure_future(
            sidecars.launch()
        )  # beside the trials: it waits for imports, they for forks
        try:
            await sandboxes.probe()
            await launching
        finally:
            launching.cancel()
            await asyncio.wait({launching})
        has = bool(settings.checkpointer)
        starter = PodStarter(files, groups, sandboxes, sidecars, checkpointer=has)
        yield Machine(files, sandboxes, starter)


async def look(settings: NodeSettings) -> MachineView:
    """Return what a node with these settings would find here; nothing stays.

    Raises:
        ServiceError: the directory is in use, a module is missing, or the machine refuses.
    """
    async with contextlib.AsyncExitStack() as closing:
        _, groups, sandboxes = _open_parts(settings, closing, lambda _: None)
        await sandboxes.probe()
        return MachineView(
            isolation=dict(sandboxes.available),
            controllers=groups.controllers,
            missing=dict(groups.missing),
        )


def _open_parts(
    settings: NodeSettings, closing: contextlib.AsyncExitStack, on_death: Callable[[str], None]
) -> tuple[PodFiles, Groups, Sandboxes]:
    """Open what sandboxes need; `closing` ends them."""
    folder = Path(settings.dir)
    closing.callback(DirectoryLock(folder).close)
    files = PodFiles(folder)
    groups = Groups(settings.name, folder)
    closing.callback(groups.close)
    log.info("cgroups.probed", controllers=groups.controllers, missing=groups.missing)
    python = settings.sandbox_python or base_python()
    sandbox_settings = SandboxSettings(
        python=python,
        prefix=_prefix_of(python),
        module=settings.runner_module,
        read_only=settings.read_only,
        offered=settings.offered,
        tmp_mib=settings.tmp_mib,
    )
    sandboxes = Sandboxes(sandbox_settings, files, on_death)
    closing.push_async_callback(sandboxes.close)
    return files, groups, sandboxes


def _prefix_of(python: str) -> str:
    command = [python, "-I", "-S", "-c", "import sys; print(sys.base_prefix)"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError) as exc:
        raise Unavailable(f"sandbox interpreter {python}: {exc}") from exc
    return done.stdout.strip()
