"""All processes of an installation must have the same keys: sessions, signed addresses and stored secrets depend on it.

The database knows each key by a slow hash. A process with another key does not start.
"""

import hashlib
from collections.abc import Iterator

from django.conf import settings

from core.models import KnownKey

_EFFECTS = {
    "NEARLINE_SECRET_KEY": "sessions and links would be valid in one process and not in another",
    "NEARLINE_SECRETS_KEY": "stored secrets and credentials could not be read",
}


def record_keys() -> None:
    """Note the keys of a new installation, then do what `check_keys` does."""
    for name, digest in _digests():
        KnownKey.objects.get_or_create(name=name, defaults={"digest": digest})
    check_keys()


def replace_keys() -> None:
    """Note the keys of this process in place of those before."""
    for name, digest in _digests():
        KnownKey.objects.update_or_create(name=name, defaults={"digest": digest})


def check_keys() -> None:
    """Raise SystemExit with one sentence for a key that is not the one of this installation."""
    known = dict(KnownKey.objects.values_list("name", "digest"))
    for name, digest in _digests():
        if known.get(name, digest) != digest:
            raise SystemExit(
                f"{name} is not the key with which this database is used: {_EFFECTS[name]}. Give all processes the "
                f"same value, which is in the settings of the others or in their home folder. Only if the old key is "
                f"given up for all of them: python manage.py setup --new-keys"
            )


def _digests() -> Iterator[tuple[str, str]]:
    keys = (settings.NEARLINE.secret_key, settings.NEARLINE.secrets_key)
    for name, key in zip(_EFFECTS, keys, strict=True):
        yield name, hashlib.scrypt(key.encode(), salt=name.encode(), n=2**14, r=8, p=1).hex()
