"""Runs jobs as pods of a cluster. All that is known of a job is in its pod, so any process can ask and adopt.

A pod stays, by its finalizer, until its end was recorded: whoever deletes it before that ends it and does not make it
vanish. Its Secret is made before it and owns all else of a run, so that one deletion takes all of it away.
A checkpoint folder is a claim, which no run owns. A GPU that jobs share is reserved by a pod that is no job's.
"""

import asyncio
import math
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from compute.adapters.container_gpu_checks import COMMAND, ContainerGpuChecks
from compute.adapters.kubernetes import (
    checks,
    events,
    fields,
    gpu_metrics,
    gpu_shares,
    manifests,
    nodes,
    shares,
    states,
    storage,
)
from compute.adapters.kubernetes.connections import PodConnection, PodTerminal
from compute.adapters.kubernetes.manifests import FORGOTTEN, VERDICT, PodSettings, object_name
from compute.adapters.kubernetes.pod_cache import PodCache
from compute.adapters.kubernetes.states import Verdict
from compute.adapters.stamped_logs import StampedLogs
from compute.adapters.stored_outputs import SentOutput, StoredOutputs
from compute.engine.ports import (
    ClusterFacts,
    CommandOutput,
    EndCause,
    GpuReading,
    JobReport,
    Launch,
    LogChunk,
    NodeFacts,
    OutputReader,
    Replica,
    TerminalRequest,
    UsageSample,
)
from compute.engine.secret_forms import forms_of
from compute.engine.visible_gpus import VisibleGpus
from compute.errors import (
    ChangeRefused,
    CommandRefused,
    CredentialsRefused,
    JobNotRunning,
    PortRefused,
    QuotaExceeded,
    ResourceUnreachable,
    StartRefused,
)
from core import clock
from core.kubernetes import commands, streams
from core.kubernetes.connections import ClusterConnection
from core.kubernetes.errors import ClusterUnreachable, KubeconfigRefused
from core.kubernetes.gateway import Gateway, Json, Refusal
from core.kubernetes.identity import read_cluster_id

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

log = structlog.get_logger(__name__)
T = TypeVar("T")

_trim_node, _trim_foreign = partial(fields.trim, fields=fields.NODE), partial(fields.trim, fields=fields.FOREIGN)
_GRACE_S = 10.0
# After its grace a job is killed; so much later the last of its log is there.
_LAST_LINES_S = 5.0
# An exporter answers in milliseconds; one that hangs is left out.
_METRICS_S, _ASKED_AT_ONCE = 2.0, 8
_MOST_REMEMBERED = 10_000
_NOT_FOUND = 404


@dataclass(frozen=True)
class _Told:
    """What the pods of a run say, and whether none of them is to be ended until one changes. `gpu_pods` have GPUs."""

    pods: list[Json]
    report: JobReport | None
    is_settled: bool
    gpu_pods: list[Json]


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
        self._services_path = f"{core}/services"
        self._claims_path = f"{core}/persistentvolumeclaims"
        self._selector = manifests.selector(settings)
        self._cache = PodCache(gateway, self._pods_path, f"{self._selector},!{FORGOTTEN}")
        self._logs = StampedLogs(folder, gateway)
        self._gpu_checks = ContainerGpuChecks()
        self._exporters: Mapping[str, str] = {}
        self._unlabelled = ""
        self._lacks: tuple[str, ...] | None = None  # not asked yet
        # What saves calls to the process that starts and follows a job: it asks for both again where it does not know.
        self._secret_forms: dict[str, list[bytes]] = {}
        self._forgotten: dict[str, int] = {}
        self._telling = threading.Lock()
        self._pods: dict[str, Json] = {}  # those of which the last report was made, by name
        self._reports: dict[str, _Told] = {}  # by run
        self._sharing: list[Json] = []  # the pods that share a GPU, or reserve one
        self._output_roots: dict[str, tuple[str, str]] = {}  # the job and the root of an output, which is opened often

    @property
    def connection(self) -> ClusterConnection:
        """The cluster as others may use it. They share what this driver knows of whether it answers."""
        settings = self._settings
        return ClusterConnection(
            gateway=self._gateway,
            namespace=settings.namespace,
            platform_url=settings.platform_url,
            agent_image=settings.agent_image,
            resource=settings.resource,
            pull_policy=settings.pull_policy,
            image_pull_secrets=settings.image_pull_secrets,
            user_id=settings.user_id,
            priority_class=settings.priority_class,
            node_selector=settings.node_selector,
            tolerations=settings.tolerations,
        )

    def probe(self) -> Sequence[NodeFacts]:
        """Return the nodes, less what pods of others hold."""
        node_objects = self._ask(lambda: self._gateway.list("/api/v1/nodes", keep=_trim_node)).items
        self._unlabelled = checks.find_unlabelled(node_objects, self._settings.gpu_resource)
        # Ours are known, and may be thousands.
        foreign = {
            "labelSelector": f"{manifests.RESOURCE}!={self._settings.resource}",
            "fieldSelector": "status.phase!=Succeeded,status.phase!=Failed",
        }
        pods = self._ask(lambda: self._gateway.list("/api/v1/pods", keep=_trim_foreign, **foreign)).items
        self._exporters = gpu_metrics.find_exporters(pods)
        settings = self._settings
        return nodes.read_nodes(
            node_objects,
            [*pods, *filter(gpu_shares.is_reservation, self._ask(self._cache.list))],
            gpu_resource=settings.gpu_resource,
            is_ours=self._is_ours,
            tolerations=settings.tolerations,
            node_selector=settings.node_selector,
        )

    def describe(self) -> ClusterFacts:
        """Return version, storage and quotas. What the account may not read is said, and hinders nothing else."""
        settings, trident = self._settings, "/apis/trident.netapp.io/v1"
        version = self._ask(lambda: self._gateway.get("/version")) or {}
        backends = self._try_list(f"{trident}/tridentbackends")
        versions = self._try_list(f"{trident}/tridentversions")
        classes = self._try_list("/apis/storage.k8s.io/v1/storageclasses")
        snapshot_classes = self._try_list("/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses")
        quotas = self._try_list(f"/api/v1/namespaces/{settings.namespace}/resourcequotas")
        backend_facts, quota_facts = storage.read_backends(backends or ()), storage.read_quotas(quotas or ())
        warnings = self._try_list(f"/api/v1/namespaces/{settings.namespace}/events", fieldSelector="type=Warning")
        # A call for each verb: of an account that may do all it is asked again when it is refused one of the lists.
        if self._lacks != () or None in (backends, versions, classes, snapshot_classes, quotas):
            with unreachable_as_ours():
                self._lacks = checks.find_lacks(self._gateway, settings.namespace)
        closed = checks.find_closed_quotas(quota_facts, settings.gpu_resource)
        cluster_id, unknown = self._read_id()
        return ClusterFacts(
            version=str(version.get("gitVersion", "")),
            id=cluster_id,
            namespace=settings.namespace,
            storage=storage.read_classes(classes or (), backend_facts, snapshot_classes),
            backends=backend_facts,
            trident_version=storage.read_trident_version(versions or ()),
            quotas=quota_facts,
            lacks=self._lacks,
            warnings=tuple(filter(None, (self._unlabelled, unknown, *closed))),
            events=events.read_events(warnings or ()),
        )

    def _read_id(self) -> tuple[str, str]:
        """Return what tells the cluster from all others, or, as a sentence, that its account may not read it."""
        with unreachable_as_ours():
            try:
                return read_cluster_id(self._gateway), ""
            except Refusal as error:
                return "", (
                    "New credentials are not compared with the cluster, as the account may not read which one it is: "
                    f"{error.message}"
                )

    def _try_list(self, path: str, **query: Any) -> Sequence[Json] | None:
        """Return a list; None where the account may not read it. A cluster that knows nothing of the kind has none."""
        with unreachable_as_ours():
            try:
                return self._gateway.list(path, **query).items
            except Refusal as error:
                return [] if error.status == _NOT_FOUND else None

    def start(self, launch: Launch) -> None:
        """Create the Secret and the pod, of a gang the Service and all pods, unless they exist.

        The claims of a checkpoint folder, and of volumes of other namespaces, are made before them.
        """
        manifests.check_launch(launch, self._settings)
        if launch.checkpoint is not None:
            self._end_older_run(launch.checkpoint.name, launch.name)
        secret = manifests.build_secret(launch, self._settings, self._sign_attempt(launch))
        with unreachable_as_ours():
            try:
                shares.have_shares(self._gateway, self._settings, launch.spec.mounts, clock.now())
                if launch.checkpoint is not None:
                    claim = manifests.build_checkpoint_claim(self._settings, launch.checkpoint.name)
                    self._gateway.create(self._claims_path, claim)
                made = self._gateway.create(self._secrets_path, secret)
                # Replicas wait for the first one, so none has begun its command before all of them are made.
                for manifest in reversed(self._build_pods(launch, made)):
                    if (pod := self._gateway.create(self._pods_path, manifest)) is not None:
                        self._cache.put(pod)
            except Refusal as error:
                self._withdraw(launch)
                raise _refused(error) from error
        _remember(self._secret_forms, object_name(self._settings, launch.name), forms_of(launch.secrets.values()))

    def _end_older_run(self, checkpoint: str, name: str) -> None:
        """End the pods of another run that still write to a checkpoint folder. Raises ResourceUnreachable until then.

        There are some where the platform had given up the run of a cluster that was away.
        """
        older = [pod for pod in self._list_writers(checkpoint) if states.name_of(pod) != name]
        for pod in older:
            self._end(pod, Verdict(EndCause.STOPPED), 0)
        if older:
            names = ", ".join(sorted({states.name_of(pod) for pod in older}))
            raise ResourceUnreachable(f"{names} is being ended, which used the checkpoint folder.")

    def _list_writers(self, checkpoint: str) -> list[Json]:
        """Return the pods that may still write to a checkpoint folder."""
        users = [pod for pod in self._list_pods() if pod["metadata"]["labels"].get(manifests.CHECKPOINT) == checkpoint]
        return [pod for pod in users if not states.has_ended(pod)]

    def _build_pods(self, launch: Launch, secret: Json | None) -> list[Json]:
        """Return the pods of a launch; the Service of a gang is made first. `secret` is None where it existed."""
        secret = secret or self._gateway.get(self._path(self._secrets_path, launch.name))
        if secret is None:
            return []  # deleted meanwhile; whoever finds the job not started starts it again
        uid = secret["metadata"]["uid"]
        if launch.is_gang:
            self._gateway.create(self._services_path, manifests.build_service(launch, self._settings, uid))
        return manifests.build_run(launch, self._settings, uid)

    def _withdraw(self, launch: Launch) -> None:
        """Take back what was made of a launch that the cluster has refused in part."""
        pods = self._find_run(launch.name)
        for pod in pods if launch.is_gang else ():
            if not states.has_ended(pod):
                self._end(pod, Verdict(EndCause.NOT_STARTED), _GRACE_S)
        if not pods:
            self._gateway.delete(self._path(self._secrets_path, launch.name))

    def list_jobs(self) -> Sequence[JobReport]:
        """Return what all pods say that are not forgotten. Those that should not go on are ended.

        A run of which the cluster lets no pod be ended says so, and keeps no other one from its end.
        """
        self._read_changes()
        now = self._gateway.time.now()
        refusals: dict[str, str] = {}
        waits = self._settle_shares(now, refusals)
        changes = self._read_changes()
        for each in changes:
            for pod, verdict in () if each.is_settled else states.judge_run(each.pods, now):
                self._try_to_end(pod, verdict, states.grace_period_of(pod), refusals)
        self._gpu_checks.keep({pod["metadata"]["uid"] for each in changes for pod in each.gpu_pods})
        reports = (
            self._with_gpus(each.report, each.gpu_pods) if each.gpu_pods else each.report
            for each in changes
            if each.report is not None
        )
        reports = (gpu_shares.explain(each, waits) for each in reports)
        reports = (replace(each, reason=refusals.get(each.name, each.reason)) for each in reports)
        return sorted(reports, key=lambda report: report.name)

    def _with_gpus(self, report: JobReport, pods: Sequence[Json]) -> JobReport:
        """Return the report of a run with what its pods can see of GPUs, as far as they have told."""
        seen = {states.rank_of(pod): self._check_gpus(pod) for pod in pods}
        if not report.replicas:
            return replace(report, gpus_seen=seen.get(0))
        replicas = (replace(each, gpus_seen=seen.get(rank)) for rank, each in enumerate(report.replicas))
        return replace(report, replicas=tuple(replicas))

    def _check_gpus(self, pod: Json) -> VisibleGpus | None:
        started_at = states.started_at_of(pod) if states.is_running(pod) else None
        if started_at is None:
            return self._gpu_checks.find(pod["metadata"]["uid"])
        name, rank = states.name_of(pod), states.rank_of(pod)
        return self._gpu_checks.check(
            pod["metadata"]["uid"], name, started_at, lambda: self.run_command(name, rank, COMMAND, b"")
        )

    def _read_changes(self) -> Collection[_Told]:
        """Return what the pods of each run say. Only those are read that have changed: there may be thousands."""
        with self._telling:
            pods = {pod["metadata"]["name"]: pod for pod in self._ask(self._cache.list)}
            changed = [pod for name, pod in pods.items() if self._pods.get(name) is not pod]
            changed += [pod for name, pod in self._pods.items() if name not in pods]
            if changed:
                runs: dict[str, list[Json]] = {states.name_of(pod): [] for pod in changed}
                for pod in pods.values():
                    if (run := states.name_of(pod)) in runs and not gpu_shares.is_reservation(pod):
                        runs[run].append(pod)
                others = {run: each for run, each in self._reports.items() if run not in runs}
                others |= {run: _tell(members) for run, members in runs.items() if members}
                sharing = list(filter(gpu_shares.is_concerned, pods.values()))
                self._pods, self._reports, self._sharing = pods, others, sharing
            return self._reports.values()

    def _list_pods(self) -> list[Json]:
        """Return the pods of runs that are not forgotten."""
        return [pod for pod in self._ask(self._cache.list) if not gpu_shares.is_reservation(pod)]

    def _settle_shares(self, now: datetime, refusals: dict[str, str]) -> Mapping[str, str]:
        """Reserve the GPUs that jobs share, and give back those that none does; return what runs wait for."""
        settlement = gpu_shares.settle(self._sharing, self._settings, now)
        for pod, verdict in settlement.end:
            self._try_to_end(pod, verdict, states.grace_period_of(pod), refusals)
        for manifest, sharers in settlement.missing:
            self._change_shared(sharers, partial(self._gateway.create, self._pods_path, manifest), refusals)
        for pod, device in settlement.open:
            path, patch = f"{self._pods_path}/{pod['metadata']['name']}", gpu_shares.opening(pod, device)
            self._change_shared([pod], partial(self._gateway.patch, path, patch), refusals)
        for reservation in settlement.unused:
            with suppress(ChangeRefused):  # it is tried again in the next round
                self._give_back(reservation)
        return settlement.waits

    def _change_shared(
        self, sharers: Sequence[Json], change: Callable[[], Json | None], refusals: dict[str, str]
    ) -> None:
        """Make or change a pod for those that share a GPU; what the cluster refuses ends them, and nobody else."""
        with unreachable_as_ours():
            try:
                if (pod := change()) is not None:
                    self._cache.put(pod)
            except Refusal as error:
                cause = EndCause.QUOTA_EXCEEDED if _passes_quota(error) else EndCause.NOT_STARTED
                for sharer in sharers:
                    self._try_to_end(sharer, gpu_shares.refuse(cause, error.message), 0, refusals)

    def _give_back(self, reservation: Json) -> None:
        """Delete a reservation, unless a job that this process has yet to hear of shares its GPU."""
        name, uid = reservation["metadata"]["name"], reservation["metadata"]["uid"]
        selector = f"{self._selector},{manifests.SHARES}={name}"
        if states.has_ended(reservation) or all(
            map(states.has_ended, self._ask(lambda: self._gateway.list(self._pods_path, labelSelector=selector)).items)
        ):
            self._change(lambda: self._gateway.delete(f"{self._pods_path}/{name}", uid=uid))

    def stop(self, name: str, grace_s: float) -> None:
        """Delete the pods with this grace. They stay listed until their end was recorded."""
        for pod in self._find_run(name):
            if not states.has_ended(pod):
                self._end(pod, Verdict(EndCause.STOPPED), grace_s)

    def resize(self, name: str, replicas: Sequence[Replica], prepare: Callable[[], Launch]) -> bool:
        """End the pods behind the last replica, or else make those that are missing.

        The others are told before one is ended, and after one was made: list_jobs counts what they were told.
        """
        pods = {states.rank_of(pod): pod for pod in self._list_run(name)}
        leader = pods.get(0)
        if leader is None or states.has_ended(leader) or "deletionTimestamp" in leader["metadata"]:
            return True
        # A pod cannot be moved: those from the first one on that was are ended, and made anew.
        moved = (rank for rank, place in enumerate(replicas) if rank in pods and not _is_at(pods[rank], place))
        count = next(moved, len(replicas))
        if surplus := [pod for rank, pod in pods.items() if rank >= count]:
            self._retell([pods[rank] for rank in range(count) if rank in pods], count)
            are_gone = [self._give_back_replica(pod) for pod in surplus]
            return all(are_gone) and count == len(replicas)
        missing = [rank for rank in range(count) if rank not in pods]
        made = self._add_replicas(name, missing, prepare) if missing else {}
        if len(made) < len(missing):
            return False  # one of that name has not gone yet
        pods |= made
        self._retell([pods[rank] for rank in range(count)], count)
        return True

    def _add_replicas(self, name: str, ranks: Sequence[int], prepare: Callable[[], Launch]) -> dict[int, Json]:
        """Make the pods of these replicas; return those that there were not."""
        secret = self._ask(lambda: self._gateway.get(self._path(self._secrets_path, name)))
        if secret is None:
            return {}  # whoever removes it ends the run
        gang = manifests.build_run(prepare(), self._settings, secret["metadata"]["uid"])
        made = {}
        with unreachable_as_ours():
            try:
                for rank in ranks:
                    if (pod := self._gateway.create(self._pods_path, gang[rank])) is not None:
                        self._cache.put(pod)
                        made[rank] = pod
            except Refusal as error:
                raise _refused(error) from error
        return made

    def _retell(self, pods: Sequence[Json], count: int) -> None:
        """Tell pods of an elastic gang, that of replica 0 first, how many replicas there are now."""
        annotations = manifests.retell(pods[0], count)
        for pod in pods:
            meta = pod["metadata"]
            if meta["annotations"].items() >= annotations.items():
                continue
            path, patch = f"{self._pods_path}/{meta['name']}", {"metadata": {"annotations": annotations}}
            if (patched := self._change(partial(self._gateway.patch, path, patch))) is not None:
                self._cache.put(patched)

    def _give_back_replica(self, pod: Json) -> bool:
        """End a pod, and remove it once it has; say whether nothing of it runs any more."""
        if not states.has_ended(pod):
            self._end(pod, Verdict(EndCause.STOPPED), states.grace_period_of(pod))
            return False
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        path = f"{self._pods_path}/{name}"
        self._change(lambda: self._gateway.patch(path, manifests.FORGET, is_strategic=True))
        self._change(lambda: self._gateway.delete(path, uid=uid))
        self._cache.drop(name)
        return True

    def read_log(self, name: str, offset: int, limit: int) -> LogChunk:
        """Read from this host's copy, once that has what is new on the cluster."""
        pod_name = object_name(self._settings, name)
        if not self._logs.is_complete(pod_name):
            pods = self._find_run(name) if pod_name not in self._forgotten else []
            count = states.most_replicas_of(pods[0]) if pods else self._forgotten.get(pod_name, 0)
            running = {pod["metadata"]["name"] for pod in pods if not states.has_ended(pod)}
            names = [object_name(self._settings, name, rank) for rank in range(count)]
            # A replica of an elastic gang that is not there may come.
            is_open = pod_name in running and states.is_elastic(pods[0])
            for replica in sorted(running) if is_open else names:
                self._fetch_log(replica, pod_name, has_ended=replica not in running, is_gang=count > 1)
            if count > 1:
                self._logs.join(pod_name, names, now=clock.now())
        return self._logs.read(pod_name, offset, limit)

    def read_usage(self, name: str, after: datetime | None) -> Sequence[UsageSample]:  # noqa: ARG002
        """Return nothing: `measure_gpus` tells what there is of now."""
        return []

    def measure_gpus(self) -> Mapping[str, GpuReading]:
        """Return what the exporters tell that the last probe has found, on the nodes where jobs have GPUs."""
        runs: dict[str, list[Json]] = {}
        for pod in self._list_pods():
            if states.is_running(pod) and manifests.has_gpus(pod):
                runs.setdefault(states.name_of(pod), []).append(pod)
        places = {manifests.node_of(pod) for pods in runs.values() for pod in pods}
        paths = [path for node, path in self._exporters.items() if node in places]
        if not paths:
            return {}
        with ThreadPoolExecutor(_ASKED_AT_ONCE, thread_name_prefix="metrics") as pool:
            readings = {
                pod: each for of_exporter in pool.map(self._read_metrics, paths) for pod, each in of_exporter.items()
            }
        joined = {
            name: gpu_metrics.join_readings([readings.get(pod["metadata"]["name"]) for pod in pods])
            for name, pods in runs.items()
        }
        return {name: reading for name, reading in joined.items() if reading is not None}

    def _read_metrics(self, path: str) -> Mapping[str, GpuReading]:
        """Return what an exporter tells of our pods; nothing where it does not answer, or may not be asked."""
        text = bytearray()
        try:
            for piece in self._gateway.stream(path, read_s=_METRICS_S):
                text += piece
                if len(text) > gpu_metrics.MOST_BYTES:
                    return {}
            return gpu_metrics.read_metrics(text.decode(), self._settings.namespace)
        except (ClusterUnreachable, Refusal, ValueError) as error:
            log.warning("gpu_metrics.unreadable", path=path, error=str(error))
            return {}

    def open_output(self, name: str) -> OutputReader:
        """Read what the pod has sent to the store."""
        return SentOutput(lambda: self._find_output(name))

    def forget(self, name: str) -> None:
        """Mark the pods, so that they are listed no more, and let whoever deletes them do so."""
        pod_name = object_name(self._settings, name)
        known = self._cache.find(pod_name)
        pods = [known] if known is not None else self._list_run(name)
        if not pods:
            return  # a pod that this process has yet to hear of is listed then, and forgotten by whoever lists it
        count = max(map(states.most_replicas_of, pods))
        for pod in pods:
            self._note_output(pod)  # it is opened later, when the pod is not known any more
        # That of replica 0 is the last one: whoever is interrupted finds by it that there were several.
        for rank in reversed(range(count)):
            replica = object_name(self._settings, name, rank)
            path = f"{self._pods_path}/{replica}"
            self._change(partial(self._gateway.patch, path, manifests.FORGET, is_strategic=True))
            self._cache.drop(replica)
        _remember(self._forgotten, pod_name, count)

    def delete(self, name: str) -> None:
        """Remove the Secret of an ended, forgotten job, with the pods that it owns, and its log."""
        pod_name = object_name(self._settings, name)
        if self._list_run(name):
            return  # not forgotten
        if not self._change(lambda: self._gateway.delete(f"{self._secrets_path}/{pod_name}")):
            # Earlier versions made pods that no Secret owns.
            self._change(lambda: self._gateway.delete(f"{self._pods_path}/{pod_name}"))
        self._logs.remove(pod_name)
        self._forgotten.pop(pod_name, None)
        self._output_roots.pop(pod_name, None)
        self._secret_forms.pop(pod_name, None)

    def list_leftovers(self) -> Mapping[str, Collection[str]]:
        """Return the runs of which the cluster still has a pod or a Secret, by the ids of their jobs."""
        names: dict[str, set[str]] = {}
        runs = f"{self._selector},!{manifests.RESERVES}"
        pods = self._ask(lambda: self._gateway.list_metadata(self._pods_path, runs))
        secrets = self._ask(lambda: self._gateway.list_metadata(self._secrets_path, self._selector))
        for meta in (*pods, *secrets):
            names.setdefault(meta["labels"].get(manifests.JOB_ID, ""), set()).add(states.name_of({"metadata": meta}))
        return names

    def list_checkpoints(self) -> Collection[str]:
        """Return the names of the folders for which there are claims that were not deleted.

        A deleted claim is there as long as a pod that has mounted it, even one that has ended.
        """
        selector = f"{self._selector},{manifests.CHECKPOINT}"
        claims = self._ask(lambda: self._gateway.list_metadata(self._claims_path, selector))
        return sorted(meta["labels"][manifests.CHECKPOINT] for meta in claims if "deletionTimestamp" not in meta)

    def delete_checkpoint(self, name: str) -> None:
        """Delete the claim, with its volume, unless a pod may still write to it."""
        if not self._list_writers(name):
            claim = manifests.checkpoint_claim(self._settings, name)
            self._ask(lambda: self._gateway.delete(f"{self._claims_path}/{claim}"))

    def delete_idle_shares(self, leaving: Collection[str] = ()) -> None:
        """Delete the claims that share volumes of other namespaces and that no pod names."""
        self._ask(lambda: shares.delete_idle(self._gateway, self._settings, clock.now(), leaving))

    def run_command(self, name: str, rank: int, command: Sequence[str], stdin: bytes) -> Iterator[CommandOutput]:
        """Run a command in the user's container of a pod."""
        pod = self._find_pod(name, rank)
        if pod is None or not states.is_running(pod):
            raise JobNotRunning("The container of the job does not run.")
        path = f"{self._pods_path}/{pod['metadata']['name']}/exec"
        options = {"container": manifests.MAIN, "stdout": "true", "stderr": "true", "stdin": str(bool(stdin)).lower()}
        query = [*(("command", part) for part in command), *options.items()]
        with unreachable_as_ours():
            try:
                pieces = commands.follow(self._gateway.connect(path, query, commands.PROTOCOLS), stdin or None)
            except Refusal as error:
                raise CommandRefused(f"The cluster refuses the command: {error.message}") from error
            except commands.InputNotSupported as error:
                message = "This cluster cannot send an input to a command: that takes Kubernetes 1.30."
                raise CommandRefused(message) from error
        return (CommandOutput(piece.data, piece.is_error, piece.exit_code) for piece in pieces)

    async def open_port(self, name: str, rank: int, port: int) -> PodConnection:
        """Connect to a port of a pod, by its node."""
        try:
            socket = await self._open_stream(name, rank, "portforward", [("ports", str(port))], streams.PORT_PROTOCOLS)
        except Refusal as error:
            raise PortRefused(f"The cluster refuses connections to the job: {error.message}") from error
        return PodConnection(streams.PortStream(socket), port)

    async def open_terminal(self, name: str, rank: int, request: TerminalRequest) -> PodTerminal:
        """Run a command in a terminal in the user's container of a pod."""
        options = {"container": manifests.MAIN, "stdin": "true", "stdout": "true", "tty": "true"}
        query = [*(("command", part) for part in request.command), *options.items()]
        try:
            socket = await self._open_stream(name, rank, "exec", query, commands.PROTOCOLS)
        except Refusal as error:
            raise CommandRefused(f"The cluster refuses the command: {error.message}") from error
        terminal = PodTerminal(streams.TerminalStream(socket))
        await terminal.resize(request.columns, request.rows)
        return terminal

    async def _open_stream(
        self, name: str, rank: int, kind: str, query: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> "ClientConnection":
        """Open a stream into the pod of a replica. Raises JobNotRunning and Refusal."""
        pod = await asyncio.to_thread(self._find_pod, name, rank)
        if pod is None or not states.is_running(pod):
            raise JobNotRunning("The container of the job does not run.")
        with unreachable_as_ours():
            return await self._gateway.open_stream(
                f"{self._pods_path}/{pod['metadata']['name']}/{kind}", query, protocols
            )

    def wait_for_news(self, timeout_s: float) -> bool:
        """Wait for the watch."""
        return self._ask(lambda: self._cache.wait(timeout_s))

    def _try_to_end(self, pod: Json, verdict: Verdict, grace_s: float, refusals: dict[str, str]) -> None:
        """End a pod, or note for its run that the cluster refuses that."""
        try:
            self._end(pod, verdict, grace_s)
        except ChangeRefused as error:
            refusals[states.name_of(pod)] = f"It has to end, but cannot be ended. {error.message}"

    def _end(self, pod: Json, verdict: Verdict, grace_s: float) -> None:
        """Write down why, then delete the pod, once. Raises ChangeRefused."""
        meta = pod["metadata"]
        name, is_judged = states.name_of(pod), VERDICT in (meta.get("annotations") or {})
        path = f"{self._pods_path}/{meta['name']}"
        if is_judged and "deletionTimestamp" in meta:
            return
        if not is_judged:
            patch = {"metadata": {"uid": meta["uid"], "annotations": {VERDICT: verdict.to_json()}}}
            judged = self._change(lambda: self._gateway.patch(path, patch))
            if judged is None:
                return
            self._cache.put(judged)
        # The node removes the log of a deleted pod as soon as that has ended.
        follow = threading.Thread(target=self._follow_log, args=(pod, grace_s), name=f"log {name}", daemon=True)
        follow.start()
        grace = max(1, math.ceil(grace_s))
        self._change(lambda: self._gateway.delete(path, uid=meta["uid"], grace_s=grace))

    def _follow_log(self, pod: Json, grace_s: float) -> None:
        run, follow_s = object_name(self._settings, states.name_of(pod)), grace_s + _LAST_LINES_S
        is_gang = states.most_replicas_of(pod) > 1
        try:
            self._fetch_log(pod["metadata"]["name"], run, has_ended=False, is_gang=is_gang, follow_s=follow_s)
        except ResourceUnreachable as error:
            log.warning("log.unreadable", job=states.name_of(pod), error=error.message)

    def _fetch_log(self, name: str, run: str, *, has_ended: bool, is_gang: bool, follow_s: float = 0) -> None:
        """Read on in the log of a pod, by the name of that, and of the objects of its run."""

        def read_secrets() -> list[bytes]:
            forms = self._secret_forms.get(run)
            if forms is None:
                secret = self._gateway.get(f"{self._secrets_path}/{run}") or {}
                forms = forms_of(manifests.read_secret_values(secret))
                _remember(self._secret_forms, run, forms)
            return forms

        path = f"{self._pods_path}/{name}/log"
        fetch = partial(self._logs.fetch, name, path, read_secrets, has_ended=has_ended, follow_s=follow_s)
        self._ask(partial(fetch, is_part=is_gang))

    def _find_pod(self, name: str, rank: int = 0) -> Json | None:
        pod_name = object_name(self._settings, name, rank)
        known = self._cache.find(pod_name)
        if known is not None:
            return known
        return self._ask(lambda: self._gateway.get(f"{self._pods_path}/{pod_name}"))

    def _find_run(self, name: str) -> list[Json]:
        """Return the pods of a run that there are, by rank."""
        first = self._find_pod(name)
        if first is None or states.is_elastic(first):  # of a gang it may be gone alone
            return self._list_run(name)
        peers = (self._find_pod(name, rank) for rank in range(1, states.most_replicas_of(first)))
        return [first, *filter(None, peers)]

    def _list_run(self, name: str) -> list[Json]:
        """Return the pods of a run that are not forgotten, by rank."""
        return sorted((pod for pod in self._list_pods() if states.name_of(pod) == name), key=states.rank_of)

    def _find_output(self, name: str) -> OutputReader | None:
        pod_name = object_name(self._settings, name)
        noted = self._output_roots.get(pod_name)
        if noted is None:
            pod = self._find_pod(name)
            if pod is None:
                raise FileNotFoundError(f"The pod of {name} is gone.")
            if not states.has_ended(pod):
                return None
            noted = self._note_output(pod)
            if noted is None:
                raise FileNotFoundError(f"The output of {name} was not stored.")
        job_id, root = noted
        return self._outputs.open(job_id, root) if root else None

    def _note_output(self, pod: Json) -> tuple[str, str] | None:
        """Remember and return whose output an ended pod has stored, and its root; None: it has stored none."""
        root = states.kept_root(pod)
        if root is None:
            return None
        note = pod["metadata"]["labels"][manifests.JOB_ID], root
        _remember(self._output_roots, pod["metadata"]["name"], note)
        return note

    def _is_ours(self, pod: Json) -> bool:
        labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
        return labels.get(manifests.RESOURCE) == self._settings.resource

    def _path(self, collection: str, name: str) -> str:
        return f"{collection}/{object_name(self._settings, name)}"

    def _change(self, change: Callable[[], T]) -> T:
        """Have the cluster change objects of one run. Raises ChangeRefused where a rule or a permission forbids it."""
        with unreachable_as_ours():
            try:
                return change()
            except Refusal as error:
                raise ChangeRefused(f"The cluster refuses: {error.message}") from error

    def _ask(self, question: Callable[[], T]) -> T:
        """Ask the cluster. What it refuses, such as for want of a permission, is as if it did not answer."""
        with unreachable_as_ours():
            try:
                return question()
            except Refusal as error:
                raise ResourceUnreachable(f"The cluster refuses: {error.message}") from error


def _tell(pods: list[Json]) -> _Told:
    with_gpus = [pod for pod in pods if manifests.has_gpus(pod)]
    return _Told(pods, states.report_of_run(pods), states.is_settled(pods), with_gpus)


def _is_at(pod: Json, place: Replica) -> bool:
    return manifests.node_of(pod) == place.node_name


def _remember(memory: dict[str, T], name: str, value: T) -> None:
    """Note something about a pod, and give up what is known of the oldest one where that is too much."""
    memory[name] = value
    if len(memory) > _MOST_REMEMBERED:  # copied, as other threads may add to it meanwhile
        memory.pop(next(iter(tuple(memory))), None)


@contextmanager
def unreachable_as_ours() -> Iterator[None]:
    """Raise ResourceUnreachable where the cluster does not answer, CredentialsRefused where it refuses the account."""
    try:
        yield
    except KubeconfigRefused as error:
        raise CredentialsRefused(error.message) from error
    except ClusterUnreachable as error:
        raise ResourceUnreachable(error.message) from error


def _passes_quota(error: Refusal) -> bool:
    return "exceeded quota" in error.message


def _refused(error: Refusal) -> StartRefused | ResourceUnreachable:
    if _passes_quota(error):
        return QuotaExceeded(f"The cluster's quota does not allow the pod: {error.message}")
    return StartRefused(f"The cluster refuses the pod: {error.message}")
