"""A Kubernetes API server's audit log: who asked for what, and when. Needs a policy of level Metadata or more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

WRITE_VERBS = frozenset(("create", "update", "patch", "delete", "deletecollection"))
ENDED = "ResponseComplete"
"""The stage that each request has once."""
SERVICE_ACCOUNT = "system:serviceaccount:"


class Request(NamedTuple):
    """One request that the API server has answered."""

    at_s: float
    """When it came, seconds since 1970, by the API server's clock."""
    user: str
    verb: str
    group: str
    """API group; empty: the core's. Of a path that is no resource: empty."""
    resource: str
    """With its subresource, such as `pods/status`; of other paths the path itself."""
    namespace: str
    name: str
    code: int
    """HTTP status of the answer."""

    @property
    def is_write(self) -> bool:
        """Whether it may change something. Reviews and token requests count too: they are work of the same kind."""
        return self.verb in WRITE_VERBS and not self.resource.startswith("/")


def parse(line: bytes | str) -> Request | None:
    """Return what a line tells; None: another stage, or a line that was cut off."""
    try:
        event: dict[str, Any] = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return None
    if event.get("stage") != ENDED:
        return None
    at = event.get("objectRef") or {}
    sub = f"/{at['subresource']}" if at.get("subresource") else ""
    resource = f"{at['resource']}{sub}" if at.get("resource") else event["requestURI"].split("?")[0]
    return Request(
        at_s=datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp(),
        user=(event.get("impersonatedUser") or event["user"]).get("username", ""),
        verb=event["verb"],
        group=at.get("apiGroup", ""),
        resource=resource,
        namespace=at.get("namespace", ""),
        name=at.get("name", ""),
        code=int((event.get("responseStatus") or {}).get("code", 0)),
    )


def read(log: Path, since_s: float, until_s: float = float("inf")) -> Iterator[Request]:
    """Yield the requests that came in a span of time, from the log and from what it was before it was rotated.

    Args:
        log: the file that the API server writes.
        since_s: seconds since 1970.
        until_s: likewise.

    Raises:
        OSError: it can't be read.
    """
    rotated = [
        path
        for path in log.parent.glob(f"{log.stem}-*{log.suffix}")
        if path.stat().st_mtime >= since_s
    ]
    for path in (*sorted(rotated), log):
        with path.open("rb") as lines:
            for line in lines:
                found = parse(line)
                if found is not None and since_s <= found.at_s <= until_s:
                    yield found


def writes(
    requests: Iterable[Request], *, namespaces: Iterable[str] = (), without: Iterable[str] = ()
) -> list[Request]:
    """Return the writes among requests that concern our namespaces, or were made by their service accounts.

    Args:
        requests: as `read` yields them.
        namespaces: ours; none: all writes.
        without: users to leave out, such as the one who measures.
    """
    ours, others = tuple(namespaces), set(without)
    accounts = tuple(f"{SERVICE_ACCOUNT}{name}:" for name in ours)
    return [
        one
        for one in requests
        if one.is_write
        and one.user not in others
        and (not ours or one.namespace in ours or one.user.startswith(accounts))
    ]


def count(requests: Iterable[Request], key: Callable[[Request], str]) -> dict[str, int]:
    """Return how many there are of each kind, the most frequent first."""
    return dict(Counter(key(one) for one in requests).most_common())


def by_user_and_verb(request: Request) -> str:
    """Return the kind that counts are made of: who did what to which resource."""
    return f"{request.user} {request.verb} {request.resource}"
