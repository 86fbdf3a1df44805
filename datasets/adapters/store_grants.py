"""The signed part of a folder store's addresses: what exactly its holder may do, sealed with the site's key."""

from dataclasses import dataclass
from datetime import UTC, datetime

from django.core import signing

from datasets.errors import SignatureExpired, SignatureInvalid

_SALT = "datasets.store"


@dataclass(frozen=True)
class StoreGrant:
    """One method on one key of one store until a moment; for a PUT, of a body of that length and hash."""

    method: str
    store_id: str
    key: str
    size_bytes: int
    sha256: str
    expires_at: datetime


def seal(grant: StoreGrant) -> str:
    """Return the grant as text for a URL that nobody else can make."""
    expires = int(grant.expires_at.timestamp())
    facts = [grant.method, grant.store_id, grant.key, grant.size_bytes, grant.sha256, expires]
    return signing.Signer(salt=_SALT).sign_object(facts)


def unseal(text: str, *, method: str, now: datetime) -> StoreGrant:
    """Return what `text` allows.

    Raises SignatureInvalid when it is not ours or for another method, SignatureExpired when it is late.
    """
    try:
        signed_method, store_id, key, size_bytes, sha256, expires = signing.Signer(salt=_SALT).unsign_object(text)
    except (signing.BadSignature, ValueError) as error:
        raise SignatureInvalid("This store address was not signed by this installation.") from error
    if signed_method != method:
        raise SignatureInvalid(f"This store address is for {signed_method}, not for {method}.")
    expires_at = datetime.fromtimestamp(expires, tz=UTC)
    if now >= expires_at:
        raise SignatureExpired("This store address has expired.")
    return StoreGrant(signed_method, store_id, key, size_bytes, sha256, expires_at)
