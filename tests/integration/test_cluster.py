"""Starting real servers: what is found again, and what is said when it does not work."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import msgspec
import pytest

from shared.bus import Bus
from shared.cluster import Cluster, ClusterFailed, open_cluster, running_pid
from shared.identity import make_identity, write_secret
from shared.testing.plugin import admin_options, provision_cluster


@pytest.mark.slow
async def test_a_second_start_finds_identities_ports_and_data(tmp_path: Path) -> None:
    """Also by another object, as after the end of the first process."""
    first = open_cluster(tmp_path / "nats")
    first.start(die_with_parent=True)
    first.wait_ready()
    try:
        await provision_cluster(first)
        bus = await Bus.connect(admin_options(first))
        await bus.compare_and_set("s.0.rec.default.t.kept", b"kept", expected_seq=0)
        await bus.close()
    finally:
        first.stop()
    second = open_cluster(tmp_path / "nats")
    assert second.urls == first.urls
    second.start(die_with_parent=True)
    try:
        second.wait_ready()
        bus = await Bus.connect(admin_options(first))
        stored = await bus.read_last("0", "s.0.rec.default.t.kept", timeout_s=5)
        assert stored is not None
        assert stored.data == b"kept"
        await bus.close()
    finally:
        second.stop()


def test_secrets_are_readable_by_their_owner_only(nats_cluster: Cluster) -> None:
    """The root of trust is a file of mode 0600 in a folder of mode 0700."""
    root = nats_cluster.layout.root
    assert (root / "identity.json").stat().st_mode & 0o777 == 0o600
    assert (root / "n1").stat().st_mode & 0o777 == 0o700


def test_servers_listen_on_loopback_only(nats_cluster: Cluster) -> None:
    """Clients, routes and monitoring."""
    ports = {port for server in nats_cluster.servers for _, port in server.ports.named()}
    listening = {
        (fields[1].split(":")[0], int(fields[1].split(":")[1], 16))
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if (fields := line.split())[3] == "0A"
    }
    assert {address for address, port in listening if port in ports} == {"0100007F"}
    assert ports <= {port for _, port in listening}


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    """With its use; and the servers started before it are stopped again."""
    cluster = open_cluster(tmp_path)
    taken = cluster.servers[2].ports.route
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", taken))
        other.listen()
        with pytest.raises(ClusterFailed, match=rf"port {taken} \(routes of n3\) is in use"):
            cluster.start(die_with_parent=True)
    assert not any(server.running for server in cluster.servers)


def test_a_cluster_that_runs_already_is_not_started_again(nats_cluster: Cluster) -> None:
    """By whoever it was started."""
    again = open_cluster(nats_cluster.layout.root)
    pid = running_pid(again.servers[0].files)
    popen = nats_cluster.servers[0].popen
    assert popen is not None
    assert pid == popen.pid
    with pytest.raises(ClusterFailed, match=f"runs already, as process {pid}"):
        again.servers[0].start()


def test_a_missing_program_is_said(tmp_path: Path) -> None:
    """With the path that was given."""
    with pytest.raises(ClusterFailed, match="no/such/nats-server is not an executable"):
        open_cluster(tmp_path, binary="/no/such/nats-server")


def test_a_server_that_ends_at_its_start_has_the_last_word(tmp_path: Path) -> None:
    """Its own fatal line reaches the reader."""
    cluster = open_cluster(tmp_path)
    cluster.write_configs()
    for server in cluster.servers:
        server.files.config.write_text("listen: nonsense:here\n")
        server.start(die_with_parent=True)
    with pytest.raises(ClusterFailed, match=r"n1 ended with code 1: .*could not parse port"):
        cluster.wait_ready(deadline_s=10)
    cluster.kill()


def test_a_store_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """A file is where the streams should be."""
    cluster = open_cluster(tmp_path)
    cluster.servers[0].files.store.write_text("not a folder")
    cluster.start(die_with_parent=True)
    try:
        with pytest.raises(ClusterFailed, match="n1 ended with code"):
            cluster.wait_ready(deadline_s=10)
    finally:
        cluster.kill()


def test_a_folder_of_another_cluster_is_refused(tmp_path: Path) -> None:
    """Data under another operator's accounts would just be invisible."""
    open_cluster(tmp_path / "a")
    open_cluster(tmp_path / "b")
    shutil.copy(tmp_path / "b" / "identity.json", tmp_path / "a" / "identity.json")
    with pytest.raises(ClusterFailed, match="belongs to operator"):
        open_cluster(tmp_path / "a")


def test_data_without_its_cluster_file_is_refused(tmp_path: Path) -> None:
    """Rather than start anew on top of it."""
    cluster = open_cluster(tmp_path)
    cluster.servers[1].files.store.mkdir()
    (tmp_path / "cluster.json").unlink()
    with pytest.raises(ClusterFailed, match=r"no cluster\.json"):
        open_cluster(tmp_path)


@pytest.mark.parametrize("name", ["identity.json", "cluster.json"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    """Not overwritten, not guessed at."""
    open_cluster(tmp_path)
    write_secret(tmp_path / name, "{}")
    with pytest.raises(ClusterFailed, match=name.replace(".", r"\.")):
        open_cluster(tmp_path)
    assert (tmp_path / name).read_text() == "{}"


def test_a_base_port_is_kept(tmp_path: Path) -> None:
    """Twelve ports in a row from the one that was asked for; the edges' come first."""
    cluster = open_cluster(tmp_path, base_port=24222)
    assert cluster.edge_urls == tuple(f"nats://127.0.0.1:{port}" for port in (24222, 24223, 24224))
    assert cluster.urls == tuple(f"nats://127.0.0.1:{port}" for port in (24225, 24226, 24227))
    assert open_cluster(tmp_path).urls == cluster.urls
    assert open_cluster(tmp_path, base_port=25222).edge_urls[0].endswith(":25222")


def test_a_folder_without_edges_gets_ports_for_them(tmp_path: Path) -> None:
    """An older version's; the servers keep theirs."""
    before = open_cluster(tmp_path)
    path = tmp_path / "cluster.json"
    file = msgspec.json.decode(path.read_bytes())
    for ports in file["ports"]:
        del ports["edge"]
    path.write_bytes(msgspec.json.encode(file))

    after = open_cluster(tmp_path)

    assert after.urls == before.urls
    assert all(server.ports.edge for server in after.servers)
    assert open_cluster(tmp_path).edge_urls == after.edge_urls


def test_identities_of_two_clusters_differ() -> None:
    """Nothing is built in."""
    assert make_identity().operator.public != make_identity().operator.public


def test_a_stopped_server_leaves_no_process(tmp_path: Path) -> None:
    """Also one that was paused."""
    cluster = open_cluster(tmp_path)
    cluster.start(die_with_parent=True)
    pids = [server.popen.pid for server in cluster.servers if server.popen]
    cluster.servers[0].pause()
    cluster.stop(grace_s=2)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
