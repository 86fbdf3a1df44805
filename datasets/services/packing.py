"""Packs that the server itself makes: put into the store and recorded."""

from django.db import transaction

from datasets.adapters.opening import open_dataset_store
from datasets.engine.layout import pack_key
from datasets.models import Dataset, Pack, PackState
from datasets.services import damage, packs, storage_space
from nearline.content.packs import Pack as PackBytes


def store_pack(dataset: Dataset, pack: PackBytes) -> Pack:
    """Bring a pack into the store unless it is there, and return its row.

    Raises PackLeaving, StorageLimitReached and StoreUnreachable.
    """
    data = pack.data
    sizes = {pack.name: len(data)}
    with transaction.atomic():
        storage_space.require_space(dataset, sizes)
        row = packs.claim(dataset, sizes).rows[pack.name]
    if row.state != PackState.COMPLETE:
        open_dataset_store(dataset).put(pack_key(pack.name), data)
        confirm_pack(dataset, row)
    return row


def confirm_pack(dataset: Dataset, row: Pack) -> None:
    """Vouch for a pack that was just put; one that was damaged is read whole."""
    packs.mark_complete([row])
    if row.state == PackState.DAMAGED:
        damage.check_packs(dataset, [row])
