"""Quotas, limits and rules of projects and departments, in each pool."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from nearline.cli import formats
from nearline.cli.asking import confirm
from nearline.cli.group import CommandGroup
from nearline.cli.options import Yes
from nearline.cli.quantities import NONE, read_bytes, read_count, read_milli, read_number, read_or_none, read_seconds
from nearline.cli.session import session_of
from nearline.errors import InvalidRequest
from nearline.models import QueueSettings, QuotaTrial, Standing
from nearline.resources.queues import DEFAULT_POOL, change_of

app = CommandGroup(help="Quotas, limits and rules of projects and departments.")

Pool = Annotated[str, typer.Option("--pool", help="Pool of nodes; see `nearline pool list`.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A project, or a department.")]


@app.command("list")
def list_queues(context: typer.Context, pool: Pool = DEFAULT_POOL) -> None:
    """List the quotas of your projects in a pool, and what they hold."""
    session = session_of(context)
    queues = list(session.client().queues.list(pool=pool))
    rows = [
        (
            queue.project,
            queue.department or "-",
            _gpus(queue.gpu_quota_milli),
            _gpus(queue.gpu_held_milli),
            _or_none(queue.gpu_limit_milli, _gpus),
            "as the quota" if queue.over_quota_weight is None else f"{queue.over_quota_weight:g}",
            str(queue.waiting_workloads),
        )
        for queue in queues
    ]
    columns = ("PROJECT", "DEPARTMENT", "QUOTA", "ALLOCATED", "LIMIT", "WEIGHT", "WAITING")
    session.out.table(queues, columns, rows, empty=f"None of your projects has a queue in the pool {pool}.")
    if queues and not session.out.is_json:
        for text in _standing(session.client().queues.get_standing(pool=pool)):
            session.out.note(text)


@app.command("show")
def show_queue(context: typer.Context, name: Name, pool: Pool = DEFAULT_POOL) -> None:
    """Show the quota, the limits and the rules of a project."""
    session = session_of(context)
    queue = session.client().queues.get(name, pool=pool)
    held = [("Allocated", _gpus(queue.gpu_held_milli)), ("Waiting", str(queue.waiting_workloads))]
    rank = [("Place among pools", queue.pool_rank)]
    standing = session.client().queues.get_standing(pool=pool)
    lines = [("Standing", text) for text in _standing(standing, queue.project)]
    own = {
        "loans": [loan.to_json() for loan in standing.loans if queue.project in {loan.lender, loan.borrower}],
        "below_share": next((each.to_json() for each in standing.below if each.project == queue.project), None),
    }
    shown = {**queue.to_json(), **own} if session.out.is_json else queue
    session.out.record(shown, [("Project", queue.project), *_fields(queue), *rank, *held, *lines])


@app.command("set")
def set_queue(  # noqa: PLR0917 (each is an option of the command line)
    context: typer.Context,
    name: Name,
    pool: Pool = DEFAULT_POOL,
    gpus: Annotated[float | None, typer.Option("--gpus", min=0, help="GPUs that are guaranteed.")] = None,
    cpu: Annotated[str, typer.Option("--cpu", help="Cores that are guaranteed, or none for no bound.")] = "",
    memory: Annotated[str, typer.Option("--memory", help="As 512GiB, or none for no bound.")] = "",
    weight: Annotated[str, typer.Option("--weight", help="Share of what is beyond all quotas, or none.")] = "",
    limit: Annotated[str, typer.Option("--limit", help="GPUs that it may hold at most, or none.")] = "",
    department: Annotated[str, typer.Option("--department", help="The department above it, or none.")] = "",
    run_training: Annotated[str, typer.Option("--run-training", help="Training may run for, as 12h, or none.")] = "",
    run_interactive: Annotated[
        str, typer.Option("--run-interactive", help="Interactive work may run for, as 8h, or none.")
    ] = "",
    idle_training: Annotated[str, typer.Option("--idle-training", help="Training may be idle for, or none.")] = "",
    idle_interactive: Annotated[
        str, typer.Option("--idle-interactive", help="Interactive work may be idle for, as 2h, or none.")
    ] = "",
    nodes_training: Annotated[
        list[str] | None, typer.Option("--nodes-training", metavar="KEY=VALUE", help="Labels for training, or none.")
    ] = None,
    nodes_interactive: Annotated[
        list[str] | None,
        typer.Option("--nodes-interactive", metavar="KEY=VALUE", help="For interactive work."),
    ] = None,
    reclaim_after: Annotated[
        str, typer.Option("--reclaim-after", help="Other queues evict nothing that ran for less, as 10m, or none.")
    ] = "",
    claim_delay: Annotated[
        str,
        typer.Option(
            "--claim-delay",
            help="Its claims of one GPU take nothing for so long, as 1m, or none. Not while it claims 8.",
        ),
    ] = "",
    surplus_after: Annotated[
        str, typer.Option("--surplus-after", help="Claims beyond a quota evict nothing that ran for less, or none.")
    ] = "",
    stops: Annotated[str, typer.Option("--stops", help="A job is stopped so many times at most, or none.")] = "",
    surplus_stops: Annotated[
        str, typer.Option("--surplus-stops", help="The same for claims beyond a quota, or none.")
    ] = "",
    preempt_after: Annotated[
        str, typer.Option("--preempt-after", help="Higher priority evicts nothing that ran for less, or none.")
    ] = "",
    rank: Annotated[
        str, typer.Option("--rank", help="When jobs that name no pool take this one: 1 is first; none: never.")
    ] = "",
    *,
    is_department: Annotated[bool, typer.Option("--is-department", help="NAME is a department.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what it would do, and change nothing.")] = False,
) -> None:
    """Change the quota, limits and rules of a queue. For site admins.

    What is not named stays.
    """
    settings: dict[str, Any] = {} if gpus is None else {"gpu_quota_milli": read_milli(str(gpus))}
    given: list[tuple[str, str, Callable[[str], object]]] = [
        ("cpu_quota_millicores", cpu, read_milli),
        ("memory_quota_bytes", memory, read_bytes),
        ("over_quota_weight", weight, read_number),
        ("gpu_limit_milli", limit, read_milli),
        ("department", department, str),
        ("training_run_at_most_s", run_training, read_seconds),
        ("interactive_run_at_most_s", run_interactive, read_seconds),
        ("training_idle_at_most_s", idle_training, read_seconds),
        ("interactive_idle_at_most_s", idle_interactive, read_seconds),
        ("reclaim_min_runtime_s", reclaim_after, read_seconds),
        ("claim_delay_s", claim_delay, read_seconds),
        ("surplus_min_runtime_s", surplus_after, read_seconds),
        ("evictions_at_most", stops, read_count),
        ("surplus_evictions_at_most", surplus_stops, read_count),
        ("preempt_min_runtime_s", preempt_after, read_seconds),
        ("pool_rank", rank, read_count),
    ]
    settings |= {key: read_or_none(read, text) for key, text, read in given if text}
    labels = {"training_node_labels": nodes_training, "interactive_node_labels": nodes_interactive}
    settings |= {key: [] if values == [NONE] else values for key, values in labels.items() if values}
    if not settings:
        raise InvalidRequest("Nothing is to change.", hint="Name a setting, such as --gpus 4.")
    session = session_of(context)
    change = change_of(name, is_department=is_department, **settings)
    if dry_run:
        show_trial(context, session.client().queues.try_changes([change], pool=pool))
        return
    session.client().queues.set_many([change], pool=pool)
    session.out.done(f"The scheduler works with the new settings of {name} in the pool {pool} from its next cycle on.")


@app.command("departments")
def list_departments(context: typer.Context, pool: Pool = DEFAULT_POOL) -> None:
    """List the departments of a pool."""
    session = session_of(context)
    departments = list(session.client().queues.list_departments(pool=pool))
    rows = [
        (item.name, item.department or "-", _gpus(item.gpu_quota_milli), _or_none(item.gpu_limit_milli, _gpus))
        for item in departments
    ]
    session.out.table(departments, ("DEPARTMENT", "ABOVE", "QUOTA", "LIMIT"), rows, empty="There is no department.")


@app.command("create-department")
def create_department(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Lower-case letters, digits and dashes.")],
    pool: Pool = DEFAULT_POOL,
    gpus: Annotated[float, typer.Option("--gpus", min=0, help="GPUs that are guaranteed to its projects.")] = 0,
) -> None:
    """Create a department in a pool. For site admins."""
    session = session_of(context)
    settings = {"gpu_quota_milli": read_milli(str(gpus))}
    department = session.client().queues.create_department(name, pool=pool, **settings)
    session.out.record(department, [("Department", department.name), *_fields(department)])


@app.command("delete-department")
def delete_department(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The department.")],
    pool: Pool = DEFAULT_POOL,
    *,
    yes: Yes = False,
) -> None:
    """Delete a department; its projects stay. For site admins."""
    session = session_of(context)
    confirm(f"Delete the department {name}? Its projects stay, without its quota and limits.", yes=yes)
    session.client().queues.delete_department(name, pool=pool)
    session.out.done(f"The department {name} is deleted.")


def show_trial(context: typer.Context, trial: QuotaTrial) -> None:
    """Show what a change would do."""
    out = session_of(context).out
    if out.is_json:
        out.json(trial.to_json())
        return
    rows = [
        (
            queue.name,
            f"{_gpus(queue.quota_before_milli)} -> {_gpus(queue.quota_after_milli)}",
            f"{_gpus(queue.fair_before_milli)} -> {_gpus(queue.fair_after_milli)}",
            _gpus(queue.held_milli),
        )
        for queue in trial.queues
    ]
    out.table(trial.queues, ("QUEUE", "QUOTA", "FAIR SHARE", "ALLOCATED"), rows, empty="There is no queue.")
    out.line(trial.sum_text)
    for number, job in enumerate(trial.stops, start=1):
        anyway = " It would stop without the change, too." if job.is_anyway else ""
        out.line(f"stops {number}: {job.name} of {job.queue}, {_gpus(job.gpu_milli)} GPU. {job.reason}{anyway}")
    for job in trial.starts:
        when = ", once these have stopped" if job.is_after_stops else ""
        out.line(f"starts: {job.name} of {job.queue}, {_gpus(job.gpu_milli)} GPU{when}.")
    out.note("Nothing was changed.")


def _standing(standing: Standing, project: str | None = None) -> list[str]:
    """Return as sentences who uses whose quota, and who waits below its share; those of one project if it is named."""
    below = [
        f"{each.text}, and waits since {formats.moment(each.enqueued_at)}{' (starved)' if each.is_starved else ''}."
        for each in standing.below
        if project in {None, each.project}
    ]
    loans = [f"{loan.text}." for loan in standing.loans if project in {None, loan.lender, loan.borrower}]
    small = [f"warning: {each.text}." for each in standing.small_quotas if project in {None, each.project}]
    return [*small, *below, *loans]


def _fields(queue: QueueSettings) -> list[tuple[str, object]]:
    return [
        ("Pool", queue.pool),
        ("Department", queue.department),
        ("GPUs", _gpus(queue.gpu_quota_milli)),
        ("CPU", _or_none(queue.cpu_quota_millicores, formats.cpus)),
        ("Memory", _or_none(queue.memory_quota_bytes, formats.memory)),
        ("Weight", None if queue.over_quota_weight is None else f"{queue.over_quota_weight:g}"),
        ("Limit", _or_none(queue.gpu_limit_milli, _gpus)),
        ("Training runs for", _or_none(queue.training_run_at_most_s, formats.duration)),
        ("Interactive runs for", _or_none(queue.interactive_run_at_most_s, formats.duration)),
        ("Training is idle for", _or_none(queue.training_idle_at_most_s, formats.duration)),
        ("Interactive is idle for", _or_none(queue.interactive_idle_at_most_s, formats.duration)),
        ("Training nodes", ", ".join(queue.training_node_labels)),
        ("Interactive nodes", ", ".join(queue.interactive_node_labels)),
        ("Reclaimed after", _or_none(queue.reclaim_min_runtime_s, formats.duration)),
        ("Claim delay", _or_none(queue.claim_delay_s, formats.duration)),
        ("Reclaimed beyond a quota after", _or_none(queue.surplus_min_runtime_s, formats.duration)),
        ("Stopped at most", queue.evictions_at_most),
        ("Stopped beyond a quota at most", queue.surplus_evictions_at_most),
        ("Preempted after", _or_none(queue.preempt_min_runtime_s, formats.duration)),
    ]


def _gpus(milli: float) -> str:
    return f"{milli / 1000:g}"


def _or_none(amount: Any, write: Callable[[Any], str]) -> str:
    return NONE if amount is None else write(amount)
