"""Turns a scenario into what the engine takes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scheduler.engine.snapshot import (
    PARITY,
    Fill,
    GroupView,
    JobView,
    MigStrategy,
    NodeView,
    PodSetView,
    PodState,
    PodView,
    Policy,
    QueueView,
    Quota,
    Request,
    Snapshot,
    TopologyConstraint,
)

Scenario = Mapping[str, Any]

STATES = {
    "pending": PodState.PENDING,
    "running": PodState.RUNNING,
    "pipelined": PodState.RESERVED,
    "releasing": PodState.TERMINATING,
    "stuck_releasing": PodState.STUCK_TERMINATING,
    "failed": PodState.FAILED,
    "succeeded": PodState.SUCCEEDED,
}
_FILLS = {"binpack": Fill.PACK, "pack": Fill.PACK, "spread": Fill.SPREAD, "none": Fill.BY_NAME}


def read_policy(scenario: Scenario, base: Policy = PARITY) -> Policy:
    """Return a policy with the switches of a scenario."""
    policy = scenario["policy"]
    return replace(
        base,
        gpu_nodes=_FILLS[policy["node_placement_gpu"]],
        cpu_nodes=_FILLS[policy["node_placement_cpu"]],
        devices=_FILLS[policy["device_placement"]],
        quotas=policy["quota_rules"],
        priorities=policy["job_priority_order"],
        prefers_free_now=policy["prefer_immediately_free_node"],
        prefers_shared_devices=policy["prefer_partly_used_device_node"],
        keeps_cpu_work_off_gpus=policy["prefer_cpu_only_nodes_for_cpu_jobs"],
        min_runtime=policy["min_runtime"],
        topology=policy["topology"],
        stale_grace_s=scenario["stale_gang_grace_seconds"],
    )


def read_snapshot(scenario: Scenario) -> Snapshot:
    """Return the state at the start of a scenario. Whole devices, which it leaves anonymous, get names."""
    levels = {topology["name"]: tuple(topology["levels"]) for topology in scenario.get("topologies", [])}
    # Pods that were given slices in the old way keep a node from giving out slices in the new one.
    old = {pod.get("node") for job in scenario["jobs"] for pod in job["tasks"] if pod.get("legacy_mig")}
    nodes = [_node(node, gives_slices=node["name"] not in old) for node in scenario["nodes"]]
    plain = frozenset(node["name"] for node in scenario["nodes"] if not node.get("mig"))
    jobs = [_job(job, levels, plain) for job in scenario["jobs"]]
    return Snapshot(nodes=nodes, queues=[_queue(queue) for queue in scenario["queues"]], jobs=name_devices(nodes, jobs))


def _node(node: Scenario, *, gives_slices: bool) -> NodeView:
    mig = node.get("mig")
    whole = node.get("whole_gpus_schedulable", node["gpus"])
    return NodeView(
        id=node["name"],
        name=node["name"],
        cpu_millicores=node["cpu_millis"],
        memory_bytes=node["memory_bytes"],
        devices=tuple(range(whole)),
        device_mib=node["gpu_memory_mib"] // 100 * 100 if node["gpus"] else 0,
        mig_strategy=MigStrategy(mig["strategy"]) if mig else MigStrategy.OFF,
        mig=mig["slices"] if mig and mig["strategy"] == "mixed" and gives_slices else {},
        max_pods=node["max_pods"],
        labels=node.get("labels") or {},
    )


def _queue(queue: Scenario) -> QueueView:
    return QueueView(
        id=queue["name"],
        name=queue["name"],
        parent_id=queue["parent"],
        rank=(queue["created_rank"], queue["name"]),
        priority=queue["priority"],
        quota=Quota(_milli(queue["quota_gpus"]), queue["quota_cpu_millis"], queue["quota_memory_bytes"]),
        limit=Quota(_milli(queue["limit_gpus"]), queue["limit_cpu_millis"], queue["limit_memory_bytes"]),
        weights=(queue["over_quota_weight"], queue["over_quota_weight_cpu"], queue["over_quota_weight_memory"]),
        reclaim_min_runtime_s=queue.get("reclaim_min_runtime_seconds"),
    )


def _milli(gpus: float | None) -> int | None:
    return None if gpus is None else round(gpus * 1000)


def _job(job: Scenario, levels: Mapping[str, tuple[str, ...]], plain: frozenset[str]) -> JobView:
    structure = job.get("structure")
    tree = _group(structure, levels) if structure else GroupView((PodSetView("", job["min_available"]),))
    delay = job.get("preemption_delay_seconds") or 0
    return JobView(
        id=job["name"],
        queue_id=job["queue"],
        pods=tuple(_pod(pod, job["request"], plain) for pod in job["tasks"]),
        structure=tree,
        priority=job["priority"],
        is_preemptible=job["preemptible"],
        rank=(job["created_rank"],),
        running_for_s=job.get("running_for_seconds"),
        may_evict=job["age_minutes"] * 60 >= delay,
        stale_for_s=job.get("stale_for_seconds"),
        stale_grace_s=job.get("stale_grace_seconds"),
    )


def _group(tree: Scenario, levels: Mapping[str, tuple[str, ...]]) -> GroupView:
    children = tuple(
        PodSetView(child["pod_set"], child["min_available"], _topology_constraint(child, levels))
        if "pod_set" in child
        else _group(child, levels)
        for child in tree["children"]
    )
    return GroupView(children, tree.get("min_children"), _topology_constraint(tree, levels), tree.get("name", ""))


def _topology_constraint(holder: Scenario, levels: Mapping[str, tuple[str, ...]]) -> TopologyConstraint | None:
    topology_constraint = holder.get("placement")
    if not topology_constraint:
        return None
    return TopologyConstraint(
        levels.get(topology_constraint["topology"], ()),
        topology_constraint.get("required_level"),
        topology_constraint.get("preferred_level"),
    )


def _pod(pod: Scenario, request: Scenario, plain: frozenset[str]) -> PodView:
    allowed = pod.get("allowed_nodes")
    if pod.get("legacy_mig") and pod["state"] == "pending":
        allowed = plain
    return PodView(
        id=pod["id"],
        state=STATES[pod["state"]],
        request=_request(pod.get("request") or request),
        pod_set=pod.get("pod_set", ""),
        node_id=pod.get("node"),
        devices=tuple(pod.get("devices") or ()),
        urgency=pod.get("order_priority"),
        allowed_nodes=None if allowed is None else frozenset(allowed),
        labels=pod.get("labels") or {},
        together_by=pod.get("together_by"),
        apart_by=pod.get("apart_by"),
    )


def _request(request: Scenario) -> Request:
    return Request(
        gpus=request.get("gpus", 0) if request["kind"] == "gpu" else 0,
        share_milli=round(request.get("gpu_fraction", 0) * 1000),
        share_mib=request.get("gpu_memory_mib", 0) if request["kind"] == "gpu_memory" else 0,
        devices=request.get("devices", 1),
        mig=tuple(sorted((request.get("mig") or {}).items())),
        cpu_millicores=request["cpu_millis"],
        memory_bytes=request["memory_bytes"],
    )


def name_devices(nodes: list[NodeView], jobs: list[JobView]) -> list[JobView]:
    """Return the jobs with the whole and the labelled devices that they hold mapped to those of their nodes."""
    free = {node.id: [str(device) for device in node.devices] for node in nodes}
    known: dict[tuple[str, str], str] = {}

    def take(node_id: str) -> str:
        return free[node_id].pop(0) if free[node_id] else f"beyond-{len(known)}"

    def named(pod: PodView) -> PodView:
        if pod.node_id is None or pod.state in {PodState.PENDING, PodState.SUCCEEDED, PodState.FAILED}:
            return replace(pod, devices=())
        if pod.request.is_shared:
            labels = pod.devices or tuple(f"{pod.id}:{number}" for number in range(pod.request.devices))
            for label in labels:
                if (pod.node_id, label) not in known:
                    known[pod.node_id, label] = take(pod.node_id)
            return replace(pod, devices=tuple(known[pod.node_id, label] for label in labels))
        if pod.state is PodState.RESERVED or not pod.request.gpus:
            return replace(pod, devices=())
        return replace(pod, devices=tuple(take(pod.node_id) for _ in range(pod.request.gpus)))

    return [replace(job, pods=tuple(named(pod) for pod in job.pods)) for job in jobs]
