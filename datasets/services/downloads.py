"""Reading a dataset's objects straight from its store: signed addresses, and reports of packs that came damaged."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from accounts import audit
from accounts.permissions import Actor, require
from core import clock
from datasets import permissions
from datasets.adapters.opening import as_path, open_dataset_store
from datasets.engine.layout import pack_key, range_key, root_key
from datasets.engine.ports import SIGNED_LIFETIME, SignedRequest
from datasets.models import PRESENT, Dataset
from datasets.services import packs
from datasets.services.uploads import ObjectKind

_KEYS = {ObjectKind.PACK: pack_key, ObjectKind.RANGE: range_key, ObjectKind.ROOT: root_key}


@dataclass(frozen=True)
class Wanted:
    """An object that a client asks for."""

    kind: ObjectKind
    id: str


@dataclass(frozen=True)
class Download:
    """A wanted object, and the request that reads it."""

    kind: ObjectKind
    id: str
    request: SignedRequest


def sign_downloads(*, actor: Actor, dataset: Dataset, objects: Sequence[Wanted]) -> list[Download]:
    """Sign a GET for each object. Whether it exists the store says, so that this costs it nothing.

    The addresses reach into this dataset only, whatever is asked for.
    """
    require(actor, permissions.VIEW, dataset.project_id)
    store = open_dataset_store(dataset)
    now, lifetime_s = clock.now(), int(SIGNED_LIFETIME.total_seconds())
    return [
        Download(one.kind, one.id, store.sign_get(_KEYS[one.kind](one.id), now=now, lifetime_s=lifetime_s))
        for one in objects
    ]


def sign_below(*, actor: Actor, dataset: Dataset, objects: Sequence[Wanted]) -> list[Download]:
    """Sign a GET for each object, with what the platform itself serves as a path: for programs of the platform.

    They may know it under another address than people.
    """
    signed = sign_downloads(actor=actor, dataset=dataset, objects=objects)
    return [replace(one, request=as_path(one.request)) for one in signed]


def report_packs(*, actor: Actor, dataset: Dataset, names: Sequence[str]) -> None:
    """Read packs that someone found damaged; the store decides who is right. Unknown names are passed over."""
    require(actor, permissions.VIEW, dataset.project_id)
    audit.record(actor, "datasets.report_damage", dataset, project_id=dataset.project_id, packs=list(names))
    packs.check_packs(dataset, list(dataset.packs.filter(sha256__in=names, state__in=PRESENT)))
