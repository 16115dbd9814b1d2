"""The services' probes: where they are, what they say, and a list of them for Prometheus."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import urlsplit

import msgspec

from agent_sandbox.embedded.folder import Folder, replace_file
from shared.metrics.declared import Service

ASK_S = 2.0
ANSWER_BYTES_MAX = 64 * 1024
TARGETS_FILE = "targets.json"
JOBS: dict[str, Service] = {
    "edge": "client-edge",
    "manager": "pool-manager",
    "node": "local-node",
    "checkpointer": "checkpointer",
    "gateway": "gateway",
}
"""Kind of a process -> what it is called in metrics."""


class ProbeView(msgspec.Struct, frozen=True, kw_only=True):
    """What one service says of itself."""

    url: str = ""
    """Where `/livez`, `/readyz` and `/metrics` are; empty: nowhere (yet)."""
    answers: bool = False
    live: bool = False
    ready: bool = False
    why: str = ""
    """Why it is not live, or not ready."""


def url_of(folder: Folder, name: str) -> str:
    """Return the URL of a service's probes; empty: it has none now."""
    try:
        return (folder.probes / name).read_text(encoding="ascii").strip()
    except OSError:
        return ""


def probe(url: str) -> ProbeView:
    """Ask a service whether it lives and is ready; takes ASK_S for each at most."""
    live = _ask(url, "/livez")
    if live is None:
        return ProbeView(url=url, why=f"no answer within {ASK_S:g} s")
    if live[0] != 200:
        return ProbeView(url=url, answers=True, why=live[1])
    ready = _ask(url, "/readyz")
    if ready is None:
        return ProbeView(url=url, why=f"no answer within {ASK_S:g} s")
    well = ready[0] == 200
    why = "" if well else "; ".join(ready[1].splitlines())
    return ProbeView(url=url, answers=True, live=True, ready=well, why=why)


def _ask(url: str, path: str) -> tuple[int, str] | None:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=ASK_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read(ANSWER_BYTES_MAX).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


async def probe_all(folder: Folder, names: Iterable[str]) -> dict[str, ProbeView]:
    """Ask all services at once."""

    async def one(name: str) -> ProbeView:
        url = url_of(folder, name)
        return await asyncio.to_thread(probe, url) if url else ProbeView(why="it is starting")

    wanted = tuple(names)
    return dict(zip(wanted, await asyncio.gather(*map(one, wanted)), strict=True))


def write_targets(folder: Folder, kinds: dict[str, str]) -> None:
    """Write where all metrics are, as Prometheus' `file_sd_configs` reads it; only when it has changed.

    Args:
        folder: the cluster's.
        kinds: name of each service -> its kind.
    """
    targets = [
        {
            "targets": [urlsplit(url).netloc],
            "labels": {"job": JOBS[kind], "instance": name},
        }
        for name, kind in sorted(kinds.items())
        if (url := url_of(folder, name))
    ]
    text = msgspec.json.format(msgspec.json.encode(targets))
    path = folder.probes / TARGETS_FILE
    with suppress(OSError):  # a full disk: it is written at the next look
        if not path.exists() or path.read_bytes() != text:
            replace_file(path, text, mode=0o644)
