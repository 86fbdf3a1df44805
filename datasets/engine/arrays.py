"""What a storage array says of its own space, beside what the platform has promised on it: pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

Json = Mapping[str, object]

AGGREGATES = "/api/storage/aggregates"
SVMS = "/api/svm/svms"
VOLUMES = "/api/storage/volumes"


@dataclass(frozen=True)
class Space:
    """The space of an aggregate, of an SVM on one, or of volumes together, and the route that told it.

    `logical_bytes` is what was written, `physical_bytes` what that takes after storage efficiency. None: not told.
    `count` is of how many volumes it is the sum; None: of none.
    """

    what: str
    source: str
    size_bytes: int | None = None
    used_bytes: int | None = None
    available_bytes: int | None = None
    snapshot_bytes: int | None = None
    logical_bytes: int | None = None
    physical_bytes: int | None = None
    count: int | None = None

    def to_json(self) -> dict[str, object]:
        """Return it as JSON types."""
        return asdict(self)


def read_aggregates(records: Iterable[Json]) -> list[Space]:
    """Return the space of each aggregate."""
    return [
        Space(
            what=f"aggregate {record.get('name')}",
            source=AGGREGATES,
            size_bytes=_number(record, "space", "block_storage", "size"),
            used_bytes=_number(record, "space", "block_storage", "used"),
            available_bytes=_number(record, "space", "block_storage", "available"),
            physical_bytes=_number(record, "space", "block_storage", "physical_used"),
        )
        for record in records
    ]


def read_svm(records: Iterable[Json]) -> list[Space]:
    """Return what an SVM can use of each aggregate, and its limit where it has one."""
    spaces = []
    for record in records:
        name = record.get("name")
        aggregates = record.get("aggregates")
        spaces += [
            Space(
                what=f"SVM {name} on {aggregate.get('name')}",
                source=SVMS,
                available_bytes=_number(aggregate, "available_size"),
            )
            for aggregate in (aggregates if isinstance(aggregates, list) else ())
        ]
        limit, allocated = _number(record, "storage", "limit"), _number(record, "storage", "allocated")
        if limit:
            left = None if allocated is None else max(0, limit - allocated)
            spaces.append(Space(f"limit of SVM {name}", SVMS, limit, allocated, left))
    return spaces


def sum_volumes(records: Sequence[Json], what: str) -> Space:
    """Return the space of all these volumes together."""

    def total(*keys: str) -> int | None:
        numbers = [value for record in records if (value := _number(record, "space", *keys)) is not None]
        return sum(numbers) if numbers or not records else None

    return Space(
        what=what,
        source=VOLUMES,
        size_bytes=total("size"),
        used_bytes=total("used"),
        available_bytes=total("available"),
        snapshot_bytes=total("snapshot", "used"),
        logical_bytes=total("logical_space", "used"),
        physical_bytes=total("physical_used"),
        count=len(records),
    )


def _number(record: Json, *keys: str) -> int | None:
    value: object = record
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
