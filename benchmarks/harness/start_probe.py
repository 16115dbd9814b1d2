"""A sidecar that only waits for its sandbox: what a node's start path costs by itself.

The node's worker zygote imports this module by name in place of the real sidecar. Few imports: it stands for nobody.
"""

from __future__ import annotations

import os
import socket
import struct
import time

HEAD = struct.Struct(">IB")
HELLO_FILE = "hello"
WAIT_S = 10.0


def run_forked(
    _spec: dict[str, object], channel_fd: int, pod_dir: str, _sandbox_pid: int, _cgroup: str | None
) -> int:
    """Wait for the sandbox's first frame, note the time, end.

    Returns:
        0; 1: the sandbox ended, or said nothing.
    """
    with socket.socket(fileno=channel_fd) as channel:
        channel.settimeout(WAIT_S)
        try:
            said = channel.recv(HEAD.size)
        except OSError:
            return 1
    if not said:
        return 1
    draft = f"{pod_dir}/.{HELLO_FILE}"
    with open(draft, "w") as file:  # noqa: PTH123 - pathlib would be imported for this alone
        file.write(str(time.time_ns()))
    os.rename(draft, f"{pod_dir}/{HELLO_FILE}")  # noqa: PTH104 - likewise
    return 0
