"""Makes pods: directory, control groups, channel, confined sandbox, sidecar."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from pathlib import Path
from typing import Any

import msgspec

from local_node.adapters.cgroups import Groups, PodGroup
from local_node.adapters.pod_files import PodFiles
from local_node.adapters.sandboxes import Sandboxes
from local_node.adapters.zygote.kept import KeptZygote
from local_node.core.limits import Bounds, bounds
from local_node.ports import Child, Processes, Sandbox
from shared import logs
from shared.errors import Unavailable
from shared.messages import PodSpec

log = logs.get(__name__)

_START_TIMEOUT_S = 10.0
_END_TIMEOUT_S = 5.0
_EMPTY_S = 0.05
_ROOTED_WORKSPACE = "/workspace"


class PodStarter:
    """Starts pods on this machine (the `Starter` port)."""

    def __init__(
        self,
        files: PodFiles,
        groups: Groups,
        sandboxes: Sandboxes,
        sidecars: KeptZygote,
        *,
        checkpointer: bool = False,
    ) -> None:
        """Use a node's adapters; workers are told whether there is a checkpointer beside them."""
        self._checkpointer = checkpointer
        self._files = files
        self._groups = groups
        self._sandboxes = sandboxes
        self._sidecars = sidecars
        self._uids: dict[str, int] = {}

    async def start(self, spec: PodSpec, isolation: str) -> Processes:
        """Start both halves of a pod, joined by a channel.

        Raises:
            ServiceError: it could not be started; nothing of it runs.
        """
        try:
            return await self._start(spec, isolation)
        except BaseException:
            await self.clean(spec.pod)
            raise

    async def _start(self, spec: PodSpec, isolation: str) -> Processes:
        uid = self._sandboxes.uid_for(isolation, set(self._uids.values()))
        if uid is not None:
            self._uids[spec.pod] = uid
        try:
            path = self._files.create(spec.pod, uid, with_tmp=isolation != "namespace")
            group = self._groups.create(spec.pod, spec.limits)
        except OSError as exc:
            raise Unavailable(f"pod {spec.pod}: {exc}") from exc
        bound = bounds(
            spec.limits, self._groups.controllers, self._sandboxes.user_processes(isolation)
        )
        ours, theirs = socket.socketpair()
        with ours, theirs:
            sandbox = await self._start_sandbox(spec.pod, isolation, bound, group, theirs)
            facts = _facts(path, isolation, uid, bound, checkpointer=self._checkpointer)
            request = {
                "pod": spec.pod,
                "spec": {**msgspec.to_builtins(spec), "sandbox": facts},
                "pod_dir": str(path),
                "sandbox_pid": sandbox.pid,
                "cgroup": str(group.memory) if group and group.memory else None,
            }
            try:
                sidecar = await self._sidecars.start(
                    request, (ours.fileno(),), timeout_s=_START_TIMEOUT_S
                )
            except BaseException:
                await sandbox.kill(signal.SIGKILL)
                await asyncio.wait({sandbox.exited}, timeout=_END_TIMEOUT_S)
                raise
        return Processes(sandbox, sidecar)

    async def clean(self, pod: str) -> None:
        """Release what a pod whose processes are gone held besides its files."""
        self._uids.pop(pod, None)
        if not self._groups.remove(pod):
            self._groups.kill(pod)
            await asyncio.sleep(_EMPTY_S)
            if not self._groups.remove(pod):
                log.warning("cgroup.kept", pod=pod)

    def discard(self, pod: str) -> None:
        """Give up a pod's files, and with them its name."""
        self._files.discard(pod)

    async def _start_sandbox(
        self,
        pod: str,
        isolation: str,
        bound: Bounds,
        group: PodGroup | None,
        channel: socket.socket,
    ) -> Child:
        request: dict[str, Any] = {
            "pod": pod,
            "isolation": isolation,
            "uid": self._uids.get(pod),
            "rlimits": bound.rlimits,
            "niceness": bound.niceness,
            "memory_bounded": "memory" in bound.enforced,
        }
        with contextlib.ExitStack() as closing:
            fds = [channel.fileno()]
            for fd in group.open_entries() if group else []:
                closing.callback(os.close, fd)
                fds.append(fd)
            return await self._sandboxes.start(request, tuple(fds))


def _facts(
    path: Path, isolation: str, uid: int | None, bound: Bounds, *, checkpointer: bool
) -> dict[str, Any]:
    """Return what the sidecar is told of its sandbox."""
    rooted = isolation == "namespace"
    workspace = path / "workspace"
    facts = Sandbox(
        isolation=isolation,
        workspace=workspace,
        inner_workspace=_ROOTED_WORKSPACE if rooted else str(workspace),
        scratch=None if rooted else path / "tmp",
        uid=uid,
        network="loopback" if rooted else "host" if isolation == "process" else "none",
        enforced=bound.enforced,
        niceness=bound.niceness,
        checkpointer=checkpointer,
        watch=bound.watched,
    )
    told: dict[str, Any] = msgspec.to_builtins(facts, enc_hook=str)
    return told
