"""What the servers say about themselves on their monitoring ports."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Mapping
from typing import Any

import msgspec

from shared.cluster.ports import LOOPBACK

ASK_TIMEOUT_S = 2.0


def ask(port: int, path: str, *, host: str = LOOPBACK) -> dict[str, Any] | None:
    """Return a monitoring endpoint's answer; None: the server does not answer (yet)."""
    connection = http.client.HTTPConnection(host, port, timeout=ASK_TIMEOUT_S)
    try:
        connection.request("GET", path)
        answer: dict[str, Any] = msgspec.json.decode(
            connection.getresponse().read(), type=dict[str, Any]
        )
    except (OSError, http.client.HTTPException, msgspec.DecodeError, msgspec.ValidationError):
        return None
    else:
        return answer
    finally:
        connection.close()


def accepts(port: int) -> bool:
    """Return whether something takes connections on a loopback port; a process that hangs does."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=ASK_TIMEOUT_S):
            return True
    except OSError:
        return False


def what_is_missing(places: Mapping[str, tuple[str, int]]) -> str | None:
    """Return what keeps the cluster from being ready; None: it is ready.

    Args:
        places: name of each server -> host and port of its monitoring.
    """
    for name, (host, port) in places.items():
        state = ask(port, "/jsz?accounts=true&streams=true", host=host)
        if state is None:
            return f"{name} does not answer"
        meta = state.get("meta_cluster") or {}
        if not meta.get("leader"):
            return f"{name} knows no leader of the cluster"
        if meta.get("cluster_size") != len(places):
            return f"{name} sees {meta.get('cluster_size')} of {len(places)} servers"
        # Followers do not know how far other followers are: only the leader's view counts.
        peers = (meta.get("replicas") or []) if meta["leader"] == name else []
        late = [peer["name"] for peer in peers if not peer.get("current")]
        if late:
            return f"{', '.join(late)} not up to date"
        leaderless = _leaderless(state)
        if leaderless:
            return f"no leader for {', '.join(leaderless)}"
        health = ask(port, "/healthz", host=host)
        if health is None or health.get("status") != "ok":
            return f"{name} is not healthy: {(health or {}).get('error', 'no answer')}"
    return None


def _leaderless(state: dict[str, Any]) -> list[str]:
    return [
        stream["name"]
        for account in state.get("account_details") or []
        for stream in account.get("stream_detail") or []
        if not (stream.get("cluster") or {}).get("leader")
    ]
