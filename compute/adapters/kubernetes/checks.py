"""What is checked before a cluster is attached, each in words that say what to do."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from compute.adapters.kubernetes import manifests
from compute.adapters.kubernetes.manifests import PodSettings
from compute.adapters.kubernetes.nodes import parse_quantity
from compute.engine.job_spec import JobSpec
from compute.engine.ports import Launch, QuotaFacts
from core.kubernetes import access
from core.kubernetes.gateway import Gateway, Refusal

Json = Mapping[str, Any]

_LEADING_DIGITS = re.compile(r"[0-9]{1,6}")
OLDEST = (1, 29)
"""The first version in which a pod's sidecar ends after its command."""

IN_NAMESPACE = (
    ("", "pods", ("get", "watch", "create", "patch", "delete")),
    ("", "pods/log", ("get",)),
    ("", "pods/exec", ("get", "create")),
    ("", "pods/portforward", ("get", "create")),
    ("", "secrets", ("get", "list", "create", "delete")),
    ("", "services", ("create",)),
)
"""What the account may do in the namespace of the jobs, as group, resource and verbs."""
IN_CLUSTER = (
    ("", "nodes", ("list",)),
    ("", "pods", ("list",)),
    ("", "namespaces", ("get",)),
)
"""What it may read of the whole cluster: nodes, and what pods of others hold of them."""

FOR_VOLUMES_IN_NAMESPACE = (
    ("", "persistentvolumeclaims", ("get", "list", "create", "patch", "delete")),
    ("batch", "jobs", ("get", "create", "delete")),
    ("", "events", ("list",)),
)
"""What it may do in the namespace where commits are cached on volumes too."""
FOR_VOLUMES_IN_CLUSTER = (
    ("storage.k8s.io", "storageclasses", ("get", "list")),
    ("", "persistentvolumes", ("list",)),
    ("trident.netapp.io", "tridentvolumes", ("list",)),
)
"""What it may read of the whole cluster then: classes, and whether the volume of a deleted claim is gone."""

FOR_MORE_IN_NAMESPACE = (
    ("", "resourcequotas", ("list",)),
    ("snapshot.storage.k8s.io", "volumesnapshots", ("get", "list", "create", "patch", "delete")),
    ("trident.netapp.io", "tridentvolumereferences", ("create", "delete")),
)
"""What it may do in the namespace where all is to work: clones from one snapshot, volumes of other namespaces."""
FOR_MORE_IN_CLUSTER = (
    ("storage.k8s.io", "storageclasses", ("list",)),
    ("snapshot.storage.k8s.io", "volumesnapshotclasses", ("list",)),
    ("trident.netapp.io", "tridentbackends", ("list",)),
    ("trident.netapp.io", "tridentversions", ("list",)),
)
"""What it may read of the whole cluster then, and for the page of that."""
_LABELLED = ("product", "memory")
_MOST_NAMED = 3


def find_lacks(gateway: Gateway, namespace: str) -> tuple[str, ...]:
    """Return, as sentences, what the account may not do that jobs can be without. Raises ClusterUnreachable."""
    in_namespace = access.find_missing(gateway, FOR_MORE_IN_NAMESPACE, namespace)
    return tuple(filter(None, (in_namespace, access.find_missing(gateway, FOR_MORE_IN_CLUSTER))))


def find_unlabelled(nodes: Iterable[Json], gpu_resource: str) -> str:
    """Say on which nodes GPUs have no labels of their model or memory; empty: on none."""
    lacking: dict[str, list[str]] = {}
    for node in nodes:
        labels = node["metadata"].get("labels") or {}
        # Those of NVIDIA are read where the resource has another name, like `nvidia.com/gpu.shared`.
        keys = [f"{gpu_resource}.{key}" for key in _LABELLED if not _has_label(labels, gpu_resource, key)]
        if keys and str((node.get("status", {}).get("allocatable") or {}).get(gpu_resource, "0")) != "0":
            lacking.setdefault(" and ".join(keys), []).append(node["metadata"]["name"])
    sentences = [f"The GPUs of {_some(names)} have no label {keys}." for keys, names in sorted(lacking.items())]
    if not sentences:
        return ""
    return (
        f"{' '.join(sentences)} Jobs cannot ask for their model, or for a part of one by its memory. "
        "Install NVIDIA's GPU feature discovery in the cluster, which sets the labels, or set them yourself."
    )


def find_closed_quotas(quotas: Iterable[QuotaFacts], gpu_resource: str) -> Iterator[str]:
    """Yield which quotas of the namespace let no pod have a GPU. One that does not name GPUs does not bound them."""
    for quota in quotas:
        if quota.resource.removeprefix("requests.") == gpu_resource and not parse_quantity(quota.hard):
            yield (
                f"The quota {quota.quota} of the namespace lets pods have no GPU: {quota.resource} is {quota.hard}. "
                "Raise it, or jobs with GPUs are refused."
            )


def _has_label(labels: Json, gpu_resource: str, key: str) -> bool:
    return any(labels.get(f"{prefix}.{key}") for prefix in (gpu_resource, "nvidia.com/gpu"))


def _some(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _MOST_NAMED
    return ", ".join(sorted(names)[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def find_problems(gateway: Gateway, settings: PodSettings, *, with_volumes: bool = False) -> list[str]:
    """Return what keeps jobs from running on a cluster, as sentences; empty: nothing does.

    `with_volumes`: commits are to be cached there on volumes too.

    Raises ClusterUnreachable when it does not answer, or its certificate is not the one that is expected.
    """
    try:
        version = gateway.get("/version") or {}
    except Refusal as error:
        return [f"The cluster does not tell its version: {error.message}"]
    if problem := _check_version(version):
        return [problem]
    # Each of these would only repeat in other words what the one before it causes.
    return (
        list(_check_namespace(gateway, settings.namespace))
        or list(_missing_permissions(gateway, settings.namespace, with_volumes=with_volumes))
        or [*_check_pod(gateway, settings), *_check_gpus(gateway, settings), *_check_claims(gateway, settings)]
    )


def _check_version(version: Json) -> str:
    if not version.get("gitVersion"):
        return "What answers is no API server of Kubernetes. Check the address in the kubeconfig."
    digits = [_LEADING_DIGITS.match(str(version.get(key, ""))) for key in ("major", "minor")]
    numbers = tuple(int(match[0]) if match else 0 for match in digits)
    if numbers >= OLDEST:
        return ""
    oldest = ".".join(map(str, OLDEST))
    return f"The cluster runs Kubernetes {version.get('gitVersion')}; {oldest} is the oldest that works. Upgrade it."


def _check_namespace(gateway: Gateway, name: str) -> Iterator[str]:
    """Name a namespace that does not exist. Who may not ask for it, is told that with all else they may not."""
    with suppress(Refusal):
        if gateway.get(f"/api/v1/namespaces/{name}") is None:
            yield f"The cluster has no namespace called {name}. Create it: `kubectl create namespace {name}`."


def _missing_permissions(gateway: Gateway, namespace: str, *, with_volumes: bool) -> Iterator[str]:
    in_namespace = IN_NAMESPACE + (FOR_VOLUMES_IN_NAMESPACE if with_volumes else ())
    in_cluster = IN_CLUSTER + (FOR_VOLUMES_IN_CLUSTER if with_volumes else ())
    missing = (access.find_missing(gateway, in_namespace, namespace), access.find_missing(gateway, in_cluster))
    yield from filter(None, missing)


def _check_pod(gateway: Gateway, settings: PodSettings) -> Iterator[str]:
    """Let the cluster check a pod like those of jobs without making it: security level, quota, limits, classes."""
    spec = JobSpec(name="check", command="true", image=settings.default_image or settings.agent_image)
    launch = Launch(spec, "check", "check", "job", "check", "check", cpu_millicores=100, memory_bytes=64 * 2**20)
    pod = manifests.build_pod(launch, settings)
    try:
        gateway.create(f"/api/v1/namespaces/{settings.namespace}/pods", pod, dryRun="All")
    except Refusal as error:
        yield f"The cluster would refuse the pods of jobs: {error.message}"


def _check_claims(gateway: Gateway, settings: PodSettings) -> Iterator[str]:
    """Name claims for jobs that are not there, where the account may ask."""
    for claim in settings.job_claims:
        name = claim.removesuffix(":ro")
        with suppress(Refusal):
            if gateway.get(f"/api/v1/namespaces/{settings.namespace}/persistentvolumeclaims/{name}") is None:
                yield f"The namespace {settings.namespace} has no claim called {name}, which jobs are to mount."


def _check_gpus(gateway: Gateway, settings: PodSettings) -> Iterator[str]:
    offered = {
        resource
        for node in gateway.list("/api/v1/nodes").items
        for resource, amount in (node.get("status", {}).get("allocatable") or {}).items()
        if (resource.endswith("/gpu") or resource == settings.gpu_resource) and amount != "0"
    }
    if offered and settings.gpu_resource not in offered:
        names = " and ".join(sorted(offered))
        yield f"No node offers {settings.gpu_resource}; they offer {names}. Give that as the name of the GPUs."
