"""A trial of a storage class before commits are cached on it: a claim is bound, written, cloned, read and deleted.

Claims that cannot be cloned are told, as commits are cached without clones then.

The Job that writes is the owner of all else and has a deadline, after which the cluster deletes it: nothing stays where
the process that asked has ended meanwhile.
"""

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from core.kubernetes import provisioners
from core.kubernetes.connections import ClusterConnection
from core.kubernetes.errors import ClusterUnreachable
from core.kubernetes.gateway import Refusal
from datasets.adapters.sites.volume import manifests, reasons
from datasets.engine.cache_ports import ProbeStep
from datasets.errors import CacheSiteUnavailable, StorageUnfit

Json = dict[str, Any]

LIMIT_S = 120
_CLONE_LIMIT_S = 40
_PAUSE_S = 0.2
_SEEN_BOUND = f"{manifests.DOMAIN}/seen-bound"
_WRITE = "open('/volume/probe', 'w').write('{word}')"
_READ = (
    "import errno, sys\n"
    "if open('/volume/probe').read() != '{word}': sys.exit('The file is not what was written.')\n"
    "try: open('/volume/other', 'w')\n"
    "except OSError as error:\n"
    "    if error.errno != errno.EROFS: raise\n"
    "else: sys.exit('A read-only mount took a new file.')"
)


class StorageProbe:
    """One trial of a storage class, to be run once. It takes at most `limit_s`, and so long again for its cleaning."""

    def __init__(self, connection: ClusterConnection, storage_class: Json, *, limit_s: float = LIMIT_S) -> None:
        self._connection = connection
        self._gateway = connection.gateway
        self._class = storage_class
        self._limit_s = limit_s
        self._name = f"nl-probe-{secrets.token_hex(4)}"
        self._clone = f"{self._name}-clone"
        core = f"/api/v1/namespaces/{connection.namespace}"
        self._claims, self._pods, self._events = f"{core}/persistentvolumeclaims", f"{core}/pods", f"{core}/events"
        self._jobs = f"/apis/batch/v1/namespaces/{connection.namespace}/jobs"
        self._give_up_at = time.monotonic() + limit_s
        self._steps: list[ProbeStep] = []
        self._may_clone = provisioners.can_clone(storage_class["provisioner"]) is not False

    def run(self) -> Sequence[ProbeStep]:
        """Try everything that caching needs, and return how long each step took. Nothing is left.

        A class whose claims cannot be cloned is fit: its step `cloned` has the `refusal`.

        Raises StorageUnfit, which says what does not work, and CacheSiteUnavailable where the cluster does not answer.
        """
        with _as_ours():
            try:
                with self._timed("bound"):
                    owner = self.begin()
                    self._wait_until_bound(self._name)
                with self._timed("written"):
                    self._wait_for_job(self._name, "written to")
                if not (self._may_clone and self._try_clone(owner)):
                    with self._timed("read"):
                        self._create_job(f"{self._name}-read", _READ, self._name, owner=owner, is_read_only=True)
                        self._wait_for_job(f"{self._name}-read", "read")
            finally:
                with suppress(ClusterUnreachable, Refusal):  # what stays is deleted by the cluster after the deadline
                    self._delete()
            with self._timed("deleted"):
                self._give_up_at = time.monotonic() + self._limit_s
                self._wait_until_gone()
        return self._steps

    def begin(self) -> Json:
        """Have the Job that writes, and its claim; return the Job."""
        job = self._create_job(self._name, _WRITE, self._name)
        self._create_claim(self._name, job)
        return job

    def _try_clone(self, owner: Json) -> bool:
        """Clone the claim and read the clone; say whether that went well. It takes no time from other steps."""
        give_up_at, begun_at = self._give_up_at, time.monotonic()
        self._give_up_at = min(give_up_at, begun_at + _CLONE_LIMIT_S)
        steps: list[ProbeStep] = []
        try:
            self._create_claim(self._clone, owner, source=self._name)
            # Some classes make a volume for a pod only. Some provisioners make an empty one, whose reading fails.
            self._create_job(self._clone, _READ, self._clone, owner=owner, is_read_only=True)
            self._wait_until_bound(self._clone)
            steps.append(_step_since("cloned", begun_at))
            read_at = time.monotonic()
            self._wait_for_job(self._clone, "read")
            steps.append(_step_since("read", read_at))
        except StorageUnfit as error:
            steps = [replace(_step_since("cloned", begun_at), refusal=error.message)]
        self._steps += steps
        self._give_up_at = give_up_at + time.monotonic() - begun_at
        return not steps[0].refusal

    def _create_claim(self, name: str, owner: Json, source: str = "") -> None:
        claim = manifests.build_probe_claim(name, self._class, owner, source=source)
        try:
            self._gateway.create(self._claims, claim)
        except Refusal as error:
            raise StorageUnfit(f"The cluster takes no claim of 1 GiB: {reasons.explain(error.message)}") from error

    def _create_job(
        self, name: str, script: str, claim: str, *, owner: Json | None = None, is_read_only: bool = False
    ) -> Json:
        manifest = manifests.build_probe_job(
            name,
            claim,
            self._connection,
            script=script.format(word=self._name),
            owner=owner,
            is_read_only=is_read_only,
            # Later than this process gives up, which then asks its pods why.
            deadline_s=round(2 * self._limit_s),
        )
        try:
            return self._gateway.create(self._jobs, manifest) or {}
        except Refusal as error:
            raise StorageUnfit(f"The cluster takes no Job: {reasons.explain(error.message)}") from error

    def _wait_until_bound(self, name: str) -> None:
        what = "clone" if name == self._clone else "claim of 1 GiB"
        while (claim := self._gateway.get(f"{self._claims}/{name}")) is not None:
            if claim.get("status", {}).get("phase") == "Bound":
                # The scheduler keeps claims in a cache that may lag behind what wakes a pod: it can find the claim
                # unbound after it was told of the binding, and looks again only as the claim changes, or minutes later.
                self._gateway.patch(f"{self._claims}/{name}", {"metadata": {"annotations": {_SEEN_BOUND: "true"}}})
                return
            reason, is_final = reasons.provisioning_failure(self._events_of(claim))
            if is_final or self._is_over():
                why = reason or f"it says nothing. `kubectl describe pvc {name}` may, tried again with --no-probe."
                raise StorageUnfit(f"The class {self._class['metadata']['name']} made no volume for a {what}: {why}")
            time.sleep(_PAUSE_S)
        raise StorageUnfit(f"Somebody deleted the claim {name} of the probe.")

    def _wait_for_job(self, name: str, what: str) -> None:
        while (job := self._gateway.get(f"{self._jobs}/{name}")) is not None:
            pods = self._gateway.list(self._pods, labelSelector=f"batch.kubernetes.io/job-name={name}").items
            end = manifests.end_of(job)
            if end == "Complete":
                return
            if end == "Failed" and (message := reasons.read_message(pods)):
                raise StorageUnfit(f"The volume cannot be {what}: {_explain_errno(message, self._connection.user_id)}")
            is_over = self._is_over()
            if end == "Failed" or is_over or reasons.never_start(pods):
                within = f" in {self._limit_s:.0f} s" if is_over else ""
                raise StorageUnfit(f"The volume was not {what}{within}. {self._why_pods_wait(job, pods)}")
            time.sleep(_PAUSE_S)
        raise StorageUnfit(f"Somebody deleted the Job {name} of the probe.")

    def _why_pods_wait(self, job: Json, pods: Sequence[Json]) -> str:
        reason = reasons.why_pods_wait(pods, self._events_of(job) if not pods else [])
        reason = reason or next(filter(None, (reasons.mount_failure(self._events_of(pod)) for pod in pods)), "")
        return f"Its pod waits for {reason}" if reason else "Its pod did not end, and the cluster does not say why."

    def _wait_until_gone(self) -> None:
        policy = self._class.get("reclaimPolicy", "Delete")
        if policy != "Delete":
            raise StorageUnfit(
                f"The class keeps the volumes of deleted claims (reclaimPolicy {policy}), so that space is never "
                "freed. Choose a class with the policy Delete, and delete the volume that the probe left: "
                f"{', '.join(self._volumes_left())}."
            )
        while left := [*self._claims_left(), *self._volumes_left()]:
            if self._is_over():
                raise StorageUnfit(
                    f"Deleted claims stay: {', '.join(left)} after {self._limit_s:.0f} s. `kubectl describe` says why."
                )
            time.sleep(_PAUSE_S)

    def _claims_left(self) -> Iterator[str]:
        for name in (self._clone, self._name):
            if self._gateway.get(f"{self._claims}/{name}") is not None:
                yield name

    def _volumes_left(self) -> Iterator[str]:
        ours = {(self._connection.namespace, name) for name in (self._clone, self._name)}
        for volume in self._gateway.list("/api/v1/persistentvolumes").items:
            claim = volume["spec"].get("claimRef") or {}
            if (claim.get("namespace"), claim.get("name")) in ours:
                yield volume["metadata"]["name"]

    def _delete(self) -> None:
        # The clone first: some storage keeps a source until its clones are gone.
        for path in (self._jobs, self._claims):
            for name in (f"{self._name}-read", self._clone, self._name):
                self._gateway.delete(f"{path}/{name}")

    def _events_of(self, item: Json) -> list[Json]:
        return self._gateway.list(self._events, fieldSelector=f"involvedObject.uid={item['metadata']['uid']}").items

    def _is_over(self) -> bool:
        return time.monotonic() > self._give_up_at

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        begun_at = time.monotonic()
        yield
        self._steps.append(_step_since(name, begun_at))


def _step_since(name: str, begun_at: float) -> ProbeStep:
    return ProbeStep(name, round(time.monotonic() - begun_at, 1))


def _explain_errno(message: str, user_id: int) -> str:
    """Return what a pod said last, and what to do about it where that is known."""
    line = message.strip().splitlines()[-1]
    if "Permission denied" in line:
        return f"{line}. Pods of Nearline run as user {user_id}: let that user write, as by `unixPermissions` 0777."
    return line


@contextmanager
def _as_ours() -> Iterator[None]:
    try:
        yield
    except ClusterUnreachable as error:
        raise CacheSiteUnavailable(error.message) from error
    except Refusal as error:
        raise StorageUnfit(f"The cluster refuses: {error.message}") from error
