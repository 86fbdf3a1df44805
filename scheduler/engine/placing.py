"""Finding places for the pods that come next, all of them or none: which nodes, and which devices on them.

Pods may have to stay together: in one rack, one zone, whatever levels the cluster's nodes are labelled with. A group
goes into one domain of its required level. A preferred level is tried first, then wider ones. Of the domains of a level
that can hold the group, the first is in the fullest domain of the widest level, in the fullest of the next level there,
and so on. Where a group spreads over several domains of its preferred level, the last of them is filled first, as it is
the freest.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from core.units import ONE_GPU
from scheduler.engine import mig
from scheduler.engine.decisions import StopCode
from scheduler.engine.jobs import Group, Job, Pod, PodSet
from scheduler.engine.ledger import HOLDING, NodeLedger
from scheduler.engine.rules import affinity, packing, pools, quotas
from scheduler.engine.session import Session
from scheduler.engine.shapes import NO_CAPACITY, rank_key
from scheduler.engine.snapshot import Fill, PodState, Request, TopologyConstraint

_RANKS = 10
_NONE_FREE = 1000.0

Preferences = Mapping[str, int]
Domain = tuple[str, ...]
Order = Mapping[Domain, tuple[tuple[float, str], ...]]
"""The place of each domain, first to last."""


def place(session: Session, job: Job, pods: Sequence[Pod], *, reserve_only: bool = False) -> bool:
    """Start the pods, or reserve capacity for them; return whether that worked for all. Nothing is changed if not.

    Of several pools the first in which all may start at once is chosen, else the first in which capacity is releasing.
    """
    if not job.view.pools:
        return place_as_asked(session, job, pods, reserve_only=reserve_only)

    def start_all() -> bool:
        checkpoint = session.checkpoint()
        if place_as_asked(session, job, pods) and all(pod.state is PodState.STARTING for pod in pods):
            return True
        session.rollback(checkpoint)
        return False

    is_now = not reserve_only and session.policy.prefers_free_now and pools.in_order(session, job, pods, start_all)
    return is_now or pools.in_order(
        session, job, pods, lambda: place_as_asked(session, job, pods, reserve_only=reserve_only)
    )


def place_as_asked(session: Session, job: Job, pods: Sequence[Pod], *, reserve_only: bool = False) -> bool:
    """Do the same where the pods say by themselves which nodes serve them.

    If the pods that start do not reach the minimum of a pod set, all of them only get a reservation.
    """
    if not pods or session.best_node(pods[0]) is None:
        return False
    checkpoint = session.checkpoint()
    amounts = session.charge_all(pods, at_least=True)
    if not quotas.may_hold(session, job, amounts):
        return False
    if not _place_together(session, job, pods, reserve_only=reserve_only):
        session.rollback(checkpoint)
        return False
    if not reserve_only:
        _reserve_all_unless_whole(session, job, pods)
    return True


def _reserve_all_unless_whole(session: Session, job: Job, pods: Sequence[Pod]) -> None:
    for pod_set in job.pod_sets.values():
        if pod_set.reserved and pod_set.active < pod_set.view.min_available:
            break
    else:
        return
    for pod in pods:
        if pod.state is PodState.STARTING and pod.node is not None:
            session.reserve(pod, pod.node, () if pod.shape.request.gpus else pod.devices)


def _place_together(session: Session, job: Job, pods: Sequence[Pod], *, reserve_only: bool) -> bool:
    """Place all the pods, each group in a domain that its placement allows; return whether that went well."""
    if job.root.view.topology_constraint is None and not _is_constrained(job.root):
        return all(_place_one(session, pod, None, None, reserve_only=reserve_only) for pod in pods)

    def place_part(part: Group | PodSet, inside: Sequence[NodeLedger], preferences: Preferences | None) -> bool:
        mine = _below(part)
        members = [pod for pod in pods if pod.pod_set in mine]
        for chosen, preferred in _choices(session, part, members, inside, preferences):
            checkpoint = session.checkpoint()
            if place_inside(part, members, chosen, preferred):
                return True
            session.rollback(checkpoint)
        return False

    def place_inside(
        part: Group | PodSet, members: list[Pod], inside: Sequence[NodeLedger], preferences: Preferences | None
    ) -> bool:
        if isinstance(part, PodSet) or not _is_constrained(part):
            return all(_place_one(session, pod, inside, preferences, reserve_only=reserve_only) for pod in members)
        touched = {pod.pod_set for pod in members}
        children = [child for child in part.children if touched & _below(child)]
        return all(place_part(child, inside, preferences) for child in children)

    return place_part(job.root, _serving(session, pods), None)


def constraint_of(pod: Pod) -> TopologyConstraint | None:
    """Return the placement that the pods of a kind have, or else that of their job as a whole."""
    part: Group | PodSet = pod.job.root
    while part.view.topology_constraint is None and isinstance(part, Group) and len(part.children) == 1:
        part = part.children[0]
    return pod.pod_set.view.topology_constraint or part.view.topology_constraint


def required_domains(constraint: TopologyConstraint | None, nodes: Sequence[NodeLedger]) -> list[list[NodeLedger]]:
    """Return the sets of nodes of which one must hold a job as a whole: the domains of its level, or all nodes."""
    if constraint is None or constraint.required not in constraint.levels:
        return [list(nodes)]
    domains = _domains(constraint.levels[: constraint.levels.index(constraint.required) + 1], nodes)
    return [domains[name] for name in sorted(domains)]


def _serving(session: Session, pods: Sequence[Pod]) -> list[NodeLedger]:
    """Return the nodes that serve any of the pods: only what is free there tells the domains apart."""
    serving = [session.serving(request) for request in {pod.shape.request for pod in pods}]
    return serving[0] if len(serving) == 1 else sorted(set().union(*serving), key=lambda node: node.index)


def _below(part: Group | PodSet) -> set[PodSet]:
    return {part} if isinstance(part, PodSet) else set(part.pod_sets())


def _is_constrained(group: Group) -> bool:
    """Return whether anything below a group has a placement of its own."""
    return any(
        child.view.topology_constraint is not None or (isinstance(child, Group) and _is_constrained(child))
        for child in group.children
    )


def _choices(
    session: Session,
    part: Group | PodSet,
    pods: Sequence[Pod],
    nodes: Sequence[NodeLedger],
    preferences: Preferences | None,
) -> Iterator[tuple[Sequence[NodeLedger], Preferences | None]]:
    """Yield the sets of nodes to try for a part of a job, with what is preferred inside them."""
    constraint = part.view.topology_constraint
    if constraint is None or not constraint.levels or not session.policy.topology:
        yield nodes, preferences
        return
    pinned = _pinned(part, constraint)
    depths = _depths(constraint)
    order = _order(constraint.levels[: depths[0]], pods, nodes)
    preferences = _preferences(constraint, nodes, order) or preferences
    for depth in depths:
        domains = _domains(constraint.levels[:depth], nodes)
        for domain in sorted(domains, key=lambda domain: order[domain]):
            if (pinned is None or domain[: len(pinned)] == pinned) and _may_hold(domains[domain], pods):
                yield domains[domain], preferences


def _depths(constraint: TopologyConstraint) -> list[int]:
    """Return how many levels deep to look, deepest first; 0 is the whole cluster."""
    names = {level: depth for depth, level in enumerate(constraint.levels, start=1)}
    required = names.get(constraint.required or "", 0)
    preferred = names.get(constraint.preferred or "", required)
    return list(range(max(preferred, required), required - 1, -1))


def _domains(levels: Sequence[str], nodes: Sequence[NodeLedger]) -> dict[Domain, list[NodeLedger]]:
    domains: dict[Domain, list[NodeLedger]] = defaultdict(list)
    for node in nodes:
        if all(level in node.view.labels for level in levels):
            domains[tuple(node.view.labels[level] for level in levels)].append(node)
    return domains


def _pinned(part: Group | PodSet, constraint: TopologyConstraint) -> Domain | None:
    """Return the domain of the required level in which pods of this part run already."""
    if constraint.required not in constraint.levels:
        return None
    levels = constraint.levels[: constraint.levels.index(constraint.required) + 1]
    for pod_set in _below(part):
        for pod in pod_set.pods:
            if pod.state in HOLDING and pod.node is not None:
                labels = pod.node.view.labels
                return tuple(labels.get(level, "") for level in levels)
    return None


def _preferences(constraint: TopologyConstraint, nodes: Sequence[NodeLedger], order: Order) -> Preferences | None:
    """Rank the nodes by their domain of the preferred level, the last highest, so that the fewest are touched."""
    if constraint.preferred not in constraint.levels:
        return None
    domains = _domains(constraint.levels[: constraint.levels.index(constraint.preferred) + 1], nodes)
    return {
        node.view.id: _RANKS * position // len(domains)
        for position, domain in enumerate(sorted(domains, key=lambda domain: order[domain]), start=1)
        for node in domains[domain]
    }


def _order(levels: Sequence[str], pods: Sequence[Pod], nodes: Sequence[NodeLedger]) -> Order:
    """Return the places of all domains down to a level: by the domain above, then the fullest, then by name."""
    asked = _sum(_asked(pod.shape.request) for pod in pods)
    order: dict[Domain, tuple[tuple[float, str], ...]] = {(): ()}
    for depth in range(1, len(levels) + 1):
        for domain, inside in _domains(levels[:depth], nodes).items():
            order[domain] = (*order[domain[:-1]], (-_load(asked, _sum(map(_free, inside))), domain[-1]))
    return order


def _load(asked: Mapping[str, int], free: Mapping[str, int]) -> float:
    """Return which part of what is free is asked for, of the resource that is shortest."""
    loads = (amount / free[name] if free.get(name, 0) > 0 else _NONE_FREE for name, amount in asked.items() if amount)
    return max(loads, default=0.0)


def _asked(request: Request) -> dict[str, int]:
    gpu = ONE_GPU * request.gpus + request.share_milli * request.devices
    return {"gpu": gpu, "cpu": request.cpu_millicores, "memory": request.memory_bytes, **dict(request.mig)}


def _free(node: NodeLedger) -> dict[str, int]:
    """Return what is free or about to be; of devices only whole ones."""
    return {
        "gpu": ONE_GPU * (node.idle_gpus + node.releasing_gpus),
        "cpu": node.idle_cpu + node.releasing_cpu,
        "memory": node.idle_memory + node.releasing_memory,
        **{profile: node.idle_mig[profile] + node.releasing_mig.get(profile, 0) for profile in node.idle_mig},
    }


def _sum(amounts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in amounts:
        total.update(each)
    return total


def _may_hold(nodes: Sequence[NodeLedger], pods: Sequence[Pod]) -> bool:
    """Return whether a domain may hold pods: by count if they are alike, else by the sum of what they ask."""
    requests = {pod.shape.request for pod in pods}
    if len(requests) == 1:
        request = next(iter(requests))
        return sum(count_fitting(node, request) for node in nodes) >= len(pods)
    return all(
        sum(have) >= sum(want)
        for have, want in (
            ([n.idle_gpus + n.releasing_gpus for n in nodes], [pod.shape.request.gpus for pod in pods]),
            ([n.idle_cpu + n.releasing_cpu for n in nodes], [pod.shape.request.cpu_millicores for pod in pods]),
            ([n.idle_memory + n.releasing_memory for n in nodes], [pod.shape.request.memory_bytes for pod in pods]),
        )
    )


def count_fitting(node: NodeLedger, request: Request) -> int:
    """Return how many pods of one kind a node could hold on what is free or about to be; never too few."""
    bounds = [node.idle_pods + node.releasing_pods]
    if request.cpu_millicores:
        bounds.append((node.idle_cpu + node.releasing_cpu) // request.cpu_millicores)
    if request.memory_bytes:
        bounds.append((node.idle_memory + node.releasing_memory) // request.memory_bytes)
    if request.gpus:
        bounds.append((node.idle_gpus + node.releasing_gpus) // request.gpus)
    if node.geometry is not None and (request.is_shared or request.mig):
        profiles = request.slices_on(node.geometry) or ()
        taken = [opening.taken for opening in node.openings(now=False)]
        counts = [mig.count(profile, taken) // profiles.count(profile) for profile in profiles]
        bounds.append(min(counts, default=0))
    elif request.is_shared:
        share = node.share_mib(request)
        whole = node.view.device_mib // share if share else 0
        parts = sum(
            max(0, node.view.device_mib - device.active_mib - device.reserved_mib) // share if share else 0
            for device in node.shared.values()
            if device.active or device.reserved
        )
        bounds.append((max(0, node.idle_gpus + node.releasing_gpus) * whole + parts) // request.devices)
    else:
        bounds += [
            (node.idle_mig.get(profile, 0) + node.releasing_mig.get(profile, 0)) // count
            for profile, count in request.mig
        ]
    return max(0, min(bounds))


def _place_one(
    session: Session,
    pod: Pod,
    nodes: Sequence[NodeLedger] | None,
    preferences: Preferences | None,
    *,
    reserve_only: bool,
) -> bool:
    """Place one pod on the best node that fits it; `nodes` None stands for all nodes."""
    is_anywhere = nodes is None and not preferences and pod.view.may_run_anywhere
    if is_anywhere:
        best = session.best_node(pod)
        if best is None:
            return False
        if _take(session, pod, best, reserve_only=reserve_only):
            return True
    for node in _rank(session, pod, session.ready if nodes is None else nodes, preferences):
        if affinity.allows(session, pod, node) and _take(session, pod, node, reserve_only=reserve_only):
            return True
    return False


def _rank(session: Session, pod: Pod, nodes: Sequence[NodeLedger], preferences: Preferences | None) -> list[NodeLedger]:
    """Return those of the nodes that have capacity for a pod, now or soon, from best to worst; equals by name.

    What keeps a group together (`preferences`) comes before everything else.
    """
    scored = [
        (-preferences.get(node.view.id, 0) if preferences else 0, -key, node.index, node)
        for node in nodes
        if (key := rank_key(node, pod.shape.request, session.policy)) != NO_CAPACITY
    ]
    scored.sort(key=lambda entry: entry[:3])
    return [entry[3] for entry in scored]


def _take(session: Session, pod: Pod, node: NodeLedger, *, reserve_only: bool) -> bool:
    """Take capacity on a node unless the charge there breaks a limit or no device serves the pod."""
    request = pod.shape.request
    if (request.share_mib or request.mig) and not quotas.may_hold(session, pod.job, pod.shape.charge(node.kind)):
        return False
    picked = pick_devices(session, pod, node, reserve_only=reserve_only)
    if picked is None:
        return False
    devices, now = picked
    if now:
        session.start(pod, node, devices)
    else:
        session.reserve(pod, node, devices)
    return True


def pick_devices(
    session: Session, pod: Pod, node: NodeLedger, *, reserve_only: bool
) -> tuple[tuple[str, ...], bool] | None:
    """Return the devices that serve a pod on a node, and whether it may start on them now; None when none do.

    A share goes where the policy of devices wants it, even if it has to wait there for another to leave; slices are cut
    where capacity is free now, if it is. Reservations of whole devices name none.
    """
    request = pod.shape.request
    if node.geometry is not None and (request.is_shared or request.mig):
        return _pick_slices(session, pod, node, node.geometry, reserve_only=reserve_only)
    if not request.is_shared:
        now = not reserve_only and node.fits(request, now=True)
        return (node.pick_whole(request.gpus) if now and request.gpus else ()), now
    choices = node.share_choices(request, now=False)
    if len(choices) < request.devices:
        return None
    prices = session.policy.prices
    if session.policy.devices is Fill.MIX and prices is not None:
        needed = node.share_mib(request)
        choices.sort(key=lambda device: (packing.device_cost(node, device, needed, prices), -device.used_mib()))
    elif session.policy.devices in (Fill.PACK, Fill.MIX):
        choices.sort(key=lambda device: -device.used_mib())
    elif session.policy.devices is Fill.SPREAD:
        choices.sort(key=lambda device: device.used_mib())
    chosen = choices[: request.devices]
    now = not reserve_only and node.fits(request, now=True)
    if now:
        able = {device.key for device in node.share_choices(request, now=True)}
        now = all(device.key in able for device in chosen)
    return tuple(device.key for device in chosen), now


def _pick_slices(
    session: Session, pod: Pod, node: NodeLedger, geometry: mig.Geometry, *, reserve_only: bool
) -> tuple[tuple[str, ...], bool] | None:
    """Return the slices for a pod. An evicted pod goes back to its own slices or to free ones only."""
    request = pod.shape.request
    now = not reserve_only and node.fits(request, now=True)
    is_victim = pod.was_evicted and session.cause.code is not StopCode.MOVED
    if is_victim and pod.node is node and node.offers(pod.devices, request):
        return pod.devices, False
    chosen = mig.choose(geometry, request.slices_on(geometry) or (), node.openings(now=now or is_victim))
    return (tuple(part.name for part in chosen), now) if chosen else None
