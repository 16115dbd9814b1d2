"""Asking the pool-managers for the pod's own credential: again and again under the same key, until a deadline."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import msgspec

from shared import identity, logs, messages, subjects
from shared.bus import Bus, BusOptions
from shared.bus.types import Tls
from shared.enrolment import SECRET_FILE, Enroll, Enrolled
from shared.errors import Rejected, ServiceError, Unavailable, error_of
from shared.identity.roles import ENROLLER
from shared.messages import Credential, PodSpec
from worker_agent.sidecar.settings import SidecarSettings

log = logs.get(__name__)

ASK_S = 2.0
"""Longest wait for one answer."""
PAUSE_MIN_S, PAUSE_MAX_S = 0.1, 3.0
TOKEN_FILE = "token"  # noqa: S105 - a file's name


async def enrol(settings: SidecarSettings) -> PodSpec:
    """Return what the pool-managers say of this pod; its credential is for a key that never leaves this process.

    Raises:
        Rejected: they refuse this pod; says why.
        Unavailable: nobody answered within `settings.enrol_s`; says what went wrong last.
    """
    key = identity.make_key("user")
    last: ServiceError = Unavailable("nobody was asked")
    try:
        async with asyncio.timeout(settings.enrol_s):
            tries = 0
            while True:
                try:
                    spec = await _once(settings, key.public)
                except Unavailable as exc:
                    last = exc
                else:
                    credential = Credential(jwt=spec.credential.jwt, seed=key.seed)
                    return msgspec.structs.replace(spec, credential=credential)
                log.info("pod.not_enrolled_yet", error=str(last))
                pause_s = min(PAUSE_MIN_S * 2**tries, PAUSE_MAX_S) * random.uniform(0.75, 1.25)
                tries = min(tries + 1, 16)
                await asyncio.sleep(pause_s)
    except TimeoutError as exc:
        raise Unavailable(f"no credential within {settings.enrol_s:.0f} s: {last}") from exc


async def _once(settings: SidecarSettings, public_key: str) -> PodSpec:
    """Ask one time, over a connection for that alone.

    Raises:
        Rejected: the pool-managers refuse.
        Unavailable: ask again.
    """
    try:
        bus = await Bus.connect(_options(settings))
        try:
            reply = await bus.request(
                subjects.enroll(settings.pool, settings.name),
                messages.encode(_ask(settings, public_key)),
                timeout_s=ASK_S,
            )
        finally:
            await bus.close()
        answer = messages.decode(reply.data, Enrolled)
    except ServiceError as exc:
        # Also what is definite: a credential that is being replaced, servers that do not know the account yet.
        raise Unavailable(str(exc)) from exc
    if answer.spec is not None:
        return answer.spec
    refused = (
        Rejected("an answer without a pod") if answer.error is None else error_of(answer.error)
    )
    if isinstance(refused, Rejected):
        raise refused
    raise Unavailable(str(refused)) from refused


def _ask(settings: SidecarSettings, public_key: str) -> Enroll:
    try:
        token = Path(settings.enrol_dir, TOKEN_FILE).read_text().strip()  # the kubelet replaces it
    except OSError as exc:
        raise Unavailable(f"no token: {exc}") from exc
    return Enroll(token=token, public_key=public_key, node=settings.node, pod_uid=settings.uid)


def _options(settings: SidecarSettings) -> BusOptions:
    return BusOptions(
        servers=settings.servers,
        name=settings.name,
        credential=identity.read_credential(Path(settings.enrol_dir, SECRET_FILE)),
        inbox_prefix=f"_INBOX_{ENROLLER}",
        tls=tls_of(settings),
    )


def tls_of(settings: SidecarSettings) -> Tls | None:
    """Return how to connect."""
    return Tls(ca_file=settings.ca_file) if settings.ca_file else None
