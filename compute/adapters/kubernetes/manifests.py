"""From a launch to the objects of the cluster: pure, so that the same launch makes the same objects, byte for byte.

A pod has the user's container as it is, and two of ours around it: `bring` writes code and inputs before the command
starts, `keep` sends the output to the platform once the command has ended. No user's container holds a token.
A checkpoint folder is a claim, which outlives the pods; `resume` makes it hold what the job is to go on from.
Each replica of a gang is a pod, under the host name that a headless Service gives it; before its command starts,
`meet` waits until all these names are known. Only replica 0 has `keep`.
Of an elastic gang it waits for replica 0 alone, and all pods are told by an annotation which replicas there are now.
The launcher of a gang, which is its replica 0, also waits until the others listen, for the processes that it starts.
"""

import base64
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from compute.engine import volumes
from compute.engine.environment import JobPaths, job_environment
from compute.engine.gangs import launcher_variables, rank_variables, worker_variables, write_hostfile
from compute.engine.job_spec import NfsExport, SourceKind, Tree, Volume, describe_kinds
from compute.engine.placing import Launcher, PodOptions
from compute.engine.ports import GpuShare, Launch, Replica
from compute.errors import StartRefused, VolumeRefused
from core.kubernetes import provisioners
from core.units import ONE_GPU

Json = dict[str, Any]

MOUNTABLE = frozenset({SourceKind.VOLUME, SourceKind.NFS_EXPORT, SourceKind.TREE})
DOMAIN = "nearline.dev"
RESOURCE, FORGOTTEN = f"{DOMAIN}/resource", f"{DOMAIN}/forgotten"
NAME, TOKEN, VERDICT, TIMEOUT = f"{DOMAIN}/name", f"{DOMAIN}/token", f"{DOMAIN}/verdict", f"{DOMAIN}/timeout"
GRACE = f"{DOMAIN}/grace-period"
CHECKPOINT = f"{DOMAIN}/checkpoint"
"""The label of a claim, and of the pods that write to it."""
SHARED = f"{DOMAIN}/shared"
"""The label of a claim that shares the volume of one in another namespace."""
SHARES, RESERVES = f"{DOMAIN}/shares-gpu", f"{DOMAIN}/reserves"
"""The labels of pods that share a GPU, with the name of the one that reserves it, and of that one."""
DEVICE, GATE = f"{DOMAIN}/gpu", f"{DOMAIN}/gpu-reserved"
"""The annotation that says which GPU a pod shares, and the gate that keeps it from its node until that is known."""
JOB_ID, PROJECT = f"{DOMAIN}/job", f"{DOMAIN}/project"
GANG, REPLICA, REPLICAS = f"{DOMAIN}/gang", f"{DOMAIN}/replica", f"{DOMAIN}/replicas"
MOST_REPLICAS, HOSTS = f"{DOMAIN}/most-replicas", f"{DOMAIN}/hosts"
"""The annotations of pods of an elastic gang: how many it has at most, and the host file with those that it has now."""
KEEP_ENDED = timedelta(hours=1)
"""So long an ended pod stays once its log is in the store; its output is there before it ends."""
FINALIZER = f"{DOMAIN}/end-not-recorded"
FORGET: Json = {"metadata": {"labels": {FORGOTTEN: "true"}, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
"""The patch (a strategic one) of a pod whose end was recorded."""
MAIN, BRING, RESUME, MEET, KEEP = "main", "bring", "resume", "meet", "keep"
HOSTFILE = "/nearline/hostfile"
PATHS = JobPaths(
    work="/work",
    data="/data",
    input="/input",
    output="/output",
    parameters="/nearline/parameters.json",
    tmp="/tmp",  # noqa: S108 (a path of the container)
)
_CHECKPOINT, _CHECKPOINT_FOLDER = "checkpoint", "/checkpoint"
NVIDIA_GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-"
"""What whole GPUs are called, and, before its profile, a slice of one."""
_GIB = 1 << 30
_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_SCRATCH = "scratch"
_HOSTFILE_KEY = "hostfile"
# Written before the signal that the agent may not be ready for.
_SAY_OVER = {"exec": {"command": ["python3", "-I", "-S", "-c", "open('/scratch/over', 'w').close()"]}}
_AGENT_CPU_MILLICORES, _AGENT_MEMORY_BYTES = 10, 32 << 20
_AGENT_RESOURCES = {
    "requests": {"cpu": f"{_AGENT_CPU_MILLICORES}m", "memory": str(_AGENT_MEMORY_BYTES)},
    "limits": {"cpu": "1", "memory": "512Mi"},
}


@dataclass(frozen=True)
class PodSettings:
    """What an admin sets for all pods of a cluster.

    `resource` is the id of the resource, which no other installation has. `grace_s` bounds how long an output may take
    to be sent. Checkpoint folders are claims of `storage_class` and this size; without a class there are none.
    `job_claims` are those of the namespace that jobs may mount by name, as `scans` or `scans:ro`.
    """

    namespace: str
    resource: str
    platform_url: str
    agent_image: str
    pull_policy: str = "IfNotPresent"
    gpu_resource: str = NVIDIA_GPU
    default_image: str = ""
    user_id: int = 65532
    grace_s: int = 600
    storage_class: str = ""
    checkpoint_bytes: int = 20 * 10**9
    priority_class: str = ""
    runtime_class: str = ""
    image_pull_secrets: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, str], ...] = ()
    job_claims: tuple[str, ...] = ()


def object_name(settings: PodSettings, name: str, replica: int = 0) -> str:
    """Return the name of the objects of one run of a job: the same each time, and unlike that of any other.

    Only the pods of the replicas 1, 2, ... have names of their own.
    """
    text = f"{settings.resource}/{name}"
    readable = re.sub("[^a-z0-9]+", "-", name.lower())[:40].strip("-")
    return f"nl-{readable}-{hashlib.sha256(text.encode()).hexdigest()[:12]}" + (f"-{replica}" if replica else "")


def selector(settings: PodSettings) -> str:
    """Return the label selector of all that is ours on the cluster."""
    return f"{RESOURCE}={settings.resource}"


def check_launch(launch: Launch, settings: PodSettings) -> None:
    """Raise StartRefused for a launch that can never be a pod here."""
    named = volumes.read_volumes(launch.spec.volumes)
    if fault := volumes.describe_fault(named, settings.job_claims, resource="this cluster"):
        raise VolumeRefused(fault)
    kinds = {mount.source.kind for mount in launch.spec.mounts} - MOUNTABLE
    if kinds:
        raise StartRefused(f"The job reads {describe_kinds(kinds)}, which cannot be mounted by pods of a cluster.")
    if launch.spec.working_directory is not None:
        raise StartRefused(
            f"The job asks for the working directory {launch.spec.working_directory} of this machine, which pods do "
            f"not have."
        )
    if settings.gpu_resource != NVIDIA_GPU and any(map(is_shared, (replica.gpus for replica in launch.replicas))):
        raise StartRefused(
            f"The job asks for a part of a GPU. Only GPUs called {NVIDIA_GPU} can be shared; this cluster's are called "
            f"{settings.gpu_resource}."
        )
    if launch.checkpoint is not None and not settings.storage_class:
        raise StartRefused("The job keeps checkpoints, and this cluster has no storage class any more to keep them on.")
    if not (launch.spec.image or settings.default_image):
        raise StartRefused("The job names no image, and this cluster has no default one. Give the job an image.")


def checkpoint_claim(settings: PodSettings, name: str) -> str:
    """Return the name of the claim of a checkpoint folder."""
    return f"nl-checkpoint-{hashlib.sha256(f'{settings.resource}/{name}'.encode()).hexdigest()[:12]}"


def build_checkpoint_claim(settings: PodSettings, name: str) -> Json:
    """Return the claim of a checkpoint folder, which pods of any node can mount: the next run may be on another one."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": checkpoint_claim(settings, name),
            "namespace": settings.namespace,
            "labels": {**labels(settings), CHECKPOINT: name},
            "annotations": provisioners.CLAIM_ANNOTATIONS,
        },
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": settings.storage_class,
            "resources": {"requests": {"storage": f"{math.ceil(settings.checkpoint_bytes / _GIB)}Gi"}},
        },
    }


def build_secret(launch: Launch, settings: PodSettings, attempt_token: str) -> Json:
    """Return the Secret of a run: what no reader of a pod may see, and the parameters, which may be large."""
    secrets = {_key(number): value for number, value in enumerate(launch.secrets.values())}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(launch, settings),
        "type": "Opaque",
        "immutable": True,
        "stringData": {
            **secrets,
            "attempt-token": attempt_token,
            "parameters.json": json.dumps(dict(launch.spec.parameters)),
            **(
                {_HOSTFILE_KEY: write_hostfile(_workers(launch, settings), gpus=_count_devices(launch.replicas[-1]))}
                if launch.is_gang and not launch.max_replicas
                else {}
            ),
        },
    }


def read_secret_values(secret: Json) -> list[str]:
    """Return the values that must not be seen in a log, from the Secret of a run."""
    data = secret.get("data") or {}
    return [base64.b64decode(value).decode() for key, value in data.items() if key.startswith("secret-")]


def build_service(launch: Launch, settings: PodSettings, secret_uid: str) -> Json:
    """Return the Service that gives the replicas of a gang their host names. It goes when the Secret goes."""
    metadata = _metadata(launch, settings)
    metadata["ownerReferences"] = [_owned_by(metadata["name"], secret_uid)]
    # They are to find each other before their commands run, and after one has ended.
    names = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {GANG: metadata["name"]}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": names}


def build_run(launch: Launch, settings: PodSettings, secret_uid: str) -> list[Json]:
    """Return the pods of a run, by rank. They go when the Secret goes."""
    pods = build_gang(launch, settings) if launch.is_gang else [build_pod(launch, settings)]
    for pod in pods:
        pod["metadata"]["ownerReferences"] = [_owned_by(object_name(settings, launch.name), secret_uid)]
    return pods


def build_gang(launch: Launch, settings: PodSettings) -> list[Json]:
    """Return the pods of the replicas of a gang, by rank."""
    gang, count = object_name(settings, launch.name), len(launch.replicas)
    hosts, bounds, launcher = _hosts(launch, settings), None, launch.spec.placing.launcher
    if launch.max_replicas:
        bounds = launch.min_replicas, launch.max_replicas
    pods = []
    for rank, place in enumerate(launch.replicas):
        there = replace(launch, node_name=place.node_name, gpus=place.gpus, slices=place.slices)
        pod = build_pod(_beside_launcher(there, rank, launcher) if launcher is not None else there, settings)
        metadata, spec = pod["metadata"], pod["spec"]
        metadata["labels"][GANG] = gang
        metadata["annotations"] |= {REPLICA: str(rank), REPLICAS: str(count)}
        if bounds is not None:
            hostfile = write_hostfile(hosts, gpus=_count_devices(place))
            metadata["annotations"] |= {MOST_REPLICAS: str(launch.max_replicas), HOSTS: hostfile}
        spec["hostname"], _, spec["subdomain"] = hosts[rank].partition(".")
        containers = {container["name"]: container for container in spec["initContainers"]}
        # Those of an elastic gang may have gone by then.
        awaited = hosts if bounds is None else hosts[:1]
        if launcher is not None and launcher.worker_port and not rank:
            awaited = [f"{host}:{launcher.worker_port}" for host in hosts[1:]]
        containers[MEET] = _agent(settings, launch, MEET, json.dumps(awaited))
        if launch.checkpoint is not None:
            containers[RESUME] = _resume(settings, launch, rank)
        if rank:
            metadata["name"] = object_name(settings, launch.name, rank)
            del containers[KEEP]
        spec["initContainers"] = [containers[name] for name in (BRING, RESUME, MEET, KEEP) if name in containers]
        variables = _variables(launch, settings, rank, bounds)
        (main,) = spec["containers"]
        own = {variable["name"] for variable in main["env"]}
        main["env"] += [{"name": name, "value": value} for name, value in variables.items() if name not in own]
        pods.append(pod)
    return pods


def _beside_launcher(launch: Launch, rank: int, launcher: Launcher) -> Launch:
    """Return what one pod of a gang with a launcher is started from: that itself, or one of the others."""
    spec = launch.spec
    if rank:
        # Parameters on a command line are those of the job's command.
        own = replace(spec, command=launcher.worker_command, append_parameters=False)
        return replace(launch, spec=own)
    # The nodes of its template are those with GPUs: it was placed on any.
    own = replace(spec, pod=replace(spec.pod, node_selector={}))
    return replace(launch, spec=own, cpu_millicores=launcher.cpu_millicores, memory_bytes=launcher.memory_bytes)


def _variables(launch: Launch, settings: PodSettings, rank: int, bounds: tuple[int, int] | None) -> Mapping[str, str]:
    """Return the variables by which a pod of a gang finds the others."""
    hosts, gpus = _workers(launch, settings), _count_devices(launch.replicas[-1])
    if launch.spec.placing.launcher is None:
        return rank_variables(rank, hosts, gpus=gpus, hostfile=HOSTFILE, bounds=bounds)
    if rank:
        return worker_variables(rank - 1, hosts, gpus=gpus, hostfile=HOSTFILE)
    return launcher_variables(hosts, gpus=gpus, hostfile=HOSTFILE)


def retell(leader: Mapping[str, Any], count: int) -> Json:
    """Return the annotations by which the pods of an elastic gang know that it has so many replicas now."""
    first = leader["metadata"]["annotations"][HOSTS].splitlines(keepends=True)[0]
    hosts = (first.replace("replica-0", f"replica-{rank}", 1) for rank in range(count))
    return {REPLICAS: str(count), HOSTS: "".join(hosts)}


def _count_devices(place: Launch | Replica) -> int:
    """Return how many GPUs, or slices of such, a pod sees."""
    return len(place.gpus or place.slices)


def _hosts(launch: Launch, settings: PodSettings) -> list[str]:
    """Return the host names of the replicas, as the pods of their namespace know them."""
    gang, count = object_name(settings, launch.name), len(launch.replicas)
    if launch.spec.placing.launcher is not None:
        return [f"launcher.{gang}", *(f"worker-{rank}.{gang}" for rank in range(count - 1))]
    return [f"replica-{rank}.{gang}" for rank in range(count)]


def _workers(launch: Launch, settings: PodSettings) -> list[str]:
    """Return the host names of the replicas without the launcher, if they have one."""
    return _hosts(launch, settings)[launch.spec.placing.launcher is not None :]


def _owned_by(secret: str, uid: str) -> Json:
    return {"apiVersion": "v1", "kind": "Secret", "name": secret, "uid": uid}


def build_pod(launch: Launch, settings: PodSettings) -> Json:
    """Return the pod of a run."""
    metadata = _metadata(launch, settings)
    metadata["finalizers"] = [FINALIZER]
    metadata["annotations"] = {
        NAME: launch.name,
        TOKEN: launch.token,
        "kubectl.kubernetes.io/default-container": MAIN,
        **({TIMEOUT: f"{launch.spec.timeout_s:g}"} if launch.spec.timeout_s is not None else {}),
        GRACE: f"{launch.spec.grace_period_s:g}",
    }
    if launch.checkpoint is not None:
        metadata["labels"][CHECKPOINT] = launch.checkpoint.name
    trees = [mount for mount in launch.spec.mounts if isinstance(mount.source, Tree)]
    spec: Json = {
        **common_spec(
            _with_options(settings, launch.spec.pod), launch.node_name, with_gpus=bool(launch.gpus or launch.slices)
        ),
        "terminationGracePeriodSeconds": max(settings.grace_s, math.ceil(launch.spec.grace_period_s)),
        "initContainers": [
            *([_agent(settings, launch, BRING, json.dumps(_targets(launch)))] if trees else []),
            *([_resume(settings, launch)] if launch.checkpoint is not None else []),
            _agent(settings, launch, KEEP, "/scratch/output")
            | {"restartPolicy": "Always", "lifecycle": {"preStop": _SAY_OVER}},
        ],
        "containers": [_main(launch, settings)],
        "volumes": _volumes(launch, settings),
    }
    if is_shared(launch.gpus):
        metadata["labels"][SHARES] = reservation_name(settings, launch.node_name, launch.gpus[0].index)
        spec["schedulingGates"] = [{"name": GATE}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def common_spec(settings: PodSettings, node_name: str, *, with_gpus: bool) -> Json:
    """Return what is in the spec of every pod of ours on a node."""
    optional = {
        "priorityClassName": settings.priority_class,
        "runtimeClassName": settings.runtime_class if with_gpus else "",
        "imagePullSecrets": [{"name": name} for name in settings.image_pull_secrets],
        "nodeSelector": dict(settings.node_selector),
        "tolerations": [dict(toleration) for toleration in settings.tolerations],
    }
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": settings.user_id,
            "runAsGroup": settings.user_id,
            "fsGroup": settings.user_id,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "affinity": _pin_to(node_name),
        **{key: value for key, value in optional.items() if value},
    }


def _with_options(settings: PodSettings, options: PodOptions) -> PodSettings:
    """Return what is in the pods of a job whose template adds these options."""
    secrets = dict.fromkeys((*settings.image_pull_secrets, *options.image_pull_secrets))
    return replace(
        settings,
        node_selector={**settings.node_selector, **options.node_selector},
        tolerations=(*settings.tolerations, *(each.to_json() for each in options.parsed_tolerations)),
        priority_class=options.priority_class or settings.priority_class,
        image_pull_secrets=tuple(secrets),
    )


def has_gpus(pod: Mapping[str, Any]) -> bool:
    """Whether a pod of a job has GPUs, whole ones, slices or a part."""
    main = next(each for each in pod["spec"]["containers"] if each["name"] == MAIN)
    # Of what a container is given, only devices are called by the name of their vendor.
    has_devices = any("/" in resource for resource in main["resources"].get("limits") or ())
    return has_devices or SHARES in pod["metadata"]["labels"]


def reservation_name(settings: PodSettings, node_name: str, index: int) -> str:
    """Return the name of the pod that reserves a GPU of a node, as the scheduler numbers them."""
    text = f"{settings.resource}/{node_name}/{index}"
    return f"nl-gpu-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def is_shared(gpus: Sequence[GpuShare]) -> bool:
    """Whether a pod has a part of a GPU, which is one of a single device."""
    return any(share.milli != ONE_GPU for share in gpus)


def _metadata(launch: Launch, settings: PodSettings) -> Json:
    return {
        "name": object_name(settings, launch.name),
        "namespace": settings.namespace,
        "labels": {**labels(settings), JOB_ID: launch.job_id},
        "annotations": {NAME: launch.name},
    }


def labels(settings: PodSettings) -> dict[str, str]:
    """Return the labels of all that is ours on the cluster."""
    return {"app.kubernetes.io/managed-by": "nearline", RESOURCE: settings.resource}


def _pin_to(node_name: str) -> Json:
    # By the field and not by `nodeName`, so that the cluster's own scheduler still checks that the pod fits.
    expression = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    terms = [{"matchFields": [expression]}]
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}


def node_of(pod: Mapping[str, Any]) -> str:
    """Return the node to which a pod of ours is pinned."""
    (term,) = pod["spec"]["affinity"]["nodeAffinity"][_REQUIRED]["nodeSelectorTerms"]
    return str(term["matchFields"][0]["values"][0])


def _main(launch: Launch, settings: PodSettings) -> Json:
    limits: Json = {"memory": str(launch.memory_bytes)}
    argv = launch.spec.argv()
    if launch.gpus and not is_shared(launch.gpus):
        limits[settings.gpu_resource] = str(len(launch.gpus))
    limits |= {f"{MIG}{profile}": str(count) for profile, count in sorted(Counter(launch.slices).items())}
    # With what the agent beside it asks for, the pod asks for what was placed, and no more: a node can be filled whole.
    cpu = max(launch.cpu_millicores - _AGENT_CPU_MILLICORES, 1)
    memory = max(launch.memory_bytes - _AGENT_MEMORY_BYTES, 1)
    return {
        "name": MAIN,
        "image": launch.spec.image or settings.default_image,
        "imagePullPolicy": settings.pull_policy,
        # Without a command the image's own entry point runs, where the image says.
        **({"command": [_literal(part) for part in argv], "workingDir": PATHS.work} if argv else {}),
        "env": _environment(launch, settings),
        "resources": {"requests": {**limits, "cpu": f"{cpu}m", "memory": str(memory)}, "limits": limits},
        "securityContext": confined(),
        "terminationMessagePolicy": "File",
        "volumeMounts": [
            {"name": _SCRATCH, "mountPath": PATHS.work, "subPath": "work"},
            {"name": _SCRATCH, "mountPath": PATHS.output, "subPath": "output"},
            {"name": _SCRATCH, "mountPath": PATHS.tmp, "subPath": "tmp"},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 (a path of the container)
            {"name": "parameters", "mountPath": "/nearline", "readOnly": True},
            *([_checkpoint_mount(subPath="files")] if launch.checkpoint is not None else []),
            *_source_mounts(launch),
        ],
    }


def _environment(launch: Launch, settings: PodSettings) -> list[Json]:
    paths = PATHS if launch.checkpoint is None else replace(PATHS, checkpoint=_CHECKPOINT_FOLDER)
    variables = dict(job_environment(launch, paths, search_path=""))
    if launch.spec.env.get("PATH") is None:
        variables.pop("PATH")
    # The devices that a container sees are numbered from 0, whatever they are called on the node.
    variables.pop("CUDA_VISIBLE_DEVICES")
    # It would win against the cluster's own word on which devices a container is to see.
    variables.pop(_VISIBLE, None)
    if not _count_devices(launch):
        # An image may ask for all devices by itself.
        variables |= {"CUDA_VISIBLE_DEVICES": "", _VISIBLE: "void"}
    keys = {name: _key(number) for number, name in enumerate(launch.secrets)}
    secret = object_name(settings, launch.name)
    shared = {"name": _VISIBLE, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{DEVICE}']"}}}
    own = [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": keys[name]}}}
        if name in keys and launch.secrets[name] == value
        else {"name": name, "value": _literal(value)}
        for name, value in sorted(variables.items())
    ]
    return [*own, shared] if is_shared(launch.gpus) else own


def _source_mounts(launch: Launch) -> list[Json]:
    """Return where the user's container finds what it reads."""
    mounts: list[Json] = []
    for folder, sources in ((PATHS.data, launch.spec.data), (PATHS.input, launch.spec.inputs)):
        for mount in sources:
            path = f"{folder}/{mount.name}"
            if isinstance(mount.source, Tree):
                where: Json = {"name": _SCRATCH, "subPath": f"trees{path}"}
            else:
                where = {"name": _volume_name(path)}
                if isinstance(mount.source, Volume | NfsExport) and mount.source.sub_path:
                    where["subPath"] = mount.source.sub_path
            mounts.append({"mountPath": path, "readOnly": mount.read_only, **where})
    named = volumes.read_volumes(launch.spec.volumes)
    return mounts + [
        {"mountPath": volume.path, "readOnly": volume.read_only, "name": _volume_name(volume.path)} for volume in named
    ]


def _volumes(launch: Launch, settings: PodSettings) -> list[Json]:
    secret = object_name(settings, launch.name)
    pod_volumes: list[Json] = [
        {"name": _SCRATCH, "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(launch.memory_bytes)}},
        {"name": "parameters", **_parameters(launch, secret)},
    ]
    if launch.checkpoint is not None:
        name = checkpoint_claim(settings, launch.checkpoint.name)
        pod_volumes.append({"name": _CHECKPOINT, "persistentVolumeClaim": {"claimName": name}})
    for folder, sources in ((PATHS.data, launch.spec.data), (PATHS.input, launch.spec.inputs)):
        for mount in sources:
            name = _volume_name(f"{folder}/{mount.name}")
            if isinstance(mount.source, Volume):
                claim = {"claimName": mount.source.claim, "readOnly": mount.read_only}
                pod_volumes.append({"name": name, "persistentVolumeClaim": claim})
            elif isinstance(mount.source, NfsExport):
                export = {"server": mount.source.server, "path": mount.source.path, "readOnly": mount.read_only}
                pod_volumes.append({"name": name, "nfs": export})
    for volume in volumes.read_volumes(launch.spec.volumes):
        claim = {"claimName": volume.name, "readOnly": volume.read_only}
        pod_volumes.append({"name": _volume_name(volume.path), "persistentVolumeClaim": claim})
    return pod_volumes


def claims_of(pods: Iterable[Json]) -> set[str]:
    """Return the names of the claims that pods mount."""
    mounted = (volume for pod in pods for volume in pod["spec"].get("volumes") or [])
    return {volume["persistentVolumeClaim"]["claimName"] for volume in mounted if "persistentVolumeClaim" in volume}


def _parameters(launch: Launch, secret: str) -> Json:
    """Return the volume of /nearline. The host file of an elastic gang is written anew when its annotation changes."""
    is_fixed = launch.is_gang and not launch.max_replicas
    items = [{"key": key, "path": key} for key in ("parameters.json", *([_HOSTFILE_KEY] if is_fixed else []))]
    if not launch.max_replicas:
        return {"secret": {"secretName": secret, "items": items}}
    hosts = {"path": _HOSTFILE_KEY, "fieldRef": {"fieldPath": f"metadata.annotations['{HOSTS}']"}}
    return {
        "projected": {"sources": [{"secret": {"name": secret, "items": items}}, {"downwardAPI": {"items": [hosts]}}]}
    }


def _agent(settings: PodSettings, launch: Launch, duty: str, task: str) -> Json:
    token = {"secretKeyRef": {"name": object_name(settings, launch.name), "key": "attempt-token"}}
    return {
        "name": duty,
        "image": settings.agent_image,
        "imagePullPolicy": settings.pull_policy,
        "command": ["python3", "-m", "nearline.pod", duty, _literal(task)],
        "env": [
            {"name": "NEARLINE_URL", "value": _literal(settings.platform_url)},
            {"name": "NEARLINE_ATTEMPT_TOKEN", "valueFrom": token},
            {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
        ],
        "resources": _AGENT_RESOURCES,
        "securityContext": confined() | {"readOnlyRootFilesystem": True},
        "volumeMounts": [{"name": _SCRATCH, "mountPath": "/scratch"}],
    }


def _resume(settings: PodSettings, launch: Launch, rank: int = 0) -> Json:
    """Return the container that prepares the checkpoint folder; those of the other replicas of a gang wait for it."""
    tree = launch.checkpoint.tree if launch.checkpoint is not None else None
    task: Json = {"folder": _CHECKPOINT_FOLDER, "root": tree.root if tree is not None else "", "is_first": rank == 0}
    return _agent(settings, launch, RESUME, json.dumps(task)) | {"volumeMounts": [_checkpoint_mount()]}


def _checkpoint_mount(**options: str) -> Json:
    return {"name": _CHECKPOINT, "mountPath": _CHECKPOINT_FOLDER, **options}


def _targets(launch: Launch) -> Mapping[str, str]:
    """Return where `bring` writes each tree, by the name under which it asks the platform for it."""
    targets = {}
    for kind, mounts in list_mounts(launch.spec):
        for mount in mounts:
            if isinstance(mount.source, Tree):
                targets[f"{kind}/{mount.name}"] = (
                    "/scratch/work" if kind == "code" else f"/scratch/trees/{kind}/{mount.name}"
                )
    return targets


def list_mounts(spec: Any) -> Sequence[tuple[str, Sequence[Any]]]:
    """Return the mounts of a job by what they are for."""
    return (("code", [spec.code] if spec.code is not None else []), ("data", spec.data), ("input", spec.inputs))


def confined() -> Json:
    """Return what no container of a pod of ours may do."""
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _volume_name(path: str) -> str:
    return f"m-{hashlib.sha256(path.encode()).hexdigest()[:20]}"


def _key(number: int) -> str:
    return f"secret-{number}"


def _literal(text: str) -> str:
    """Return a text that stays as it is where Kubernetes would replace `$(NAME)`."""
    return text.replace("$", "$$")
