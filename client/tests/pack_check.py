"""Whether a pack is what it says, down to the bytes of each blob."""

from nearline.content.hashing import Buffer, check_id
from nearline.content.packs import BlobInPack, read_footer


def check_pack(data: Buffer) -> list[BlobInPack]:
    """Return the blobs of a pack. Raises BadPack or HashMismatch."""
    blobs = read_footer(data)
    view = memoryview(data)
    for blob in blobs:
        check_id(view[blob.offset : blob.offset + blob.size], blob.content_id, f"The blob at byte {blob.offset}")
    return blobs
