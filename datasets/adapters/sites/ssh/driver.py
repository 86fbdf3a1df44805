"""The driver of kind `ssh`: a folder of a host that is attached by SSH.

The program of ours there fills, verifies and removes copies by processes that outlive the connection. They read from
the store by signed addresses and tell the platform how far they are. What is known of a copy is in the folder. What
another host has of a commit is read from there, also while it is being filled (`nearline.pod.peers`).
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django.db.models import Sum

from core import clock
from core.remote_hosts import HostUnreachable, RemoteHost
from datasets.adapters.copy_tokens import sign_copy
from datasets.adapters.sites import charges, copy_work
from datasets.adapters.sites.ssh.copy_secrets import make_secret
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
from datasets.errors import CacheSiteUnavailable, RemovalHeldUp
from datasets.models import BYTES_ON_DISK, CachedCommit, CacheSite

_TIMEOUT_S = 60.0
_DONOR_BEGINS_WITHIN = timedelta(minutes=10)
"""So long is waited for a host to serve a copy; then the store is read."""
_UNEXPLAINED = "The process that does it ended without saying why."


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
            settle(charges.freed_bytes(self._copies, copy_id))

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
        secret = make_secret(clock.now())
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
