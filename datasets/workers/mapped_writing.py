"""Keeping maps in place of packs: what was read of a source becomes packs of which the store gets the maps alone."""

from datasets.adapters.opening import open_manifests
from datasets.engine.layout import map_key
from datasets.models import InPlaceImport, Pack, PackState
from datasets.services import packs
from nearline.content.pack_maps import PackMap


def facts_of(row: InPlaceImport) -> dict[str, str]:
    """Return what maps say of the source of an import, for whoever rebuilds the database."""
    source = row.source
    return {"id": source.pk, "name": source.name, "kind": str(source.kind), "location": source.location}


def store_map(row: InPlaceImport, name: str, pack_map: PackMap) -> int:
    """Put the map of a pack of an import into the store, unless the dataset has the pack; return the bytes written."""
    dataset = row.dataset
    claimed = packs.claim(dataset, {name: pack_map.size_bytes}).rows[name]
    if claimed.state == PackState.COMPLETE:
        return 0
    data = pack_map.encode()
    open_manifests(dataset).put(map_key(name), data)
    packs.mark_mapped(claimed, row)
    if claimed.state == PackState.DAMAGED:
        packs.check_packs(dataset, [Pack.objects.get(pk=claimed.pk)])
    return len(data)
