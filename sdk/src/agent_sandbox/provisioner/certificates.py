"""The cluster's own certificates: an authority, and what it signs for the servers."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from shared.errors import InvalidMessage

AUTHORITY_DAYS = 3650
EARLY = datetime.timedelta(minutes=5)
"""Clocks differ: a certificate is valid from a little before it was made."""


class Pair(msgspec.Struct, frozen=True):
    """A certificate and its key, PEM."""

    certificate: str
    key: str

    def __repr__(self) -> str:
        """Hide the key."""
        return "Pair()"


def make_authority(now: datetime.datetime) -> Pair:
    """Return a new authority, which vouches for nobody outside this cluster."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("agent-sandbox")
    builder = (
        _builder(name, name, key.public_key(), now, datetime.timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _pair(builder.sign(key, hashes.SHA256()), key)


def make_certificate(
    authority: Pair, names: Sequence[str], valid_s: float, now: datetime.datetime
) -> Pair:
    """Return a certificate by which servers prove who they are, to clients and to each other.

    Args:
        authority: who signs.
        names: host names and addresses.
        valid_s: its life, seconds.
        now: the time.
    """
    signer, signing_key = _load(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key()
    life = datetime.timedelta(seconds=valid_s)
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = (
        _builder(_name("nats"), signer.subject, public, now, life)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([_alternative(n) for n in names]), critical=False
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()),
            critical=False,
        )
    )
    return _pair(builder.sign(signing_key, hashes.SHA256()), key)


def is_good(pair: Pair, authority: Pair, names: Sequence[str], now: datetime.datetime) -> bool:
    """Return whether a certificate is the authority's, for exactly these names, and has not lived half its life."""
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate.encode())
        certificate.verify_directly_issued_by(_load(authority)[0])
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, x509.ExtensionNotFound):
        return False
    except Exception as exc:  # noqa: BLE001 - the library raises its backend's own for a wrong signature
        del exc
        return False
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now < begin + (end - begin) / 2 and set(found) == {_alternative(n) for n in names}


def _load(pair: Pair) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate.encode())
        key = load_pem_private_key(pair.key.encode(), None)
    except ValueError as exc:
        raise InvalidMessage(f"a certificate or key that can't be read: {exc}") from exc
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return certificate, key


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    life: datetime.timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLY)
        .not_valid_after(now + life)
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    return Pair(
        certificate.public_bytes(Encoding.PEM).decode(),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
    )
