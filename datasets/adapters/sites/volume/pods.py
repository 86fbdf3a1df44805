"""What the drivers of sites on clusters share: Jobs that fill and verify copies, and how they are followed.

All that is known of a copy is in objects that are named after it, so any process can ask and go on. One of them owns
the others: deleted with it, they leave nothing behind.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core import clock
from core.kubernetes import provisioners
from core.kubernetes.connections import ClusterConnection
from core.kubernetes.errors import ClusterUnreachable
from core.kubernetes.gateway import Refusal
from datasets.adapters.copy_tokens import LIFETIME, sign_copy
from datasets.adapters.sites import copy_work
from datasets.adapters.sites.copy_work import COUNTS, ready
from datasets.adapters.sites.volume import manifests, reasons
from datasets.adapters.sites.volume.manifests import Storage
from datasets.engine.cache_ports import (
    CacheSiteDriver,
    CopyLease,
    CopyProgress,
    CopyRequest,
    Findings,
)
from datasets.engine.cache_states import LIVE
from datasets.engine.volumes import claim_name
from datasets.errors import AgentImageTooOld, CacheSiteUnavailable, CopyGone, VolumeRefused
from datasets.models import CachedCommit, CacheSite

Json = dict[str, Any]

# What the names of Jobs that verify a copy end with.
READS_ALL, READS_PART = "-verify", "-verify-part"
_SEALS = "-seal"
"""What the name of the Job ends with that completes a copy once several pods have filled it."""
DUTIES = ("", _SEALS, READS_ALL, READS_PART)
"""What the names of all Jobs end with that work on a copy until it is removed."""
_SHARES_BY = "share"
"""What each of several pods that fill a copy is told to do."""
ENDED = {"Succeeded", "Failed"}
NOT_THERE = {403, 404}
"""What the cluster answers for kinds of objects that it does not know, or that the account may not use."""


class _EarlierPod(Exception):
    """A pod, which it names, may still write to a copy: two that write the same files would never agree."""


class ClusterSite(ABC):
    """Copies in one namespace of a cluster, filled by pods, which go on between calls."""

    folder = None
    fills_by, verifies_by = "fill", "verify"
    """What the pods are told to do (`nearline.pod.copies`)."""

    def __init__(self, site: CacheSite, connection: ClusterConnection) -> None:
        self._site_id = site.pk
        self._config = site.config
        self._connection = connection
        self._gateway = connection.gateway
        self._copies = CachedCommit.objects.filter(site=site, state__in=LIVE)
        core = f"/api/v1/namespaces/{connection.namespace}"
        self._claims, self._secrets = f"{core}/persistentvolumeclaims", f"{core}/secrets"
        self._pods, self._events = f"{core}/pods", f"{core}/events"
        self._snapshots = f"/apis/{manifests.SNAPSHOTS}/v1/namespaces/{connection.namespace}/volumesnapshots"
        self._jobs = f"/apis/batch/v1/namespaces/{connection.namespace}/jobs"

    @property
    def resource(self) -> str:
        """The id of the attached cluster."""
        return str(self._config["resource"])

    @property
    def verifier(self) -> "ClusterSite":
        """Jobs in the cluster."""
        return self

    def now_ns(self) -> int:
        """Return the platform's time."""
        return int(clock.now().timestamp() * 10**9)

    def can_read(self, other: CacheSiteDriver) -> bool:
        """Read what pods of the same cluster can mount."""
        return isinstance(other, ClusterSite) and other.resource == self.resource

    @abstractmethod
    def list(self) -> Mapping[str, str]:
        """Return by id every copy of which anything is there, with its location; empty: it is not ready."""

    @abstractmethod
    def storage_of(self, copy_id: str) -> Storage:
        """Return where pods find a copy."""

    @abstractmethod
    def _find_owner(self, copy_id: str) -> Json | None:
        """Return the object that owns all others of a copy."""

    @abstractmethod
    def _ensure(self, copy: CopyRequest) -> CopyProgress:
        """Bring a copy as far as this call gets it."""

    @abstractmethod
    def _mark(self, owner: Json, made: Mapping[str, Any]) -> None:
        """Note that a copy is ready, and what was made."""

    def ensure(self, copy: CopyRequest, lease: CopyLease) -> CopyProgress:
        """Have the claim, the token and the Job of a copy, and return how far its pods are."""
        try:
            with as_site_errors():
                progress = self._ensure(copy)
        except _EarlierPod as pod:
            progress = self._progress(copy, waits_for=f"the end of the pod {pod}, which filled it before")
        except ClusterUnreachable as error:
            # Pods go on while the cluster cannot be asked.
            progress = self._progress(copy, waits_for=f"the cluster: {error.message}")
        lease.report(progress)
        return progress

    def stop(self, copy_id: str) -> bool:
        """Delete the Job that fills a copy, if it has not ended. What its pods wrote stays, and others go on with it.

        A Job could be suspended instead, but to change one is a right that the account does not need otherwise.
        """
        name = claim_name(copy_id)
        try:
            with as_site_errors():
                job = self._gateway.get(f"{self._jobs}/{name}")
                if job is not None and manifests.end_of(job):
                    return False
                self._end_filling(name)
        except ClusterUnreachable:
            return False
        return True

    def verify(self, copy_id: str, *, part: tuple[int, int] | None) -> Findings | None:
        """Have a Job do it."""
        with as_site_errors(unreachable=True):
            owner = self._find_owner(copy_id)
            if owner is None or "deletionTimestamp" in owner["metadata"]:
                raise CopyGone(f"{claim_name(copy_id)} is gone from the cluster: somebody deleted it.")
            name = f"{claim_name(copy_id)}{READS_ALL if part is None else READS_PART}"
            options = () if part is None else ("--part", f"{part[0]}/{part[1]}")
            job = self._have_job(name, owner, copy_id, duty=self.verifies_by, options=options)
            end = manifests.end_of(job)
            if not end:
                return None
            pods = self._pods_of(name)
            self._end_job(name)
        if end == "Failed":
            raise failure(pods)
        return copy_work.read_findings(reasons.read_result(pods))

    def _fill(self, copy: CopyRequest, owner: Json, options: tuple[str, ...] = (), *, pods: int = 1) -> CopyProgress:
        """Have the Job that fills a copy by so many pods, and return how far these are.

        One that is there goes on with as many as it has. Where they are several, none of them can tell that it is the
        last one: once all have ended, another Job looks at what they wrote, and it alone marks the copy as complete.
        """
        name, donor = claim_name(copy.id), _storage_of_donor(copy)
        duty, shares = (_SHARES_BY, _as_shares(pods)) if pods > 1 else (self.fills_by, ())
        arguments = (*options, *shares)
        job = self._have_job(name, owner, copy.id, duty=duty, options=arguments, donor=donor, pods=pods, fills=True)
        is_filled = manifests.end_of(job) == "Complete"
        if is_filled and (count := manifests.pods_of_job(job)) > 1:
            name, options = f"{name}{_SEALS}", (*options, *_as_shares(count))
            job = self._have_job(name, owner, copy.id, duty=self.fills_by, options=options, donor=donor, fills=True)
        job_pods = self._pods_of(name)
        if (end := manifests.end_of(job)) == "Complete":
            return self._finish(claim_name(copy.id), owner, reasons.read_result(job_pods))
        if end == "Failed":
            self._end_filling(claim_name(copy.id))
            raise failure([pod for pod in job_pods if not _has_succeeded(pod)])
        return self._progress(copy, waits_for=self._find_pod_reason(job, job_pods))

    def _have_job(
        self,
        name: str,
        owner: Json,
        copy_id: str,
        *,
        duty: str,
        options: tuple[str, ...] = (),
        donor: Storage | None = None,
        pods: int = 1,
        fills: bool = False,
        sign: Callable[[str], str] = sign_copy,
    ) -> Json:
        """Return the Job of this name, made with its token if it was not there; the token is renewed in time.

        For one that `fills` the copy, raises _EarlierPod while a pod of a deleted one may still do so.
        """
        path = f"{self._jobs}/{name}"
        job = self._gateway.get(path)
        if job is None and fills:
            for pod in [pod for each in ("", _SEALS) for pod in self._pods_of(f"{claim_name(copy_id)}{each}")]:
                if (pod.get("status") or {}).get("phase") not in ENDED:
                    raise _EarlierPod(pod["metadata"]["name"])
        self._have_token(name, owner, lambda: sign(copy_id), is_new=job is None)
        if job is None:
            manifest = manifests.build_job(
                name,
                owner,
                self._connection,
                site_id=self._site_id,
                duty=duty,
                storage=self.storage_of(copy_id),
                options=options,
                donor=donor,
                pods=pods,
            )
            job = self._gateway.create(self._jobs, manifest) or self._gateway.get(path) or {}
        return job

    def _have_token(self, name: str, owner: Json, sign: Callable[[], str], *, is_new: bool) -> None:
        now = clock.now()
        path = f"{self._secrets}/{name}"
        if not is_new:
            secret = self._gateway.get(path)
            signed_at = secret["metadata"].get("annotations", {}).get(manifests.SIGNED_AT) if secret else None
            if signed_at and now - datetime.fromisoformat(signed_at) < LIFETIME / 2:
                return
        # Pods that run keep the token that they began with.
        self._gateway.delete(path)
        secret = manifests.build_secret(name, owner, site_id=self._site_id, token=sign(), signed_at=now.isoformat())
        self._gateway.create(self._secrets, secret)

    def _finish(self, name: str, owner: Json, result: Json) -> CopyProgress:
        """Mark a copy as ready, whose Job has succeeded."""
        if not all(isinstance(result.get(key), int) for key in COUNTS):
            # Its pod is gone with what it said; the marker on the volume makes another one quick.
            self._end_filling(name)
            return CopyProgress(waits_for="a pod that looks at the volume again")
        made = {key: result[key] for key in ("root", *COUNTS)}
        self._mark(owner, made)
        self._end_filling(name)
        return ready(made)

    def _find_claim_reason(self, claim: Json) -> str:
        """Return why a claim cannot be filled yet; empty: it can. Raises VolumeRefused where waiting does not help."""
        phase = claim.get("status", {}).get("phase")
        if phase == "Bound":
            return ""
        if phase == "Lost":
            raise VolumeRefused(f"The volume of the claim {claim['metadata']['name']} is gone.")
        reason, is_final = reasons.provisioning_failure(self._events_of(claim))
        if is_final:
            self._drop(claim)
            raise VolumeRefused(f"The cluster made no volume for the claim: {reason}")
        if self._config.get("binds_late"):
            return ""  # it is bound once a pod mounts it
        return f"a volume of the class {self._config['storage_class']}" + (f": {reason}" if reason else "")

    def _find_pod_reason(self, job: Json, pods: Sequence[Json]) -> str:
        """Return what keeps the pods of a Job from working; empty: nothing that the cluster tells."""
        if any((pod.get("status") or {}).get("phase") == "Running" for pod in pods):
            return ""
        reason = reasons.why_pods_wait(pods, self._events_of(job) if not pods else [])
        return reason or next(filter(None, (reasons.mount_failure(self._events_of(pod)) for pod in pods)), "")

    def _drop(self, claim: Json) -> None:
        """Leave nothing behind of a claim that never had a volume: what is tried for ever slows the provisioner."""
        name = claim["metadata"]["name"]
        self._end_filling(name)
        self._gateway.delete(f"{self._claims}/{name}", uid=claim["metadata"]["uid"])

    def _end_filling(self, name: str) -> None:
        self._end_job(name)
        self._end_job(f"{name}{_SEALS}")

    def _end_job(self, name: str) -> None:
        self._gateway.delete(f"{self._jobs}/{name}")
        self._gateway.delete(f"{self._secrets}/{name}")

    def _progress(self, copy: CopyRequest, waits_for: str) -> CopyProgress:
        """Return what the pods of a copy have told the platform last."""
        return copy_work.read_progress(self._copies, copy.id, waits_for)

    def settle_shares(self) -> None:
        """Let all claims of the site be shared with the namespaces that it is to be shared with, and no others."""
        annotation = manifests.share_annotation(self._config)
        for claim in self._list_claims():
            annotations = claim["metadata"].get("annotations") or {}
            if annotations.get(provisioners.SHARED_WITH) != annotation[provisioners.SHARED_WITH]:
                name = claim["metadata"]["name"]
                self._gateway.patch(f"{self._claims}/{name}", {"metadata": {"annotations": annotation}})

    def _list_claims(self) -> Sequence[Json]:
        return self._gateway.list(self._claims, labelSelector=f"{manifests.SITE}={self._site_id}").items

    def _list_shares(self, volume: str) -> Sequence["Share"]:
        """Return the claims of other namespaces, foreign ones too, that share a volume."""
        configs = [each.get("config") or {} for each in self._list_trident_volumes()]
        return [
            Share(str(config.get("namespace")), str(config.get("requestName")))
            for config in configs
            if volume and config.get("shareSourceVolume") == volume
        ]

    def _list_trident_volumes(self) -> Sequence[Json]:
        """Return what Trident knows of its volumes; nothing where it is not there, or may not be asked."""
        if self._config.get("provisioner") != provisioners.TRIDENT:
            return []
        try:
            return self._gateway.list(f"/apis/{provisioners.TRIDENT_GROUP}/v1/tridentvolumes").items
        except Refusal as error:
            if error.status in NOT_THERE:
                return []
            raise

    def copy_at(self, location: str) -> str:
        """Return the id of the copy at a location."""
        return next((id_ for id_, where in self.list().items() if where == location), "")

    def _pods_of(self, job: str) -> Sequence[Json]:
        return self._gateway.list(self._pods, labelSelector=f"batch.kubernetes.io/job-name={job}").items

    def _events_of(self, item: Json) -> Sequence[Json]:
        """Return the events of an object, by its uid: of any type, and not those of one that had its name before."""
        uid = item["metadata"]["uid"]
        return self._gateway.list(self._events, fieldSelector=f"involvedObject.uid={uid}").items


@dataclass(frozen=True)
class Share:
    """A claim of another namespace that shares a volume."""

    namespace: str
    claim: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.claim}, which shares its volume"


def pods_of(share: Share) -> str:
    """Return the path of the pods that can mount a claim of another namespace."""
    return f"/api/v1/namespaces/{share.namespace}/pods"


@contextmanager
def as_site_errors(*, unreachable: bool = False) -> Iterator[None]:
    """Raise CacheSiteUnavailable for what the cluster refuses and, if wanted, where it does not answer."""
    try:
        yield
    except Refusal as error:
        raise VolumeRefused(f"The cluster refuses: {reasons.explain(error.message)}") from error
    except ClusterUnreachable as error:
        if not unreachable:
            raise
        raise CacheSiteUnavailable(error.message) from error


def failure(pods: Sequence[Json]) -> Exception:
    """Return the error for a Job that failed, from how its pods ended and what the last one wrote."""
    result = reasons.read_result(pods)
    if not result and (image := reasons.find_old_image(pods)):
        return AgentImageTooOld(f"The agent image {image} does not know what its pods are told to do: it is too old.")
    unexplained = "The pods that fill it ended without saying why; look at their events."
    return copy_work.find_failure(result, kind=VolumeRefused, unexplained=unexplained)


def _as_shares(pods: int) -> tuple[str, ...]:
    return ("--shares", str(pods))


def _has_succeeded(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") == "Succeeded"


def _storage_of_donor(copy: CopyRequest) -> Storage | None:
    """Return where pods find the copy of another site that they can read."""
    if copy.donor is None or not isinstance(copy.donor.site, ClusterSite):
        return None
    donor_id = copy.donor.site.copy_at(copy.donor.location)
    return copy.donor.site.storage_of(donor_id) if donor_id else None
