"""Routes of caching: sites, cached commits, and what would be evicted."""

from ninja import Router, Status

from accounts.api.auth import ApiRequest
from core import bounds
from core.pagination import Cursor, Limit, paginate
from datasets.api import cache_schemas as schemas
from datasets.models import Commit
from datasets.selectors import caches as array_reads
from datasets.selectors import caches as cache_reads
from datasets.selectors import commits as commit_reads
from datasets.selectors import datasets as dataset_reads
from datasets.services import cache_sites, caches

router = Router()

_COPY = "/datasets/{project}/{name}/commits/{ref}/cache"
_CACHED = "/cache/commits/{cached_commit_id}"


@router.get("/cache/sites", response=schemas.CacheSitesOut, operation_id="cache_list_sites")
def list_sites(request: ApiRequest, cursor: Cursor = None, limit: Limit = 100) -> schemas.CacheSitesOut:
    """List the cache sites with their capacity."""
    page = paginate(cache_reads.list_sites(actor=request.actor), cursor=cursor, limit=limit, newest_first=False)
    return schemas.CacheSitesOut(
        items=[schemas.CacheSiteOut.of(request.actor, site) for site in page.items], next_cursor=page.next_cursor
    )


@router.post("/cache/sites", response={201: schemas.CacheSiteOut}, operation_id="cache_create_site")
def create_site(request: ApiRequest, body: schemas.CacheSiteIn) -> Status[schemas.CacheSiteOut]:
    """Add a site. For site admins."""
    site = cache_sites.create_site(
        actor=request.actor,
        name=body.name,
        kind=body.kind,
        root=body.root,
        config=body.config,
        capacity_bytes=body.capacity_bytes,
        idle_days=body.idle_days,
        host=body.host,
    )
    return Status(201, schemas.CacheSiteOut.of(request.actor, site))


@router.patch("/cache/sites/{name}", response=schemas.CacheSiteOut, operation_id="cache_update_site")
def update_site(request: ApiRequest, name: str, body: schemas.CacheSiteChangeIn) -> schemas.CacheSiteOut:
    """Change a site's capacity, idle days, or what can be changed of its config. For site admins."""
    site = cache_sites.update_site(
        actor=request.actor,
        site=cache_reads.get_site(actor=request.actor, name=name),
        capacity_bytes=body.capacity_bytes,
        idle_days=body.idle_days,
        config=body.config,
    )
    return schemas.CacheSiteOut.of(request.actor, site)


@router.get("/cache/sites/{name}/array", response=schemas.SiteArrayOut, operation_id="cache_get_array")
def get_array(request: ApiRequest, name: str) -> schemas.SiteArrayOut:
    """Return what the storage array behind a site says of its space, and when it said so."""
    site = cache_reads.get_site(actor=request.actor, name=name)
    return schemas.SiteArrayOut.of(array_reads.get_array(actor=request.actor, site=site))


@router.put("/cache/sites/{name}/array", response=schemas.SiteArrayOut, operation_id="cache_set_array")
def set_array(request: ApiRequest, name: str, body: schemas.SiteArrayIn) -> schemas.SiteArrayOut:
    """Have the space of a storage array read from now on, once it has told it. For site admins."""
    site = cache_reads.get_site(actor=request.actor, name=name)
    return schemas.SiteArrayOut.of(cache_sites.set_array(actor=request.actor, site=site, **body.model_dump()))


@router.delete("/cache/sites/{name}/array", response={204: None}, operation_id="cache_remove_array")
def remove_array(request: ApiRequest, name: str) -> Status[None]:
    """Read the array behind a site no more, and forget its account. For site admins."""
    cache_sites.remove_array(actor=request.actor, site=cache_reads.get_site(actor=request.actor, name=name))
    return Status(204, None)


@router.get("/cache/commits", response=schemas.CachedCommitsOut, operation_id="cache_list_commits")
def list_cached_commits(
    request: ApiRequest, site: str = "", cursor: Cursor = None, limit: Limit = 100
) -> schemas.CachedCommitsOut:
    """List what is cached, or on its way in or out, newest first."""
    site_row = cache_reads.get_site(actor=request.actor, name=site) if site else None
    rows = cache_reads.list_cached_commits(actor=request.actor, site=site_row)
    page = paginate(rows, cursor=cursor, limit=limit)
    return schemas.CachedCommitsOut(
        items=[schemas.CachedCommitOut.of(row) for row in page.items], next_cursor=page.next_cursor
    )


@router.get(_CACHED, response=schemas.CachedCommitOut, operation_id="cache_get_commit")
def get_cached_commit(request: ApiRequest, cached_commit_id: str) -> schemas.CachedCommitOut:
    """Return one cached commit and how far it is."""
    return _describe(request, cached_commit_id)


@router.get(f"{_CACHED}/events", response=schemas.CacheEventsOut, operation_id="cache_list_events")
def list_events(
    request: ApiRequest, cached_commit_id: str, cursor: Cursor = None, limit: Limit = 100
) -> schemas.CacheEventsOut:
    """List what happened to a cached commit, oldest first; damage that scrubs found is among it."""
    row = cache_reads.get_cached_commit(actor=request.actor, cached_commit_id=cached_commit_id)
    events = cache_reads.list_events(actor=request.actor, cached_commit=row)
    page = paginate(events, cursor=cursor, limit=limit, newest_first=False)
    return schemas.CacheEventsOut(
        items=[schemas.CacheEventOut.of(event) for event in page.items], next_cursor=page.next_cursor
    )


@router.post(_COPY, response={202: schemas.CachedCommitOut}, operation_id="cache_request")
def request_cache(
    request: ApiRequest, project: str, name: str, ref: str, body: schemas.CacheIn | None = None
) -> Status[schemas.CachedCommitOut]:
    """Ask for a commit on a site. Asking again changes nothing; a failed one is tried again."""
    commit = _get_commit(request, project, name, ref)
    site = cache_reads.get_site(actor=request.actor, name=body.site if body else "")
    row = caches.request_cache(actor=request.actor, commit=commit, site=site)
    return Status(202, _describe(request, row.pk))


@router.delete(_COPY, response={202: schemas.CachedCommitOut}, operation_id="cache_clear")
def clear_cache(
    request: ApiRequest, project: str, name: str, ref: str, site: str = ""
) -> Status[schemas.CachedCommitOut]:
    """Let the copy of a commit leave a site now. The dataset stays as it is."""
    commit = _get_commit(request, project, name, ref)
    row = cache_reads.find_cached(
        actor=request.actor, commit=commit, site=cache_reads.get_site(actor=request.actor, name=site)
    )
    caches.uncache(actor=request.actor, cached_commit_id=row.pk)
    return Status(202, _describe(request, row.pk))


@router.post(f"{_CACHED}/pin", response=schemas.CachedCommitOut, operation_id="cache_pin")
def pin(request: ApiRequest, cached_commit_id: str, body: schemas.PinIn) -> schemas.CachedCommitOut:
    """Pin a copy, so that it is never evicted, or unpin it."""
    caches.set_pinned(actor=request.actor, cached_commit_id=cached_commit_id, is_pinned=body.pinned)
    return _describe(request, cached_commit_id)


@router.post(f"{_CACHED}/scrub", response={202: schemas.CachedCommitOut}, operation_id="cache_scrub")
def scrub(request: ApiRequest, cached_commit_id: str) -> Status[schemas.CachedCommitOut]:
    """Ask that every file of a copy is read and compared, and healed where it is damaged."""
    caches.scrub(actor=request.actor, cached_commit_id=cached_commit_id)
    return Status(202, _describe(request, cached_commit_id))


@router.get("/cache/plan", response=schemas.EvictionPlanOut, operation_id="cache_plan_eviction")
def plan_eviction(request: ApiRequest, site: str = "", need_bytes: bounds.Bytes = 0) -> schemas.EvictionPlanOut:
    """Show what would leave if so many bytes were needed, and what is in the way. Nothing is evicted."""
    place = cache_reads.get_site(actor=request.actor, name=site)
    copies = cache_reads.hide_labels(request.actor, cache_reads.list_copies(place))
    plan = cache_reads.plan_eviction(request.actor, place, need_bytes)
    return schemas.EvictionPlanOut.of(place, plan, {copy.id: copy for copy in copies})


def _get_commit(request: ApiRequest, project: str, name: str, ref: str) -> Commit:
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    return commit_reads.get_commit(request.actor, dataset, ref)


def _describe(request: ApiRequest, cached_commit_id: str) -> schemas.CachedCommitOut:
    row = cache_reads.get_cached_commit(actor=request.actor, cached_commit_id=cached_commit_id)
    return schemas.CachedCommitOut.of(row)
