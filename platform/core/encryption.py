"""Texts that are stored encrypted with the key of the installation, `NEARLINE_SECRETS_KEY`."""

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings

from core.errors import Blame, ErrorKind, PlatformError


class CredentialsUnreadable(PlatformError):
    """What was encrypted with another key than the present one cannot be read any more."""

    code, kind = "core.credentials_unreadable", ErrorKind.CONFLICT  # asking again does not help
    blame = Blame.PLATFORM
    hint = (
        "It was encrypted with another NEARLINE_SECRETS_KEY. Start with that key, or enter it again: a secret with "
        "`nearline secret set`, keys of the store by `manage.py setup`, others on the page of what they open."
    )


def encrypt(text: str) -> bytes:
    """Return what can be stored."""
    return Fernet(settings.NEARLINE.secrets_key).encrypt(text.encode())


def decrypt(ciphertext: bytes, what: str) -> str:
    """Return a text in the clear; `what` it is tells people whose it is. Raises CredentialsUnreadable."""
    try:
        return Fernet(settings.NEARLINE.secrets_key).decrypt(ciphertext).decode()
    except InvalidToken as error:
        raise CredentialsUnreadable(f"{what} cannot be decrypted.") from error
