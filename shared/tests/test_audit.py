"""What an audit log's lines tell. The lines are a real API server's."""

from __future__ import annotations

import json
import os
from pathlib import Path

from shared.testing import audit

CREATED = {
    "kind": "Event",
    "apiVersion": "audit.k8s.io/v1",
    "level": "Metadata",
    "stage": "ResponseComplete",
    "requestURI": "/api/v1/namespaces/pods/pods?fieldManager=x",
    "verb": "create",
    "user": {"username": "system:serviceaccount:control:manager", "groups": ["a"]},
    "objectRef": {"resource": "pods", "namespace": "pods", "name": "a-1", "apiVersion": "v1"},
    "responseStatus": {"metadata": {}, "code": 201},
    "requestReceivedTimestamp": "2026-01-02T03:04:05.500000Z",
    "stageTimestamp": "2026-01-02T03:04:05.600000Z",
}
AT_S = 1767323045.5


def line(**changes: object) -> str:
    """Return the event with some fields changed, as a line."""
    return json.dumps(CREATED | changes) + "\n"


def test_a_line_tells_who_did_what_and_when() -> None:
    """Its time is that of the request's arrival; the subresource belongs to what was written."""
    status = {"resource": "pods", "subresource": "status", "namespace": "pods", "name": "a-1"}

    found = audit.parse(line(verb="patch", objectRef=status))

    assert found is not None
    assert (found.at_s, found.verb, found.resource, found.code) == (
        AT_S,
        "patch",
        "pods/status",
        201,
    )
    assert found.is_write
    assert audit.by_user_and_verb(found) == (
        "system:serviceaccount:control:manager patch pods/status"
    )


def test_other_stages_and_lines_that_are_cut_off_tell_nothing() -> None:
    """A watch tells of its start too, and the last line may still be being written."""
    assert audit.parse(line(stage="ResponseStarted")) is None
    assert audit.parse(line()[:-20]) is None


def test_reads_and_paths_that_are_no_resource_are_no_writes() -> None:
    """A POST to `/metrics` stores nothing anywhere."""
    for changes in ({"verb": "list"}, {"objectRef": None, "requestURI": "/healthz?verbose=1"}):
        found = audit.parse(line(**changes))
        assert found is not None
        assert not found.is_write


def test_whoever_was_impersonated_is_who_did_it() -> None:
    """The person who tests with `--as` has the rights of somebody else."""
    found = audit.parse(line(impersonatedUser={"username": "somebody"}))

    assert found is not None
    assert found.user == "somebody"


def test_a_span_of_time_is_read_across_a_rotation(tmp_path: Path) -> None:
    """The API server renames a full log and begins another; older ones are not even opened."""
    log = tmp_path / "audit.log"
    log.write_text(line(verb="delete", requestReceivedTimestamp="2026-01-02T03:04:07.000000Z"))
    before = tmp_path / "audit-2026-01-02T03-04-06.000.log"
    before.write_text(line() + line(requestReceivedTimestamp="2026-01-02T03:00:00.000000Z"))
    long_ago = tmp_path / "audit-2025-01-01T00-00-00.000.log"
    long_ago.write_bytes(b"\xff")
    os.utime(long_ago, (1, 1))

    found = list(audit.read(log, AT_S - 1, AT_S + 10))

    assert [one.verb for one in found] == ["create", "delete"]


def test_writes_that_concern_us_are_those_in_our_namespaces_or_by_our_accounts() -> None:
    """Without what the one who measures does himself."""
    lines = [
        line(),
        line(user={"username": "system:node:n1"}),
        line(
            user={"username": "system:serviceaccount:control:manager"},
            objectRef={"resource": "nodes", "name": "n1"},
        ),
        line(user={"username": "me"}),
        line(
            user={"username": "system:serviceaccount:controls:x"},
            objectRef={"resource": "leases", "namespace": "other", "name": "l"},
        ),
        line(verb="get"),
    ]
    requests = [one for text in lines if (one := audit.parse(text))]

    found = audit.writes(requests, namespaces=("control", "pods"), without=("me",))

    assert audit.count(found, audit.by_user_and_verb) == {
        "system:serviceaccount:control:manager create pods": 1,
        "system:node:n1 create pods": 1,
        "system:serviceaccount:control:manager create nodes": 1,
    }
