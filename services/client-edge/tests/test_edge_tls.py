"""An edge that encrypts both ways: clients see the servers' certificate, and nothing is said in the clear but who the server is."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from agent_sandbox.provisioner import certificates
from client_edge import app
from client_edge.settings import EdgeSettings
from shared.bus import Bus, BusOptions, Tls
from shared.cluster import ServerProcess, ServerSettings, TlsFiles, Trust, find_binary, render
from shared.cluster.layout import ServerFiles
from shared.cluster.ports import find_free_ports
from shared.errors import Rejected, Unavailable
from shared.identity import Credential, make_identity, roles, write_secret
from shared.service import Stop
from shared.testing.wait import until


class Encrypted(NamedTuple):
    """One server and its edge, which speak TLS."""

    folder: Path
    port: int
    credential: Credential

    def options(self, ca: str = "ca.pem", **named: str) -> BusOptions:
        """Return how a client connects to the edge."""
        return BusOptions(
            servers=(f"nats://127.0.0.1:{self.port}",),
            name="client",
            credential=self.credential,
            tls=Tls(ca_file=str(self.folder / ca), **named),
        )


def write_certificates(folder: Path) -> None:
    """Write an authority, a strange one, and what the first has signed for 127.0.0.1."""
    now = datetime.datetime.now(datetime.UTC)
    ours, strange = certificates.make_authority(now), certificates.make_authority(now)
    pair = certificates.make_certificate(ours, ["127.0.0.1", "servers.test"], 3600, now)
    for name, text in {
        "ca.pem": ours.certificate,
        "strange.pem": strange.certificate,
        "server.pem": pair.certificate,
        "server.key": pair.key,
    }.items():
        (folder / name).write_text(text)


@pytest.fixture
async def encrypted(tmp_path: Path) -> AsyncIterator[Encrypted]:
    """A server as it is configured on Kubernetes, and an edge before it."""
    write_certificates(tmp_path)
    identity, (ports,) = make_identity(), find_free_ports(1)
    files = ServerFiles("n", tmp_path)
    trust = Trust(
        operator_token=identity.operator_token(),
        system_account=identity.system.public,
        edge=identity.edge.public,
        account_tokens=identity.account_tokens({}),
    )
    cert, key, ca = (str(tmp_path / name) for name in ("server.pem", "server.key", "ca.pem"))
    settings = ServerSettings(
        name="n",
        cluster="c",
        ports=ports,
        routes=[f"127.0.0.1:{ports.route}"],
        store_dir=str(files.store),
        log_file=str(files.log),
        trust=trust,
        tls=TlsFiles(cert, key, ca),
    )
    files.config.write_text(render(settings))
    write_secret(tmp_path / "edge.json", msgspec.json.encode(identity.edge).decode())
    server = ServerProcess(find_binary(), files, ports)
    server.start(die_with_parent=True)
    edge = EdgeSettings(
        name="edge",
        listen_port=ports.edge,
        server_port=ports.client,
        key_file=str(tmp_path / "edge.json"),
        ready_file=str(tmp_path / "ready"),
        tls_ca_file=ca,
        tls_cert_file=cert,
        tls_key_file=key,
    )
    stop = Stop()
    running = asyncio.create_task(app.run(edge, stop))
    await until((tmp_path / "ready").exists)
    minted = identity.client_signer.mint("client", roles.publisher("t"), by_edge=True)
    yield Encrypted(tmp_path, ports.edge, minted)
    stop.set("test")
    await running
    server.kill()


async def test_a_client_is_encrypted_through_the_edge_to_the_server(encrypted: Encrypted) -> None:
    """It connects, is answered, and its right to publish is still looked at."""
    bus = await Bus.connect(encrypted.options(), deadline_s=10)

    assert await bus.probe(timeout_s=5)
    await bus.use_credential()
    assert await bus.probe(timeout_s=5)
    await bus.close()


async def test_many_clients_at_once_all_get_through(encrypted: Encrypted) -> None:
    """What comes right behind a handshake, in the same packet even, is not lost."""
    buses = await asyncio.gather(
        *(Bus.connect(encrypted.options(), deadline_s=20) for _ in range(20))
    )

    assert all(await asyncio.gather(*(bus.probe(timeout_s=10) for bus in buses)))
    for bus in buses:
        await bus.close()


async def test_who_does_not_believe_the_edge_says_nothing(encrypted: Encrypted) -> None:
    """A client that trusts another authority goes away; the edge is there for the next one."""
    with pytest.raises(Unavailable):
        await Bus.connect(encrypted.options("strange.pem"), deadline_s=1)

    bus = await Bus.connect(encrypted.options(), deadline_s=10)
    await bus.close()


async def test_a_certificate_counts_by_the_name_that_is_asked_for(encrypted: Encrypted) -> None:
    """Where an address is not in it, the name is said beside; another name is not believed. Also for a newer credential."""
    with pytest.raises(Unavailable):
        await Bus.connect(encrypted.options(server_name="somebody.else"), deadline_s=1)

    bus = await Bus.connect(encrypted.options(server_name="servers.test"), deadline_s=10)
    await bus.use_credential()
    assert await bus.probe(timeout_s=5)
    await bus.close()


async def test_a_client_in_the_clear_is_not_heard(encrypted: Encrypted) -> None:
    """It is told who the server is, and that TLS is asked for; what it says after that ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", encrypted.port)
    first = await asyncio.wait_for(reader.readline(), 5)
    writer.write(b'CONNECT {"verbose":false}\r\nPING\r\n')

    assert b'"tls_required":true' in first
    rest = await asyncio.wait_for(reader.read(), 10)
    assert b"PONG" not in rest
    writer.close()


def test_files_for_tls_belong_together() -> None:
    """An edge that was to encrypt and has no key must not start in the clear."""
    with pytest.raises(ValueError, match="belong together"):
        EdgeSettings(name="e", listen_port=1, server_port=2, key_file="k", tls_ca_file="ca.pem")


async def test_an_edge_without_its_certificate_does_not_start(tmp_path: Path) -> None:
    """It says which files it looked for."""
    write_secret(tmp_path / "edge.json", msgspec.json.encode(make_identity().edge).decode())
    settings = EdgeSettings(
        name="edge",
        listen_port=0,
        server_port=1,
        key_file=str(tmp_path / "edge.json"),
        tls_ca_file=str(tmp_path / "ca.pem"),
        tls_cert_file=str(tmp_path / "cert.pem"),
        tls_key_file=str(tmp_path / "key.pem"),
    )

    with pytest.raises(Rejected, match=r"ca\.pem"):
        await app.run(settings, Stop())
