"""`kubectl`, as the person who runs us uses it: contexts, log-ins and proxies are its business.

The client library and the command line bring no Kubernetes client of their own; services have one (`shared.kube`).
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from shared.errors import (
    Conflict,
    Forbidden,
    InvalidMessage,
    NotFound,
    OutcomeUnknown,
    Rejected,
    ServiceError,
    Unavailable,
)

ASK_S = 20.0
"""Longest wait for one answer of the API server."""
SAID_MAX = 400
"""Characters of kubectl's own words in an error."""

_KINDS: tuple[tuple[str, type[ServiceError]], ...] = (
    ("(NotFound)", NotFound),
    ("(Forbidden)", Forbidden),
    ("(AlreadyExists)", Conflict),
    ("(Conflict)", Conflict),
    ("(Unauthorized)", Forbidden),
    ("You must be logged in", Forbidden),
    ("(Timeout)", OutcomeUnknown),
    ("(ServerTimeout)", OutcomeUnknown),
    ("(ServiceUnavailable)", Unavailable),
    ("Unable to connect to the server", Unavailable),
    ("connection refused", Unavailable),
    ("was refused", Unavailable),
    ("no route to host", Unavailable),
    ("i/o timeout", OutcomeUnknown),
)
"""What kubectl writes on stderr, and what it means. First that fits."""

_ASIDE = re.compile(r"Warning:|[EWI]\d{4} ")
"""How lines begin that are not the answer: warnings, and the log of kubectl itself."""

Object = dict[str, Any]
"""A Kubernetes object as JSON has it."""


class Kubectl(msgspec.Struct, frozen=True, kw_only=True):
    """How to call it. One object, any number of calls at once."""

    context: str | None = None
    """Of the kubeconfig; None: its current one."""
    program: str = "kubectl"

    def command(self, *words: str) -> list[str]:
        """Return the command line of a call."""
        chosen = [] if self.context is None else [f"--context={self.context}"]
        return [self.program, *chosen, *words]

    def run(self, *words: str, stdin: str | None = None, timeout_s: float = ASK_S) -> str:
        """Call it and return what it wrote.

        Args:
            words: of the call.
            stdin: what it reads.
            timeout_s: longest run, seconds.

        Raises:
            NotFound: no kubectl; no such thing in the cluster.
            Forbidden: the user of the context may not do it.
            Conflict: it exists already, or was changed meanwhile.
            Unavailable: the API server can't be reached.
            OutcomeUnknown: no answer in time.
            Rejected: anything else that kubectl or the API server refuses.
        """
        try:
            done = subprocess.run(
                self.command(*words),
                input=stdin,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except FileNotFoundError as exc:
            raise NotFound(
                f"{self.program} is not installed: https://kubernetes.io/docs/tasks/tools/"
            ) from exc
        except subprocess.TimeoutExpired as exc:
            raise OutcomeUnknown(
                f"kubectl {' '.join(words[:3])}: no answer within {timeout_s:g} s"
            ) from exc
        if done.returncode:
            raise error_of(words, done.stderr)
        return done.stdout

    def get(self, kind: str, name: str, *, namespace: str | None = None) -> Object:
        """Return one object.

        Raises:
            NotFound: there is none.
            ServiceError: see `run`.
        """
        return self._json("get", kind, name, *_in(namespace), "-o", "json")

    def find(self, kind: str, name: str, *, namespace: str | None = None) -> Object | None:
        """Return one object, or None where there is none.

        Raises:
            ServiceError: see `run`.
        """
        try:
            return self.get(kind, name, namespace=namespace)
        except NotFound:
            return None

    def list(
        self, kind: str, *, namespace: str | None = None, labels: str | None = None
    ) -> list[Object]:
        """Return all objects of a kind.

        Args:
            kind: such as `pods`.
            namespace: where; None: of the whole cluster.
            labels: a selector.

        Raises:
            ServiceError: see `run`.
        """
        where = _in(namespace) if namespace else ["-A"]
        chosen = [] if labels is None else ["-l", labels]
        found: list[Object] = self._json("get", kind, *where, *chosen, "-o", "json")["items"]
        return found

    def raw(self, path: str, *, timeout_s: float = ASK_S) -> str:
        """Return what the API server answers to a GET of a path.

        Raises:
            ServiceError: see `run`.
        """
        return self.run("get", "--raw", path, timeout_s=timeout_s)

    def ask(self, path: str, body: Object) -> Object:
        """Return what the API server answers to a POST of a review, which stores nothing.

        Raises:
            ServiceError: see `run`.
        """
        text = self.run("create", "--raw", path, "-f", "-", stdin=json.dumps(body))
        return _decode(text)

    def _json(self, *words: str) -> Object:
        return _decode(self.run(*words))


class Version(NamedTuple):
    """Of Kubernetes."""

    major: int
    minor: int

    def __str__(self) -> str:
        """As people write it."""
        return f"{self.major}.{self.minor}"


def server_version(kubectl: Kubectl) -> Version:
    """Return the API server's version.

    Raises:
        ServiceError: see `Kubectl.run`.
    """
    said = _decode(kubectl.raw("/version"))
    return Version(int(said["major"]), int("".join(filter(str.isdigit, said["minor"]))))


def error_of(words: Sequence[str], stderr: str) -> ServiceError:
    """Return the error that kubectl's words mean."""
    lines = [line for line in stderr.strip().splitlines() if not _ASIDE.match(line)]
    said = "; ".join(lines)[-SAID_MAX:] or "it said nothing"
    message = f"kubectl {' '.join(words[:3])}: {said}"
    for sign, kind in _KINDS:
        if sign.lower() in stderr.lower():
            return kind(message)
    return Rejected(message)


def _in(namespace: str | None) -> list[str]:
    return [] if namespace is None else ["-n", namespace]


def _decode(text: str) -> Object:
    try:
        found: Object = msgspec.json.decode(text)
    except msgspec.DecodeError as exc:
        raise InvalidMessage(f"kubectl wrote no JSON: {text[:80]!r}") from exc
    return found
