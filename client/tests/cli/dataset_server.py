"""The dataset `team/digits` over HTTP: the routes of the API in front of the server that keeps all in a folder."""

import json
import re
from pathlib import Path

import httpx

from client.tests.cli.answers import cached, dataset, page
from client.tests.fake_server import FakeServer
from nearline import errors
from nearline.content.patterns import Patterns, parse_glob
from nearline.transfer.remote.server import ObjectKind, Offer, SignedRequest

_STATUS = {errors.InvalidRequest: 400, errors.Denied: 403, errors.NotFound: 404, errors.Conflict: 409}
_DATASET = "/datasets/team/digits"


class DatasetServer:
    """Answers like the API; `store` is what lies behind it, `tags` the tags that were made.

    `deleted` are the ids of deleted datasets, all of which were called `team/digits`.

    `selected` are the queries that were asked, and of what; `projects` are those of the caller.
    """

    def __init__(self, folder: Path) -> None:
        self.store = FakeServer(folder)
        self.tags: dict[str, str] = {}
        self.exists = True
        self.may_delete = True
        self.deleted: list[str] = []
        self.projects = ["team"]
        self.selected: list[tuple[str, str]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        try:
            if request.url.path.startswith("/store/"):
                return self._send(request)
            path = request.url.path.removeprefix("/api/v1")
            body = json.loads(request.content) if request.content else {}
            return self._route(request.method, path, dict(request.url.params), body)
        except errors.NearlineError as error:
            return httpx.Response(_STATUS[type(error)], json=error.to_json())

    def _route(self, method: str, path: str, query: dict, body: dict) -> httpx.Response:
        for its_method, pattern, handler in self._routes():
            found = re.fullmatch(pattern, path)
            if its_method == method and found:
                return httpx.Response(200, content=json.dumps(handler(*found.groups(), query, body)))
        raise AssertionError(f"There is no route {method} {path}")

    def _routes(self):
        return [
            ("POST", "/datasets", self._create),
            ("GET", _DATASET, self._get),
            ("GET", f"{_DATASET}/deletion", self._foresee_deletion),
            ("DELETE", _DATASET, self._delete),
            ("GET", "/deleted-datasets", self._list_deleted),
            ("POST", "/deleted-datasets/([^/]+)/restore", self._restore),
            ("DELETE", "/deleted-datasets/([^/]+)", self._delete_for_good),
            ("GET", "/me", lambda _q, _b: {"name": "ada", "projects": [{"name": name} for name in self.projects]}),
            (
                "GET",
                "/cache/commits",
                lambda _q, _b: page(
                    cached(users=["read by train"]), cached(dataset="team/other", site="far", users=["read by other"])
                ),
            ),
            ("GET", f"{_DATASET}/queries", lambda _q, _b: page()),
            ("GET", f"{_DATASET}/branches", lambda _q, _b: page(*map(_branch, self.store.list_branches()))),
            ("POST", f"{_DATASET}/branches", lambda _q, b: _branch(self.store.create_branch(b["name"], b["at"]))),
            ("GET", f"{_DATASET}/tags", lambda _q, _b: page(*({"name": n, "commit": c} for n, c in self.tags.items()))),
            ("POST", f"{_DATASET}/tags", self._tag),
            ("DELETE", f"{_DATASET}/tags/(.+)", lambda name, _q, _b: {"was": self.tags.pop(name)}),
            ("GET", f"{_DATASET}/commits", lambda _q, _b: page(*self.store.commits[::-1])),
            ("GET", f"{_DATASET}/commits/([^/]+)", lambda ref, _q, _b: self._commit(ref)),
            ("GET", f"{_DATASET}/files", self._files),
            ("POST", f"{_DATASET}/queries/([^/]+)/select", self._select),
            ("POST", f"{_DATASET}/uploads", lambda _q, b: vars(self.store.start_upload(b["branch"], b["client_id"]))),
            ("POST", "/uploads/([^/]+)/packs", self._offer_packs),
            ("POST", "/uploads/([^/]+)/packs/complete", self._complete),
            ("POST", "/uploads/([^/]+)/manifests", self._offer_manifests),
            ("POST", "/uploads/([^/]+)/commit", lambda its, _q, b: self.store.commit(its, **b).raw),
            ("POST", f"{_DATASET}/downloads", self._sign),
            ("GET", f"{_DATASET}/damage", lambda _q, _b: self._damage()),
            ("POST", f"{_DATASET}/damage", self._report),
        ]

    def _create(self, _query, body):
        if self.exists:
            raise errors.Conflict("There is a dataset 'digits' already.", code="datasets.exists")
        assert (body["project"], body["name"]) == ("team", "digits")
        self.exists = True
        return self._dataset()

    def _foresee_deletion(self, _query, _body):
        if not self.may_delete:
            raise errors.Denied("Only an admin may delete datasets.", code="accounts.permission_denied")
        return {"restore_days": 7}

    def _delete(self, query, _body):
        self.exists = False
        return self._deleted("ds_1", ends=None if query.get("for_good") else "2026-11-30T10:00:00.000Z")

    def _deleted(self, id_, *, ends):
        facts = {"id": id_, "project": "team", "name": "digits", "reference": "team/digits", "stored_bytes": 1500}
        return facts | {"deleted_at": "2026-11-23T10:00:00.000Z", "deleted_by": "ada", "restore_ends_at": ends}

    def _list_deleted(self, _query, _body):
        return page(*(self._deleted(id_, ends="2026-11-30T10:00:00.000Z") for id_ in self.deleted))

    def _restore(self, id_, _query, body):
        self.deleted.remove(id_)
        return dataset(name=body["name"] or "digits", reference=f"team/{body['name'] or 'digits'}")

    def _delete_for_good(self, id_, _query, _body):
        self.deleted.remove(id_)
        return {}

    def _get(self, _query, _body):
        if not self.exists:
            raise errors.NotFound("There is no dataset team/digits.", code="datasets.not_found")
        return self._dataset()

    def _dataset(self):
        commits = self.store.commits
        return dataset(newest_commit=commits[-1] if commits else None)

    def _commit(self, ref):
        full = [commit["id"] for commit in self.store.commits if len(ref) >= 6 and commit["id"].startswith(ref)]
        return self.store.get_commit(self.tags.get(ref) or (full[0] if full else ref)).raw

    def _tag(self, _query, body):
        self.tags[body["name"]] = self._commit(body["commit"])["id"]
        return {"name": body["name"], "commit": self.tags[body["name"]]}

    def _select(self, name, _query, body):
        """Select everything."""
        self.selected.append((name, body["ref"]))
        return self._commit(body["ref"])

    def _files(self, query, _body):
        tree = self.store.tree(self._commit(query["ref"])["root"])
        glob = Patterns([parse_glob(query["glob"])])
        items = [
            {"name": path.rpartition("/")[2], "path": path, "kind": "file", "size_bytes": len(data), "content_id": "00"}
            for path, data in sorted((path.decode(errors="surrogateescape"), data) for path, data in tree.items())
            if glob.matches(path)
        ]
        return page(*items)

    def _offer_packs(self, upload, _query, body):
        offers = [Offer(ObjectKind.PACK, one["sha256"], one["size_bytes"], one["sha256"]) for one in body["packs"]]
        answers = self.store.offer_packs(upload, offers)
        return {"items": [{"sha256": one.id, "state": "", "request": _request(one.request)} for one in answers]}

    def _complete(self, upload, _query, body):
        self.store.complete_packs(upload, body["packs"])
        return {"items": []}

    def _offer_manifests(self, upload, _query, body):
        offers = [
            Offer(ObjectKind(one["kind"]), one["id"], one["size_bytes"], one["sha256"]) for one in body["objects"]
        ]
        answers = self.store.offer_manifests(upload, offers)
        return {"items": [{"id": one.id, "state": "", "request": _request(one.request)} for one in answers]}

    def _damage(self):
        packs = [{"sha256": pack.name, "size_bytes": pack.size_bytes} for pack in self.store.list_damaged_packs()]
        return {"packs": packs, "files": ["a/one"] if packs else [], "files_total": len(packs)}

    def _report(self, _query, body):
        self.store.report_damaged_packs(body["packs"])
        return self._damage()

    def _sign(self, _query, body):
        wanted = [(ObjectKind(one["kind"]), one["id"]) for one in body["objects"]]
        return {"items": [{"request": _request(request)} for request in self.store.sign_downloads(wanted)]}

    def _send(self, request: httpx.Request) -> httpx.Response:
        assert "Authorization" not in request.headers
        signed = SignedRequest(request.method, request.url.path.removeprefix("/store/"), {})
        part = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", ""))
        span = (int(part[1]), int(part[2]) - int(part[1]) + 1) if part else None
        if request.method == "PUT":
            self.store.send(signed, request.content)
            return httpx.Response(200)
        data = self.store.receive(signed, lambda size: memoryview(bytearray(size)), span)
        return httpx.Response(206 if part else 200, content=bytes(data))


def _branch(branch):
    return {"name": branch.name, "head": branch.head, "updated_at": None}


def _request(request):
    if request is None:
        return None
    return {"method": request.method, "url": f"/store/{request.url}", "headers": {}, "expires_at": ""}
