"""What the node's loops need from the outside; adapters provide it."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Protocol

from shared.errors import Unavailable
from shared.messages import NodeBeat, PodGone, PodSpec


class StartRefused(Unavailable):
    """A zygote could not fork or confine; nothing untrusted ran."""

    code = "start_refused"


@dataclasses.dataclass(frozen=True)
class Exit:
    """How a child ended."""

    code: int | None
    signal: int | None
    detail: str = ""
    """Why it ended before it had begun, in its own words."""


class Child(Protocol):
    """A forked process (and, for a sandbox, all that it started)."""

    exited: asyncio.Future[Exit]
    """Done when all its processes are gone."""
    lost: asyncio.Future[None]
    """Done when the zygote that forked it has died: the kernel is ending it, by no fault of its own."""

    @property
    def pid(self) -> int:
        """Process number on the host."""
        ...

    async def kill(self, number: int) -> None:
        """Send a signal; SIGKILL to a sandbox ends all its processes."""
        ...


@dataclasses.dataclass(frozen=True)
class Processes:
    """The two halves of a pod."""

    sandbox: Child
    sidecar: Child


class Starter(Protocol):
    """Makes pods out of the machine, and clears up after them."""

    async def start(self, spec: PodSpec, isolation: str) -> Processes:
        """Start both halves of a pod, joined by a channel.

        Raises:
            ServiceError: it could not be started; nothing of it runs.
        """
        ...

    async def clean(self, pod: str) -> None:
        """Release what a pod whose processes are gone held besides its files."""
        ...

    def discard(self, pod: str) -> None:
        """Give up a pod's files, and with them its name."""
        ...


class Voice(Protocol):
    """What a node says unasked. A message that cannot be sent is dropped: the next heartbeat tells."""

    async def gone(self, pool: str, gone: PodGone) -> None:
        """Say that all processes of a pod are gone."""
        ...

    async def beat(self, beat: NodeBeat) -> None:
        """Say that the node lives, and which pods it has."""
        ...


@dataclasses.dataclass(frozen=True)
class Sandbox:
    """What the sidecar is told about its sandbox; travels as `sandbox` in the spec that it is started with."""

    isolation: str
    """The class that it really has."""
    workspace: Path
    """The workspace on the host."""
    inner_workspace: str
    """The same as the sandbox sees it."""
    scratch: Path | None
    """Another folder on the host that it may fill, part of the disk limit; None: there is none."""
    uid: int | None
    """Its own uid; None: the node's."""
    network: str
    """`loopback`: its own, or `none`: not even that."""
    enforced: tuple[str, ...]
    """Limits that the kernel holds."""
    niceness: int
    """Of its processes while a task runs; warming up is done in the background."""
    checkpointer: bool
    """The node has a checkpointer: it saves and restores the workspace."""
    watch: tuple[str, ...]
    """Limits that the sidecar must measure, ending the pod past them: of memory, pids, disk."""
