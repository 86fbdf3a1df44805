"""What a host serves one copy with: a token that opens it, and a key of its own with its certificate."""

import secrets
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

# The clocks of hosts differ.
_EARLIER, _LIFETIME = timedelta(days=1), timedelta(days=2)


def make_secret(now: datetime) -> str:
    """Return a token in a line of its own, then a new key and its certificate in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "nearline copy")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    dated = builder.not_valid_before(now - _EARLIER).not_valid_after(now + _LIFETIME)
    certificate = dated.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return f"{secrets.token_urlsafe(32)}\n{(private + certificate).decode()}"
