"""Why a workload waits, in words and numbers that a person can act on."""

from core.units import format_bytes, format_gpus
from scheduler.engine.decisions import Explain, WaitCode
from scheduler.engine.resources import ONE_GPU, Amount, is_fraction
from scheduler.engine.room import NodeRoom
from scheduler.engine.rules import gpu_sharing, quota
from scheduler.engine.session import Session
from scheduler.engine.snapshot import Shape, Waiting

Reason = tuple[WaitCode, str]


def explain(session: Session, waiting: list[Waiting]) -> list[Explain]:
    """Return the reason of each workload that was left waiting, by workload id."""
    by_shape: dict[Shape, Reason] = {}
    explained = []
    for workload in sorted(waiting, key=lambda workload: workload.id):
        reason = by_shape.get(workload.shape)
        if reason is None:
            reason = by_shape[workload.shape] = _reason_of_shape(session, workload.shape)
        code, text = reason
        if code is WaitCode.NO_ROOM and not _may_start(session, workload):
            code, text = _beyond_quota(session, workload)
        explained.append(Explain(workload.id, code, text))
    return explained


def _may_start(session: Session, workload: Waiting) -> bool:
    return quota.may_start(workload, session.queues[workload.queue_id], session.usage[workload.queue_id])


def _beyond_quota(session: Session, workload: Waiting) -> Reason:
    queue, firm = session.queues[workload.queue_id], session.usage[workload.queue_id].firm
    parts = [
        f"needs {write(asked)} but of {queue.name}'s quota of {write(bound)} work of this kind holds {write(have)}"
        for bound, have, asked, write in zip(queue.quota, firm, workload.shape.needs, _WRITE, strict=True)
        if bound is not None and asked and have + asked > bound
    ]
    text = "; ".join(parts)
    return WaitCode.BEYOND_QUOTA, f"is not preemptible, so it must stay within the quota: {text}"


def _reason_of_shape(session: Session, shape: Shape) -> Reason:
    known, ready = session.known_rooms(shape.resource_id), session.ready_rooms(shape.resource_id)
    if not known:
        return WaitCode.UNREACHABLE, "resource unreachable: it has not reported any node yet"
    name = known[0].node.resource_name
    if not session.ever_fits(shape):
        return (
            WaitCode.NEVER_FITS,
            f"never fits: {_compare([NodeRoom(room.node) for room in known], shape, name, 'has')}",
        )
    drained = [room.node.name for room in known if room.node.is_ready and room.node.is_drained]
    if not ready and drained:
        return WaitCode.DRAINED, f"drained: {name} takes no new work on {_list(drained)} until an admin opens it again"
    if not ready:
        count = "its only node is" if len(known) == 1 else f"none of its {len(known)} nodes is"
        return WaitCode.UNREACHABLE, f"resource unreachable: {name} does not answer, {count} ready"
    text = _compare(ready, shape, name, "free")
    away = [room.node.name for room in known if not room.node.is_ready]
    text += f"; not ready: {_list(away)}" if away else ""
    text += f"; drained: {_list(drained)}" if drained else ""
    return WaitCode.NO_ROOM, text


def _list(names: list[str]) -> str:
    return ", ".join(names[:3]) + (" and others" if len(names) > 3 else "")  # noqa: PLR2004


def _compare(rooms: list[NodeRoom], shape: Shape, resource: str, state: str) -> str:
    """Say what is asked for and which node comes closest: in one resource if that decides, else in all together."""
    needs = shape.needs
    most = "most free on one node is" if state == "free" else "most on any node is"
    for index, (asked, write) in enumerate(zip(needs, _WRITE, strict=True)):
        best = max(rooms, key=lambda room: _room_for(room, needs)[index])
        have = _room_for(best, needs)[index]
        if have < asked:
            what = f"{write(asked)} on one device of" if index == 0 and is_fraction(asked) else f"{write(asked)} on"
            where = "most free on one device is" if index == 0 and is_fraction(asked) and state == "free" else most
            return f"needs {what} {resource}; {where} {write(have)} ({best.node.name})"
    return _compare_together(rooms, needs, resource, state)


def _compare_together(rooms: list[NodeRoom], needs: Amount, resource: str, state: str) -> str:
    asked = " and ".join(write(amount) for amount, write in zip(needs, _WRITE, strict=True) if amount)
    best = max(
        rooms, key=lambda room: sum(have >= want for have, want in zip(_room_for(room, needs), needs, strict=True))
    )
    short = [
        write(have) for have, want, write in zip(_room_for(best, needs), needs, _WRITE, strict=True) if have < want
    ]
    only = f"has only {' and '.join(short)}{' free' if state == 'free' else ''}"
    return f"needs {asked} together on one node of {resource}; the closest, {best.node.name}, {only}"


def _room_for(room: NodeRoom, needs: Amount) -> Amount:
    """Return what a node can offer to a request: a fraction sees the freest device, others see the free whole ones."""
    if is_fraction(needs.gpu_milli):
        gpu_milli = max(room.gpu_free.values(), default=0)
    else:
        gpu_milli = ONE_GPU * gpu_sharing.count_whole(room.gpu_free)
    return Amount(max(gpu_milli, 0), max(room.cpu_free, 0), max(room.memory_free, 0))


def _gpus(milli: int) -> str:
    return f"{format_gpus(milli)} GPU{'' if 0 < milli <= ONE_GPU else 's'}"


def _cpus(millicores: int) -> str:
    return f"{millicores / 1000:g} CPU"


def _memory(size_bytes: int) -> str:
    return f"{format_bytes(size_bytes)} of memory"


_WRITE = (_gpus, _cpus, _memory)
