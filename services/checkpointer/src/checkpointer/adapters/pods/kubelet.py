"""Pods of a Kubernetes node, found by what kubelet itself writes on the node.

<pod logs>/<namespace>_<name>_<uid>/     made by kubelet before a pod's first container; says which pod a uid is
<pods>/<uid>/volumes/kubernetes.io~empty-dir/
    workspace/      the session's files
    sidecar/        the sidecar's alone; holds the mark
<pods>/<uid>/plugins/kubernetes.io~empty-dir/workspace/ready
                    made with the workspace; the first thing to go when that is removed

Anybody who may start pods somewhere in the cluster chooses the names of their volumes, and what a downward API volume
says in them. He chooses neither the namespace of our workers nor a uid, and no name holds an underscore: so a pod of
another namespace is never taken for one of ours, whatever it holds.

Once a pod has ended, kubelet removes its volumes: its workspace is not here any more, though the pod's object may be.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from checkpointer.adapters.files import linux
from checkpointer.adapters.pods.names import MARK_BYTES_MAX, WORKSPACE, check_pod
from checkpointer.core.scans import FileOwner
from shared.errors import Unavailable
from shared.workspace import MARK

VOLUMES: Final = "volumes/kubernetes.io~empty-dir"
SIDECAR: Final = "sidecar"
READY: Final = f"plugins/kubernetes.io~empty-dir/{WORKSPACE}/ready"
"""While it is there, kubelet has taken nothing out of the workspace."""
_UID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NONBLOCK
_CACHE_SUFFIX: Final = ".cache"


class NodeLayout(msgspec.Struct, frozen=True, kw_only=True):
    """Where things are on the node, as this process sees it."""

    pods: Path
    """kubelet's `pods`."""
    pod_logs: Path
    """kubelet's `podLogsDir`."""
    namespace: str
    """Of the worker pods."""
    cache: Path | None = None
    """A folder of this process's own."""


class KubeletPods:
    """Implements `ports.pods.PodFolders`."""

    def __init__(self, layout: NodeLayout, owner: FileOwner) -> None:
        """Look at one node's folders; files of workspaces belong to `owner`, their roots to kubelet."""
        self._layout = layout
        self.owner: FileOwner | None = owner

    @contextmanager
    def workspace(self, pod: str) -> Iterator[int]:
        """Open a pod's workspace; see `PodFolders`."""
        _, fd = self._find(pod)
        try:
            yield fd
        finally:
            os.close(fd)

    def mark(self, pod: str) -> bytes | None:
        """Return what its worker says of its workspace; see `PodFolders`."""
        try:
            uid, fd = self._find(pod)
        except Unavailable:
            return None
        os.close(fd)
        with contextlib.suppress(OSError):
            file = self._open(uid, f"{VOLUMES}/{SIDECAR}/{MARK}", _FILE)
            try:
                if stat.S_ISREG(os.fstat(file).st_mode):
                    said = os.read(file, MARK_BYTES_MAX)
                    os.close(
                        self._open(uid, READY, _FILE)
                    )  # else what it says is not true any more
                    return said
            finally:
                os.close(file)
        return None

    def cache(self, pod: str) -> Path | None:
        """Return the file for what is saved, and remove those of pods that are gone; see `PodFolders`."""
        folder = self._layout.cache
        if folder is None:
            return None
        uid, fd = self._find(pod)
        os.close(fd)
        for left in folder.iterdir():
            if left.stem != uid and not (self._layout.pods / left.stem).is_dir():
                left.unlink(missing_ok=True)
        return folder / f"{uid}{_CACHE_SUFFIX}"

    def _find(self, pod: str) -> tuple[str, int]:
        """Return a pod's uid and its workspace, open.

        Raises:
            InvalidMessage: no pod is called so.
            Unavailable: it is not here, or nobody can tell which of two it is.
        """
        found: list[tuple[str, int]] = []
        try:
            for uid in self._uids(check_pod(pod)):
                with contextlib.suppress(FileNotFoundError):
                    found.append((uid, self._open(uid, f"{VOLUMES}/{WORKSPACE}", linux.DIRECTORY)))
        except OSError as exc:
            _close(found)
            raise Unavailable(f"pod {pod}: {_why(exc)}") from exc
        if len(found) == 1:
            return found[0]
        _close(found)
        if found:  # kubelet has not yet removed the former one of that name
            raise Unavailable(f"pod {pod} is on this node {len(found)} times")
        raise Unavailable(f"pod {pod} has no workspace on this node")

    def _uids(self, pod: str) -> list[str]:
        """Return the uids of all pods of a name that kubelet keeps logs of."""
        prefix = f"{self._layout.namespace}_{pod}_"
        with os.scandir(self._layout.pod_logs) as entries:
            ends = [one.name[len(prefix) :] for one in entries if one.name.startswith(prefix)]
        return [uid for uid in ends if _UID.fullmatch(uid)]

    def _open(self, uid: str, path: str, flags: int) -> int:
        """Open something of a pod: below kubelet's folder, through no link, on the same file system.

        Raises:
            OSError: it can't be.
        """
        pods = os.open(self._layout.pods, _FOLDER)
        try:
            return linux.open_beneath(pods, f"{uid}/{path}".encode(), flags)
        finally:
            os.close(pods)


def _why(error: OSError) -> str:
    if error.errno in (errno.EXDEV, errno.ELOOP, errno.ENOTDIR):
        return "its workspace is no plain folder of kubelet's: an emptyDir on the node's disk is expected"
    return f"{error.filename or 'its workspace'}: {error.strerror or error}"


def _close(found: list[tuple[str, int]]) -> None:
    for _, fd in found:
        os.close(fd)
