"""Pools of nodes, over which quotas and fair shares are worked out."""

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from nearline.cli import formats
from nearline.cli.asking import confirm
from nearline.cli.commands.queues import show_trial
from nearline.cli.group import CommandGroup
from nearline.cli.options import Yes
from nearline.cli.quantities import read_count, read_number, read_seconds
from nearline.cli.session import session_of
from nearline.errors import InvalidRequest
from nearline.models import Pool, Sharing

app = CommandGroup(help="Pools of nodes: list, show, create, move, take-out, set, delete.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the pool.")]
Label = Annotated[str, typer.Option("--label", help="Only their nodes with this label, as gpu=a100.")]
_HAS_WORK = "scheduler.pool_has_work"


@app.command("list")
def list_pools(context: typer.Context) -> None:
    """List the pools and the resources in them."""
    session = session_of(context)
    pools = list(session.client().pools.list())
    rows = [(_name_of(pool), formats.gpus(pool.gpu_milli), str(pool.nodes), _resources_of(pool)) for pool in pools]
    session.out.table(pools, ("POOL", "GPUS", "NODES", "RESOURCES"), rows, empty="There is no pool yet.")


@app.command("create")
def create_pool(
    context: typer.Context,
    name: Name,
    resources: Annotated[list[str] | None, typer.Argument(help="Resources to move into it.")] = None,
    *,
    label: Label = "",
    yes: Yes = False,
) -> None:
    """Create a pool of resources, or of their nodes with a label.

    They move into it with their work. For site admins.
    """
    pools, given = session_of(context).client().pools, resources or []
    pool = _after_asking(lambda moves: pools.create(name, given, label=label, moves_work=moves), yes=yes)
    _show_moved(context, pool, given, label)


@app.command("move")
def move_resources(
    context: typer.Context,
    name: Name,
    resources: Annotated[list[str], typer.Argument(help="Resources to move into it.")],
    *,
    label: Label = "",
    yes: Yes = False,
) -> None:
    """Move resources into a pool, or their nodes with a label.

    Their work moves along. For site admins. Without a label those nodes move that no label puts into another pool. A
    node with several such labels counts by the first of them, in the order of the alphabet.
    """
    pools = session_of(context).client().pools
    pool = _after_asking(lambda moves: pools.move(name, resources, label=label, moves_work=moves), yes=yes)
    _show_moved(context, pool, resources, label)


@app.command("take-out")
def take_out_label(
    context: typer.Context,
    name: Name,
    resources: Annotated[list[str], typer.Argument(help="Resources whose nodes leave it.")],
    *,
    label: Annotated[str, typer.Option("--label", help="By which they are in it, as gpu=a100.")],
    yes: Yes = False,
) -> None:
    """Take the nodes with a label out of a pool, with their work. For site admins.

    They are then where the rest of their resource is.
    """
    pools = session_of(context).client().pools
    _show(context, _after_asking(lambda moves: pools.take_out(name, resources, label, moves_work=moves), yes=yes))


@app.command("show")
def show_pool(context: typer.Context, name: Name) -> None:
    """Show a pool, and the rules by which its queues share."""
    _show(context, session_of(context).client().pools.get(name))


@app.command("set")
def set_sharing(  # noqa: PLR0917 (each is an option of the command line)
    context: typer.Context,
    name: Name,
    rules: Annotated[str, typer.Option("--rules", help="A named set of rules: prompt or steady.")] = "",
    claim_delay: Annotated[
        str,
        typer.Option(
            "--claim-delay",
            help="A claim of n GPUs takes nothing for this / n, as 1m. Not while a queue claims 8.",
        ),
    ] = "",
    reclaim_after: Annotated[
        str, typer.Option("--reclaim-after", help="Other queues evict nothing that ran for less, as 10m.")
    ] = "",
    surplus_after: Annotated[
        str, typer.Option("--surplus-after", help="Claims beyond a quota evict nothing that ran for less, as 12h.")
    ] = "",
    stops: Annotated[str, typer.Option("--stops", help="A job is stopped so many times at most, moves included.")] = "",
    surplus_stops: Annotated[str, typer.Option("--surplus-stops", help="The same for claims beyond a quota.")] = "",
    consolidate_every: Annotated[
        str, typer.Option("--consolidate-every", help="Running work is moved together this often at most, as 5m.")
    ] = "",
    past_use: Annotated[
        str, typer.Option("--past-use", help="How much past use lowers a share, from 0 (not at all) to 10.")
    ] = "",
    half_life: Annotated[str, typer.Option("--half-life", help="Use this long ago counts half, as 7d.")] = "",
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what it would do, and change nothing.")] = False,
) -> None:
    """Change the rules by which the queues of a pool share. For site admins.

    What is not named stays. Departments and projects may have their own: `nearline queue set`.
    """
    given: list[tuple[str, str, Callable[[str], object]]] = [
        ("preset", rules, str),
        ("claim_delay_s", claim_delay, read_seconds),
        ("reclaim_min_runtime_s", reclaim_after, read_seconds),
        ("surplus_min_runtime_s", surplus_after, read_seconds),
        ("evictions_at_most", stops, read_count),
        ("surplus_evictions_at_most", surplus_stops, read_count),
        ("consolidate_every_s", consolidate_every, read_seconds),
        ("usage_pull", past_use, read_number),
        ("usage_half_life_s", half_life, read_seconds),
    ]
    changes = {key: read(text) for key, text, read in given if text}
    if not changes:
        raise InvalidRequest("Nothing is to change.", hint="Name a rule, such as --rules steady.")
    client = session_of(context).client()
    if dry_run:
        show_trial(context, client.queues.try_changes(pool=name, sharing=changes))
        return
    client.pools.set_sharing(name, **changes)
    _show(context, client.pools.get(name))


@app.command("delete")
def delete_pool(context: typer.Context, name: Name, *, yes: Yes = False) -> None:
    """Delete a pool without nodes, with the quotas in it. For site admins."""
    session = session_of(context)
    confirm(f"Delete the pool {name} with the quotas in it?", yes=yes)
    session.client().pools.delete(name)
    session.out.done(f"The pool {name} is deleted.")


def _after_asking(call: Callable[[bool], Pool], *, yes: bool) -> Pool:
    """Make a call that moves resources; where work would move along, ask first."""
    try:
        return call(yes)
    except InvalidRequest as error:
        if error.code != _HAS_WORK:
            raise
        confirm(f"{error.message}\nMove it?", yes=False)
        return call(True)  # noqa: FBT003 (`call` has one argument)


def _show_moved(context: typer.Context, pool: Pool, resources: Sequence[str], label: str) -> None:
    """Show a pool into which nodes moved, and say of which resources it has none by the label yet."""
    _show(context, pool)
    without = [each.resource for each in pool.labels if each.label == label and not each.nodes]
    if named := sorted(set(without) & set(resources)):
        text = f"No node of {', '.join(named)} has the label {label} now. Those that get it join the pool."
        session_of(context).out.warn(text)


def _resources_of(pool: Pool) -> str:
    """Name the resources in a pool, each with the labels by which its nodes are in it."""
    labels: dict[str, list[str]] = {name: [] for name in pool.resources}
    for each in pool.labels:
        labels.setdefault(each.resource, []).append(each.label)
    return ", ".join(f"{name} ({', '.join(texts)})" if texts else name for name, texts in sorted(labels.items()))


def _show(context: typer.Context, pool: Pool) -> None:
    fields = [
        ("Pool", _name_of(pool)),
        ("GPUs", formats.gpus(pool.gpu_milli)),
        ("Resources", _resources_of(pool)),
    ]
    if pool.sharing is not None:
        fields += _rules_of(pool.sharing)
    session_of(context).out.record(pool, fields)


def _name_of(pool: Pool) -> str:
    return pool.name + formats.simulated(pool.has_simulated)


def _rules_of(rules: Sharing) -> list[tuple[str, str]]:
    return [
        ("Rules", rules.preset or "its own"),
        ("Claim delay", formats.duration(rules.claim_delay_s)),
        ("Reclaimed after", formats.duration(rules.reclaim_min_runtime_s)),
        ("Reclaimed beyond a quota after", formats.duration(rules.surplus_min_runtime_s)),
        ("Stopped at most", formats.count(rules.evictions_at_most, "time")),
        ("Stopped beyond a quota at most", formats.count(rules.surplus_evictions_at_most, "time")),
        ("Consolidates every", formats.duration(rules.consolidate_every_s)),
        ("Past use", f"{rules.usage_pull:g}, half-life {formats.duration(rules.usage_half_life_s)}"),
    ]
