"""Cache sites of kind `ssh`: a folder of a host that is attached by SSH, filled there, that the host's jobs read.

The program of ours there fills, verifies and removes copies by processes that outlive the connection. They read from
the store by signed addresses and tell the platform how far they are. What is known of a copy is in the folder. What
another host has of a commit is read from there, also while it is being filled (`nearline.pod.peers`).
"""

import posixpath
import secrets
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from django import forms
from django.db.models import Sum

from core import clock
from core.remote_hosts import HostNotAttached, HostUnreachable, RemoteHost, open_host
from datasets.adapters.copy_tokens import sign_copy
from datasets.adapters.sites import copy_work
from datasets.adapters.sites.folder.kind import FolderForm
from datasets.adapters.sites.kinds import SiteKind
from datasets.engine.cache_ports import (
    CacheSiteDriver,
    CopyLease,
    CopyProgress,
    CopyRequest,
    Findings,
    Sharing,
    SiteUsage,
)
from datasets.engine.cache_states import LIVE, CacheState
from datasets.engine.volumes import FILES
from datasets.errors import CacheSiteUnavailable, InvalidCacheSite, RemovalHeldUp
from datasets.models import BYTES_ON_DISK, CachedCommit, CacheSite, CacheSiteKind

_TRY_S = 90.0
_TIMEOUT_S = 60.0
_DONOR_BEGINS_WITHIN = timedelta(minutes=10)
"""So long is waited for a host to serve a copy; then the store is read."""
_UNEXPLAINED = "The process that does it ended without saying why."
# The clocks of hosts differ.
_EARLIER, _LIFETIME = timedelta(days=1), timedelta(days=2)


class SshForm(FolderForm):
    """Which host, and which folder there."""

    resource = forms.CharField(
        max_length=63,
        required=False,
        label="Host",
        help_text="The name of a host that is attached by SSH.",
    )


def check(site: CacheSite) -> None:
    """Require a host that is attached by SSH, and a folder there that its user can write and that is nobody else's.

    The host also tries whether its Python runs the program that fills copies. Raises InvalidCacheSite and
    CacheSiteUnavailable.
    """
    resource = site.config.get("resource")
    if unknown := sorted(set(site.config) - {"resource", "hard_links"}):
        raise InvalidCacheSite(f"A site of kind ssh has no setting '{unknown[0]}'.")
    if not isinstance(resource, str) or not resource:
        raise InvalidCacheSite("A site of kind ssh needs 'resource': the name of a host that is attached by SSH.")
    folder = site.root.rstrip("/")
    if not folder.startswith("/") or posixpath.normpath(folder) != folder or folder.startswith("//"):
        raise InvalidCacheSite(f"The folder on the host is given from the root on and without '..', unlike '{folder}'.")
    try:
        host = open_host(resource)
    except HostNotAttached as error:
        raise InvalidCacheSite(error.message) from error
    for other in CacheSite.objects.filter(kind=CacheSiteKind.SSH, config__resource=host.resource).exclude(pk=site.pk):
        if f"{folder}/".startswith(f"{other.root}/") or f"{other.root}/".startswith(f"{folder}/"):
            raise InvalidCacheSite(f"{folder} and {other.root} of the site '{other.name}' lie in each other.")
    site.root, site.config = folder, {"resource": host.resource, **_try_out(host, folder, site.pk)}


def _try_out(host: RemoteHost, folder: str, site_id: str) -> dict[str, bool]:
    try:
        answer = host.ask("check_copies", root=folder, site=site_id, reply_timeout_s=_TRY_S)
    except HostUnreachable as error:
        raise CacheSiteUnavailable(error.message) from error
    if answer["fault"]:
        raise InvalidCacheSite(answer["fault"])
    return {"hard_links": answer["hard_links"]}


class SshSite:
    """Copies as folders of one folder, which share files by hard links where its file system makes them."""

    folder = None

    def __init__(self, site: CacheSite, host: RemoteHost) -> None:
        self._site = site
        self._host = host
        self._copies = CachedCommit.objects.filter(site=site, state__in=LIVE)

    @property
    def resource(self) -> str:
        """The id of the attached host."""
        return self._host.resource

    @property
    def sharing(self) -> Sharing:
        """How copies share files."""
        return Sharing.HARD_LINK if self._site.config.get("hard_links", True) else Sharing.NONE

    @property
    def verifier(self) -> "SshSite":
        """Processes on the host."""
        return self

    def usage(self) -> SiteUsage:
        """Return what the host says of its disk; while it does not answer, the capacity less what the copies take."""
        try:
            return SiteUsage(**self._ask("measure_copies"))
        except HostUnreachable:
            used: int = self._copies.aggregate(used=Sum(BYTES_ON_DISK))["used"] or 0
            return SiteUsage(self._site.capacity_bytes, max(0, self._site.capacity_bytes - used), is_measured=False)

    def now_ns(self) -> int:
        """Return the platform's time."""
        return int(clock.now().timestamp() * 10**9)

    def can_read(self, other: CacheSiteDriver) -> bool:
        """Read other folders of the same host, and what other hosts serve."""
        return isinstance(other, SshSite)

    def ensure(self, copy: CopyRequest, lease: CopyLease) -> CopyProgress:
        """Have a process that fills the copy, and return how far it is."""
        try:
            progress = self._ensure(copy)
        except HostUnreachable as error:
            # The process goes on while the host cannot be asked.
            progress = copy_work.read_progress(self._copies, copy.id, f"the host: {error.message}")
        lease.report(progress)
        return progress

    def stop(self, copy_id: str) -> bool:
        """End the process that fills a copy; another one goes on with what it wrote."""
        try:
            return bool(self._ask("stop_copy", copy=copy_id))
        except HostUnreachable:
            return False

    def verify(self, copy_id: str, *, part: tuple[int, int] | None) -> Findings | None:
        """Have a process do it; one on a host that does not answer is asked for later."""
        options = [] if part is None else ["--part", f"{part[0]}/{part[1]}"]
        try:
            result = self._ask("verify_copy", copy=copy_id, options=options, token=sign_copy(copy_id))
        except HostUnreachable:
            return None
        if "error" in result:
            raise self._failure(result)
        return copy_work.read_findings(result) if result else None

    def delete(
        self,
        copy_id: str,
        *,
        location: str,  # noqa: ARG002 (the folder is named after the copy)
        token: str,  # noqa: ARG002 (the row's state is the fence)
        settle: Callable[[int], None] | None,
        keep_going: Callable[[], bool],
    ) -> bool:
        """End what works on the copy, take it out of sight by a rename, then remove it.

        Raises RemovalHeldUp while a job on the host reads it.
        """
        if settle is not None:
            settle(copy_work.freed_bytes(self._copies, copy_id))

        def step() -> str:
            answer = self._ask("remove_copy", copy=copy_id, token="")
            if held_by := answer.get("held_by"):
                raise RemovalHeldUp(held_by)
            return str(answer.get("waits_for", ""))

        try:
            return copy_work.wait_until_gone(step, keep_going)
        except HostUnreachable as error:
            raise CacheSiteUnavailable(error.message) from error

    def list(self) -> Mapping[str, str]:
        """Return what the host says."""
        try:
            copies: Mapping[str, str] = self._ask("list_copies", reply_timeout_s=_TIMEOUT_S)
        except HostUnreachable as error:
            raise CacheSiteUnavailable(error.message) from error
        return copies

    def serve(self, copy_id: str, reader: str) -> Mapping[str, Any]:
        """Have the host serve a copy to another one that makes the copy `reader`; return what that has to know.

        `is_starting`: ask again. Empty: it does not.
        """
        secret = _make_secret(clock.now())
        try:
            served: Mapping[str, Any] = self._ask("serve_copy", copy=copy_id, reader=reader, token=secret)
        except HostUnreachable:
            return {}
        return {"host": self._host.address, **served} if "port" in served else served

    def files_of(self, copy_id: str) -> str:
        """Return the folder on the host with the files of a copy."""
        return f"{self._site.root}/{copy_id}/{FILES}"

    def _ensure(self, copy: CopyRequest) -> CopyProgress:
        options: list[str] = []
        peer: Mapping[str, Any] = {}
        if copy.donor is not None and isinstance(copy.donor.site, SshSite):
            is_coming = copy.donor.is_coming()
            if copy.donor.site.resource == self.resource and not is_coming:
                options.append(copy.donor.site.files_of(copy.donor.id))
            else:
                peer = copy.donor.site.serve(copy.donor.id, copy.id)
                is_early = clock.now() - copy.started_at < _DONOR_BEGINS_WITHIN
                if is_early and ("is_starting" in peer or (is_coming and not peer)):
                    return copy_work.read_progress(self._copies, copy.id, "the copy from which it is filled")
        if copy.base is not None and self.sharing is not Sharing.NONE:
            base = self._copies.filter(location=copy.base.location).exclude(pk=copy.id).first()
            options += ["--base", base.pk] if base is not None else []
        result = self._ask(
            "ensure_copy",
            copy=copy.id,
            location=copy.location,
            options=options,
            token=sign_copy(copy.id),
            peer=peer if "port" in peer else {},
            is_known=self._copies.filter(state=CacheState.READY).exists(),
        )
        if "error" in result:
            raise self._failure(result)
        if "made" in result:
            return copy_work.ready(result["made"])
        return copy_work.read_progress(self._copies, copy.id, "")

    def _ask(self, method: str, *, reply_timeout_s: float = 10.0, **arguments: Any) -> Any:
        return self._host.ask(
            method, reply_timeout_s=reply_timeout_s, root=self._site.root, site=self._site.pk, **arguments
        )

    def _failure(self, result: Mapping[str, Any]) -> Exception:
        answer = {**result, "error": f"{self._host.name}: {result['error']}"}
        return copy_work.find_failure(answer, kind=CacheSiteUnavailable, unexplained=_UNEXPLAINED)


def _make_secret(now: datetime) -> str:
    """Return what a host serves a copy with: a token in a line of its own, then a key and its certificate in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "nearline copy")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    dated = builder.not_valid_before(now - _EARLIER).not_valid_after(now + _LIFETIME)
    certificate = dated.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return f"{secrets.token_urlsafe(32)}\n{(private + certificate).decode()}"


def open_driver(site: CacheSite) -> SshSite:
    """Return the driver."""
    try:
        return SshSite(site, open_host(str(site.config["resource"])))
    except HostNotAttached as error:
        raise CacheSiteUnavailable(f"The host of {site.name} cannot be reached: {error.message}") from error


KIND = SiteKind(
    name="ssh",
    label="ssh: a folder of a host that is attached by SSH, for its jobs",
    form=SshForm,
    check=check,
    open=open_driver,
    default_part=0.8,
    works_alone=True,
    pauses=True,
    stops_by_call=True,
    is_read_early=True,
)
