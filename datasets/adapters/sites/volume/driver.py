"""The driver of kind `volume`: a claim for each copy, filled by pods in the cluster, which go on between calls.

All that is known of a copy is in its claim and its Job, both named after the copy, so any process can ask and go on.
A claim says that it is ready by an annotation, which is written once its Job has succeeded.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from core import clock
from core.kubernetes import trident
from core.kubernetes.connections import ClusterConnection
from core.kubernetes.errors import ClusterUnreachable
from core.kubernetes.gateway import Refusal
from core.units import parse_bytes
from datasets.adapters.copy_tokens import LIFETIME, sign_copy
from datasets.adapters.sites import charges
from datasets.adapters.sites.volume import manifests, reasons
from datasets.engine.cache_ports import (
    CacheSiteDriver,
    CopyLease,
    CopyProgress,
    CopyRequest,
    Damage,
    DamageKind,
    Sharing,
    SiteUsage,
)
from datasets.engine.cache_states import LIVE
from datasets.engine.volumes import claim_bytes, claim_name
from datasets.errors import CacheSiteFull, CacheSiteUnavailable, ContentCorrupt, RemovalHeldUp, VolumeRefused
from datasets.models import CachedCommit, CacheSite
from nearline.content.paths import to_bytes

Json = dict[str, Any]

# So long one call waits for a claim and its volume to go; the next call goes on.
_REMOVAL_S, _PAUSE_S = 20.0, 0.2
# What the names of Jobs that verify a copy end with.
_READS_ALL, _READS_PART = "-verify", "-verify-part"
_FORBIDDEN, _NOT_FOUND = 403, 404
_ENDED = {"Succeeded", "Failed"}
_COUNTS = ("files_done", "bytes_done", "bytes_shared", "bytes_copied", "bytes_moved")


class VolumeSite:
    """Copies on claims of one storage class, in one namespace of a cluster."""

    folder = None

    def __init__(self, site: CacheSite, connection: ClusterConnection) -> None:
        self._site_id, self._site_name = site.pk, site.name
        self._config = site.config
        self._connection = connection
        self._gateway = connection.gateway
        self._copies = CachedCommit.objects.filter(site=site, state__in=LIVE)
        core = f"/api/v1/namespaces/{connection.namespace}"
        self._claims, self._secrets = f"{core}/persistentvolumeclaims", f"{core}/secrets"
        self._pods, self._events = f"{core}/pods", f"{core}/events"
        self._jobs = f"/apis/batch/v1/namespaces/{connection.namespace}/jobs"

    @property
    def resource(self) -> str:
        """The id of the attached cluster."""
        return str(self._config["resource"])

    @property
    def sharing(self) -> Sharing:
        """How copies share files: a clone has its source's blocks, where the storage can clone."""
        return Sharing.REFLINK if self._config.get("clones") else Sharing.NONE

    @property
    def verifier(self) -> "VolumeSite":
        """Jobs in the cluster."""
        return self

    def usage(self) -> SiteUsage:
        """Return the declared size, less what the claims of the site ask for."""
        with _as_site_errors():
            asked = sum(parse_bytes(_asked(claim)) for claim in self._list_claims())
        size_bytes = int(self._config["size_bytes"])
        return SiteUsage(size_bytes, max(0, size_bytes - asked))

    def now_ns(self) -> int:
        """Return the platform's time."""
        return int(clock.now().timestamp() * 10**9)

    def can_read(self, other: CacheSiteDriver) -> bool:
        """Read claims of the same namespace, whatever their class."""
        return isinstance(other, VolumeSite) and other.resource == self.resource

    def ensure(self, copy: CopyRequest, lease: CopyLease) -> CopyProgress:
        """Have the claim, the token and the Job of a copy, and return how far its pods are."""
        try:
            with _as_site_errors():
                progress = self._ensure(copy)
        except ClusterUnreachable as error:
            # Pods go on while the cluster cannot be asked.
            progress = self._progress(copy, waits_for=f"the cluster: {error.message}")
        lease.report(progress)
        return progress

    def delete(
        self,
        copy_id: str,
        *,
        location: str,  # noqa: ARG002 (the claim is named after the copy)
        token: str,  # noqa: ARG002 (the row's state is the fence)
        settle: Callable[[int], None] | None,
        keep_going: Callable[[], bool],
    ) -> bool:
        """Take the mark of a ready copy away, wait until no pod mounts its claim, then delete claim and volume.

        Raises RemovalHeldUp where something outside of us is waited for.
        """
        if settle is not None:
            settle(charges.freed_bytes(self._copies, copy_id))
        name = claim_name(copy_id)
        with _as_site_errors(unreachable=True):
            claim = self._gateway.get(f"{self._claims}/{name}")
            if claim is not None and manifests.read_made(claim) is not None:
                self._gateway.patch(
                    f"{self._claims}/{name}", {"metadata": {"name": name, "annotations": {manifests.MADE: None}}}
                )
            for duty in ("", _READS_ALL, _READS_PART):
                self._end_job(name + duty)
            give_up_at = time.monotonic() + _REMOVAL_S
            while held_by := self._go_on_removing(name):
                if not keep_going():
                    return False
                if time.monotonic() > give_up_at:
                    raise RemovalHeldUp(held_by)
                time.sleep(_PAUSE_S)
        return True

    def list(self) -> Mapping[str, str]:
        """Return the copies of which there is a claim."""
        with _as_site_errors(unreachable=True):
            claims = self._list_claims()
        copies = {}
        for claim in claims:
            annotations = claim["metadata"].get("annotations") or {}
            if copy_id := annotations.get(manifests.COPY):
                is_ready = manifests.read_made(claim) is not None
                copies[copy_id] = annotations[manifests.LOCATION] if is_ready else ""
        return copies

    def verify(self, copy_id: str, *, part: tuple[int, int] | None) -> "Sequence[Damage] | None":
        """Have a Job do it."""
        with _as_site_errors(unreachable=True):
            claim = self._gateway.get(f"{self._claims}/{claim_name(copy_id)}")
            if claim is None:
                raise VolumeRefused(f"The claim {claim_name(copy_id)} is gone: somebody deleted it.")
            name = f"{claim_name(copy_id)}{_READS_ALL if part is None else _READS_PART}"
            options = () if part is None else ("--part", f"{part[0]}/{part[1]}")
            job = self._have_job(name, claim, copy_id, duty="verify", options=options)
            end = manifests.end_of(job)
            if not end:
                return None
            result = reasons.read_result(self._pods_of(name))
            self._end_job(name)
        if end == "Failed":
            raise _failure(result)
        return [Damage(to_bytes(path), DamageKind(kind)) for path, kind in result.get("files", [])]

    def _ensure(self, copy: CopyRequest) -> CopyProgress:
        name = claim_name(copy.id)
        claim = self._gateway.get(f"{self._claims}/{name}")
        if claim is None:
            try:
                claim = self._create_claim(copy)
            except Refusal as error:
                if "exceeded quota" not in error.message:
                    raise
                return self._progress(copy, waits_for=f"the quota of the namespace: {reasons.explain(error.message)}")
        if "deletionTimestamp" in claim["metadata"]:
            return self._progress(copy, waits_for=f"the removal of an earlier claim {name}")
        if made := manifests.read_made(claim):
            return _ready(made)
        if reason := self._find_claim_reason(claim):
            return self._progress(copy, waits_for=reason)
        donor_id = self._copy_at(copy.donor.location, copy.donor.site) if copy.donor else ""
        job = self._have_job(name, claim, copy.id, duty="fill", donor_claim=claim_name(donor_id) if donor_id else "")
        pods = self._pods_of(name)
        if (end := manifests.end_of(job)) == "Complete":
            return self._finish(claim, reasons.read_result(pods))
        if end == "Failed":
            self._end_job(name)
            raise _failure(reasons.read_result(pods))
        return self._progress(copy, waits_for=self._find_pod_reason(job, pods))

    def _create_claim(self, copy: CopyRequest) -> Json:
        manifest = manifests.build_claim(
            copy,
            site_id=self._site_id,
            storage_class=str(self._config["storage_class"]),
            provisioner=str(self._config.get("provisioner", "")),
            source=self._find_source(copy),
        )
        created = self._gateway.create(self._claims, manifest)
        claim = created or self._gateway.get(f"{self._claims}/{manifest['metadata']['name']}")
        if claim is None:
            raise ClusterUnreachable("The claim was deleted while it was made.")
        return claim

    def _find_source(self, copy: CopyRequest) -> manifests.Source | None:
        """Return the claim to clone, if it is there and large enough."""
        if copy.base is None or self.sharing is Sharing.NONE:
            return None
        name = claim_name(self._copy_at(copy.base.location, self))
        claim = self._gateway.get(f"{self._claims}/{name}")
        if claim is None or manifests.read_made(claim) is None or "deletionTimestamp" in claim["metadata"]:
            return None
        capacity = ((claim.get("status") or {}).get("capacity") or {}).get("storage", "")
        needed = claim_bytes(files=copy.files, size_bytes=copy.size_bytes)
        return manifests.Source(name, capacity) if capacity and parse_bytes(capacity) >= needed else None

    def _have_job(
        self,
        name: str,
        claim: Json,
        copy_id: str,
        *,
        duty: str,
        options: tuple[str, ...] = (),
        donor_claim: str = "",
    ) -> Json:
        """Return the Job of this name, made with its token if it was not there; the token is renewed in time."""
        path = f"{self._jobs}/{name}"
        job = self._gateway.get(path)
        self._have_token(name, claim, copy_id, is_new=job is None)
        if job is None:
            manifest = manifests.build_job(
                name,
                claim,
                self._connection,
                site_id=self._site_id,
                duty=duty,
                options=options,
                donor_claim=donor_claim,
            )
            job = self._gateway.create(self._jobs, manifest) or self._gateway.get(path) or {}
        return job

    def _have_token(self, name: str, claim: Json, copy_id: str, *, is_new: bool) -> None:
        now = clock.now()
        path = f"{self._secrets}/{name}"
        if not is_new:
            secret = self._gateway.get(path)
            signed_at = secret["metadata"].get("annotations", {}).get(manifests.SIGNED_AT) if secret else None
            if signed_at and now - datetime.fromisoformat(signed_at) < LIFETIME / 2:
                return
        # Pods that run keep the token that they began with.
        self._gateway.delete(path)
        secret = manifests.build_secret(
            name, claim, site_id=self._site_id, token=sign_copy(copy_id), signed_at=now.isoformat()
        )
        self._gateway.create(self._secrets, secret)

    def _finish(self, claim: Json, result: Json) -> CopyProgress:
        """Mark a claim as ready, whose Job has succeeded."""
        name = claim["metadata"]["name"]
        if not all(isinstance(result.get(key), int) for key in _COUNTS):
            # Its pod is gone with what it said; the marker on the volume makes another one quick.
            self._end_job(name)
            return CopyProgress(waits_for="a pod that looks at the volume again")
        made = {key: result[key] for key in ("root", *_COUNTS)}
        annotations = {manifests.MADE: json.dumps(made)}
        uid = claim["metadata"]["uid"]
        self._gateway.patch(f"{self._claims}/{name}", {"metadata": {"uid": uid, "annotations": annotations}})
        self._end_job(name)
        return _ready(made)

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
        self._end_job(name)
        self._gateway.delete(f"{self._claims}/{name}", uid=claim["metadata"]["uid"])

    def _end_job(self, name: str) -> None:
        self._gateway.delete(f"{self._jobs}/{name}")
        self._gateway.delete(f"{self._secrets}/{name}")

    def _go_on_removing(self, name: str) -> str:
        """Take the next step of a removal that is possible, and return what it waits for; empty: all is gone.

        Raises RemovalHeldUp for pods of others: nobody knows when they end, so no thread waits for them.
        """
        claim = self._gateway.get(f"{self._claims}/{name}")
        if claim is not None:
            pods = [pod for pod in self._gateway.list(self._pods).items if name in _claims_of(pod)]
            users = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in _ENDED]
            if users:
                foreign = [pod for pod in users if manifests.SITE not in (pod["metadata"].get("labels") or {})]
                user = (foreign or users)[0]["metadata"]["name"]
                reason = f"the end of the pod {user}, which mounts the claim {name}"
                if foreign:
                    raise RemovalHeldUp(reason)
                return reason
            if "deletionTimestamp" not in claim["metadata"]:
                self._gateway.delete(f"{self._claims}/{name}", uid=claim["metadata"]["uid"])
            if pods:  # the cluster counts an ended pod as a user until it is deleted
                return f"the removal of the ended pod {pods[0]['metadata']['name']}, which names the claim {name}"
            finalizers = ", ".join(claim["metadata"].get("finalizers") or [])
            return f"the claim {name}, which the cluster has not let go of yet ({finalizers})"
        for volume in self._gateway.list("/api/v1/persistentvolumes").items:
            reference = volume["spec"].get("claimRef") or {}
            if (reference.get("namespace"), reference.get("name")) != (self._connection.namespace, name):
                continue
            volume_name, policy = volume["metadata"]["name"], volume["spec"].get("persistentVolumeReclaimPolicy")
            if policy == "Retain":
                return f"the volume {volume_name}, which its storage class retains: delete it and its data by hand"
            message = (volume.get("status") or {}).get("message", "")
            return f"the volume {volume_name}, which the cluster is deleting. {message}".strip()
        return self._find_trident_volume(name)

    def _find_trident_volume(self, name: str) -> str:
        """Return what Trident still has of a claim; it may keep a volume whose clones or snapshots are there."""
        if self._config.get("provisioner") != trident.PROVISIONER:
            return ""
        try:
            volumes = self._gateway.list("/apis/trident.netapp.io/v1/tridentvolumes").items
        except Refusal as error:
            if error.status in {_NOT_FOUND, _FORBIDDEN}:
                return ""
            raise
        for volume in volumes:
            config = volume.get("config") or {}
            if (config.get("namespace"), config.get("requestName")) == (self._connection.namespace, name):
                return (
                    f"Trident's volume {volume['metadata']['name']} (state {volume.get('state')}): snapshots or "
                    "clones of it must go first"
                )
        return ""

    def _progress(self, copy: CopyRequest, waits_for: str) -> CopyProgress:
        """Return what the pods of a copy have told the platform last."""
        row = self._copies.filter(pk=copy.id).values(*_COUNTS, "rate_bytes_s").first() or {}
        return CopyProgress(**row, waits_for=waits_for[:300])

    def _copy_at(self, location: str, site: CacheSiteDriver) -> str:
        """Return the id of the copy at a location of a site, from its claims."""
        copies: Mapping[str, str] = site.list()
        return next((id_ for id_, where in copies.items() if where == location), "")

    def _list_claims(self) -> Sequence[Json]:
        return self._gateway.list(self._claims, labelSelector=f"{manifests.SITE}={self._site_id}").items

    def _pods_of(self, job: str) -> Sequence[Json]:
        return self._gateway.list(self._pods, labelSelector=f"batch.kubernetes.io/job-name={job}").items

    def _events_of(self, item: Json) -> Sequence[Json]:
        """Return the events of an object, by its uid: of any type, and not those of one that had its name before."""
        uid = item["metadata"]["uid"]
        return self._gateway.list(self._events, fieldSelector=f"involvedObject.uid={uid}").items


@contextmanager
def _as_site_errors(*, unreachable: bool = False) -> Iterator[None]:
    """Raise CacheSiteUnavailable for what the cluster refuses and, if wanted, where it does not answer."""
    try:
        yield
    except Refusal as error:
        raise VolumeRefused(f"The cluster refuses: {reasons.explain(error.message)}") from error
    except ClusterUnreachable as error:
        if not unreachable:
            raise
        raise CacheSiteUnavailable(error.message) from error


def _failure(result: Json) -> Exception:
    """Return the error for a Job that failed, from what its last pod wrote."""
    message = str(result.get("error") or "The pods that fill it ended without saying why; look at their events.")
    if result.get("errno") is not None:
        return CacheSiteFull(message)
    details = result.get("details") or {}
    if result.get("code") == "client.damaged":
        pack = {"pack": details["id"]} if details.get("kind") == "pack" else {}
        return ContentCorrupt(message, **pack)
    return VolumeRefused(message)


def _ready(made: Mapping[str, Any]) -> CopyProgress:
    return CopyProgress(**{key: made[key] for key in _COUNTS}, is_ready=True)


def _asked(claim: Json) -> str:
    return str(claim["spec"]["resources"]["requests"]["storage"])


def _claims_of(pod: Json) -> set[str]:
    volumes = pod["spec"].get("volumes") or []
    return {volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume}
