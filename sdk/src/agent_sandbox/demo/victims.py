"""Finding the process of a worker from outside: by its connection, as the servers and the kernel see it."""

from __future__ import annotations

from collections.abc import Iterable, Set
from pathlib import Path

from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.procs import ProcessId, descendants, identify
from shared.cluster import monitor, open_layout
from shared.cluster.ports import ServerPorts

_ESTABLISHED = "01"


def find_worker(folder: Folder, worker: str, supervisor_pid: int) -> ProcessId | None:
    """Return the process that holds a worker's connection to the servers, or None where there is none.

    Args:
        folder: the cluster's.
        worker: the worker's name, which is its connection's.
        supervisor_pid: all workers are below it.
    """
    sockets = sockets_of(open_layout(folder.servers).file.ports, worker)
    for process in descendants(supervisor_pid):
        if sockets & open_sockets(process.pid):
            return identify(process.pid)
    return None


def sockets_of(servers: Iterable[ServerPorts], name: str) -> set[str]:
    """Return the inodes of the sockets whose connections the servers know by this name."""
    ends = {(port, server.client) for server in servers for port in _ports_of(server.monitor, name)}
    return sockets_between(ends, Path("/proc/net/tcp").read_text()) if ends else set()


def _ports_of(monitor_port: int, name: str) -> set[int]:
    """Return the ports from which connections of that name come."""
    answer = monitor.ask(monitor_port, "/connz?limit=4096") or {}
    return {
        connection["port"]
        for connection in answer.get("connections") or []
        if connection.get("name") == name
    }


def sockets_between(ends: Set[tuple[int, int]], table: str) -> set[str]:
    """Return the inodes of the sockets that are connected from one local port to one remote port.

    A local port alone names no connection: the kernel gives it to several at once, to other remote ports.

    Args:
        ends: (local port, remote port) of each.
        table: as `/proc/net/tcp` shows it.
    """
    rows = [line.split() for line in table.splitlines()[1:]]
    return {
        row[9] for row in rows if row[3] == _ESTABLISHED and (_port(row[1]), _port(row[2])) in ends
    }


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def open_sockets(pid: int) -> set[str]:
    """Return the inodes of the sockets that a process has open; none where it is gone, or another user's."""
    try:
        links = [str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:  # gone, or another user's
        return set()
    return {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}
