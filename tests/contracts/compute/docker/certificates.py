"""Certificates of an authority of its own: for a daemon on loopback, for who may enter, and for a stranger."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_PEM = serialization.Encoding.PEM


def write_certificates(folder: Path) -> None:
    """Write `ca.pem`, and `NAME.pem` and `NAME-key.pem` of the daemon, a client and a stranger."""
    folder.mkdir()
    for authority, names in (("ca", ("daemon", "client")), ("other-ca", ("stranger",))):
        key = ec.generate_private_key(ec.SECP256R1())
        signed = _sign(authority, key.public_key(), authority, key, is_authority=True)
        (folder / f"{authority}.pem").write_bytes(signed.public_bytes(_PEM))
        for name in names:
            own = ec.generate_private_key(ec.SECP256R1())
            (folder / f"{name}.pem").write_bytes(_sign(name, own.public_key(), authority, key).public_bytes(_PEM))
            text = own.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
            (folder / f"{name}-key.pem").write_bytes(text)


def _sign(name: str, public_key, authority: str, key, *, is_authority: bool = False) -> x509.Certificate:
    now = datetime.now(UTC)
    addresses = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(authority))
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(addresses, critical=False)
        .sign(key, hashes.SHA256())
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
