"""A sidecar for tests: runs what is asked for over a socket in the pod's directory. Started by the worker zygote by name."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

from sandbox_runner import protocol

PRELOADED: list[int] = []


def preload() -> None:
    """Note which process ran this."""
    PRELOADED.append(os.getpid())


def run_forked(
    spec: dict[str, Any], channel_fd: int, pod_dir: str, sandbox_pid: int, cgroup: str | None
) -> int:
    """Serve one client after the other until the sandbox is gone or `exit` is asked for; return the code."""
    folder = Path(pod_dir)
    channel = _Channel(socket.socket(fileno=channel_fd))
    hello = channel.wait_for(protocol.HELLO)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    draft = folder / "order.draft"
    server.bind(str(draft))
    server.listen(8)
    (folder / "facts.json").write_text(
        json.dumps(
            {
                "hello": json.loads(hello),
                "sandbox": spec["sandbox"],
                "sandbox_pid": sandbox_pid,
                "sidecar_pid": os.getpid(),
                "cgroup": cgroup,
                "preloaded_in": PRELOADED,
                "fds": sorted(int(path.name) for path in Path("/proc/self/fd").iterdir())[:-1],
                "ready_at": time.monotonic(),
            }
        )
    )
    draft.rename(folder / "order")
    while True:
        client, _ = server.accept()
        with client, client.makefile("rw") as stream:
            order = json.loads(stream.readline())
            if "exit" in order:
                return int(order["exit"])
            stream.write(json.dumps(channel.run(order)) + "\n")


class _Channel:
    """The sidecar's end of the pair."""

    def __init__(self, channel: socket.socket) -> None:
        self._socket = channel
        self._decoder = protocol.Decoder(protocol.TO_SIDECAR)
        self._frames: list[tuple[int, bytes]] = []
        self._tasks = 0

    def wait_for(self, kind: int) -> bytes:
        while True:
            got, payload = self._next()
            if got == kind:
                return payload

    def run(self, order: dict[str, Any]) -> dict[str, Any]:
        """Run one task; an answer with `lost` where the sandbox is gone."""
        self._tasks += 1
        task = f"task-{self._tasks}"
        timeout_s = order.pop("timeout_s", None)
        output = {protocol.STDOUT: b"", protocol.STDERR: b""}
        try:
            self._socket.sendall(
                protocol.encode(protocol.RUN, json.dumps({"task": task, **order}).encode())
            )
            self._socket.settimeout(timeout_s)
            while True:
                kind, payload = self._next()
                if kind in output:
                    output[kind] += payload
                    acked = protocol.cost_bytes(payload)
                    self._socket.sendall(protocol.encode_count(protocol.ACK_OUTPUT, acked))
                elif kind == protocol.EXIT:
                    end = json.loads(payload)
                    break
        except TimeoutError:
            end = {"late": True}
        except OSError as exc:
            end = {"lost": str(exc)}
        self._socket.settimeout(None)
        return {
            **end,
            "stdout": output[protocol.STDOUT].decode(errors="replace"),
            "stderr": output[protocol.STDERR].decode(errors="replace"),
        }

    def _next(self) -> tuple[int, bytes]:
        while not self._frames:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionResetError("the sandbox is gone")
            self._frames += self._decoder.feed(data)
        return self._frames.pop(0)
