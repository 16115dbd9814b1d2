"""Renewing credentials on real servers: the workers', and a pool-manager's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pool_manager import app
from pool_manager.settings import PoolSettings
from shared import subjects
from shared.bus import Bus
from shared.cluster import Cluster
from shared.errors import OutcomeUnknown, Unavailable
from shared.identity import read_claims, roles, write_credential
from shared.messages import PodGone, decode, encode
from shared.renewals import RenewAnswer, RenewAsk
from shared.service import Stop
from shared.testing.look import until
from shared.testing.names import unique


async def renew(worker: Any, token: str = "") -> RenewAnswer:
    """Ask for a new JWT as a worker does."""
    spec = worker.spec
    ask = encode(RenewAsk(jwt=token or spec.credential.jwt))
    reply = await worker.bus.request(subjects.renew(spec.pool, spec.pod), ask, timeout_s=5)
    return decode(reply.data, RenewAnswer)


async def test_a_pod_is_renewed_while_it_is_wanted(start: Any, node: Any) -> None:
    """Warm in its slot, then as a session's owner; no more once its session is another's or it is gone."""
    await start("pm-1", worker_valid_s=120)
    warm, bound = await node.warm(2)
    session = unique("session")
    await bound.create(session)
    await node.warm(2)  # its slot has a successor

    for worker in (warm, bound):
        old = read_claims(worker.spec.credential.jwt)
        new = read_claims((await renew(worker)).jwt)
        assert (new["sub"], new["name"], new["nats"]) == (old["sub"], old["name"], old["nats"])
        assert new["exp"] >= old["exp"]
    await bound.finish(close=True)

    async def is_refused(worker: Any) -> bool:
        return (await renew(worker)).error is not None

    assert await until(lambda: is_refused(bound))
    assert not await is_refused(warm)
    gone = PodGone(pod=warm.spec.pod, node=warm.spec.node, cause="exited")
    await node.bus.publish(subjects.gone(warm.spec.pool, warm.spec.pod), encode(gone))
    assert await until(lambda: is_refused(warm))


async def test_nobody_is_renewed_under_a_key_that_is_not_its_own(start: Any, node: Any) -> None:
    """Another pod's token, or none."""
    await start("pm-1")
    first, second = await node.warm(2)
    for token in (second.spec.credential.jwt, "nonsense"):
        answer = await renew(first, token)
        assert answer.error is not None
        assert answer.error.code == "forbidden"


async def test_a_manager_whose_credential_ended_is_back_with_the_next(
    make_settings: Callable[..., PoolSettings],
    provisioned_cluster: Cluster,
    clean_bus: Bus,
    tmp_path: Path,
) -> None:
    """Its file was written anew too late: it is deaf for a while, and then serves again."""
    signer = provisioned_cluster.identity.signer
    settings = make_settings("pm-1", pools=[{"name": "default", "stock": 0}])

    def write(valid_s: float) -> None:
        minted = signer.mint("pm-1", roles.pool_manager("pm-1"), expires_s=valid_s)
        write_credential(tmp_path / "pm-1.creds", minted)

    async def serves() -> bool:
        try:
            await clean_bus.request(subjects.ask("acme", "pools"), timeout_s=2)
        except (Unavailable, OutcomeUnknown):
            return False
        return True

    async def is_deaf() -> bool:
        return not await serves()

    write(3)
    stop = Stop()
    running = asyncio.create_task(app.run(settings, stop))
    try:
        await until(serves)
        await until(is_deaf)

        write(60)

        await until(serves)
        assert not running.done()
    finally:
        stop.set("test over")
        await running
