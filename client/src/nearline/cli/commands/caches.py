"""Cached commits near compute."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from nearline.cli import formats
from nearline.cli.group import CommandGroup
from nearline.cli.options import Site
from nearline.cli.output import align, printable
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
