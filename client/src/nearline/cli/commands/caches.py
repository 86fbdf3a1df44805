"""Cached commits near compute."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearline.cli import formats
from nearline.cli.asking import read_file, read_hidden
from nearline.cli.commands.data.target import Ref, target_of
from nearline.cli.group import CommandGroup
from nearline.cli.options import Site
from nearline.cli.output import align, printable
from nearline.cli.quantities import read_bytes, read_count, read_or_none, read_setting
from nearline.cli.session import Session, session_of
from nearline.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from nearline.models import CachedCommit, CacheSite

SiteName = Annotated[str, typer.Argument(metavar="SITE", help="As `nearline cache list` shows it.")]

_CHANGEABLE = {"max_volumes": read_count, "fill_pods": read_count, "bytes_per_pod": read_bytes}
"""How the settings are read that can be changed of a site."""
_NUMBERS = {**_CHANGEABLE, "size_bytes": read_bytes, "rate_bytes_s": read_bytes}
_FILLING = (("fill_pods", "Fill pods", str), ("bytes_per_pod", "Bytes per pod", formats.size))

app = CommandGroup(help="Cached commits near compute, and what is evicted next.")


@app.command("list")
def list_cached(context: typer.Context, site: Site = None) -> None:
    """List the cached commits and the capacity of their sites."""
    session = session_of(context)
    client = session.client()
    cached = list(client.caches.list(site=site))
    rows = [
        (
            f"{item.dataset}@{item.commit[:8]}",
            item.site + formats.simulated(item.is_simulated),
            _state(item.state, item.percent),
            formats.size(item.bytes_total),
            formats.ago(item.last_used_at),
            "pinned" if item.pinned else formats.ago(item.evicts_at) if item.evicts_at else "stays",
        )
        for item in cached
    ]
    columns = ("COMMIT", "SITE", "STATE", "SIZE", "LAST USED", "GOES")
    session.out.table(cached, columns, rows, empty="Nothing is cached.")
    if not session.out.is_json and not session.out.is_quiet:
        for item in cached:
            if waits_for := item.raw.get("waits_for"):
                name = f"{item.dataset}@{item.commit[:8]}"
                session.out.note(f"{name} does not get on at {item.site}: it waits for {printable(waits_for)}")
        for place in client.caches.list_sites():
            if site in (None, place.name):
                name = f"{place.name} (simulated)" if place.is_simulated else place.name
                session.out.note(_room(name, place))
                if place.error:
                    session.out.note(f"{name}: {printable(place.error)}")
                if place.warning:
                    session.out.note(f"{name}: {printable(place.warning)}")


@app.command("add")
def add_site(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What the site is to be called.")],
    kind: Annotated[str, typer.Option("--kind", help="folder, ssh, volume, nfs, existing or simulated.")] = "folder",
    capacity: Annotated[str, typer.Option("--capacity", help="How much of it may be filled, as 2TB.")] = "",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the kind, such as root.")
    ] = None,
) -> None:
    """Add a cache site. For site admins."""
    session = session_of(context)
    client = session.client()
    values = {key: _read_value(key, value) for key, value in map(read_setting, settings or [])}
    if "resource" in values:
        values["resource"] = {item.name: item.raw.get("id") for item in client.compute.list()}.get(
            str(values["resource"]), values["resource"]
        )
    if "/" in str(values.get("commit", "")):
        values["commit"] = client.datasets.get_commit(str(values["commit"])).id
    capacity_bytes = read_bytes(capacity) if capacity else None
    site = client.caches.create_site(name, kind, settings=values, capacity_bytes=capacity_bytes)
    session.out.done(f"{site.name} can hold {formats.size(site.capacity_bytes)} of commits.", as_json=site)


def _read_value(key: str, text: str) -> object:
    if text in {"true", "false"}:
        return text == "true"
    return _NUMBERS[key](text) if key in _NUMBERS else text


def _read_change(text: str) -> tuple[str, int | None]:
    key, value = read_setting(text)
    if key not in _CHANGEABLE:
        raise InvalidRequest(f"'{key}' of a site cannot be changed.", hint=f"These can be: {', '.join(_CHANGEABLE)}.")
    return key, read_or_none(_CHANGEABLE[key], value)


@app.command("plan")
def plan_eviction(
    context: typer.Context,
    site: Site = None,
    need: Annotated[int | None, typer.Option("--need", min=0, metavar="BYTES", help="Space needed.")] = None,
) -> None:
    """Show what would be evicted to free space, and what prevents it. Nothing is evicted."""
    session = session_of(context)
    plan = session.client().caches.plan(site=site, need_bytes=need)
    if session.out.is_json:
        session.out.json(plan)
        return
    victims = [(_named(item), formats.size(_bytes(item)), "goes") for item in plan.get("victims", [])]
    obstacles = [(_named(item), formats.size(_bytes(item)), _reason(item)) for item in plan.get("obstacles", [])]
    if victims or obstacles:
        for row in align([("COMMIT", "SIZE", "WHAT"), *victims, *obstacles]):
            session.out.line(row)
    missing, missing_volumes = plan.get("missing_bytes") or 0, plan.get("missing_volumes") or 0
    free, freed = formats.size(plan.get("free_bytes")), formats.size(plan.get("freed_bytes"))
    session.out.note(
        f"{free} are free; {freed} more would be." + (f" {formats.size(missing)} are missing." if missing else "")
    )
    if plan.get("max_volumes"):
        too_many = f", and {missing_volumes} of those that have to stay must leave first" if missing_volumes else ""
        session.out.note(f"It has {plan.get('volumes')} of at most {plan['max_volumes']} volumes{too_many}.")


@app.command("set")
def change_site(
    context: typer.Context,
    name: SiteName,
    capacity: Annotated[str | None, typer.Option("--capacity", help="How much of it may be filled, as 2TB.")] = None,
    idle_days: Annotated[
        float | None, typer.Option("--idle-days", min=0, help="Days without use after which a copy goes; 0: it stays.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="max_volumes, fill_pods or bytes_per_pod; none: as usual."),
    ] = None,
) -> None:
    """Change the capacity, idle days or settings of a site.

    What is not named stays. For site admins.
    """
    if capacity is None and idle_days is None and not settings:
        raise InvalidRequest("Nothing is to be changed.", hint="Give --capacity, --idle-days or --set.")
    session = session_of(context)
    capacity_bytes = read_bytes(capacity) if capacity is not None else None
    values = dict(map(_read_change, settings or []))
    site = session.client().caches.change_site(
        name, capacity_bytes=capacity_bytes, idle_days=idle_days, settings=values
    )
    days = f"{site.raw['idle_days']:g}" if site.raw["idle_days"] else "never"
    rows = [("Site", site.name), ("Capacity", formats.size(site.capacity_bytes)), ("Idle days", days)]
    if site.volumes is not None:
        rows.append(("Volumes", _volumes(site)))
    config = site.raw.get("config") or {}
    rows += [(label, show(config[key])) for key, label, show in _FILLING if key in config]
    session.out.record(site, rows)


@app.command("array")
def set_array(  # noqa: PLR0917 (each is an option of the command line)
    context: typer.Context,
    name: SiteName,
    url: Annotated[str, typer.Option("--url", help="Of its management interface.")] = "",
    svm: Annotated[str, typer.Option("--svm", help="The SVM that the site lies on.")] = "",
    user: Annotated[str, typer.Option("--user", help="An account that may only read.")] = "",
    volumes: Annotated[str, typer.Option("--volumes", help="Which volumes count, as trident_*.")] = "",
    authority: Annotated[Path | None, typer.Option("--ca", help="Its certificate, or that of who signed it.")] = None,
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Read it no more, and forget the account.")] = False,
) -> None:
    """Show what the storage array behind a site says of its space.

    With --url it is read from now on; its password is asked for, or read from stdin.
    """
    session = session_of(context)
    caches = session.client().caches
    if remove:
        caches.remove_array(name)
        session.out.done(f"No array is read for {name} now.", as_json={"site": name, "array": None})
        return
    if url:
        certificate = read_file(authority) if authority else ""
        account = {"url": url, "svm": svm, "user": user, "password": read_hidden("Password")}
        array = caches.set_array(name, **account, volumes=volumes, certificate=certificate)
    else:
        array = caches.get_array(name)
    if session.out.is_json:
        session.out.json(array)
        return
    if array.error:
        session.out.note(f"It does not answer since {array.unknown_since}: {printable(array.error)}")
    rows = [
        (
            space["what"],
            *(formats.size(space[f"{kind}_bytes"]) for kind in ("size", "used", "available")),
            space["source"],
        )
        for space in array.space
    ]
    for row in align([("WHAT", "SIZE", "USED", "FREE", "SOURCE"), *rows]):
        session.out.line(printable(row))


@app.command("pin")
def pin(
    context: typer.Context,
    reference: Ref,
    site: Site = None,
    *,
    undo: Annotated[bool, typer.Option("--undo", help="Let it go again.")] = False,
) -> None:
    """Keep the cached copy of a commit from eviction."""
    session = session_of(context)
    cached = session.client().caches.pin(_find(session, reference, site).id, pinned=not undo)
    session.out.record(cached, [*_copy(cached), ("Pinned", "yes" if cached.pinned else "no")])


@app.command("scrub")
def scrub(context: typer.Context, reference: Ref, site: Site = None) -> None:
    """Have every file of a copy compared, and healed where damaged."""
    session = session_of(context)
    cached = session.client().caches.scrub(_find(session, reference, site).id)
    session.out.record(cached, _copy(cached))
    session.out.note(f"What it finds is shown by `nearline cache events {cached.dataset}@{cached.commit[:8]}`.")


@app.command("events")
def list_events(context: typer.Context, reference: Ref, site: Site = None) -> None:
    """List what happened to the copy of a commit, oldest first."""
    session = session_of(context)
    events = list(session.client().caches.list_events(_find(session, reference, site).id))
    rows = [(event.at, event.kind, event.state, event.message) for event in events]
    session.out.table(events, ("AT", "KIND", "STATE", "WHAT"), rows, empty="Nothing has happened yet.")


def _find(session: Session, reference: str, site: str | None) -> "CachedCommit":
    """Return the copy of a commit on a site. Raises NotFound, and InvalidRequest where it is on several."""
    client = session.client()
    target = target_of(session, reference)
    commit = client.datasets.get_commit(target)
    name = f"{target.project}/{target.name}"
    copies = [each for each in client.caches.list(site=site) if (each.dataset, each.commit) == (name, commit.id)]
    if not copies:
        raise NotFound(f"{target} is not cached{f' on {site}' if site else ''}.", hint="See `nearline cache list`.")
    if len(copies) > 1:
        names = ", ".join(sorted(each.site for each in copies))
        raise InvalidRequest(f"{target} is cached on several sites: {names}.", hint="Add --site NAME.")
    return copies[0]


def _copy(cached: "CachedCommit") -> list[tuple[str, object]]:
    name = f"{cached.dataset}@{cached.commit[:8]}"
    return [("Commit", name), ("Site", cached.site), ("State", formats.state(cached.state))]


def _state(state: str, percent: float | None) -> str:
    return f"{formats.state(state)} {percent:.0f} %" if state == "hydrating" and percent else formats.state(state)


def _named(item: Any) -> str:
    return printable(item.get("label") or item.get("id") if isinstance(item, Mapping) else item)


def _bytes(item: Any) -> int | None:
    return (item.get("charged_bytes") or item.get("size_bytes")) if isinstance(item, Mapping) else None


def _reason(item: Any) -> str:
    return printable(f"stays: {item.get('reason') or 'in use'}")


def _room(name: str, site: "CacheSite") -> str:
    amounts = ((site.committed_bytes, "committed"), (site.free_bytes, "free"))
    parts = [f"{formats.size(value)} {word}" for value, word in amounts]
    volumes = f"; volumes {_volumes(site)}" if site.volumes is not None else ""
    return f"{name}: {', '.join(parts)} of {formats.size(site.capacity_bytes)}{volumes}"


def _volumes(site: "CacheSite") -> str:
    return f"{site.volumes} of {site.max_volumes}" if site.max_volumes else f"{site.volumes}"
