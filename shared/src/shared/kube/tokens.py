"""Service account tokens of pods, checked without asking the API server each time.

The cluster signs them; its public keys are read once and kept. A token of a pod that is gone stays good until it ends,
so whoever asks about a pod checks also that the pod is there.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, TypeVar

import jwt
import msgspec

from shared.errors import Forbidden, ServiceError, Unavailable
from shared.kube.client import KubeApi

ALGORITHMS = ("RS256", "ES256", "ES384", "ES512", "EdDSA")
"""Public-key signatures alone: with a shared key whoever checks could also sign."""
LEEWAY_S = 10.0
"""Between the clocks of the API server and this process."""
ASK_AGAIN_S = 5.0
"""An unknown key is asked for at most so often: anybody may name one."""
TOKEN_BYTES_MAX = 16 << 10

T = TypeVar("T")


class PodProof(msgspec.Struct, frozen=True, kw_only=True):
    """What a good token says of its pod."""

    pod: str
    uid: str
    namespace: str
    service_account: str
    node: str = ""
    """Empty: the cluster is too old to say it."""


class _Named(msgspec.Struct):
    name: str
    uid: str = ""


class _Bound(msgspec.Struct):
    """The claim `kubernetes.io`."""

    namespace: str
    serviceaccount: _Named
    pod: _Named
    node: _Named | None = None


class _Discovery(msgspec.Struct):
    issuer: str


class TokenVerifier:
    """Checks signature, issuer, audience and time."""

    def __init__(self, api: KubeApi, audience: str, issuer: str = "") -> None:
        """Take keys from this cluster.

        Args:
            api: its API server.
            audience: whom the tokens must be for.
            issuer: whose they must be; empty: whom the API server names.
        """
        self._api = api
        self._audience = audience
        self._issuer = issuer
        self._keys: dict[str, jwt.PyJWK] = {}
        self._asked_at = float("-inf")
        self._asking = asyncio.Lock()

    async def verify(self, token: str) -> PodProof:
        """Return whose token this is.

        Raises:
            Forbidden: not a good one, for a reason that is named.
            Unavailable: the keys could not be read; the token may be good.
        """
        if len(token) > TOKEN_BYTES_MAX:
            raise Forbidden("no token: it is too long")
        try:
            key_id = jwt.get_unverified_header(token).get("kid", "")
        except jwt.PyJWTError as exc:
            raise Forbidden(f"no token: {exc}") from exc
        key = await self._key(str(key_id))
        try:
            claims = jwt.decode(
                token,
                key=key,
                algorithms=list(ALGORITHMS),
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as exc:
            raise Forbidden(f"the token is refused: {exc}") from exc
        return _proof(claims)

    async def _key(self, key_id: str) -> jwt.PyJWK:
        if key_id not in self._keys:
            async with self._asking:
                if key_id not in self._keys:
                    await self._read_keys()
        try:
            return self._keys[key_id]
        except KeyError:
            raise Forbidden("the token is signed by a key that is not the cluster's") from None

    async def _read_keys(self) -> None:
        now = time.monotonic()
        if now - self._asked_at < ASK_AGAIN_S:
            return
        try:
            if not self._issuer:
                data = await self._api.get("/.well-known/openid-configuration")
                self._issuer = _decoded(data, _Discovery).issuer
            keys = _decoded(await self._api.get("/openid/v1/jwks"), dict[str, Any])
            self._keys = {str(key.key_id): key for key in jwt.PyJWKSet.from_dict(keys).keys}
        except (
            ServiceError,
            jwt.PyJWTError,
        ) as exc:  # a right that is missing here is not the pod's fault
            raise Unavailable(f"the cluster's keys cannot be read: {exc}") from exc
        self._asked_at = now


def _proof(claims: dict[str, Any]) -> PodProof:
    try:
        bound = msgspec.convert(claims.get("kubernetes.io"), _Bound)
    except msgspec.ValidationError as exc:
        raise Forbidden(f"the token is bound to no pod: {exc}") from exc
    if claims["sub"] != f"system:serviceaccount:{bound.namespace}:{bound.serviceaccount.name}":
        raise Forbidden("the token contradicts itself")
    return PodProof(
        pod=bound.pod.name,
        uid=bound.pod.uid,
        namespace=bound.namespace,
        service_account=bound.serviceaccount.name,
        node=bound.node.name if bound.node else "",
    )


def _decoded(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as exc:
        raise Unavailable(f"the Kubernetes API says what cannot be read: {exc}") from exc
