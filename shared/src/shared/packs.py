"""Subjects under which packs of workspaces lie in streams of the NATS servers.

All of a pack lies in one shard, which its writer has chosen.
"""

from __future__ import annotations


def stream(shard: int) -> str:
    """Name of a stream of packs."""
    return f"W{shard}"


def subject(shard: int, tenant: str, session: str, name: str, part: str) -> str:
    """One part of a pack of a session: `head` tells its size; `0`, `1`, … are its bytes in order."""
    return f"pack.{shard}.{tenant}.{session}.{name}.{part}"


def parse(text: str) -> tuple[str, str, str]:
    """Return (tenant, session, name) of a pack's subject."""
    tenant, session, name, _ = text.split(".")[-4:]
    return tenant, session, name
