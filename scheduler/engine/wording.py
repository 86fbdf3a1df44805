"""The sentences of `explain.py`: numbers as people write them."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

import numpy as np

from core.taints import left_over
from core.units import count_of_gpus, format_cpu, format_memory
from scheduler.engine.decisions import WaitCode
from scheduler.engine.jobs import Job
from scheduler.engine.node_table import Flags
from scheduler.engine.proof import Bound, BoundKind, Cause, Remedy, Resource, Suggestion
from scheduler.engine.shortfall import FitReport
from scheduler.engine.snapshot import Labels, NodeView, Request

_MANY = 3
_MIB = 2**20


_WRITE: dict[Resource, Callable[[int], str]] = {
    Resource.GPU: count_of_gpus,
    Resource.DEVICE_MEMORY: lambda mib: f"{format_memory(mib * _MIB)} of GPU memory",
    Resource.CPU: lambda millicores: f"{format_cpu(millicores)} CPU",
    Resource.MEMORY: lambda size_bytes: f"{format_memory(size_bytes)} of memory",
    Resource.PODS: lambda count: f"capacity for {count} pod{'' if count == 1 else 's'}",
}


def call(job: Job, listener: Job) -> str:
    """Return the name of a job as another one may see it: jobs of other queues are not named."""
    return job.view.label if job.queue is listener.queue else "a job of another queue"


def write(resource: Resource, amount: int, profile: str = "") -> str:
    """Write an amount of a resource, of MIG slices those of a profile."""
    if resource is Resource.MIG:
        return f"{amount} MIG slice{'' if amount == 1 else 's'} of {profile}"
    return _WRITE[resource](amount)


def list_names(names: Sequence[str]) -> str:
    """Write the first few of some names."""
    return ", ".join(names[:_MANY]) + (" and others" if len(names) > _MANY else "")


def of_bounds(bounds: Sequence[Bound]) -> tuple[WaitCode, str]:
    """Say which quotas, or which limits, a job would pass."""
    is_quota = bounds[0].kind is BoundKind.QUOTA
    holders = "its jobs that are not preemptible hold" if is_quota else "its jobs hold"
    text = "; ".join(
        f"it needs {write(bound.resource, bound.asked)}, the {bound.kind} of {bound.queue} is "
        f"{write(bound.resource, bound.amount)}, and {holders} {write(bound.resource, bound.held)}"
        for bound in bounds
    )
    if is_quota:
        return WaitCode.BEYOND_QUOTA, f"is not preemptible, so it must stay within the quota: {text}"
    return WaitCode.BEYOND_LIMIT, f"its project is at its limit: {text}"


def compare(report: FitReport, among: Flags, where: str, state: str) -> str:
    """Say what is asked for and which node comes closest: in one resource if that decides, else in all together."""
    amounts = (report.free if state == "free" else report.whole)[:, among]
    indices = np.flatnonzero(among)
    most = "most free on one node is" if state == "free" else "most on any node is"
    for number, (resource, asked, profile) in enumerate(report.wants()):
        best = int(amounts[number].argmax())
        have = max(0, int(amounts[number, best]))
        if have < asked:
            is_share = number == 0 and report.request.is_shared
            what = f"{write(resource, asked, profile)} on {_devices(report) if is_share else ''}{where}"
            if is_share and state == "free":
                most = "most free on one device is"
            node = report.capacities.nodes[indices[best]].view.name
            return f"needs {what}; {most} {write(resource, have, profile)} ({node})"
    closest = int((amounts >= report.asked).sum(axis=0).argmax())
    pairs = zip(report.wants(), amounts[:, closest].tolist(), strict=True)
    short = [write(resource, max(0, have), profile) for (resource, asked, profile), have in pairs if have < asked]
    only = f"has only {' and '.join(short)}{' free' if state == 'free' else ''}"
    name = report.capacities.nodes[indices[closest]].view.name
    return f"needs {_each(report)} together on one node of {where}; the closest, {name}, {only}"


def _devices(report: FitReport) -> str:
    return "one device of " if report.request.devices == 1 else f"each of {report.request.devices} devices of "


def _each(report: FitReport) -> str:
    return " and ".join(write(*want) for want in report.wants() if want[0] is not Resource.PODS)


def too_few(report: FitReport, count: int, placeable: int, where: str) -> str:
    """Say for how many pods of a gang there is capacity now."""
    return f"needs {count} pods of {_each(report)} at once on {where}; there is capacity for {placeable}"


def too_many(report: FitReport, count: int, most: int, where: str) -> str:
    """Say how many pods of a gang there would be capacity for if nothing ran."""
    return f"needs {count} pods of {_each(report)} at once; {where} has capacity for {most} when it is empty"


def too_large(count: int, resource: Resource, asked: int, there: int, where: str) -> str:
    """Say that unlike pods would need more of a resource together than there is if nothing ran."""
    return f"needs {write(resource, asked)} for {count} pods at once; {where} has {write(resource, there)}"


def not_together(report: FitReport, count: int, placeable: int, level: str | None) -> str:
    """Say that a gang would fit, but not in one part of the cluster."""
    return f"needs {count} pods of {_each(report)} in one {level}; the one with most capacity takes {placeable}"


def closed(report: FitReport) -> str:
    """Name the nodes that would be large enough but take nothing."""
    text = ""
    for cause, words in ((Cause.NOT_READY, "not ready"), (Cause.DRAINED, "drained")):
        if nodes := report.nodes(report.has(cause)):
            text += f"; {words}: {list_names([node.view.name for node in nodes])}"
    return text


def of_pools(texts: Mapping[str, str]) -> str:
    """Say of each pool, by its name, why it does not serve a job that could go to any of them."""
    return " ".join(["finds capacity in none of its pools.", *(f"{name}: {text}." for name, text in texts.items())])


def kind_of_work(job: Job) -> str:
    """Name the work for which a queue has rules of its own."""
    return f"{'training' if job.view.is_preemptible else 'interactive work'} of {job.queue.view.name}"


def bound_to(work: str, labels: Labels) -> str:
    """Say on which nodes work may run."""
    names = " or ".join(f"{label}={value}" for label, value in sorted(labels)) or "labels that none has"
    return f"{work} may run only on nodes with {names}"


def kept_off(request: Request, nodes: Sequence[NodeView]) -> str:
    """Say which nodes take a request by their labels, and by which taints others keep it off."""
    labels = " and ".join(f"{label}={value}" for label, value in sorted(request.selector))
    taints = sorted({taint for node in nodes for taint in left_over(node.taints, request.tolerations)})
    names = list_names([f"{taint.key}={taint.value}:{taint.effect}" for taint in taints])
    selected = f"its template asks for nodes with {labels}" if labels else ""
    return "; ".join(filter(None, (selected, f"it does not tolerate {names}" if names else "")))


def advise(suggestions: Sequence[Suggestion]) -> str:
    """Say what would let a job start, the first few suggestions; what is needed together is one of them."""
    together = [list(parts) for _, parts in groupby(suggestions, key=_together)]
    return ", or ".join(_advise(parts) for parts in together[:_MANY])


def _together(suggestion: Suggestion) -> tuple[Remedy, str]:
    """Return what tells alternatives apart: all quotas that are passed have to be raised together."""
    return suggestion.remedy, "" if suggestion.remedy in {
        Remedy.RAISE_QUOTA,
        Remedy.RAISE_LIMIT,
    } else suggestion.where


def _advise(parts: Sequence[Suggestion]) -> str:
    amounts: dict[str, list[str]] = defaultdict(list)
    for part in parts:
        amounts[part.where].append(write(part.resource, part.amount, part.profile) if part.resource is not None else "")
    advice = _ADVICE[parts[0].remedy]
    return " and ".join(advice.format(where=where, amount=" and ".join(each)) for where, each in amounts.items())


_ADVICE = {
    Remedy.RAISE_QUOTA: "raise the quota of {where} by {amount}",
    Remedy.RAISE_LIMIT: "raise the limit of {where} by {amount}",
    Remedy.BE_PREEMPTIBLE: "let it be preempted",
    Remedy.WAIT_FOR_QUEUE: "wait until other work of {where} ends",
    Remedy.WAIT_FOR_NODE: "wait for {amount} more on {where}",
    Remedy.WAIT_FOR_CAPACITY: "wait for {amount} more on {where}",
    Remedy.WAIT_FOR_JOB: "wait until the job that the capacity is reserved for has started",
    Remedy.ASK_LESS: "ask for at most {amount}",
    Remedy.DROP_POOL: "let it run elsewhere than on {where}",
    Remedy.ALLOW_NODES: "let {where} run on more nodes",
    Remedy.OPEN_NODE: "open {where}",
    Remedy.REPAIR_NODE: "bring {where} back",
}
