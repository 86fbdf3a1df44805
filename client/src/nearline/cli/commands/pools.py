"""Pools of nodes, over which quotas and fair shares are worked out."""

from collections.abc import Callable
from typing import Annotated

import typer

from nearline.cli import formats
from nearline.cli.confirm import confirm
from nearline.cli.group import CommandGroup
from nearline.cli.options import Yes
from nearline.cli.session import session_of
from nearline.errors import InvalidRequest
from nearline.models import Pool

app = CommandGroup(help="Pools of nodes: list, create, move, delete.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the pool.")]
_HAS_WORK = "scheduler.pool_has_work"


@app.command("list")
def list_pools(context: typer.Context) -> None:
    """List the pools and the resources in them."""
    session = session_of(context)
    pools = list(session.client().pools.list())
    rows = [(pool.name, formats.gpus(pool.gpu_milli), str(pool.nodes), ", ".join(pool.resources)) for pool in pools]
    session.out.table(pools, ("POOL", "GPUS", "NODES", "RESOURCES"), rows, empty="There is no pool yet.")


@app.command("create")
def create_pool(
    context: typer.Context,
    name: Name,
    resources: Annotated[list[str] | None, typer.Argument(help="Resources to move into it.")] = None,
    *,
    yes: Yes = False,
) -> None:
    """Create a pool and move resources into it. For site admins."""
    session = session_of(context)
    pools = session.client().pools
    _show(context, _after_asking(lambda moves: pools.create(name, resources or [], moves_work=moves), yes=yes))


@app.command("move")
def move_resources(
    context: typer.Context,
    name: Name,
    resources: Annotated[list[str], typer.Argument(help="Resources to move into it.")],
    *,
    yes: Yes = False,
) -> None:
    """Move resources into a pool, with their work. For site admins."""
    session = session_of(context)
    pools = session.client().pools
    _show(context, _after_asking(lambda moves: pools.move(name, resources, moves_work=moves), yes=yes))


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


def _show(context: typer.Context, pool: Pool) -> None:
    fields = [("Pool", pool.name), ("GPUs", formats.gpus(pool.gpu_milli)), ("Resources", ", ".join(pool.resources))]
    session_of(context).out.record(pool, fields)
