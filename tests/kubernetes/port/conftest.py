"""Pool-managers in this process, whose pods a real cluster runs: in a namespace of each test's own."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pool_manager import app
from pool_manager.settings import PoolSettings
from shared.bus import Bus
from shared.cluster import Cluster
from shared.identity import Credential, roles, write_credential, write_secret
from shared.ids import SHARDS
from shared.kube.client import Access, KubeApi, open_api
from shared.service import Stop
from shared.testing.look import until
from shared.testing.names import unique

STREAMS = [f"{kind}{shard}" for kind in ("", "I", "Q", "P") for shard in range(SHARDS)]
IMAGE = "nowhere.invalid/none:1"
"""These pods do nothing: they wait for an image for ever."""
Begin = Callable[..., Awaitable[Stop]]


@pytest.fixture
def kubeconfig() -> str:
    """The cluster."""
    if not (path := os.environ.get("KUBECONFIG")):
        pytest.skip("no KUBECONFIG names a cluster")
    return path


@pytest.fixture
async def api(kubeconfig: str) -> AsyncIterator[KubeApi]:
    """Its API."""
    async with open_api(Access(kubeconfig=kubeconfig)) as made:
        yield made


@pytest.fixture
async def namespace(api: KubeApi) -> AsyncIterator[str]:
    """A namespace with the workers' service account; gone after the test, its pods too."""
    name = unique("port")
    await api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    account = {"metadata": {"name": "agent-sandbox-worker"}}
    await api.create(f"/api/v1/namespaces/{name}/serviceaccounts", account)
    secret = {"metadata": {"name": "agent-sandbox-enroller"}, "stringData": {"enroller.creds": "x"}}
    await api.create(f"/api/v1/namespaces/{name}/secrets", secret)
    yield name
    await api.delete(f"/api/v1/namespaces/{name}")


class Pods:
    """The pods of a namespace, as the API has them."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        """Look at one namespace."""
        self.api = api
        self.path = f"/api/v1/namespaces/{namespace}/pods"

    async def all(self) -> dict[str, dict[str, Any]]:
        """Return pods by name."""
        listed = json.loads(await self.api.get(self.path))
        return {pod["metadata"]["name"]: pod for pod in listed["items"]}

    async def there(self, count: int) -> list[str]:
        """Return the names of those that were not told to end, if they are so many."""
        names = sorted(await self.uids())
        return names if len(names) == count else []

    async def uids(self) -> dict[str, str]:
        """Return the uids of all that were not told to end."""
        return {
            name: pod["metadata"]["uid"]
            for name, pod in (await self.all()).items()
            if "deletionTimestamp" not in pod["metadata"]
        }

    async def has_quota(self, path: str) -> bool:
        """Return whether the quotas at `path` are in force."""
        listed = json.loads(await self.api.get(path))["items"]
        return bool(listed) and all(each.get("status", {}).get("hard") for each in listed)


@pytest.fixture
def pods(api: KubeApi, namespace: str) -> Pods:
    """The pods of the test's namespace."""
    return Pods(api, namespace)


@pytest.fixture
async def clean_bus(admin_bus: Bus) -> Bus:
    """A connection that may do everything, to streams that hold nothing."""
    for stream in STREAMS:
        await admin_bus.js_api(f"STREAM.PURGE.{stream}", {})
    return admin_bus


@pytest.fixture
def make_settings(
    provisioned_cluster: Cluster, tmp_path: Path, kubeconfig: str, namespace: str
) -> Callable[..., PoolSettings]:
    """Return a function that writes a pool-manager's files."""

    def make(name: str, **changes: Any) -> PoolSettings:
        pools = changes.pop("pools", [{"name": "default", "stock": 2, "isolation": "oci"}])
        template = {
            "namespace": namespace,
            "worker_image": IMAGE,
            "sandbox_image": IMAGE,
            "nats_servers": ["nats://10.213.0.1:4222"],
            **changes.pop("template", {}),
        }
        folder = tmp_path
        (folder / "template.toml").write_text(_toml(template))
        (folder / "pools.toml").write_text("".join(f"[[pool]]\n{_toml(pool)}" for pool in pools))
        identity = provisioned_cluster.identity
        write_secret(folder / "signer.json", msgspec.json.encode(identity.worker_signer).decode())

        def credential(user: str, made: Credential) -> str:
            write_credential(folder / f"{user}.creds", made)
            return str(folder / f"{user}.creds")

        return PoolSettings(
            nats_servers=provisioned_cluster.urls,
            name=name,
            credential_file=credential(name, identity.signer.mint(name, roles.pool_manager(name))),
            signer_file=str(folder / "signer.json"),
            pools_file=str(folder / "pools.toml"),
            ready_file=str(folder / f"{name}.ready"),
            log_level="debug",
            pods="kubernetes",
            kubernetes_file=str(folder / "template.toml"),
            kubeconfig=changes.pop("kubeconfig", kubeconfig),
            **changes,
        )

    return make


def _toml(table: dict[str, Any]) -> str:
    return "".join(
        f"{key} = {msgspec.json.encode(value).decode()}\n" for key, value in table.items()
    )


@pytest.fixture
async def begin(make_settings: Callable[..., PoolSettings], clean_bus: Bus) -> AsyncIterator[Begin]:
    """Return a function that starts a pool-manager in this process: `await begin("pm-1", pools=[…])`."""
    running: list[tuple[Stop, asyncio.Task[None]]] = []

    async def make(name: str, **changes: Any) -> Stop:
        settings = make_settings(name, **changes)
        stop = Stop()
        task = asyncio.create_task(app.run(settings, stop))
        running.append((stop, task))
        assert settings.ready_file
        ready = Path(settings.ready_file)
        await until(lambda: ready.exists() or task.done())
        assert not task.done(), task.exception()
        return stop

    yield make
    for stop, _ in running:
        stop.set("test over")
    for _, task in running:
        await asyncio.wait_for(task, 10)
