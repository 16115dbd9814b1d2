"""Changing a workspace head: read, decide, compare-and-set; again a few times where somebody else was faster."""

from __future__ import annotations

from collections.abc import Callable

from checkpointer.ports.collecting import Heads
from shared.errors import Conflict, NotFound, OutcomeUnknown
from shared.workspace import WorkspaceHead

TRIES_MAX = 8


async def change_head(
    heads: Heads, tenant: str, session: str, change: Callable[[WorkspaceHead], WorkspaceHead]
) -> WorkspaceHead:
    """Write what `change` makes of a head, and return it; nothing is written where it makes the same.

    `change` must come to the same when it is applied to its own result: a write that was not answered is looked for.

    Raises:
        NotFound: the session has no workspace.
        Conflict: others were faster, again and again.
        ServiceError: what `change` raises; no leader.
    """
    for _ in range(TRIES_MAX):
        head, seq = await heads.read(tenant, session)
        if head is None:
            raise NotFound(f"session {session} has no workspace")
        changed = change(head)
        if changed == head:
            return head
        try:
            await heads.write(changed, seq)
        except (Conflict, OutcomeUnknown):
            continue
        return changed
    raise Conflict(f"workspace of session {session}: {TRIES_MAX} writes lost against others")
