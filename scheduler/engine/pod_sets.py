"""The pods that a workload asks for, as they are enqueued."""

from collections.abc import Sequence
from dataclasses import dataclass

from core.taints import Toleration


@dataclass(frozen=True)
class PodSet:
    """Pods of one kind, and what each of them asks for. Fewer than `min_count` (None: `count`) are worth nothing.

    `gpu_milli` is below 1000 for a fraction of one device, else a multiple of 1000 for whole devices of one node;
    `gpu_memory_bytes` asks for a share of one device by its memory instead, `mig_profile` for one slice of that
    profile. A node must bear one of `node_labels`, if there are any, and all labels of `selector`; its taints must be
    among `tolerations`. All pods come to nodes with one value of the label
    `required_level`, and of `preferred_level` as far as that is possible; empty: anywhere.
    """

    cpu_millicores: int
    memory_bytes: int
    gpu_milli: int = 0
    gpu_memory_bytes: int = 0
    name: str = ""
    count: int = 1
    min_count: int | None = None
    node_labels: Sequence[tuple[str, str]] = ()
    selector: Sequence[tuple[str, str]] = ()
    tolerations: Sequence[Toleration] = ()
    mig_profile: str = ""
    required_level: str = ""
    preferred_level: str = ""

    def to_json(self) -> dict[str, object]:
        """Return what a workload keeps of them."""
        return {
            "name": self.name,
            "count": self.count,
            "min_count": self.count if self.min_count is None else self.min_count,
            "cpu_millicores": self.cpu_millicores,
            "memory_bytes": self.memory_bytes,
            "gpu_milli": self.gpu_milli,
            "gpu_memory_bytes": self.gpu_memory_bytes,
            "node_labels": [list(label) for label in self.node_labels],
            **({"selector": [list(label) for label in self.selector]} if self.selector else {}),
            **({"tolerations": [list(each) for each in self.tolerations]} if self.tolerations else {}),
            "mig_profile": self.mig_profile,
            "required_level": self.required_level,
            "preferred_level": self.preferred_level,
        }
