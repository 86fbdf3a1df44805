"""A proxy that lies, before a real S3 server: what is committed is stored, and nothing wrong is ever given to anybody."""

import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests import services
from tests.contracts.datasets.s3_proxy import Answer, Forward, Request, proxy, refusal
from tests.journeys.digits import contents, write_digits
from tests.journeys.product import Product

PACKS, MANIFESTS, ALL = ("/packs/",), ("/roots/", "/ranges/"), ("",)


@dataclass
class Liar:
    """Passes requests on, but answers the next `left` of a `method` to one of `places` by `lie`; `told` counts."""

    method: str = ""
    places: tuple[str, ...] = ()
    left: int = 0
    lie: str = ""
    told: Counter = field(default_factory=Counter)
    guard: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, lie: str, method: str, places: tuple[str, ...], times: int) -> None:
        self.lie, self.method, self.places, self.left = lie, method, places, times

    def __call__(self, request: Request, forward: Forward) -> Answer:
        is_ours = request.method in self.method and any(place in request.path for place in self.places)
        with self.guard:
            is_told = is_ours and self.left > 0
            if is_told:
                self.left -= 1
                self.told[self.lie] += 1
        return getattr(self, f"_{self.lie}")(request, forward) if is_told else forward(request)

    def _stores_nothing(self, request, forward):
        return Answer(200, headers={"ETag": '"00000000000000000000000000000000"'})

    def _is_busy(self, request, forward):
        return refusal(503, "SlowDown")

    def _cuts_short(self, request, forward):
        answer = forward(request)
        return Answer(answer.status, answer.body[: len(answer.body) // 2], answer.headers)

    def _begins_a_byte_late(self, request, forward):
        answer = forward(request)
        return Answer(answer.status, answer.body[1:] + b"\0", answer.headers)

    def _flips_a_bit(self, request, forward):
        answer = forward(request)
        middle = len(answer.body) // 2
        flipped = answer.body[:middle] + bytes([answer.body[middle] ^ 1]) + answer.body[middle + 1 :]
        return Answer(answer.status, flipped, answer.headers)


def test_lies_are_told_again_or_refused_and_every_file_is_right(server, tmp_path):
    liar, folder = Liar(), tmp_path / "digits"
    with proxy(server, liar) as address:
        product = Product(
            tmp_path / "home",
            environment={
                "NEARLINE_STORE_URL": f"s3://{services.BUCKET}/lies?endpoint={address}",
                "NEARLINE_STORE_ACCESS_KEY": "test-access",
                "NEARLINE_STORE_SECRET_KEY": "test-secret-key",
            },
        ).start()
        try:
            write_digits(folder)
            product.cli("project", "create", "lies", cwd=tmp_path)
            product.cli("data", "init", "--project", "lies", "--title", "digits", cwd=folder)

            liar.begin("stores_nothing", "PUT", PACKS, 2)
            assert _sync(product, folder, b"sent again") == 0
            liar.begin("stores_nothing", "PUT", MANIFESTS, 1)
            assert _sync(product, folder, b"refused") == 2
            assert _sync(product, folder, b"refused") == 0
            liar.begin("is_busy", "PUT GET HEAD", ALL, 6)
            assert _sync(product, folder, b"waited for") == 0

            for lie, places in (
                ("cuts_short", PACKS),
                ("cuts_short", MANIFESTS),
                ("begins_a_byte_late", PACKS),
                ("flips_a_bit", MANIFESTS),
                ("is_busy", ALL),
            ):
                liar.begin(lie, "GET", places, 2)
                clone = f"clone-{len(liar.told)}-{places[0].strip('/')}"
                product.cli("data", "clone", "lies/digits", clone, cwd=tmp_path)
                assert (liar.left, contents(tmp_path / clone)) == (0, contents(folder))

            liar.begin("flips_a_bit", "GET", PACKS, 2)
            product.cli("data", "cache", "lies/digits@main", "--wait", cwd=tmp_path)
            assert liar.left == 0
        finally:
            product.stop()

    assert liar.told == {"stores_nothing": 3, "is_busy": 8, "cuts_short": 4, "begins_a_byte_late": 2, "flips_a_bit": 4}


def _sync(product: Product, folder: Path, content: bytes) -> int:
    """Sync the folder with one more file and return the exit code."""
    (folder / f"{content.decode()}.bin").write_bytes(content * 10_000)
    return product.cli("data", "sync", cwd=folder, check=False).returncode
