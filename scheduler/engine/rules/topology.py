"""Keeping tasks together: in one rack, one zone, whatever levels the cluster's nodes are labelled with.

A group goes into one domain of its required level. A preferred level is tried first, from the tightest domain that can
hold the group; where no such domain is enough, wider ones are, and then the freest narrow domain is filled first.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from scheduler.engine import mig
from scheduler.engine.jobs import Group, Job, PodSet, Task
from scheduler.engine.ledger import HOLDING, NodeLedger
from scheduler.engine.session import Session
from scheduler.engine.snapshot import Placement, Request

_RANKS = 10

Preferences = Mapping[str, int]
Domain = tuple[str, ...]


class PlaceOne(Protocol):
    """Gives one task room on one of the nodes."""

    def __call__(
        self,
        session: Session,
        task: Task,
        nodes: Sequence[NodeLedger] | None,
        preferences: Preferences | None,
        *,
        promise_only: bool,
    ) -> bool:
        """Return whether there was room."""


def place_together(
    session: Session,
    job: Job,
    tasks: Sequence[Task],
    *,
    promise_only: bool,
    place_one: PlaceOne,
) -> bool:
    """Place all the tasks, each group in a domain that its placement allows; return whether that went well."""
    if job.root.view.placement is None and not _is_placed(job.root):
        return all(place_one(session, task, None, None, promise_only=promise_only) for task in tasks)

    def place_part(part: Group | PodSet, inside: Sequence[NodeLedger], preferences: Preferences | None) -> bool:
        mine = _below(part)
        wanted = [task for task in tasks if task.pod_set in mine]
        for chosen, preferred in _choices(session, part, wanted, inside, preferences):
            mark = session.mark()
            if place_inside(part, wanted, chosen, preferred):
                return True
            session.take_back(mark)
        return False

    def place_inside(
        part: Group | PodSet, wanted: list[Task], inside: Sequence[NodeLedger], preferences: Preferences | None
    ) -> bool:
        if isinstance(part, PodSet) or not _is_placed(part):
            return all(place_one(session, task, inside, preferences, promise_only=promise_only) for task in wanted)
        touched = {task.pod_set for task in wanted}
        children = [child for child in part.children if touched & _below(child)]
        return all(place_part(child, inside, preferences) for child in children)

    return place_part(job.root, _serving(session, tasks), None)


def placement_of(job: Job) -> Placement | None:
    """Return the placement that a job has as a whole."""
    part: Group | PodSet = job.root
    while part.view.placement is None and isinstance(part, Group) and len(part.children) == 1:
        part = part.children[0]
    return part.view.placement


def required_domains(placement: Placement | None, nodes: Sequence[NodeLedger]) -> list[list[NodeLedger]]:
    """Return the sets of nodes of which one must hold a job as a whole: the domains of its level, or all nodes."""
    if placement is None or placement.required not in placement.levels:
        return [list(nodes)]
    domains = _domains(placement.levels[: placement.levels.index(placement.required) + 1], nodes)
    return [domains[name] for name in sorted(domains)]


def _serving(session: Session, tasks: Sequence[Task]) -> list[NodeLedger]:
    """Return the nodes that serve any of the tasks: only what is free there tells the domains apart."""
    serving = [session.serving(request) for request in {task.shape.request for task in tasks}]
    return serving[0] if len(serving) == 1 else sorted(set().union(*serving), key=lambda node: node.index)


def _below(part: Group | PodSet) -> set[PodSet]:
    return {part} if isinstance(part, PodSet) else set(part.pod_sets())


def _is_placed(group: Group) -> bool:
    """Return whether anything below a group has a placement of its own."""
    return any(
        child.view.placement is not None or (isinstance(child, Group) and _is_placed(child)) for child in group.children
    )


def _choices(
    session: Session,
    part: Group | PodSet,
    tasks: Sequence[Task],
    nodes: Sequence[NodeLedger],
    preferences: Preferences | None,
) -> Iterator[tuple[Sequence[NodeLedger], Preferences | None]]:
    """Yield the sets of nodes to try for a part of a job, with what is preferred inside them."""
    placement = part.view.placement
    if placement is None or not placement.levels or not session.policy.topology:
        yield nodes, preferences
        return
    pinned = _pinned(part, placement)
    for depth in _depths(placement):
        domains = _domains(placement.levels[:depth], nodes)
        able = [
            (_free(inside, tasks[0].shape.request), domain, inside)
            for domain, inside in domains.items()
            if (pinned is None or domain[: len(pinned)] == pinned) and _may_hold(inside, tasks)
        ]
        for _, _, inside in sorted(able, key=lambda entry: entry[:2]):
            yield inside, _preferences(placement, inside, tasks[0].shape.request) or preferences


def _depths(placement: Placement) -> list[int]:
    """Return how many levels deep to look, deepest first; 0 is the whole cluster."""
    names = {level: depth for depth, level in enumerate(placement.levels, start=1)}
    required = names.get(placement.required or "", 0)
    preferred = names.get(placement.preferred or "", required)
    return list(range(max(preferred, required), required - 1, -1))


def _domains(levels: Sequence[str], nodes: Sequence[NodeLedger]) -> dict[Domain, list[NodeLedger]]:
    domains: dict[Domain, list[NodeLedger]] = defaultdict(list)
    for node in nodes:
        if all(level in node.view.labels for level in levels):
            domains[tuple(node.view.labels[level] for level in levels)].append(node)
    return domains


def _pinned(part: Group | PodSet, placement: Placement) -> Domain | None:
    """Return the domain of the required level in which tasks of this part run already."""
    if placement.required not in placement.levels:
        return None
    levels = placement.levels[: placement.levels.index(placement.required) + 1]
    for pod_set in _below(part):
        for task in pod_set.tasks:
            if task.state in HOLDING and task.node is not None:
                labels = task.node.view.labels
                return tuple(labels.get(level, "") for level in levels)
    return None


def _preferences(placement: Placement, nodes: Sequence[NodeLedger], request: Request) -> Preferences | None:
    """Rank the nodes by their domain of the preferred level, the freest highest, so that the fewest are touched."""
    if placement.preferred not in placement.levels:
        return None
    levels = placement.levels[: placement.levels.index(placement.preferred) + 1]
    domains = _domains(levels, nodes)
    ordered = sorted(domains, key=lambda domain: (_free(domains[domain], request), domain))
    return {
        node.view.id: _RANKS * position // len(ordered)
        for position, domain in enumerate(ordered)
        for node in domains[domain]
    }


def _free(nodes: Sequence[NodeLedger], request: Request) -> float:
    if request.wants_gpu:
        return float(sum(node.free_milli() for node in nodes))
    return float(sum(node.idle_cpu + node.coming_cpu for node in nodes))


def _may_hold(nodes: Sequence[NodeLedger], tasks: Sequence[Task]) -> bool:
    """Return whether a domain may have room for tasks: by count if they are alike, else by the sum of what they ask."""
    requests = {task.shape.request for task in tasks}
    if len(requests) == 1:
        request = next(iter(requests))
        return sum(count_fitting(node, request) for node in nodes) >= len(tasks)
    return all(
        sum(have) >= sum(want)
        for have, want in (
            ([n.idle_gpus + n.coming_gpus for n in nodes], [task.shape.request.gpus for task in tasks]),
            ([n.idle_cpu + n.coming_cpu for n in nodes], [task.shape.request.cpu_millicores for task in tasks]),
            ([n.idle_memory + n.coming_memory for n in nodes], [task.shape.request.memory_bytes for task in tasks]),
        )
    )


def count_fitting(node: NodeLedger, request: Request) -> int:
    """Return how many tasks of one kind a node could hold on what is free or about to be; never too few."""
    bounds = [node.idle_tasks + node.coming_tasks]
    if request.cpu_millicores:
        bounds.append((node.idle_cpu + node.coming_cpu) // request.cpu_millicores)
    if request.memory_bytes:
        bounds.append((node.idle_memory + node.coming_memory) // request.memory_bytes)
    if request.gpus:
        bounds.append((node.idle_gpus + node.coming_gpus) // request.gpus)
    if node.geometry is not None and (request.is_shared or request.mig):
        profiles = request.slices_on(node.geometry) or ()
        taken = [opening.taken for opening in node.openings(now=False)]
        counts = [mig.count(profile, taken) // profiles.count(profile) for profile in profiles]
        bounds.append(min(counts, default=0))
    elif request.is_shared:
        share = node.share_mib(request)
        whole = node.view.device_mib // share if share else 0
        parts = sum(
            max(0, node.view.device_mib - device.active_mib - device.planned_mib) // share if share else 0
            for device in node.shared.values()
            if device.active or device.planned
        )
        bounds.append((max(0, node.idle_gpus + node.coming_gpus) * whole + parts) // request.devices)
    else:
        bounds += [
            (node.idle_mig.get(profile, 0) + node.coming_mig.get(profile, 0)) // count for profile, count in request.mig
        ]
    return max(0, min(bounds))
