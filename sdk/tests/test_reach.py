"""The way to a cluster of Kubernetes: what is read from kubectl, here a script with its words. tests/kubernetes has the real one."""

from __future__ import annotations

import base64
import json
import socketserver
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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
FORWARDS = "echo 'Forwarding from 127.0.0.1:{port} -> 4223'; exec sleep 60"


@contextmanager
def edge(greeting: bytes) -> Iterator[int]:
    """Greet each who comes, as a server does; return the port."""

    class Greeter(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(greeting)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Greeter) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def place(folder: Path, *, get: str = "", forward: str) -> Place:
    """Return a place behind a script."""
    (folder / "secret").write_text(json.dumps(SECRET))
    script = folder / "kubectl"
    script.write_text(
        KUBECTL.format(folder=folder, get=get or f"cat {folder}/secret", forward=forward)
    )
    script.chmod(0o755)
    return Place(kubectl=Kubectl(program=str(script)), namespace="ours", tenant="default")


@pytest.mark.parametrize("tls", [True, False])
def test_a_way_in_is_a_forwarded_port_and_what_the_secret_holds(tmp_path: Path, tls: bool) -> None:
    """Over TLS where the edge says so; the files are the caller's alone, and gone at the end."""
    greeting = b'INFO {"server_id": "a", "tls_required": %s}\r\n' % (b"true" if tls else b"false")
    with (
        edge(greeting) as port,
        reach(place(tmp_path, forward=FORWARDS.format(port=port))) as way,
    ):
        assert way.servers == (f"{'tls' if tls else 'nats'}://127.0.0.1:{port}",)
        assert way.credential.read_bytes() == b"cred"
        assert (way.ca and way.ca.read_bytes()) == (b"PEM" if tls else None)
        assert stat.S_IMODE(way.credential.stat().st_mode) == 0o600

    assert not way.credential.parent.exists()
    assert (tmp_path / "words").read_text().split()[1:3] == ["-n", "ours"]


def test_an_edge_without_a_server_behind_it_is_told_so(tmp_path: Path) -> None:
    """It takes the connection and shuts it again."""
    with (
        edge(b"") as port,
        pytest.raises(Unavailable, match="no server behind it"),
        reach(place(tmp_path, forward=FORWARDS.format(port=port))),
    ):
        pass


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
        reach(place(tmp_path, get=missing, forward="")),
    ):
        pass


def test_a_secret_that_lacks_something_is_told_so(tmp_path: Path) -> None:
    """With the key that is missing."""
    with (
        pytest.raises(InvalidMessage, match=r"client\.creds"),
        reach(place(tmp_path, get="echo '{\"data\": {}}'", forward="")),
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
