"""Pods' tokens: whose are believed, and whose are not."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from shared.errors import Forbidden, Unavailable
from shared.kube.client import KubeApi
from shared.kube.tokens import TokenVerifier
from shared.testing.api_server import ApiServer

ISSUER = "https://cluster"
AUDIENCE = "agent-sandbox"


class Issuer:
    """A cluster's signing key."""

    def __init__(self, key_id: str) -> None:
        """Make one."""
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.id = key_id

    def public(self) -> dict[str, Any]:
        """Return the key as the cluster shows it."""
        shown = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return {**shown, "kid": self.id, "alg": "RS256", "use": "sig"}

    def token(self, **changes: Any) -> str:
        """Return a pod's token."""
        now = int(time.time())
        bound = {
            "namespace": "pods",
            "serviceaccount": {"name": "worker", "uid": "s"},
            "pod": {"name": "default-0-1", "uid": "u"},
            "node": {"name": "n1", "uid": "m"},
        }
        claims = {
            "iss": ISSUER,
            "aud": [AUDIENCE],
            "iat": now,
            "exp": now + 600,
            "sub": "system:serviceaccount:pods:worker",
            "kubernetes.io": bound,
            **changes,
        }
        return jwt.encode(claims, self.key, algorithm="RS256", headers={"kid": self.id})


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    """The cluster's."""
    return Issuer("one")


@pytest.fixture
def verifier(server: ApiServer, api: KubeApi, issuer: Issuer) -> TokenVerifier:
    """Checks tokens of the cluster."""
    server.answers = [(200, {"issuer": ISSUER}), (200, {"keys": [issuer.public()]})]
    return TokenVerifier(api, AUDIENCE)


async def test_a_good_token_tells_its_pod_and_asks_the_server_once(
    server: ApiServer, verifier: TokenVerifier, issuer: Issuer
) -> None:
    """For its issuer and its keys."""
    proof = (await asyncio.gather(*(verifier.verify(issuer.token()) for _ in range(5))))[0]
    assert (proof.pod, proof.uid, proof.node) == ("default-0-1", "u", "n1")
    assert (proof.namespace, proof.service_account) == ("pods", "worker")
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": ["https://kubernetes.default.svc"]},
        {"iss": "https://elsewhere"},
        {"exp": int(time.time()) - 60},
        {"nbf": int(time.time()) + 600},
        {"sub": "system:serviceaccount:pods:other"},
        {"kubernetes.io": {"namespace": "pods", "serviceaccount": {"name": "worker"}}},
        {"kubernetes.io": None},
        {"exp": None},
    ],
)
async def test_a_token_that_is_not_for_us_is_refused(
    verifier: TokenVerifier, issuer: Issuer, changes: dict[str, Any]
) -> None:
    """Definitely: nobody asks again with it."""
    token = issuer.token(**{key: value for key, value in changes.items() if key != "exp" or value})
    if changes.get("exp", 0) is None:
        claims = jwt.decode(token, options={"verify_signature": False})
        del claims["exp"]
        token = jwt.encode(claims, issuer.key, algorithm="RS256", headers={"kid": issuer.id})
    with pytest.raises(Forbidden):
        await verifier.verify(token)


async def test_a_token_that_anybody_can_make_is_refused(
    server: ApiServer, verifier: TokenVerifier, issuer: Issuer
) -> None:
    """Unsigned, signed with the public key as a secret, by another's key, under a key's name that nobody has."""
    await verifier.verify(issuer.token())
    claims = jwt.decode(issuer.token(), options={"verify_signature": False})
    forger = Issuer("one")
    head = {"kid": "one"}
    forged = [
        jwt.encode(claims, None, algorithm="none", headers=head),
        jwt.encode(claims, issuer.public()["n"], algorithm="HS256", headers=head),
        forger.token(),
        Issuer("two").token(),
        Issuer("three").token(),
        "",
        "a.b.c",
        "x" * 100_000,
    ]
    for token in forged:
        with pytest.raises(Forbidden):
            await verifier.verify(token)
    assert len(server.asked) == 2  # keys that nobody has are not asked for again at once


async def test_a_new_key_of_the_cluster_is_read_when_it_is_met(
    server: ApiServer, verifier: TokenVerifier, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signing keys are changed while pods run."""
    monkeypatch.setattr("shared.kube.tokens.ASK_AGAIN_S", 0.0)
    await verifier.verify(issuer.token())
    newer = Issuer("two")
    server.answers = [(200, {"keys": [newer.public(), issuer.public()]})]
    assert (await verifier.verify(newer.token())).pod == "default-0-1"
    assert (await verifier.verify(issuer.token())).pod == "default-0-1"


@pytest.mark.parametrize("status", [403, 404, 500])
async def test_keys_that_cannot_be_read_are_not_the_pods_fault(
    server: ApiServer, verifier: TokenVerifier, issuer: Issuer, status: int
) -> None:
    """It asks again, and is heard when they can be."""
    good, server.answers = server.answers, [(status, {"message": "no"})]
    with pytest.raises(Unavailable, match="the cluster's keys cannot be read"):
        await verifier.verify(issuer.token())
    server.answers = good
    assert (await verifier.verify(issuer.token())).uid == "u"
