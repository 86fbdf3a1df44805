"""Two processes: a store that keeps nothing and makes up what it is asked for, and a client that moves packs.

`store` prints its port; `send PORT PACKS THREADS` and `receive PORT PACKS THREADS` move so many packs by the code of
`nearline data`, and print how many bytes that was and the most memory that they ever had, in bytes.
"""

import re
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nearline._http import Http
from nearline.content.hashing import check_id, file_id
from nearline.content.packs import TARGET_PACK_BYTES
from nearline.transfer.remote.objects import ObjectReader
from nearline.transfer.remote.packing import KnownContent, PackSender, Upload
from nearline.transfer.remote.retry import transfer_policy
from nearline.transfer.remote.server import ObjectKind, OfferAnswer, SignedRequest, UploadSession
from nearline.transfer.sync.folder import collecting_rarely

BLOB = bytes(range(256)) * (1 << 13)
BLOBS_IN_PACK = TARGET_PACK_BYTES // len(BLOB)
WHOLE = bytes(TARGET_PACK_BYTES)


def serve_store():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        while True:
            connection, _ = listening.accept()
            threading.Thread(target=answer_requests, args=(connection,), daemon=True).start()


def answer_requests(connection):
    piece = bytearray(1 << 20)
    with connection, connection.makefile("rb") as incoming:
        while line := incoming.readline():
            length = 0
            while (header := incoming.readline()) != b"\r\n":
                name, _, value = header.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            while length:
                length -= incoming.readinto(memoryview(piece)[: min(length, len(piece))])
            body = WHOLE if line.startswith(b"GET") else b""
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
            connection.sendall(body)


class Server:
    """The API, which agrees to everything; bodies go to the store at `url` by the client's own connections."""

    def __init__(self, url):
        self.url = url
        self.http = Http(url, token=None)

    def start_upload(self, branch, client_id):
        return UploadSession("upload", branch, None, None)

    def offer_packs(self, upload_id, packs):
        return [OfferAnswer(pack.id, SignedRequest("PUT", f"{self.url}/{pack.id}", {})) for pack in packs]

    def complete_packs(self, upload_id, packs):
        pass

    def sign_downloads(self, objects):
        return [SignedRequest("GET", f"{self.url}/{name}", {}) for _, name in objects]

    def send(self, request, *parts):
        self.http.send_signed(request.method, request.url, request.headers, *parts)

    def receive(self, request, allocate, byte_range=None):
        return self.http.receive_signed(request.method, request.url, request.headers, allocate, byte_range=byte_range)


def send(server, packs, threads):
    upload, policy = Upload(lambda: server.start_upload("main", "test")), transfer_policy()
    with PackSender(server, upload, KnownContent(), threads=threads, policy=policy) as out:
        for number in range(BLOBS_IN_PACK * packs):
            blob = number.to_bytes(8, "little") + BLOB[: -1024 - 8]
            out.add(file_id(blob), blob)
        out.finish()
    return out.bytes_sent


def receive(server, packs, threads):
    reader = ObjectReader(server, transfer_policy())
    whole_id = file_id(WHOLE)

    def read(number):
        def check(view):
            check_id(view, whole_id, "The pack")
            return len(view)

        return reader.read((ObjectKind.PACK, str(number)), check, (0, len(WHOLE)))

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(read, range(packs)))


def most_memory_bytes():
    # What getrusage tells begins with the memory of the process that started this one.
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])


if __name__ == "__main__":
    if sys.argv[1] == "store":
        serve_store()
    else:
        move = {"send": send, "receive": receive}[sys.argv[1]]
        port, packs, threads = map(int, sys.argv[2:])
        with collecting_rarely():
            moved = move(Server(f"http://127.0.0.1:{port}"), packs, threads)
        print(moved, most_memory_bytes())
