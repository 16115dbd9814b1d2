"""The host's side of an attack: servers that tell a secret, and finding a process of a sandbox."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

SECRET = b"secret of the host"
ACCEPT_S = 0.1


class Servers(NamedTuple):
    """Where the host's servers are."""

    tcp_port: int
    unix_path: str
    abstract: str


@contextmanager
def secret_servers(folder: Path) -> Iterator[Servers]:
    """Serve a secret on loopback, on a Unix socket by its path, and on an abstract one."""
    path, name = folder / "host.sock", f"agent-sandbox-lab-{os.getpid()}"
    tcp = socket.create_server(("127.0.0.1", 0))
    by_path, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    by_path.bind(str(path))
    path.chmod(0o777)
    abstract.bind(f"\0{name}")
    stop = threading.Event()

    def serve(server: socket.socket) -> None:
        server.listen(8)
        server.settimeout(ACCEPT_S)
        while not stop.is_set():
            try:
                client, _ = server.accept()
            except TimeoutError:
                continue
            with client:
                client.sendall(SECRET)

    threads = [threading.Thread(target=serve, args=(one,)) for one in (tcp, by_path, abstract)]
    for thread in threads:
        thread.start()
    try:
        yield Servers(tcp.getsockname()[1], str(path), name)
    finally:
        stop.set()
        for thread, server in zip(threads, (tcp, by_path, abstract), strict=True):
            thread.join(5)
            server.close()


def find_process(mark: str) -> int | None:
    """Return the process that has a word in its command line; None: there is none, or we may not look."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                    return int(entry.name)
            except OSError:
                continue
    return None
