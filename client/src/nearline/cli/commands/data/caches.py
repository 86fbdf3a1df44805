"""A commit next to compute: cached with one command, cleared with another."""

from typing import TYPE_CHECKING, Annotated

import typer

from nearline.cli import formats
from nearline.cli.asking import confirm
from nearline.cli.commands.data.target import Ref, target_of
from nearline.cli.options import Site, Timeout, Wait, Yes
from nearline.cli.progress import progress_of
from nearline.cli.session import Session, session_of

if TYPE_CHECKING:
    from nearline.models import CachedCommit

Commit = Annotated[str | None, typer.Option("--commit", "-c", help="Commit; else what the reference says.")]


def cache(
    context: typer.Context,
    reference: Ref,
    site: Site = None,
    commit: Commit = None,
    *,
    wait: Wait = False,
    timeout: Timeout = None,
) -> None:
    """Cache a commit on a site. Asking twice copies once."""
    session = session_of(context)
    target = target_of(session, reference, ref=commit)
    cached = session.client().datasets.cache(target, site=site)
    if wait:
        cached = wait_until_ready(session, cached, timeout_s=timeout)
    fields = [
        ("Path", cached.path if cached.state == "ready" else None),
        ("Commit", f"{cached.dataset}@{cached.commit[:8]}"),
        ("Site", cached.site),
        ("State", formats.state(cached.state)),
        ("Size", f"{formats.count(cached.files_total, 'file')}, {formats.size(cached.bytes_total)}"),
        ("Moved", f"{formats.size(cached.bytes_moved)}, shared {formats.size(cached.bytes_shared)}"),
    ]
    session.out.record(cached, fields if cached.state == "ready" else fields[1:])


def uncache(
    context: typer.Context, reference: Ref, site: Site = None, commit: Commit = None, *, yes: Yes = False
) -> None:
    """Remove a commit's copy from a site. The dataset itself stays as it is."""
    session = session_of(context)
    target = target_of(session, reference, ref=commit)
    client = session.client()
    confirm(f"Remove the cached copy of {target}?", yes=yes, can_be_undone=True)
    leaving = client.datasets.uncache(target, site=site)
    gone = client.caches.wait_until_gone(leaving)
    session.out.record(
        gone, [("Commit", f"{gone.dataset}@{gone.commit[:8]}"), ("Site", gone.site), ("State", gone.state)]
    )
    session.out.done(f"{target} is no longer cached on {gone.site}.")


def wait_until_ready(session: Session, cached: "CachedCommit", *, timeout_s: float | None = None) -> "CachedCommit":
    """Return the cached commit once it is ready, showing how far it is."""
    from nearline.transfer.progress import Progress  # noqa: PLC0415 (brings what only transfers need)

    with progress_of(session.out) as show:

        def tell(now: "CachedCommit") -> None:
            phase = f"{now.state}: {now.raw['waits_for']}," if now.raw.get("waits_for") else now.state
            done = (now.files_done, now.files_total, now.bytes_done, now.bytes_total)
            show(Progress(phase, *done, rate_bytes_s=now.rate_bytes_s, eta_s=now.eta_s))

        return session.client().caches.wait(cached, on_progress=tell, timeout_s=timeout_s)
