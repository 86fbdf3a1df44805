"""Cache sites, the commits on them, and what would go next."""

import time
from collections.abc import Callable, Iterator, Mapping

from nearline._http import Http, Json, quoted
from nearline.errors import Failed, Unavailable
from nearline.models import CachedCommit, CacheEvent, CacheSite, SiteArray

_LONGEST_POLL_S = 2.0


class Caches:
    """The places near compute that hold cached commits."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list_sites(self) -> Iterator[CacheSite]:
        """Yield the sites by name."""
        return map(CacheSite.read, self._http.list_items("/cache/sites"))

    def create_site(
        self, name: str, kind: str, *, settings: Mapping[str, object], capacity_bytes: int | None = None
    ) -> CacheSite:
        """Add a cache site; `settings` are those of its kind. For site admins. Raises InvalidRequest, Conflict."""
        settings = dict(settings)
        body = {"name": name, "kind": kind, "root": settings.pop("root", ""), "host": settings.pop("host", "")}
        body |= {"config": settings, "capacity_bytes": capacity_bytes}
        return CacheSite.read(self._http.post("/cache/sites", body))

    def change_site(
        self, name: str, *, settings: Mapping[str, int | None] | None = None, **changes: float | None
    ) -> CacheSite:
        """Change `capacity_bytes` or `idle_days` of a site; what is None stays. For site admins.

        `settings` are those of its kind that can be changed, such as `max_volumes`; there None is the usual value.
        Raises NotFound and InvalidRequest.
        """
        return CacheSite.read(self._http.patch("/cache/sites" + quoted(name), {**changes, "config": settings or {}}))

    def get_array(self, site: str) -> SiteArray:
        """Return what the storage array behind a site says of its space. Raises NotFound where there is none."""
        return SiteArray.read(self._http.get("/cache/sites" + quoted(site) + "/array"))

    def set_array(
        self,
        site: str,
        *,
        url: str,
        svm: str,
        user: str,
        password: str,
        volumes: str = "",
        certificate: str = "",
    ) -> SiteArray:
        """Have the space of a storage array read from now on, once it has told it. For site admins.

        `volumes` is the pattern of the volumes that count, such as `trident_*`; empty: all of the SVM. Raises NotFound,
        InvalidRequest and Unavailable.
        """
        account = {"url": url, "svm": svm, "user": user, "password": password}
        body = {**account, "volumes": volumes, "certificate": certificate}
        return SiteArray.read(self._http.put("/cache/sites" + quoted(site) + "/array", body))

    def remove_array(self, site: str) -> None:
        """Read the array behind a site no more, and forget its account. For site admins. Raises NotFound."""
        self._http.delete("/cache/sites" + quoted(site) + "/array")

    def list(self, *, site: str | None = None) -> Iterator[CachedCommit]:
        """Yield the cached commits."""
        return map(CachedCommit.read, self._http.list_items("/cache/commits", site=site))

    def get(self, cached_commit_id: str) -> CachedCommit:
        """Return one cached commit. Raises NotFound."""
        return CachedCommit.read(self._http.get("/cache/commits" + quoted(cached_commit_id)))

    def wait(
        self,
        cached: CachedCommit,
        *,
        on_progress: Callable[[CachedCommit], None] | None = None,
        timeout_s: float | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> CachedCommit:
        """Return the cached commit once it is ready. Raises Failed when hydration failed, Unavailable on timeout."""
        for now in self._watch(cached, sleep=sleep, timeout_s=timeout_s):
            if on_progress:
                on_progress(now)
            if now.state == "ready":
                return now
            if now.state in {"failed", "evicting", "gone"}:
                why = now.error or f"it is {now.state}"
                raise Failed(
                    f"{now.dataset} is not cached on {now.site}: {why}",
                    code=now.raw.get("error_code") or "cache.not_ready",
                    hint=now.raw.get("error_hint") or "",
                )
        raise Unavailable(f"{cached.dataset} is not yet cached on {cached.site}.", code="cache.timeout")

    def wait_until_gone(
        self, cached: CachedCommit, *, timeout_s: float | None = 600, sleep: Callable[[float], None] = time.sleep
    ) -> CachedCommit:
        """Return the cached commit once its copy has left. Raises Failed when it stays, Unavailable on timeout."""
        for now in self._watch(cached, sleep=sleep, timeout_s=timeout_s):
            if now.state == "gone":
                return now
            if now.state != "evicting":
                raise Failed(f"{now.dataset} stays cached on {now.site}: {now.error or f'it is {now.state}'}")
        raise Unavailable(f"{cached.dataset} is still leaving {cached.site}.", code="cache.timeout")

    def _watch(
        self, cached: CachedCommit, *, sleep: Callable[[float], None], timeout_s: float | None
    ) -> Iterator[CachedCommit]:
        """Yield how it stands now and again, until `timeout_s` is over."""
        started, pause = time.monotonic(), 0.05
        caches = Caches(self._http.with_long_retries(timeout_s))
        while True:
            yield cached
            if timeout_s is not None and time.monotonic() - started > timeout_s:
                return
            sleep(pause)
            pause = min(pause * 1.1, _LONGEST_POLL_S)
            cached = caches.get(cached.id)

    def plan(self, *, site: str | None = None, need_bytes: int | None = None) -> Json:
        """Return what would be evicted, when and why, without evicting it."""
        return self._http.get("/cache/plan", site=site, need_bytes=need_bytes)

    def pin(self, cached_commit_id: str, *, pinned: bool = True) -> CachedCommit:
        """Keep a cached commit from eviction, or let it go again."""
        path = "/cache/commits" + quoted(cached_commit_id) + "/pin"
        return CachedCommit.read(self._http.post(path, {"pinned": pinned}, may_repeat=True))

    def scrub(self, cached_commit_id: str) -> CachedCommit:
        """Have every file of a copy read and compared, and healed where it is damaged. Raises NotFound and Conflict."""
        path = "/cache/commits" + quoted(cached_commit_id) + "/scrub"
        return CachedCommit.read(self._http.post(path, may_repeat=True))

    def list_events(self, cached_commit_id: str) -> Iterator[CacheEvent]:
        """Yield what happened to a cached commit, oldest first; damage that scrubs found is among it."""
        return map(CacheEvent.read, self._http.list_items("/cache/commits" + quoted(cached_commit_id) + "/events"))
