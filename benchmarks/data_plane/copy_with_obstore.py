"""Copies a folder with obstore, one object for each file: `(put | get) FOLDER (BUCKET PREFIX ENDPOINT | STORE_FOLDER)`.

Runs in the interpreter that has obstore, which need not be ours. The keys are those of the environment.
"""

import asyncio
import os
import sys
from pathlib import Path

import obstore
from obstore.store import LocalStore, S3Store

_AT_ONCE = 32


def open_store(name: str, prefix: str = "", endpoint: str = "") -> LocalStore | S3Store:
    """Return the store that the command line names."""
    if not endpoint:
        return LocalStore(name, mkdir=True)
    return S3Store(
        name,
        prefix=prefix,
        endpoint=endpoint,
        region="us-east-1",
        access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
        secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        client_options={"allow_http": True},
    )


async def main(verb: str, folder: Path, store: LocalStore | S3Store) -> None:
    free = asyncio.Semaphore(_AT_ONCE)

    async def put(path: Path) -> None:
        async with free:
            await obstore.put_async(store, str(path.relative_to(folder)), path.read_bytes())  # noqa: ASYNC240 (the quickest for small files)

    async def get(name: str) -> None:
        async with free:
            answer = await obstore.get_async(store, name)
            (folder / name).write_bytes(await answer.bytes_async())

    files = [path for path in folder.rglob("*") if path.is_file()]  # noqa: ASYNC240
    if verb == "put":
        await asyncio.gather(*map(put, files))
        return
    names = [row["path"] for page in obstore.list(store) for row in page]
    for parent in {(folder / name).parent for name in names}:
        parent.mkdir(parents=True, exist_ok=True)
    await asyncio.gather(*map(get, names))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), open_store(*sys.argv[3:])))
