"""The API server of a real cluster is not reached for a while: nothing is refused or closed, nothing comes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
import yaml

from shared import messages, subjects
from shared.bus import Bus
from shared.kube.client import KubeApi
from shared.testing.look import until
from shared.testing.relay import Link, Relay
from shared.views import PoolsAnswer

pytestmark = pytest.mark.kubernetes
WITHIN_S = 60.0
POOL = {"name": "default", "stock": 2, "isolation": "oci"}


class Cable:
    """Between pool-managers and the API server."""

    def __init__(self, relay: Relay, link: Link, kubeconfig: str) -> None:
        """Join them."""
        self._relay, self._link, self.kubeconfig = relay, link, kubeconfig

    def cut(self) -> None:
        """Let nothing through."""
        self._relay.do(self._link.cut)

    def heal(self) -> None:
        """Let all through."""
        self._relay.do(self._link.heal)


@pytest.fixture
def cable(kubeconfig: str, tmp_path: Path) -> Iterator[Cable]:
    """A way to the API server that can be cut, and a kubeconfig that leads over it."""
    config = yaml.safe_load(Path(kubeconfig).read_text())
    context = next(c for c in config["contexts"] if c["name"] == config["current-context"])
    named = next(c for c in config["clusters"] if c["name"] == context["context"]["cluster"])
    place = urlparse(named["cluster"]["server"])
    assert place.hostname is not None
    relay = Relay()
    link = relay.link(place.port or 443, place.hostname)
    named["cluster"]["server"] = f"https://127.0.0.1:{link.port}"
    named["cluster"]["tls-server-name"] = place.hostname
    (tmp_path / "cut.kubeconfig").write_text(json.dumps(config))
    yield Cable(relay, link, str(tmp_path / "cut.kubeconfig"))
    relay.do(link.heal)
    relay.close()


async def test_what_happened_in_an_outage_is_seen_after_it(
    begin: Any, pods: Any, api: KubeApi, cable: Cable, clean_bus: Bus
) -> None:
    """Meanwhile the status says what is wrong; then the pods that are missing are made anew, and no others."""

    async def reason() -> str:
        reply = await clean_bus.request(subjects.ask("t", "pools"), b"{}", timeout_s=5)
        return messages.decode(reply.data, PoolsAnswer).pools[0].reason

    await begin("pm-1", pools=[POOL], kubeconfig=cable.kubeconfig)
    first = await until(lambda: pods.there(2), within_s=WITHIN_S)

    async def knows_both() -> bool:
        """One that it has not seen yet it would make again, under the same name."""
        return (await reason()).startswith("2 pods do not start")

    await until(knows_both, within_s=WITHIN_S)
    cable.cut()
    await api.delete(f"{pods.path}/{first[0]}", {"gracePeriodSeconds": 0})

    async def nodes_say() -> bool:
        reply = await clean_bus.request(subjects.ask("t", "pools"), b"{}", timeout_s=5)
        (node,) = messages.decode(reply.data, PoolsAnswer).nodes
        return "Kubernetes API" in node.isolation["oci"]

    await until(nodes_say, within_s=WITHIN_S)
    assert await pods.there(1) == [first[1]]
    cable.heal()
    after = await until(lambda: pods.there(2), within_s=WITHIN_S)
    assert first[1] in after
    assert first[0] not in after

    async def content() -> bool:
        return not await reason() or "nowhere.invalid" in await reason()

    await until(content, within_s=WITHIN_S)
