"""The way to a cluster of Kubernetes: what is read from kubectl, here a script with its words. tests/kubernetes has the real one."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path

import pytest

from agent_sandbox.kubernetes.reach import Place, reach
from shared.errors import InvalidMessage, NotFound, Unavailable
from shared.kubectl import Kubectl

SECRET = {"data": {"client.creds": "Y3JlZA==", "ca.crt": base64.b64encode(b"PEM").decode()}}
KUBECTL = """\
#!/bin/sh
case $1 in
get) {get} ;;
port-forward) echo "$*" >{folder}/words; {forward} ;;
esac
"""
FORWARDS = "echo 'Forwarding from 127.0.0.1:45678 -> 4222'; exec sleep 60"


def place(folder: Path, *, get: str = "", forward: str = FORWARDS) -> Place:
    """Return a place behind a script."""
    (folder / "secret").write_text(json.dumps(SECRET))
    script = folder / "kubectl"
    script.write_text(
        KUBECTL.format(folder=folder, get=get or f"cat {folder}/secret", forward=forward)
    )
    script.chmod(0o755)
    return Place(kubectl=Kubectl(program=str(script)), namespace="ours", tenant="default")


def test_a_way_in_is_a_forwarded_port_and_what_the_secret_holds(tmp_path: Path) -> None:
    """The files are the caller's alone, and gone at the end."""
    with reach(place(tmp_path)) as way:
        assert way.servers == ("tls://127.0.0.1:45678",)
        assert (way.credential.read_bytes(), way.ca.read_bytes()) == (b"cred", b"PEM")
        assert stat.S_IMODE(way.credential.stat().st_mode) == 0o600

    assert not way.credential.parent.exists()
    assert (tmp_path / "words").read_text().split()[1:3] == ["-n", "ours"]


def test_addresses_that_are_named_need_no_forwarded_port(tmp_path: Path) -> None:
    """As a cluster has them behind a load balancer."""
    with reach(place(tmp_path, forward="exit 9"), ("tls://there:4222",)) as way:
        assert way.servers == ("tls://there:4222",)

    assert not (tmp_path / "words").exists()


def test_a_cluster_without_the_system_is_told_so(tmp_path: Path) -> None:
    """Not with kubectl's words alone."""
    missing = "echo 'Error from server (NotFound): secrets \"x\" not found' >&2; exit 1"

    with (
        pytest.raises(NotFound, match="no Secret ours/tenant-default: no system in that namespace"),
        reach(place(tmp_path, get=missing)),
    ):
        pass


def test_a_secret_that_lacks_something_is_told_so(tmp_path: Path) -> None:
    """With the key that is missing."""
    with (
        pytest.raises(InvalidMessage, match=r"client\.creds"),
        reach(place(tmp_path, get="echo '{\"data\": {}}'")),
    ):
        pass


def test_a_port_that_can_not_be_forwarded_is_told_in_kubectls_words(tmp_path: Path) -> None:
    """Such as a pod that is not running."""
    words = "echo 'error: unable to forward port because pod is not running'; exit 1"

    with (
        pytest.raises(Unavailable, match="pod is not running"),
        reach(place(tmp_path, forward=words)),
    ):
        pass
