"""A pod on a real cluster asks for its credential, and others ask in its name. The tokens are the API server's own."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from shared import messages, subjects
from shared.bus import Bus
from shared.enrolment import AUDIENCE, Enroll, Enrolled
from shared.identity import read_claims, roles
from shared.identity.keys import make_key
from shared.kube.client import KubeApi
from shared.testing.look import until
from shared.testing.plugin import Connect

pytestmark = pytest.mark.kubernetes
WITHIN_S = 40.0
OWN = {"name": "default", "stock": 2, "isolation": "oci"}
Ask = Callable[..., Awaitable[Enrolled]]


class Asker:
    """Asks as pods do, with tokens that the cluster gives for them."""

    def __init__(self, api: KubeApi, namespace: str, bus: Bus) -> None:
        """Ask over `bus`, which has the rights of a new pod."""
        self._api = api
        self._base = f"/api/v1/namespaces/{namespace}"
        self._bus = bus
        self.key = make_key("user")

    async def pod(self, name: str) -> dict[str, Any]:
        """Return a pod's object."""
        found: dict[str, Any] = json.loads(await self._api.get(f"{self._base}/pods/{name}"))
        return found

    async def token(
        self,
        pod: dict[str, Any] | None,
        *,
        audience: str = AUDIENCE,
        account: str = "agent-sandbox-worker",
    ) -> str:
        """Return what the kubelet would write for a pod; None: a token of no pod."""
        spec: dict[str, Any] = {"audiences": [audience], "expirationSeconds": 600}
        if pod is not None:
            meta = pod["metadata"]
            bound = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
            spec["boundObjectRef"] = bound
        path = f"{self._base}/serviceaccounts/{account}/token"
        made = json.loads(await self._api.create(path, {"spec": spec}))
        return str(made["status"]["token"])

    async def ask(self, pod: dict[str, Any], *, name: str = "", **changes: Any) -> Enrolled:
        """Ask for a pod's credential; return the answer."""
        given = {
            "token": "",
            "public_key": self.key.public,
            "node": pod["spec"].get("nodeName", "nowhere"),
            "pod_uid": pod["metadata"]["uid"],
            **changes,
        }
        if not given["token"]:
            given["token"] = await self.token(pod)
        subject = subjects.enroll("default", name or pod["metadata"]["name"])

        async def answer() -> Enrolled | None:
            reply = await self._bus.request(subject, messages.encode(Enroll(**given)), timeout_s=5)
            enrolled = messages.decode(reply.data, Enrolled)
            later = enrolled.error is not None and enrolled.error.code == "unavailable"
            return None if later else enrolled

        answered: Enrolled = await until(answer, within_s=WITHIN_S)
        return answered


@pytest.fixture
async def asker(api: KubeApi, namespace: str, connect: Connect) -> Asker:
    """Asks as new pods do."""
    return Asker(api, namespace, await connect(roles.enroller(), name=roles.ENROLLER))


@pytest.fixture
async def two(begin: Any, pods: Any, asker: Asker) -> list[dict[str, Any]]:
    """Two pods of a pool, on their nodes."""
    await begin("pm-1", pools=[OWN])
    await until(lambda: pods.there(2), within_s=WITHIN_S)

    async def placed() -> list[dict[str, Any]]:
        found = [await asker.pod(name) for name in await pods.there(2)]
        return found if len(found) == 2 and all("nodeName" in p["spec"] for p in found) else []

    both: list[dict[str, Any]] = await until(placed, within_s=WITHIN_S)
    return both


async def test_a_pod_gets_a_credential_for_its_own_key_and_works_with_it(
    two: list[dict[str, Any]], asker: Asker, connect: Connect
) -> None:
    """No seed travels; with its own seed the pod is the worker of its name, and no other one."""
    pod = two[0]
    name = pod["metadata"]["name"]
    spec = (await asker.ask(pod)).spec
    assert spec is not None
    assert (spec.pod, spec.pool, spec.isolation) == (name, "default", "oci")
    assert spec.node == pod["spec"]["nodeName"]
    assert spec.servers == ("nats://10.213.0.1:4222",)
    assert spec.credential.seed == ""
    assert read_claims(spec.credential.jwt)["sub"] == asker.key.public
    assert "WORKER_IDLE_RELEASE_S" in spec.settings
    again = (await asker.ask(pod)).spec
    assert again is not None
    assert read_claims(again.credential.jwt)["sub"] == asker.key.public


async def test_a_pod_gets_a_credential_for_one_key_alone(
    two: list[dict[str, Any]], asker: Asker, begin: Any
) -> None:
    """Who steals its token later gets nothing, whichever pool-manager is asked."""
    await begin("pm-2", pools=[OWN])
    assert (await asker.ask(two[0])).spec is not None
    for _ in range(6):
        error = (await asker.ask(two[0], public_key=make_key("user").public)).error
        assert error is not None
        assert error.code == "forbidden"
        assert "another key" in error.message


async def test_what_proves_another_pod_proves_nothing(
    two: list[dict[str, Any]], asker: Asker, api: KubeApi, namespace: str, pods: Any
) -> None:
    """Each refusal is definite, says why, and binds no slot: the pod itself is enrolled after all of them."""
    mine, other = two
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await api.create(accounts, {"metadata": {"name": "else"}})
    stranger = {
        "metadata": {"name": "stranger"},
        "spec": {
            "serviceAccountName": "else",
            "containers": [{"name": "c", "image": "nowhere.invalid/none:1"}],
        },
    }
    made = json.loads(await api.create(pods.path, stranger))
    good = await asker.token(mine)
    head, body, signature = good.split(".")
    changed = ("A" if signature[0] != "A" else "B") + signature[1:]
    wrong: dict[str, dict[str, Any]] = {
        "token is that of pod": {"token": await asker.token(other)},
        "token is that of pod ": {"pod_uid": other["metadata"]["uid"], "token": good},
        "on ": {"node": "elsewhere", "token": good},
        "Audience": {"token": await asker.token(mine, audience="somebody")},
        "bound to no pod": {"token": await asker.token(None)},
        "no token": {"token": "a.b.c"},
        "refused": {"token": f"{head}.{body}.{changed}"},
        "runs no workers": {"token": await asker.token(made, account="else")},
        "no public key": {"public_key": make_key("account").public, "token": good},
    }
    for why, change in wrong.items():
        error = (await asker.ask(mine, **change)).error
        assert error is not None, why
        assert error.definite, why
        assert why.strip() in error.message
    assert (await asker.ask(mine)).spec is not None


async def test_a_pod_that_no_slot_names_gets_nothing(
    two: list[dict[str, Any]], asker: Asker, api: KubeApi, pods: Any
) -> None:
    """Whoever may make pods in the namespace still makes no worker."""
    name = "default-0-77"
    labels = two[0]["metadata"]["labels"]
    spec = {
        "nodeName": two[0]["spec"]["nodeName"],
        "serviceAccountName": "agent-sandbox-worker",
        "containers": [{"name": "c", "image": "nowhere.invalid/none:1"}],
    }
    made = json.loads(
        await api.create(pods.path, {"metadata": {"name": name, "labels": labels}, "spec": spec})
    )
    error = (await asker.ask(made)).error
    assert error is not None
    assert error.code == "forbidden"
    assert "no slot" in error.message


async def test_a_pod_that_was_told_to_end_gets_nothing(
    two: list[dict[str, Any]], asker: Asker, api: KubeApi, pods: Any, connect: Connect
) -> None:
    """Its slot has, or gets, another one."""
    pod = two[0]
    token = await asker.token(pod)
    await api.delete(f"{pods.path}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
    answer = await asker.ask(pod, token=token, node=pod["spec"]["nodeName"])
    assert answer.spec is None
