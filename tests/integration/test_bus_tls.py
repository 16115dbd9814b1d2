"""TLS: the servers prove who they are, and so do we where they ask; without it nothing is said."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from shared.bus import Bus, BusOptions, Tls
from shared.cluster import Cluster, ServerProcess, find_binary
from shared.cluster.layout import ServerFiles
from shared.cluster.ports import find_free_ports
from shared.errors import Rejected, Unavailable
from shared.testing.plugin import admin_options
from shared.testing.wait import until

CONFIG = """
listen: "127.0.0.1:{port}"
log_file: "{log}"
tls {{ cert_file: "{folder}/server.pem", key_file: "{folder}/server.key", ca_file: "{folder}/ca.pem", verify: true }}
"""


def openssl(folder: Path, *words: str) -> None:
    """Run openssl in a folder."""
    subprocess.run(
        ["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=30, text=True
    )


def make_authority(folder: Path, name: str) -> None:
    """Make `name.pem` and `name.key`, which sign others."""
    openssl(
        folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem",
        "-addext", "keyUsage=critical,keyCertSign,cRLSign",  # newer Pythons take no authority without it
    )  # fmt: skip


def make_certificate(folder: Path, name: str, authority: str = "ca") -> None:
    """Make `name.pem` and `name.key`, valid for 127.0.0.1."""
    openssl(
        folder, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr",
    )  # fmt: skip
    (folder / "extensions").write_text(
        "subjectAltName=IP:127.0.0.1\n"
        "basicConstraints=critical,CA:FALSE\n"
        "subjectKeyIdentifier=hash\n"
        "authorityKeyIdentifier=keyid\n"
    )
    openssl(
        folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey",
        f"{authority}.key", "-CAcreateserial", "-days", "2", "-out", f"{name}.pem",
        "-extfile", "extensions",
    )  # fmt: skip


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority, a server's and a client's certificate, and a strange authority."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine")
    folder = tmp_path_factory.mktemp("certificates")
    make_authority(folder, "ca")
    make_authority(folder, "strange")
    make_certificate(folder, "server")
    make_certificate(folder, "client")
    return folder


@pytest.fixture
def server(certificates: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    """One server that speaks TLS and wants to see certificates."""
    (ports,) = find_free_ports(1)
    files = ServerFiles("tls", tmp_path)
    files.config.write_text(CONFIG.format(port=ports.client, log=files.log, folder=certificates))
    process = ServerProcess(find_binary(), files, ports)
    process.start(die_with_parent=True)
    yield process
    process.kill()


def options(server: ServerProcess, certificates: Path, **changes: str) -> BusOptions:
    """Return how to connect: by default as it should be."""
    files = {"ca_file": "ca.pem", "cert_file": "client.pem", "key_file": "client.key", **changes}
    tls = Tls(**{name: str(certificates / file) if file else "" for name, file in files.items()})
    return BusOptions(servers=(server.url,), name="tls", tls=tls)


async def test_a_connection_is_encrypted_and_survives_a_restart(
    server: ServerProcess, certificates: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Both sides show their certificates, also where it is renewed, and at the reconnect; nobody complains at its end."""
    bus = await Bus.connect(options(server, certificates))
    assert await bus.probe(timeout_s=2)
    await bus.use_credential()
    assert await bus.probe(timeout_s=2)
    server.kill()
    server.start(die_with_parent=True)
    await until(lambda: not bus.connected or bus.contact_age_s() < 0.1, within_s=10)
    await until(lambda: bus.probe(timeout_s=1), within_s=10)
    await bus.close()
    assert [said for said in caplog.records if said.name == "asyncio"] == []


@pytest.mark.parametrize(
    "wrong", [{"ca_file": "strange.pem"}, {"cert_file": "", "key_file": ""}], ids=["authority", "no certificate"]
)  # fmt: skip
async def test_who_cannot_be_believed_is_not_spoken_to(
    server: ServerProcess, certificates: Path, wrong: dict[str, str]
) -> None:
    """A server of a strange authority; a client without a certificate."""
    with pytest.raises(Unavailable):
        await Bus.connect(options(server, certificates, **wrong), deadline_s=0.8)


async def test_a_server_without_tls_is_not_told_who_we_are(
    provisioned_cluster: Cluster, certificates: Path
) -> None:
    """Else whoever is between us could strip the TLS and read the credential."""
    tls = Tls(ca_file=str(certificates / "ca.pem"))
    wanted = msgspec.structs.replace(admin_options(provisioned_cluster), tls=tls)
    with pytest.raises(Unavailable, match="TLS is wanted"):
        await Bus.connect(wanted, deadline_s=0.5)


@pytest.mark.parametrize("file", ["ca_file", "cert_file", "key_file"])
async def test_a_missing_file_is_named(
    server: ServerProcess, certificates: Path, file: str
) -> None:
    """At once, and for good."""
    with pytest.raises(Rejected, match=r"nowhere\.pem"):
        await Bus.connect(options(server, certificates, **{file: "nowhere.pem"}))
