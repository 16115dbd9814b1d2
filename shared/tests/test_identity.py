"""Keys, tokens, credentials and their files."""

from __future__ import annotations

import base64
import stat
from contextlib import suppress
from pathlib import Path

import nkeys
import pytest

from shared import identity
from shared.errors import InvalidMessage, NotFound
from shared.identity import keys, roles, tokens


def test_secrets_are_not_shown() -> None:
    """Neither by a log line nor in a traceback."""
    made = identity.make_identity()
    credential = made.signer.mint("w1", roles.worker("default", "w1"))
    for secret, shown in (
        (made.operator.seed, repr(made)),
        (made.account_signing.seed, repr(made.signer)),
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
    assert identity.expires_at(credential) == claims["exp"]


def test_a_token_without_an_end_has_none() -> None:
    """Embedded clusters hand such to their own user."""
    credential = identity.make_identity().signer.mint("admin", roles.admin())
    assert identity.expires_at(credential) is None


def test_a_nonce_is_signed_with_the_users_key() -> None:
    """As the library's own helper would."""
    credential = identity.make_identity().signer.mint("admin", roles.admin())
    pair = nkeys.from_seed(bytearray(credential.seed.encode()))
    assert pair.verify(b"nonce", base64.b64decode(identity.sign_nonce(credential.seed, "nonce")))


def test_the_inbox_is_read_from_the_credential() -> None:
    """So that nobody needs to be told twice."""
    signer = identity.make_identity().signer
    assert identity.inbox_prefix(signer.mint("w7", roles.worker("default", "w7"))) == "_INBOX_w7"
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
        "watcher": roles.system_watcher("w1"),
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
