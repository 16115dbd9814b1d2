"""A system that runs on Kubernetes, for one benchmark or test, which hears how far it is (`agent_sandbox.kubernetes.site`)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from agent_sandbox.kubernetes import site
from agent_sandbox.kubernetes.site import Site, declare, opened_policies, others, table_of, withdraw
from harness.running import say
from shared.pools import PoolSpec

__all__ = [
    "AUDIT_VARIABLE", "Site", "declare", "open_site", "opened_policies", "others", "table_of", "withdraw",
]  # fmt: skip
AUDIT_VARIABLE = "AGENT_SANDBOX_AUDIT_LOG"
"""Names the API server's audit log, where this machine can read it."""


def open_site(
    pools: Sequence[PoolSpec] = (), *, context: str | None = None
) -> AbstractAsyncContextManager[Site]:
    """Reach the system of the kubeconfig's context, with these pools beside its own; all is taken back at the end."""
    return site.open_site(pools, context=context, say=say)
