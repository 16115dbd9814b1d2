"""Who may do what: keys, JWTs, credentials, and the permissions of each role."""

from shared.identity.accounts import Identity, make_identity
from shared.identity.files import (
    format_credential,
    load_identity,
    parse_credential,
    read_credential,
    write_credential,
    write_secret,
)
from shared.identity.keys import Key, is_user_key, make_key, proxy_signature, sign_nonce
from shared.identity.roles import Permissions
from shared.identity.tokens import (
    Signer,
    WorkerSigner,
    inbox_prefix,
    lifetime,
    read_claims,
)
from shared.messages import Credential

__all__ = [
    "Credential",
    "Identity",
    "Key",
    "Permissions",
    "Signer",
    "WorkerSigner",
    "format_credential",
    "inbox_prefix",
    "is_user_key",
    "lifetime",
    "load_identity",
    "make_identity",
    "make_key",
    "parse_credential",
    "proxy_signature",
    "read_claims",
    "read_credential",
    "sign_nonce",
    "write_credential",
    "write_secret",
]
