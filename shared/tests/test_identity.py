"""Keys, tokens, credentials and their files."""

from __future__ import annotations

import base64
import stat
from contextlib import suppress
from pathlib import Path

import msgspec
import nkeys
import pytest

from shared import identity
from shared.errors import Forbidden, InvalidMessage, NotFound
from shared.identity import keys, roles, tokens


def test_secrets_are_not_shown() -> None:
    """Neither by a log line nor in a traceback."""
    made = identity.make_identity()
    credential = made.signer.mint("w1", roles.worker("default", "w1"))
    for secret, shown in (
        (made.operator.seed, repr(made)),
        (made.account_signing.seed, repr(made.signer)),
        (made.worker_signing.seed, repr(made.worker_signer)),
        (credential.seed, repr(credential)),
    ):
        assert secret not in shown


def test_a_users_token_is_signed_by_the_accounts_signing_key() -> None:
    """Not by the account's own key, which stays in the state folder."""
    made = identity.make_identity()
    credential = made.signer.mint("w1", roles.worker("default", "w1"), expires_s=60)
    claims = identity.read_claims(credential.jwt)
    assert claims["iss"] == made.account_signing.public
    assert claims["nats"]["issuer_account"] == made.account.public
    assert claims["sub"] == keys.key_of(credential.seed).public
    assert claims["exp"] - claims["iat"] == 60
    assert identity.lifetime(credential) == (claims["iat"], claims["exp"])


def test_a_token_without_an_end_has_none() -> None:
    """Embedded clusters hand such to their own user."""
    credential = identity.make_identity().signer.mint("admin", roles.admin())
    assert identity.lifetime(credential) is None


def test_a_nonce_is_signed_with_the_users_key() -> None:
    """As the library's own helper would."""
    credential = identity.make_identity().signer.mint("admin", roles.admin())
    pair = nkeys.from_seed(bytearray(credential.seed.encode()))
    assert pair.verify(b"nonce", base64.b64decode(identity.sign_nonce(credential.seed, "nonce")))


def test_the_inbox_is_read_from_the_credential() -> None:
    """So that nobody needs to be told twice."""
    made = identity.make_identity()
    signer = made.signer
    assert identity.inbox_prefix(signer.mint("w7", roles.worker("default", "w7"))) == "_INBOX_w7"
    assert identity.inbox_prefix(made.worker_signer.mint("p", "w7", valid_s=9)) == "_INBOX_w7"
    assert identity.inbox_prefix(signer.mint("admin", roles.admin())) == "_INBOX"


def test_a_credential_file_is_read_back(tmp_path: Path) -> None:
    """Mode 0600, also over a file that was wider."""
    path = tmp_path / "folder" / "user.creds"
    credential = identity.make_identity().signer.mint("admin", roles.admin())
    identity.write_credential(path, credential)
    path.chmod(0o644)
    identity.write_credential(path, credential)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert identity.read_credential(path) == credential
    assert list(path.parent.iterdir()) == [path]


def test_a_missing_and_a_strange_credential_file_are_told_apart(tmp_path: Path) -> None:
    """Both with their path."""
    with pytest.raises(NotFound, match=r"nothing\.creds"):
        identity.read_credential(tmp_path / "nothing.creds")
    (tmp_path / "strange.creds").write_text("hello")
    with pytest.raises(InvalidMessage, match=r"strange\.creds"):
        identity.read_credential(tmp_path / "strange.creds")


def test_an_identity_is_made_once(tmp_path: Path) -> None:
    """And then found again."""
    path = tmp_path / "identity.json"
    assert identity.load_identity(path) == identity.load_identity(path)


def test_an_older_identity_gets_the_keys_that_it_lacks(tmp_path: Path) -> None:
    """Once; all that it had stays."""
    path = tmp_path / "identity.json"
    whole = msgspec.to_builtins(identity.make_identity())
    del whole["worker_signing"]
    path.write_bytes(msgspec.json.encode(whole))

    first = identity.load_identity(path)

    assert whole.items() <= msgspec.to_builtins(first).items()
    assert identity.load_identity(path) == first
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_worker_is_renewed_under_its_own_key_only() -> None:
    """For whoever can show a token of this signer, with that pool and name; its end does not matter."""
    signer, other = (identity.make_identity().worker_signer for _ in range(2))
    ended = signer.mint("default", "w1", valid_s=-5)
    renewed = tokens.read_claims(signer.renew(ended.jwt, "default", "w1", valid_s=60))
    assert renewed["sub"] == tokens.read_claims(ended.jwt)["sub"]
    assert renewed["exp"] > tokens.read_claims(ended.jwt)["exp"]
    head, _, signature = ended.jwt.rpartition(".")
    for token, pool, name in (
        (ended.jwt, "default", "w2"),
        (ended.jwt, "other", "w1"),
        (other.mint("default", "w1", valid_s=60).jwt, "default", "w1"),
        (f"{head}x.{signature}", "default", "w1"),
        (f"{head}.{signature[:-8]}", "default", "w1"),
        (f"{head}.", "default", "w1"),
        ("", "default", "w1"),
        ("a.b.c", "default", "w1"),
    ):
        with pytest.raises(Forbidden):
            signer.renew(token, pool, name, valid_s=60)


def test_a_worker_that_made_its_own_key_is_vouched_for() -> None:
    """The JWT names its key; what is no user's key, or is damaged, is refused."""
    signer = identity.make_identity().worker_signer
    user = keys.make_key("user")
    claims = tokens.read_claims(signer.vouch(user.public, "default", "w1", valid_s=60))
    assert (claims["sub"], claims["name"]) == (user.public, "w1")
    damaged = user.public[:-1] + ("B" if user.public.endswith("A") else "A")
    for key in (keys.make_key("account").public, user.seed, damaged, user.public.lower(), "", "ä"):
        with pytest.raises(Forbidden):
            signer.vouch(key, "default", "w1", valid_s=60)


@pytest.mark.parametrize("text", ["", "a.b", "a.b.c", "a.e30.c"])
def test_what_is_no_token_is_refused_or_empty(text: str) -> None:
    """Never another kind of error."""
    with suppress(ValueError):
        assert tokens.read_claims(text) == {}


def test_only_the_admin_may_do_everything() -> None:
    """Every other role has a list for both directions."""
    named = {
        "provisioner": roles.provisioner(),
        "publisher": roles.publisher("t"),
        "worker": roles.worker("default", "w1"),
        "pool-manager": roles.pool_manager("m1"),
        "local-node": roles.local_node("n1"),
        "checkpointer": roles.checkpointer("n1"),
        "watcher": roles.system_watcher("w1"),
        "enroller": roles.enroller(),
    }
    for name, permissions in named.items():
        assert permissions.publish is not None, name
        assert permissions.hear is not None, name
        assert ">" not in permissions.publish + permissions.hear, name
    assert roles.admin().claims() == {}


def test_a_role_without_a_word_may_publish_nothing() -> None:
    """An empty list in a token would mean "all"."""
    claims = roles.system_watcher("w1").claims()
    assert claims["pub"] == {"deny": [">"]}
