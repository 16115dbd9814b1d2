"""What the provisioner puts into Secrets: kept while it is good, renewed in time, made anew where it is of no use."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path

import pytest

from agent_sandbox.provisioner import certificates, contents
from agent_sandbox.provisioner.certificates import Pair
from agent_sandbox.provisioner.contents import COUNT, Root
from agent_sandbox.provisioner.settings import ProvisionerSettings
from shared.cluster import find_binary
from shared.errors import InvalidMessage
from shared.identity import Signer, lifetime, parse_credential, read_claims, roles
from shared.pools import parse_pools

SETTINGS = ProvisionerSettings(
    namespace="here", pods_namespace="here-pods", nodes_namespace="here-nodes"
)
NOW = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def root() -> Root:
    """A cluster's root of trust."""
    return contents.read_root(contents.root({}, 1_700_000_000.0))


def test_a_root_of_trust_is_made_once(root: Root) -> None:
    """Found, it stays as it is, byte by byte: all that was ever minted stands on it."""
    held = contents.root({}, 1.0)

    assert contents.root(held, 2.0) == held
    assert contents.read_root(held).created_ms == 1000


def test_a_damaged_root_of_trust_is_never_replaced() -> None:
    """A new one would lock everybody out: a person has to restore it."""
    with pytest.raises(InvalidMessage, match="root of trust"):
        contents.read_root(contents.root({"root.json": b"{"}, 1.0))


def test_every_server_takes_its_configuration(root: Root, tmp_path: Path) -> None:
    """The server itself reads it; each is another's route, under names that the certificate has."""
    made = contents.servers({}, root, SETTINGS, ("10.1.2.3",))

    for name in ("nats-0", "nats-1", "nats-2"):
        text = made[f"{name}.conf"].decode().replace("/etc/nats/", f"{tmp_path}/")
        (tmp_path / f"{name}.conf").write_text(text.replace('"/data"', f'"{tmp_path}"'))
        for file in (contents.CERTIFICATE, contents.KEY, contents.AUTHORITY):
            (tmp_path / file).write_bytes(made[file])
        subprocess.run(
            [find_binary(), "-t", "-c", tmp_path / f"{name}.conf"], check=True, capture_output=True
        )
        assert f"{name}.nats.here.svc.cluster.local" in contents.host_names(SETTINGS, ())


def test_servers_are_not_restarted_for_nothing(root: Root) -> None:
    """The same inputs give the same bytes, though tokens and certificates tell when they were made."""
    first = contents.servers({}, root, SETTINGS, ("10.1.2.3",))

    assert contents.servers(first, root, SETTINGS, ("10.1.2.3",)) == first
    assert first[COUNT] == b"1"


def test_a_new_address_means_a_new_certificate_and_a_restart(root: Root) -> None:
    """The count on the servers' pods grows: Kubernetes replaces them one by one."""
    first = contents.servers({}, root, SETTINGS, ("10.1.2.3",))
    then = contents.servers(first, root, SETTINGS, ("10.1.2.4",))

    assert then[COUNT] == b"2"
    assert then[contents.CERTIFICATE] != first[contents.CERTIFICATE]


@pytest.mark.parametrize(("age", "good"), [(0.0, True), (0.49, True), (0.51, False), (2.0, False)])
def test_a_certificate_is_good_for_half_its_life(root: Root, age: float, good: bool) -> None:
    """Then there is time enough for a new one, whatever stands in its way."""
    life_s = 1_000_000.0
    pair = certificates.make_certificate(root.authority, ["a.b", "10.0.0.1"], life_s, NOW)
    now = NOW + datetime.timedelta(seconds=age * life_s)

    assert certificates.is_good(pair, root.authority, ["10.0.0.1", "a.b"], now) == good


def test_a_certificate_of_another_authority_or_for_other_names_is_no_good(root: Root) -> None:
    """Nor is one that can't be read."""
    other = certificates.make_authority(NOW)
    pair = certificates.make_certificate(root.authority, ["a.b"], 1e6, NOW)

    assert certificates.is_good(pair, root.authority, ["a.b"], NOW)
    assert not certificates.is_good(pair, other, ["a.b"], NOW)
    assert not certificates.is_good(pair, root.authority, ["a.b", "c"], NOW)
    assert not certificates.is_good(Pair("", ""), root.authority, ["a.b"], NOW)


def test_credentials_are_kept_for_half_their_life(root: Root) -> None:
    """Pods read them again; a new one before that would only make work."""
    signer, role = root.identity.signer, roles.local_node("n")
    young = contents.credential({}, "x.creds", signer, role, 3600.0)
    old = {"x.creds": contents.credential({}, "x.creds", signer, role, 0.0)}

    assert contents.credential({"x.creds": young}, "x.creds", signer, role, 3600.0) == young
    renewed = contents.credential(old, "x.creds", signer, role, 3600.0)
    life = lifetime(parse_credential(renewed.decode(), "here"))
    assert life is not None
    assert life[1] - life[0] == pytest.approx(3600, abs=2)


def test_a_credential_of_another_role_or_account_is_made_anew(root: Root) -> None:
    """A newer version may give other rights; another cluster's credential gives none."""
    signer, role = root.identity.signer, roles.local_node("n")
    made = {"x.creds": contents.credential({}, "x.creds", signer, role, 3600.0)}
    foreign = Signer(root.identity.clients.public, root.identity.client_signing.seed)

    for other_signer, other_role in ((signer, roles.local_node("m")), (foreign, role)):
        fresh = contents.credential(made, "x.creds", other_signer, other_role, 3600.0)
        assert fresh != made["x.creds"]
        claims = read_claims(parse_credential(fresh.decode(), "here").jwt)["nats"]
        assert claims["issuer_account"] == other_signer.account


def test_a_tenants_token_and_credential_stay(root: Root) -> None:
    """They are in the hands of programs that nobody tells of newer ones; gateways know the token by its digest."""
    first = contents.tenant({}, root, "acme")
    gateway = contents.gateways({"acme": first})

    assert contents.tenant(first, root, "acme") == first
    assert first["token"] not in gateway["tenants.json"]
    assert gateway["acme.creds"] == first["client.creds"]
    assert contents.tenant({}, root, "acme")["token"] != first["token"]


def test_replicas_share_one_user_and_still_beat_under_their_own_names(root: Root) -> None:
    """A Deployment's pods have names that nobody knows before."""
    made = contents.pool_managers({}, root, 3600.0)
    claims = read_claims(parse_credential(made["pool-manager.creds"].decode(), "here").jwt)

    assert "hbm.*" in claims["nats"]["pub"]["allow"]
    assert "_INBOX_pool-manager.>" in claims["nats"]["sub"]["allow"]


def test_pools_count_by_what_they_say(root: Root) -> None:
    """Another comment, or another order of fields, replaces no pool-manager; another stock does."""
    first, same, other = (
        parse_pools(text)
        for text in (
            '[[pool]]\nname = "a"\nstock = 2',
            '# two\n[[pool]]\nstock = 2\nname = "a"',
            '[[pool]]\nname = "a"\nstock = 3',
        )
    )
    held = contents.counted({}, {"pools.toml": b"1"}, first)

    assert contents.counted(held, {"pools.toml": b"2"}, same) == held
    assert contents.counted(held, {"pools.toml": b"3"}, other)[COUNT] == b"2"
