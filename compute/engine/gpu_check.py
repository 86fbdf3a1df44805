"""Compares the GPUs that a job sees with those that it was given, in words. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from compute.engine.visible_gpus import SeenGpu, VisibleGpus
from core.units import ONE_GPU, format_gpus, format_memory


@dataclass(frozen=True)
class GivenGpus:
    """What one replica was given: pairs of index and thousandths, or slices.

    `devices` are GPUs of its node as the last probe has listed them, by index. `asked_bytes` is the share that it asks
    for by memory; 0: it asks otherwise.
    """

    gpus: Sequence[Sequence[int]]
    slices: Sequence[str] = ()
    devices: Mapping[int, SeenGpu] | None = None
    asked_bytes: int = 0

    @property
    def count(self) -> int:
        """How many GPUs, or slices of such, it was given."""
        return len(self.slices or self.gpus)

    @property
    def noun(self) -> str:
        """What it was given."""
        return "slice" if self.slices else "GPU"


@dataclass(frozen=True)
class GpuCheck:
    """How what a job sees compares with what it was given, and whether that differs."""

    text: str
    differs: bool
    replicas: tuple[VisibleGpus | None, ...]

    def to_json(self) -> dict[str, object]:
        """Return it as JSON types."""
        replicas = [None if visible is None else visible.to_json() for visible in self.replicas]
        return {"text": self.text, "differs": self.differs, "replicas": replicas}


def check(answers: Sequence[VisibleGpus | None], given: Sequence[GivenGpus]) -> GpuCheck | None:
    """Compare the replicas of a job by rank; None where nothing is known of any."""
    replicas = tuple(visible and _with_memory(visible, place) for visible, place in zip(answers, given, strict=False))
    known = [(rank, visible) for rank, visible in enumerate(replicas) if visible is not None]
    if not known:
        return None
    differing = [(rank, visible) for rank, visible in known if _differs(visible, given[rank])]
    rank, visible = (differing or known)[0]
    text = _describe(visible, given[rank])
    if len(given) > 1:
        text = f"Replica {rank}: {text}"
        others = len(differing or known) - 1
        text += f" Others {'that differ' if differing else 'alike'}: {others}." if others else ""
    return GpuCheck(text, bool(differing), replicas)


def _with_memory(visible: VisibleGpus, given: GivenGpus) -> VisibleGpus:
    """Return it with the memory of GPUs that the node has told, where the job could not be asked for that."""
    known = {gpu.uuid: gpu.memory_bytes for gpu in (given.devices or {}).values() if gpu.uuid}
    gpus = (replace(gpu, memory_bytes=gpu.memory_bytes or known.get(gpu.uuid)) for gpu in visible.gpus)
    return replace(visible, gpus=tuple(gpus))


def _differs(visible: VisibleGpus, given: GivenGpus) -> bool:
    return len(visible.gpus) != given.count or _is_uncut(visible, given) or bool(_strangers(visible, given))


def _is_uncut(visible: VisibleGpus, given: GivenGpus) -> bool:
    """Whether it sees whole GPUs in the place of slices. The other way round is how some clusters offer slices."""
    return bool(given.slices) and any(gpu.uuid.startswith("GPU-") for gpu in visible.gpus)


def _strangers(visible: VisibleGpus, given: GivenGpus) -> list[str]:
    """Return which GPUs it sees that are others than those with its indexes, where the UUIDs of all are known."""
    devices = given.devices or {}
    own = {devices[index].uuid for index, _ in given.gpus if index in devices}
    seen = [gpu.uuid for gpu in visible.gpus]
    is_known = len(own) == len(given.gpus) and all(uuid.startswith("GPU-") for uuid in (*own, *seen))
    return [uuid for uuid in seen if uuid not in own] if is_known and not given.slices else []


def _describe(visible: VisibleGpus, given: GivenGpus) -> str:
    if _differs(visible, given):
        return _describe_difference(visible, given)
    text = f"Sees {len(visible.gpus)} of {_count(given.count, given.noun)}{_memory(visible.gpus)}"
    part = next((milli for _, milli in given.gpus if milli != ONE_GPU), None)
    if part is not None and not given.slices:
        asked = f"asked for {format_memory(given.asked_bytes)}" if given.asked_bytes else f"has {format_gpus(part)}"
        text += f" ({asked}: nothing caps it)"
    others = (visible.openable or 0) - given.count
    # Where the file of a device cannot be opened, more than a variable keeps the job from it.
    if visible.variable is not None and others > 0 and not given.slices:
        text += f". Only CUDA_VISIBLE_DEVICES keeps it from {others} other{'s' if others > 1 else ''} of its node"
    return f"{text}."


def _describe_difference(visible: VisibleGpus, given: GivenGpus) -> str:
    if (strangers := _strangers(visible, given)) and len(visible.gpus) == given.count:
        own = ", ".join((given.devices or {})[index].uuid for index, _ in given.gpus)
        return f"Sees {', '.join(strangers)}, was given {own}. The GPUs of its node have other numbers than before."
    seen = "GPU" if _is_uncut(visible, given) else given.noun
    count = str(given.count) if seen == given.noun else _count(given.count, given.noun)
    text = f"Sees {_count(len(visible.gpus), seen)}, was given {count}."
    if len(visible.gpus) > given.count or seen != given.noun:
        text += " Nothing keeps it from using all that it sees."
    if visible.variable is not None:
        text += f" In its environment CUDA_VISIBLE_DEVICES is '{visible.variable}'."
    return text


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'s' if number > 1 else ''}"


def _memory(gpus: Sequence[SeenGpu]) -> str:
    sizes = {gpu.memory_bytes for gpu in gpus}
    if not sizes or None in sizes:
        return ""
    texts = [format_memory(size) for size in sorted(size for size in sizes if size is not None)]
    return f", {' and '.join(texts)}{' each' if len(gpus) > 1 and len(texts) == 1 else ''}"
