"""The routes by which content goes to a store and comes from it, spoken over HTTP."""

from collections.abc import Sequence
from datetime import datetime

from nearline._http import Http, quoted
from nearline.content.hashing import Buffer
from nearline.transfer.remote.server import Allocate, ObjectKind, Offer, OfferAnswer, SignedRequest


class StorageRoutes:
    """Implements `nearline.transfer.remote.server.Storage`. What is read is below `path`."""

    def __init__(self, http: Http, path: str) -> None:
        self._http = http
        self._path = path
        # A transfer has done much already when its server goes away: it waits for longer than other commands.
        self._api = http.with_long_retries()

    def offer_packs(self, upload_id: str, packs: Sequence[Offer]) -> list[OfferAnswer]:
        """Ask which packs are wanted, and for the right to store them."""
        offers = [{"sha256": pack.sha256, "size_bytes": pack.size_bytes, **_md5(pack)} for pack in packs]
        body = {"packs": offers}
        answer = self._api.post("/uploads" + quoted(upload_id) + "/packs", body, may_repeat=True)
        return [OfferAnswer(item["sha256"], read_signed(item.get("request"))) for item in answer["items"]]

    def complete_packs(self, upload_id: str, packs: Sequence[str]) -> None:
        """Say that packs were stored; the server looks for itself. Raises Conflict when one is missing."""
        self._api.post("/uploads" + quoted(upload_id) + "/packs/complete", {"packs": list(packs)}, may_repeat=True)

    def offer_manifests(self, upload_id: str, objects: Sequence[Offer]) -> list[OfferAnswer]:
        """Ask which ranges and roots are wanted, and for the right to store them."""
        offers = [
            {"kind": str(item.kind), "id": item.id, "size_bytes": item.size_bytes, "sha256": item.sha256, **_md5(item)}
            for item in objects
        ]
        answer = self._api.post("/uploads" + quoted(upload_id) + "/manifests", {"objects": offers}, may_repeat=True)
        return [OfferAnswer(item["id"], read_signed(item.get("request"))) for item in answer["items"]]

    def send(self, request: SignedRequest, *parts: Buffer) -> None:
        """Make one attempt at storing a body, given in parts."""
        self._http.send_signed(request.method, request.url, request.headers, *parts)

    def receive(
        self, request: SignedRequest, allocate: Allocate, byte_range: tuple[int, int] | None = None
    ) -> memoryview:
        """Make one attempt at reading an object, or a part of it."""
        return self._http.receive_signed(request.method, request.url, request.headers, allocate, byte_range=byte_range)

    def sign_downloads(self, objects: Sequence[tuple[ObjectKind, str]]) -> list[SignedRequest]:
        """Ask for the right to read objects."""
        body = {"objects": [{"kind": str(kind), "id": name} for kind, name in objects]}
        answer = self._api.post(self._path + "/downloads", body, may_repeat=True)
        return [request for item in answer["items"] if (request := read_signed(item["request"]))]

    def report_damaged_packs(self, packs: Sequence[str]) -> None:
        """Say which packs were found damaged."""
        self._http.post(self._path + "/damage", {"packs": list(packs)}, may_repeat=True)


def _md5(offer: Offer) -> dict[str, str]:
    return {"md5": offer.md5} if offer.md5 else {}


def read_signed(item: dict[str, object] | None) -> SignedRequest | None:
    """Read a signed request from an answer; None where there is none."""
    if item is None:
        return None
    headers = item.get("headers")
    expires_at = item.get("expires_at")
    return SignedRequest(
        method=str(item["method"]),
        url=str(item["url"]),
        headers=headers if isinstance(headers, dict) else {},
        expires_at=datetime.fromisoformat(str(expires_at)).timestamp() if expires_at else None,
    )
