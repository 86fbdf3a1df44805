"""Runs jobs as pods of a cluster. All that is known of a job is in its pod, so any process can ask and adopt.

A pod stays, by its finalizer, until its job was recorded, forgotten and deleted: whoever deletes it before that ends it
and does not make it vanish. Its Secret goes with it.
"""

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

import structlog

from compute.adapters.kubernetes import manifests, nodes, states
from compute.adapters.kubernetes.gateway import Gateway, Json, Refusal
from compute.adapters.kubernetes.manifests import FINALIZER, FORGOTTEN, VERDICT, PodSettings, object_name
from compute.adapters.kubernetes.pod_cache import PodCache
from compute.adapters.kubernetes.pod_logs import PodLogs
from compute.adapters.kubernetes.states import Verdict
from compute.engine.ports import (
    EndCause,
    JobReport,
    Launch,
    LogChunk,
    NodeFacts,
    OutputFile,
    OutputReader,
    UsageSample,
)
from compute.engine.secret_forms import forms_of
from compute.errors import QuotaExceeded, ResourceUnreachable, StartRefused
from core import clock

log = structlog.get_logger(__name__)
T = TypeVar("T")

_GRACE_S = 10.0
# After its grace a job is killed; so much later the last of its log is there.
_LAST_LINES_S = 5.0


class StoredOutputs(Protocol):
    """Where the outputs of pods are, once their pods have sent them."""

    def open(self, job_id: str, root: str) -> OutputReader:
        """Return what reads the tree that a job sent. Raises OSError where it is not stored any more."""


@dataclass(frozen=True)
class PodOutput:
    """The output of one run: nothing while it runs, then what its pod has sent to the store."""

    name: str
    find_pod: Callable[[str], Json | None]
    stored: StoredOutputs
    host_folder: Path | None = None

    def list_files(self) -> Iterator[OutputFile]:
        """Yield the stored files."""
        reader = self._reader()
        return iter(()) if reader is None else reader.list_files()

    def open(self, path: str) -> BinaryIO:
        """Open a stored file."""
        reader = self._reader()
        if reader is None:
            raise FileNotFoundError(path)
        return reader.open(path)

    def _reader(self) -> OutputReader | None:
        pod = self.find_pod(self.name)
        if pod is None:
            raise FileNotFoundError(f"The pod of {self.name} is gone.")
        if not states.has_ended(pod):
            return None
        root = states.kept_root(pod)
        if root is None:
            raise FileNotFoundError(f"The output of {self.name} was not stored.")
        return self.stored.open(pod["metadata"]["labels"][manifests.JOB_ID], root) if root else None


class KubernetesDriver:
    """The driver of kind `kubernetes`."""

    mountable = manifests.MOUNTABLE

    def __init__(
        self,
        gateway: Gateway,
        settings: PodSettings,
        *,
        folder: Path,
        outputs: StoredOutputs,
        sign_attempt: Callable[[Launch], str],
    ) -> None:
        """Take what speaks with the cluster, and a folder for what this host remembers of logs.

        `sign_attempt` returns the token that the pod of a launch shows to the platform.
        """
        self._gateway = gateway
        self._settings = settings
        self._outputs = outputs
        self._sign_attempt = sign_attempt
        core = f"/api/v1/namespaces/{settings.namespace}"
        self._pods_path, self._secrets_path = f"{core}/pods", f"{core}/secrets"
        self._cache = PodCache(gateway, self._pods_path, f"{manifests.selector(settings)},!{FORGOTTEN}")
        self._logs = PodLogs(folder, gateway)

    def probe(self) -> Sequence[NodeFacts]:
        """Return the nodes, less what pods of others hold."""
        found = self._ask(lambda: self._gateway.list("/api/v1/nodes")).items
        unended = "status.phase!=Succeeded,status.phase!=Failed"
        pods = self._ask(lambda: self._gateway.list("/api/v1/pods", fieldSelector=unended)).items
        settings = self._settings
        return nodes.read_nodes(
            found,
            pods,
            gpu_resource=settings.gpu_resource,
            is_ours=self._is_ours,
            tolerations=settings.tolerations,
        )

    def start(self, launch: Launch) -> None:
        """Create the Secret and the pod, unless they exist."""
        manifests.check_launch(launch, self._settings)
        secret = manifests.build_secret(launch, self._settings, self._sign_attempt(launch))
        try:
            self._gateway.create(self._secrets_path, secret)
            pod = self._gateway.create(self._pods_path, manifests.build_pod(launch, self._settings))
        except Refusal as error:
            if self._find_pod(launch.name) is None:
                self._gateway.delete(self._path(self._secrets_path, launch.name))
            raise _refused(error) from error
        if pod is not None:
            self._cache.put(pod)
            self._gateway.patch(self._path(self._secrets_path, launch.name), manifests.owned_by(secret, pod))

    def list_jobs(self) -> Sequence[JobReport]:
        """Return what all pods say that are not forgotten. Those that should not go on are ended."""
        pods = self._ask(self._cache.list)
        now = clock.now()
        for pod in pods:
            if (verdict := states.judge(pod, now)) is not None:
                self._end(pod, verdict, _GRACE_S)
        return sorted(map(states.report_of, pods), key=lambda report: report.name)

    def stop(self, name: str, grace_s: float) -> None:
        """Delete the pod with this grace. It stays listed until its end was recorded."""
        pod = self._find_pod(name)
        if pod is not None and not states.has_ended(pod):
            self._end(pod, Verdict(EndCause.STOPPED), grace_s)

    def read_log(self, name: str, offset: int, limit: int) -> LogChunk:
        """Read from this host's copy, once that has what is new on the cluster."""
        pod_name = object_name(self._settings, name)
        if not self._logs.is_complete(pod_name):
            pod = self._find_pod(name)
            if pod is not None:
                self._fetch_log(pod, has_ended=states.has_ended(pod))
        return self._logs.read(pod_name, offset, limit)

    def read_usage(self, name: str, after: datetime | None) -> Sequence[UsageSample]:  # noqa: ARG002
        """Return nothing: what pods use is not collected."""
        return []

    def open_output(self, name: str) -> OutputReader:
        """Read what the pod has sent to the store."""
        return PodOutput(name, self._find_pod, self._outputs)

    def forget(self, name: str) -> None:
        """Mark the pod, so that it is listed no more."""
        label = {"metadata": {"labels": {FORGOTTEN: "true"}}}
        self._ask(lambda: self._gateway.patch(self._path(self._pods_path, name), label))
        self._cache.drop(object_name(self._settings, name))

    def delete(self, name: str) -> None:
        """Remove the pod of an ended, forgotten job, with its Secret and its log."""
        pod = self._ask(lambda: self._gateway.get(self._path(self._pods_path, name)))
        if pod is not None:
            if not states.has_ended(pod) or FORGOTTEN not in pod["metadata"]["labels"]:
                return
            others = [item for item in pod["metadata"].get("finalizers") or [] if item != FINALIZER]
            path, uid = self._path(self._pods_path, name), pod["metadata"]["uid"]
            self._ask(lambda: self._gateway.patch(path, {"metadata": {"finalizers": others, "uid": uid}}))
            self._ask(lambda: self._gateway.delete(path, uid=uid))
        self._ask(lambda: self._gateway.delete(self._path(self._secrets_path, name)))
        self._logs.remove(object_name(self._settings, name))

    def wait_for_news(self, timeout_s: float) -> bool:
        """Wait for the watch."""
        return self._ask(lambda: self._cache.wait(timeout_s))

    def _end(self, pod: Json, verdict: Verdict, grace_s: float) -> None:
        """Write down why, then delete the pod, once."""
        meta = pod["metadata"]
        name, is_judged = states.name_of(pod), VERDICT in (meta.get("annotations") or {})
        path = self._path(self._pods_path, name)
        if is_judged and "deletionTimestamp" in meta:
            return
        if not is_judged:
            patch = {"metadata": {"uid": meta["uid"], "annotations": {VERDICT: verdict.to_json()}}}
            judged = self._ask(lambda: self._gateway.patch(path, patch))
            if judged is None:
                return
            self._cache.put(judged)
        # The node removes the log of a deleted pod as soon as that has ended.
        follow = threading.Thread(target=self._follow_log, args=(pod, grace_s), name=f"log {name}", daemon=True)
        follow.start()
        grace = max(1, math.ceil(grace_s))
        self._ask(lambda: self._gateway.delete(path, uid=meta["uid"], grace_s=grace))

    def _follow_log(self, pod: Json, grace_s: float) -> None:
        try:
            self._fetch_log(pod, has_ended=False, follow_s=grace_s + _LAST_LINES_S)
        except ResourceUnreachable as error:
            log.warning("log.unreadable", job=states.name_of(pod), error=error.message)

    def _fetch_log(self, pod: Json, *, has_ended: bool, follow_s: float = 0) -> None:
        name = pod["metadata"]["name"]

        def read_secrets() -> list[bytes]:
            secret = self._gateway.get(f"{self._secrets_path}/{name}") or {}
            return forms_of(manifests.read_secret_values(secret))

        path = f"{self._pods_path}/{name}/log"
        self._ask(lambda: self._logs.fetch(name, path, read_secrets, has_ended=has_ended, follow_s=follow_s))

    def _find_pod(self, name: str) -> Json | None:
        pod_name = object_name(self._settings, name)
        known = self._cache.find(pod_name)
        if known is not None:
            return known
        return self._ask(lambda: self._gateway.get(self._path(self._pods_path, name)))

    def _is_ours(self, pod: Json) -> bool:
        labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
        return labels.get(manifests.RESOURCE) == self._settings.resource

    def _path(self, collection: str, name: str) -> str:
        return f"{collection}/{object_name(self._settings, name)}"

    def _ask(self, question: Callable[[], T]) -> T:
        """Ask the cluster. What it refuses, such as for want of a permission, is as if it did not answer."""
        try:
            return question()
        except Refusal as error:
            raise ResourceUnreachable(f"The cluster refuses: {error.message}") from error


def _refused(error: Refusal) -> StartRefused | ResourceUnreachable:
    if "exceeded quota" in error.message:
        return QuotaExceeded(f"The cluster's quota does not allow the pod: {error.message}")
    return StartRefused(f"The cluster refuses the pod: {error.message}")
