"""Servers of the host that tell a secret to whoever comes, for attacks that try to reach them from a sandbox."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ACCEPT_S = 0.1


class Servers(NamedTuple):
    """Where the host's servers are."""

    tcp_port: int
    unix_path: str
    abstract: str


@contextmanager
def secret_servers(folder: Path, secret: bytes) -> Iterator[Servers]:
    """Serve a secret on loopback, on a Unix socket by its path, and on an abstract one."""
    path, name = folder / "host.sock", f"agent-sandbox-secret-{os.getpid()}"
    tcp = socket.create_server(("127.0.0.1", 0))
    by_path, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    by_path.bind(str(path))
    path.chmod(0o777)
    abstract.bind(f"\0{name}")
    stop = threading.Event()

    def serve(server: socket.socket) -> None:
        server.settimeout(ACCEPT_S)
        while not stop.is_set():
            try:
                client, _ = server.accept()
            except TimeoutError:
                continue
            with client:
                client.sendall(secret)

    servers = (tcp, by_path, abstract)
    for server in (by_path, abstract):
        server.listen(8)
    threads = [threading.Thread(target=serve, args=(server,)) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield Servers(tcp.getsockname()[1], str(path), name)
    finally:
        stop.set()
        for thread, server in zip(threads, servers, strict=True):
            thread.join(5)
            server.close()
        path.unlink()
