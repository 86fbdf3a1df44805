"""Cached commits near compute."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from nearline.cli import formats
from nearline.cli.group import CommandGroup
from nearline.cli.options import Site
from nearline.cli.output import align, printable
from nearline.cli.quantities import read_bytes, read_setting
from nearline.cli.session import session_of

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
            item.site,
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
        for place in client.caches.list_sites():
            if site in (None, place.name):
                name = f"{place.name} (simulated)" if place.is_simulated else place.name
                session.out.note(_room(name, place.committed_bytes, place.free_bytes, place.capacity_bytes))
                if place.error:
                    session.out.note(f"{name} is lost: {printable(place.error)}")
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
    if session.out.is_json:
        session.out.json(site)
        return
    session.out.done(f"{site.name} can hold {formats.size(site.capacity_bytes)} of commits.")


def _read_value(key: str, text: str) -> object:
    if text in {"true", "false"}:
        return text == "true"
    return read_bytes(text) if key in {"size_bytes", "rate_bytes_s"} else text


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
    missing = plan.get("missing_bytes") or 0
    free, freed = formats.size(plan.get("free_bytes")), formats.size(plan.get("freed_bytes"))
    session.out.note(
        f"{free} are free; {freed} more would be." + (f" {formats.size(missing)} are missing." if missing else "")
    )


def _state(state: str, percent: float | None) -> str:
    return f"{formats.state(state)} {percent:.0f} %" if state == "hydrating" and percent else formats.state(state)


def _named(item: Any) -> str:
    return printable(item.get("label") or item.get("id") if isinstance(item, Mapping) else item)


def _bytes(item: Any) -> int | None:
    return (item.get("charged_bytes") or item.get("size_bytes")) if isinstance(item, Mapping) else None


def _reason(item: Any) -> str:
    return printable(f"stays: {item.get('reason') or 'in use'}")


def _room(name: str, committed: int | None, free: int | None, total: int | None) -> str:
    parts = [f"{formats.size(value)} {word}" for value, word in ((committed, "committed"), (free, "free"))]
    return f"{name}: {', '.join(parts)} of {formats.size(total)}"
