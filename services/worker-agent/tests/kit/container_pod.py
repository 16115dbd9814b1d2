"""A pod without Kubernetes: the two containers' processes as their images start them, and whoever answers for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from shared import messages, subjects, task
from shared.bus import Bus, Message
from shared.cluster import Cluster
from shared.enrolment import SECRET_FILE, Enroll, Enrolled
from shared.errors import ErrorInfo
from shared.identity import roles, write_credential
from shared.messages import Credential, PodSpec
from shared.pools import PodLimits
from shared.testing.look import Look, until

POOL, NODE, TENANT = "default", "node.example", "t"
TOKEN = "token of the kubelet's"
DENY_NAMESPACES = (
    "import os, sys\n"
    "from confinement import linux, seccomp\n"
    "linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)\n"
    "rules = seccomp.build_filter(linux.MACHINE, own_namespaces=True, memory_bounded=True)\n"
    "linux.SeccompProgram(rules).install()\n"
    "os.execv(sys.argv[1], sys.argv[1:])\n"
)
"""What a container runtime's own profile does: no unshare, no namespaces by clone."""


class PodKit:
    """One pod's volumes and processes."""

    def __init__(self, folder: Path, cluster: Cluster, name: str) -> None:
        """Lay its volumes out."""
        self.name, self.cluster, self.folder = name, cluster, folder
        self.own, self.workspace = folder / "sidecar", folder / "workspace"
        self.socket, self.last_words = folder / "channel" / "runner.sock", folder / "last-words"
        enrol = folder / "enrol"
        for path in (self.own, self.workspace, self.socket.parent, enrol):
            path.mkdir()
        (enrol / "token").write_text(TOKEN)
        write_credential(
            enrol / SECRET_FILE, cluster.identity.signer.mint(roles.ENROLLER, roles.enroller())
        )
        self.running: list[subprocess.Popen[bytes]] = []

    def start_sidecar(self, **environ: str) -> subprocess.Popen[bytes]:
        """Start the sidecar's container, or start it again."""
        told = {
            "POD_NAME": self.name,
            "POD_UID": f"uid-of-{self.name}",
            "POD_NODE": NODE,
            "POD_POOL": POOL,
            "POD_ISOLATION": "oci",
            "POD_SERVERS": ",".join(self.cluster.urls),
            "POD_CHECKPOINTER": "false",
            "POD_ENROL_DIR": str(self.folder / "enrol"),
            "POD_OWN_DIR": str(self.own),
            "POD_SOCKET": str(self.socket),
            "POD_LAST_WORDS": str(self.last_words),
            "POD_WORKSPACE": str(self.workspace),
        }
        return self._start([sys.executable, "-m", "worker_agent.sidecar"], {**told, **environ})

    def start_sandbox(self, prefix: list[str]) -> subprocess.Popen[bytes]:
        """Start the sandbox's container, under a runtime's profile; `prefix` gives it a process namespace."""
        options = ["--connect", str(self.socket), "--workspace", str(self.workspace)]
        command = [
            sys.executable,
            "-m",
            "sandbox_init",
            *options,
            "--pids",
            "64",
            "--disk-mib",
            "64",
        ]
        return self._start([*prefix, sys.executable, "-c", DENY_NAMESPACES, *command], {})

    def _start(self, command: list[str], environ: dict[str, str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, env={"PATH": os.environ["PATH"], **environ})
        self.running.append(process)
        return process

    def end(self) -> None:
        """Kill what is left."""
        for process in self.running:
            process.kill()
            process.wait(10)


class Managers:
    """Answers for the pool-managers: what a pod asks, and with what."""

    def __init__(self, bus: Bus, cluster: Cluster) -> None:
        """Answer over a connection that may."""
        self._bus, self._cluster = bus, cluster
        self.asked: list[tuple[str, Enroll]] = []
        self.refusal: ErrorInfo | None = None
        self.silent = 0
        """Questions that nobody answers."""
        self.settings: dict[str, str] = {}

    async def serve(self) -> None:
        """Begin."""
        await self._bus.subscribe(subjects.enroll(), self._answer, queue=subjects.MANAGER_GROUP)

    async def _answer(self, message: Message) -> None:
        ask = messages.decode(message.data, Enroll)
        pod = message.subject.rpartition(".")[2]
        self.asked.append((pod, ask))
        if len(self.asked) <= self.silent:
            return
        answer = (
            Enrolled(error=self.refusal) if self.refusal else Enrolled(spec=self._spec(pod, ask))
        )
        await self._bus.publish(message.reply, messages.encode(answer))

    def _spec(self, pod: str, ask: Enroll) -> PodSpec:
        jwt = self._cluster.identity.worker_signer.vouch(ask.public_key, POOL, pod, valid_s=600)
        return PodSpec(
            pod=pod,
            pool=POOL,
            node="node_example",
            isolation="oci",
            limits=PodLimits(),
            credential=Credential(jwt=jwt, seed=""),
            servers=self._cluster.urls,
            settings=self.settings,
        )


async def publish(look: Look, session: str, shell: str, *, keep: bool = False) -> None:
    """Put a new session's first task into the queue, and ring until somebody has it."""
    body = task.encode_task(task.Command(shell=shell, keep=keep))
    lane = subjects.queue(0, TENANT, POOL, "interactive")
    await look.bus.publish_acked(lane, body, message_id=session)

    async def is_taken() -> bool:
        await look.bus.publish(subjects.bell(POOL, "interactive", 0))
        return await look.record(session) is not None

    await until(is_taken, within_s=15)
