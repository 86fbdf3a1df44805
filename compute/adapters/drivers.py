"""The kinds of resources, and from a resource to its driver: the one place where a kind becomes an adapter."""

import json
import threading
from collections.abc import Mapping
from pathlib import Path

from cryptography.fernet import Fernet
from django.conf import settings

from compute.adapters.kinds import Credentials, ResourceKind
from compute.adapters.kubernetes.kind import KIND as KUBERNETES
from compute.adapters.local.kind import KIND as LOCAL
from compute.adapters.simulated.kind import KIND as SIMULATED
from compute.engine.ports import ComputeDriver
from compute.errors import InvalidResource
from compute.models import Resource
from core import hosts

KINDS: Mapping[str, ResourceKind] = {kind.name: kind for kind in (SIMULATED, LOCAL, KUBERNETES)}

_guard = threading.Lock()
_drivers: dict[tuple[Path, str, bool], tuple[bytes, ComputeDriver]] = {}


def get_kind(name: str) -> ResourceKind:
    """Return a kind of resource. Raises InvalidResource."""
    if name not in KINDS:
        raise InvalidResource(f"'{name}' is no kind of compute resource. There are: {', '.join(KINDS)}.")
    return KINDS[name]


def driver_of(resource: Resource) -> ComputeDriver:
    """Return the driver of a resource, the same object within a process until its credentials are replaced."""
    key, credentials = _key_of(resource), bytes(resource.credentials)
    with _guard:
        opened_with, driver = _drivers.get(key, (None, None))
        if driver is None or opened_with != credentials:
            driver = open_driver(resource, decrypt(credentials))
            _drivers[key] = credentials, driver
        return driver


def open_driver(resource: Resource, credentials: Credentials) -> ComputeDriver:
    """Return a new driver of a resource with these credentials."""
    return get_kind(resource.kind).open(resource, Path(settings.NEARLINE.home), credentials)


def install(resource: Resource, driver: ComputeDriver) -> None:
    """Serve a resource by this driver within this process. For tests."""
    with _guard:
        _drivers[_key_of(resource)] = bytes(resource.credentials), driver


def _key_of(resource: Resource) -> tuple[Path, str, bool]:
    return Path(settings.NEARLINE.home), resource.pk, hosts.is_here(resource.host)


def encrypt(credentials: Credentials) -> bytes:
    """Return what `Resource.credentials` holds."""
    return _cipher().encrypt(json.dumps(dict(credentials), sort_keys=True).encode()) if credentials else b""


def decrypt(ciphertext: bytes) -> Credentials:
    """Return the credentials of a resource in the clear."""
    credentials: Credentials = json.loads(_cipher().decrypt(ciphertext)) if ciphertext else {}
    return credentials


def _cipher() -> Fernet:
    return Fernet(settings.NEARLINE.secrets_key)
