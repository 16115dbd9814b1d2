"""What the Kubernetes API server had to do: writes from its audit log, by whom and what."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from harness.report import table
from harness.site import AUDIT_VARIABLE
from shared.testing import audit
from shared.testing.audit import Request


def audit_log() -> Path | None:
    """Return the audit log that the environment names; None: there is none here."""
    named = os.environ.get(AUDIT_VARIABLE, "")
    return Path(named) if named else None


def writes_between(
    log: Path, span_s: tuple[float, float], namespaces: Iterable[str], who_measures: str
) -> list[Request]:
    """Return the writes that concern us in a span of time.

    Args:
        log: the API server's.
        span_s: first and last moment, seconds since 1970.
        namespaces: ours.
        who_measures: user of our own requests, which are not counted.
    """
    found = audit.read(log, *span_s)
    return audit.writes(found, namespaces=namespaces, without=(who_measures,))


def of_pool(requests: Iterable[Request], pods_namespace: str, pool: str) -> list[Request]:
    """Return the writes without those about other pools' pods: a cluster is shared, and their pods come and go meanwhile."""
    return [
        one
        for one in requests
        if one.namespace != pods_namespace or not one.name or one.name.startswith(f"{pool}-")
    ]


def writes_table(title: str, requests: list[Request], claims: int) -> str:
    """Return the writes as a table, those of one kind in a line."""
    counts = audit.count(requests, lambda one: f"{_short(one.user)} {one.verb} {one.resource}")
    rows = [[kind, str(count), f"{count / claims:.2f}"] for kind, count in counts.items()]
    if not rows:
        return f"{title}: none"
    return f"{title}\n" + table(["who, verb, what", "writes", "for each claim"], rows)


def _short(user: str) -> str:
    """Return a user without what all have in common; nodes count as one."""
    if user.startswith("system:node:"):
        return "node"
    return user.removeprefix(audit.SERVICE_ACCOUNT).rpartition(":")[2]
