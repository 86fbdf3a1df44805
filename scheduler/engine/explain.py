"""Why a job waits, in words and numbers that a person can act on."""

from collections.abc import Sequence
from typing import NamedTuple

from core.units import format_bytes, format_gpus
from scheduler.engine.decisions import Explain, WaitCode
from scheduler.engine.jobs import Job
from scheduler.engine.ledger import NodeLedger
from scheduler.engine.resources import ONE_GPU, Quota
from scheduler.engine.rules import limits
from scheduler.engine.session import Session
from scheduler.engine.shapes import Shape
from scheduler.engine.snapshot import NodeView, Request, TaskState

Reason = tuple[WaitCode, str]

_MANY = 3


class _Room(NamedTuple):
    """What one node could offer to a request."""

    node: NodeView
    gpu_milli: int
    cpu_millicores: int
    memory_bytes: int

    @property
    def amounts(self) -> tuple[int, int, int]:
        return self.gpu_milli, self.cpu_millicores, self.memory_bytes


def explain(session: Session) -> list[Explain]:
    """Return the reason of each job of which tasks wait, by job id."""
    by_shape: dict[Shape, Reason] = {}
    explained = []
    for job in sorted(session.waiting.values(), key=lambda job: job.view.id):
        shape = next(task.shape for task in job.tasks if task.state is TaskState.PENDING)
        reason = by_shape.get(shape)
        if reason is None:
            reason = by_shape[shape] = _reason_of_shape(session, shape.request)
        code, text = reason
        if code is WaitCode.NO_ROOM and (bound := _bound(session, job)) is not None:
            code, text = bound
        explained.append(Explain(job.view.id, code, text))
    return explained


def _bound(session: Session, job: Job) -> Reason | None:
    """Return the limit or quota that keeps a job from starting, if one does."""
    amounts = session.charge_all(job.next_tasks())
    if not limits.within_firm_quota(job, amounts):
        text = _compare_with(job, amounts, "firm")
        return WaitCode.BEYOND_QUOTA, f"is not preemptible, so it must stay within the quota: {text}"
    if not limits.within_limits(job, amounts):
        return WaitCode.BEYOND_LIMIT, f"its project is at its limit: {_compare_with(job, amounts, 'held')}"
    return None


def _compare_with(job: Job, amounts: Sequence[int], what: str) -> str:
    parts = []
    for queue in job.line:
        quota: Quota = queue.view.quota if what == "firm" else queue.view.limit
        held = queue.firm if what == "firm" else queue.held
        name, noun = queue.view.name, "quota" if what == "firm" else "limit"
        holder = "work of this kind holds" if what == "firm" else "its work holds"
        parts += [
            f"needs {write(asked)} but of {name}'s {noun} of {write(bound)} {holder} {write(int(have))}"
            for bound, have, asked, write in zip(quota, held, amounts, _WRITE, strict=True)
            if bound is not None and asked and have + asked > bound
        ]
    return "; ".join(parts)


def _reason_of_shape(session: Session, request: Request) -> Reason:
    known = [node for node in session.nodes if not request.pool or node.view.pool == request.pool]
    if not known:
        return WaitCode.UNREACHABLE, "resource unreachable: it has not reported any node yet"
    name = known[0].view.pool_name or "the cluster"
    whole = [NodeLedger(node.view, 0, []) for node in known]
    if not any(node.fits(request, now=True) for node in whole):
        return WaitCode.NEVER_FITS, f"never fits: {_compare(whole, request, name, 'has')}"
    ready = [node for node in known if node.view.is_open]
    drained = [node.view.name for node in known if node.view.is_ready and node.view.is_drained]
    if not ready and drained:
        return WaitCode.DRAINED, f"drained: {name} takes no new work on {_list(drained)} until an admin opens it again"
    if not ready:
        count = "its only node is" if len(known) == 1 else f"none of its {len(known)} nodes is"
        return WaitCode.UNREACHABLE, f"resource unreachable: {name} does not answer, {count} ready"
    text = _compare(ready, request, name, "free")
    away = [node.view.name for node in known if not node.view.is_ready]
    text += f"; not ready: {_list(away)}" if away else ""
    text += f"; drained: {_list(drained)}" if drained else ""
    return WaitCode.NO_ROOM, text


def _list(names: list[str]) -> str:
    return ", ".join(names[:_MANY]) + (" and others" if len(names) > _MANY else "")


def _compare(nodes: Sequence[NodeLedger], request: Request, resource: str, state: str) -> str:
    """Say what is asked for and which node comes closest: in one resource if that decides, else in all together."""
    needs = _needs(request)
    rooms = [_room(node, request) for node in nodes]
    most = "most free on one node is" if state == "free" else "most on any node is"
    for index, (asked, write) in enumerate(zip(needs, _WRITE, strict=True)):
        best = max(rooms, key=lambda room: room.amounts[index])
        have = best.amounts[index]
        if have < asked:
            is_share = index == 0 and request.is_shared
            what = f"{write(asked)} on one device of" if is_share else f"{write(asked)} on"
            where = "most free on one device is" if is_share and state == "free" else most
            return f"needs {what} {resource}; {where} {write(have)} ({best.node.name})"
    return _compare_together(rooms, needs, resource, state)


def _compare_together(rooms: Sequence[_Room], needs: tuple[int, int, int], resource: str, state: str) -> str:
    asked = " and ".join(write(amount) for amount, write in zip(needs, _WRITE, strict=True) if amount)
    best = max(rooms, key=lambda room: sum(have >= want for have, want in zip(room.amounts, needs, strict=True)))
    short = [write(have) for have, want, write in zip(best.amounts, needs, _WRITE, strict=True) if have < want]
    only = f"has only {' and '.join(short)}{' free' if state == 'free' else ''}"
    return f"needs {asked} together on one node of {resource}; the closest, {best.node.name}, {only}"


def _needs(request: Request) -> tuple[int, int, int]:
    gpu_milli = request.share_milli if request.is_shared else ONE_GPU * request.gpus
    return gpu_milli, request.cpu_millicores, request.memory_bytes


def _room(node: NodeLedger, request: Request) -> _Room:
    """Return what a node can offer: a share sees the freest device, others see the free whole ones."""
    gpu_milli = ONE_GPU * max(0, node.idle_gpus)
    if request.is_shared and not gpu_milli and node.view.device_mib:
        used = (device.used_mib() for device in node.shared.values())
        most = max((node.view.device_mib - mib for mib in used), default=0)
        gpu_milli = max(0, ONE_GPU * most // node.view.device_mib)
    return _Room(
        node.view,
        min(gpu_milli, ONE_GPU) if request.is_shared else gpu_milli,
        max(0, node.idle_cpu),
        max(0, node.idle_memory),
    )


def _gpus(milli: int) -> str:
    return f"{format_gpus(milli)} GPU{'' if 0 < milli <= ONE_GPU else 's'}"


def _cpus(millicores: int) -> str:
    return f"{millicores / 1000:g} CPU"


def _memory(size_bytes: int) -> str:
    return f"{format_bytes(size_bytes)} of memory"


_WRITE = (_gpus, _cpus, _memory)
