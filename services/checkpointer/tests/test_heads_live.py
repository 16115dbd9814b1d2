"""Workspace heads on real servers, as a checkpointer's role may handle them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from checkpointer.adapters.heads import StreamHeads
from shared.errors import Conflict
from shared.identity import roles
from shared.testing.names import unique
from shared.testing.plugin import Connect
from shared.testing.wait import until
from shared.workspace import WorkspaceHead


def head_of(session: str) -> WorkspaceHead:
    """Return a workspace head."""
    return WorkspaceHead(session=session, tenant="acme", pool="default")


async def test_a_head_changes_by_compare_and_set_and_goes_for_good(connect: Connect) -> None:
    """Whoever has read an older one, or none, neither writes nor removes it."""
    heads = StreamHeads(await connect(roles.checkpointer("n1"), name="ckpt-n1"))
    session = unique("session")
    assert await heads.read("acme", session) == (None, 0)
    first = await heads.write(head_of(session), 0)
    with pytest.raises(Conflict):
        await heads.write(head_of(session), 0)
    newer = replace(head_of(session), gc_seq=1)
    second = await heads.write(newer, first)
    with pytest.raises(Conflict):
        await heads.write(head_of(session), first)

    assert await heads.read("acme", session) == (newer, second)
    assert await heads.read("other", session) == (None, 0)

    async def listed(wanted: list[int]) -> bool:  # a replica may be a moment behind
        found = [one async for one in heads.list()]
        return [seq for head, seq in found if head.session == session] == wanted

    await until(lambda: listed([second]))
    await heads.remove(newer, first)
    assert await heads.read("acme", session) == (newer, second)
    await heads.remove(newer, second)
    assert await heads.read("acme", session) == (None, 0)
    await until(lambda: listed([]))
