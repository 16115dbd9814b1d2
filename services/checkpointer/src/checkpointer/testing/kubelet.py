"""A node's folders as kubelet lays them out, and a checkpointer that looks into them."""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path

from checkpointer.testing.live import Live
from shared.bus import Bus
from shared.cluster import Cluster
from shared.messages import encode
from shared.testing.names import unique
from shared.workspace import MARK, Mark

NAMESPACE = "workers"
UID, GID = 1000, 2000
"""Of a sandbox, and of the volumes it shares with its sidecar (`fsGroup`)."""
CAPABILITIES = ("chown", "dac_override", "fowner")
"""All that a checkpointer needs beside being uid 0: workspaces are another user's, who may shut them."""


class KubeletFolders:
    """Writes what kubelet writes."""

    def __init__(self, folder: Path) -> None:
        """Make kubelet's own two folders."""
        self.pods, self.logs = folder / "pods", folder / "pod-logs"
        for each in (self.pods, self.logs):
            each.mkdir(parents=True, exist_ok=True)
            each.chmod(0o750)

    def start(self, pod: str, *, namespace: str = NAMESPACE, volumes: bool = True) -> str:
        """Lay a pod out; return its uid."""
        uid = str(uuid.uuid4())
        (self.logs / f"{namespace}_{pod}_{uid}" / "sandbox").mkdir(parents=True)
        (self.pods / uid).mkdir(mode=0o750)
        if volumes:
            for name in ("workspace", "sidecar", "tmp"):
                self.volume(uid, name).mkdir(parents=True)
                if os.geteuid() == 0:
                    os.chown(self.volume(uid, name), 0, GID)
                self.volume(uid, name).chmod(0o2777)
                self.ready(uid, name).mkdir(parents=True)
                (self.ready(uid, name) / "ready").touch()
        return uid

    def volume(self, uid: str, name: str) -> Path:
        """Return where a volume of a pod lies."""
        return self.pods / uid / "volumes" / "kubernetes.io~empty-dir" / name

    def ready(self, uid: str, name: str) -> Path:
        """Return where it says that a volume of a pod is there; it removes that before anything in the volume."""
        return self.pods / uid / "plugins" / "kubernetes.io~empty-dir" / name


class KubeletLive(Live):
    """A node's checkpointer beside a kubelet; as root with no more rights than it has on a cluster."""

    def __init__(self, cluster: Cluster, folder: Path, bus: Bus) -> None:
        """Start nothing yet."""
        self.folders = KubeletFolders(folder)
        (folder / "cache").mkdir()
        self.cache = folder / "cache"
        self.uids: dict[str, str] = {}
        owner = (UID, GID) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
        super().__init__(
            cluster,
            folder,
            bus,
            NODE=f"{unique('node')[:32]}.internal",
            PODS="kubelet",
            POD_LOGS_DIR=str(self.folders.logs),
            PODS_NAMESPACE=NAMESPACE,
            CACHE_DIR=str(self.cache),
            WORKSPACE_UID=str(owner[0]),
            WORKSPACE_GID=str(owner[1]),
        )
        if os.geteuid() == 0:
            kept = ",".join(f"+{name}" for name in CAPABILITIES)
            rights = ["--no-new-privs", f"--bounding-set=-all,{kept}", "--inh-caps=-all"]
            self.command = ["setpriv", *rights, sys.executable, "-m", "checkpointer"]

    def workspace(self, pod: str) -> Path:
        """Return a pod's workspace; the pod is started where it is not there."""
        if pod not in self.uids:
            self.uids[pod] = self.folders.start(pod)
        return self.folders.volume(self.uids[pod], "workspace")

    def mark(self, pod: str, mark: Mark) -> None:
        """Say of a pod's workspace what is in it, as its sidecar does."""
        (self.folders.volume(self.uids[pod], "sidecar") / MARK).write_bytes(encode(mark))
