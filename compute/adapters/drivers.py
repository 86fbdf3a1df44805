"""The kinds of resources, and from a resource to its driver: the one place where a kind becomes an adapter."""

import json
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from django.conf import settings
from django.db.models import Q

from compute.adapters.docker.kind import KIND as DOCKER
from compute.adapters.kinds import Credentials, ResourceKind
from compute.adapters.kubernetes.driver import KubernetesDriver
from compute.adapters.kubernetes.kind import KIND as KUBERNETES
from compute.adapters.local.kind import KIND as LOCAL
from compute.adapters.simulated.kind import KIND as SIMULATED
from compute.adapters.ssh.driver import SshDriver
from compute.adapters.ssh.kind import KIND as SSH
from compute.engine.ports import ComputeDriver
from compute.errors import InvalidResource, ResourceUnreachable
from compute.models import Resource
from core import encryption, hosts
from core.encryption import CredentialsUnreadable
from core.errors import NotFound
from core.kubernetes.connections import ClusterConnection, ClusterNotAttached
from core.remote_hosts import HostNotAttached, RemoteHost

KINDS: Mapping[str, ResourceKind] = {kind.name: kind for kind in (SIMULATED, LOCAL, KUBERNETES, SSH, DOCKER)}

_guard = threading.Lock()
_Key = tuple[Path, str, bool]
_drivers: dict[_Key, tuple[bytes, ComputeDriver]] = {}
_planned: dict[str, Resource] = {}
_ASKED_AT_ONCE = 8


def get_kind(name: str) -> ResourceKind:
    """Return a kind of resource. Raises InvalidResource."""
    if name not in KINDS:
        raise InvalidResource(f"'{name}' is no kind of compute resource. There are: {', '.join(KINDS)}.")
    return KINDS[name]


def driver_of(resource: Resource) -> ComputeDriver:
    """Return the driver of a resource, the same object within a process until its credentials are replaced.

    Whoever read the row before that gets the new driver all the same, and the row as it is now. Raises
    ResourceUnreachable and CredentialsUnreadable.
    """
    key = _key_of(resource)
    opened_with, driver = _drivers.get(key, (None, None))
    if driver is not None and opened_with == bytes(resource.credentials):
        return driver
    if driver is not None:
        with suppress(Resource.DoesNotExist):  # one that is planned
            resource.refresh_from_db(fields=["config", "credentials"])
    credentials = bytes(resource.credentials)
    replaced = None
    with _guard:
        opened_with, driver = _drivers.get(key, (None, None))
        if driver is None or opened_with != credentials:
            replaced, driver = driver, open_driver(resource, decrypt(credentials))
            _drivers[key] = credentials, driver
    if isinstance(replaced, SshDriver):
        # It would stay open for ever, with what may have been revoked. A host that is away is not waited for.
        threading.Thread(target=replaced.close, name=f"close {resource.name}", daemon=True).start()
    return driver


def side_by_side(resource: Resource, count: int) -> AbstractContextManager[Executor | None]:
    """Return what makes so many calls to a resource side by side; None where it is not behind a network."""
    if count > 1 and get_kind(resource.kind).is_remote:
        return ThreadPoolExecutor(_ASKED_AT_ONCE, thread_name_prefix=f"ask {resource.name}")
    return nullcontext()


def open_driver(resource: Resource, credentials: Credentials) -> ComputeDriver:
    """Return a new driver of a resource with these credentials."""
    return get_kind(resource.kind).open(resource, Path(settings.NEARLINE.home), credentials)


@contextmanager
def reachable(planned: Resource) -> Iterator[None]:
    """Let this process reach a resource by its id before its row is saved: what comes with it is tried out first."""
    _planned[planned.pk] = planned
    try:
        yield
    except BaseException:
        with _guard:
            _, driver = _drivers.pop(_key_of(planned), (None, None))
        if driver is not None:
            with suppress(ResourceUnreachable):
                get_kind(planned.kind).withdraw(driver)
        raise
    finally:
        del _planned[planned.pk]


def _find(named: str, missing: type[NotFound]) -> Resource | None:
    """Return a resource that is planned or attached, by its id or name. Raises `missing` for one that was detached."""
    known = Resource.objects.filter(Q(pk=named) | Q(name=named, detached_at=None))
    resource = _planned.get(named) or known.first()
    if resource is not None and resource.detached_at is not None:
        raise missing(f"{resource.name} is detached.")
    return resource


def connect(named: str) -> ClusterConnection:
    """Return the connection to a cluster, given by id or name, with its credentials. Raises ClusterNotAttached."""
    resource = _find(named, ClusterNotAttached)
    if resource is None:
        attached = Resource.objects.filter(detached_at=None, kind=KUBERNETES.name).order_by("name")
        names = ", ".join(attached.values_list("name", flat=True)) or "none"
        raise ClusterNotAttached(f"No cluster is attached as '{named}'. Attached clusters: {names}.")
    try:
        driver = driver_of(resource)
    except (ResourceUnreachable, CredentialsUnreadable) as error:
        raise ClusterNotAttached(f"{resource.name} cannot be reached: {error.message}") from error
    return connection_by(driver, resource)


def connection_by(driver: ComputeDriver, resource: Resource) -> ClusterConnection:
    """Return the connection that a driver has to the cluster of its resource. Raises ClusterNotAttached."""
    if not isinstance(driver, KubernetesDriver):
        raise ClusterNotAttached(f"{resource.name} is no cluster: its kind is {resource.kind}.")
    return driver.connection


def find_connection(resource: Resource) -> ClusterConnection | None:
    """Return the connection to the cluster of a resource; None where that is none. Raises what `driver_of` raises."""
    driver = driver_of(resource)
    return driver.connection if isinstance(driver, KubernetesDriver) else None


def connect_host(resource: str) -> RemoteHost:
    """Return an attached host, by the id or name of its resource. Raises HostNotAttached."""
    kept_driver = _find(resource, HostNotAttached)
    if kept_driver is None:
        attached = Resource.objects.filter(detached_at=None, kind=SSH.name).order_by("name")
        names = ", ".join(attached.values_list("name", flat=True)) or "none"
        raise HostNotAttached(f"No host is attached by SSH as '{resource}'. Attached hosts: {names}.")
    if kept_driver.kind != SSH.name:
        raise HostNotAttached(f"{kept_driver.name} is no host reached by SSH: its kind is {kept_driver.kind}.")
    try:
        driver = driver_of(kept_driver)
    except (InvalidResource, ResourceUnreachable, CredentialsUnreadable) as error:
        raise HostNotAttached(f"{kept_driver.name} cannot be reached: {error.message}") from error
    assert isinstance(driver, SshDriver)  # noqa: S101 (its kind opens no other)
    return RemoteHost(kept_driver.pk, kept_driver.name, driver.address, driver.ask_about_copies)


def install(resource: Resource, driver: ComputeDriver) -> None:
    """Serve a resource by this driver within this process. For tests."""
    with _guard:
        _drivers[_key_of(resource)] = bytes(resource.credentials), driver


def _key_of(resource: Resource) -> _Key:
    home: Path = settings.NEARLINE.home
    return home, resource.pk, hosts.is_here(resource.host)


def encrypt(credentials: Credentials) -> bytes:
    """Return what `Resource.credentials` holds."""
    return encryption.encrypt(json.dumps(dict(credentials), sort_keys=True)) if credentials else b""


def encrypt_anew(ciphertext: bytes) -> bytes:
    """Return the same credentials as other bytes, where there are none too: each process opens its driver anew then."""
    return encryption.encrypt(json.dumps(dict(decrypt(ciphertext)), sort_keys=True))


def decrypt(ciphertext: bytes) -> Credentials:
    """Return the credentials of a resource in the clear. Raises CredentialsUnreadable."""
    if not ciphertext:
        return {}
    credentials: Credentials = json.loads(encryption.decrypt(ciphertext, "The credentials of the resource"))
    return credentials
