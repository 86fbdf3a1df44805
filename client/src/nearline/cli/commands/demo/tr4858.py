"""NetApp's TR-4858: four teams borrow GPUs and give them back."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from nearline.cli import formats
from nearline.cli.commands.demo.looking import is_free, wait_for
from nearline.cli.output import align
from nearline.cli.session import session_of
from nearline.errors import Conflict, Failed
from nearline.resources.queues import change_of

if TYPE_CHECKING:
    from nearline.client import Client

NAME = "tr4858"
_QUOTAS = {"a": 4, "b": 2, "c": 2, "d": 8}
_TEAMS = {team: f"{NAME}-team-{team}" for team in _QUOTAS}
_NODES = {"nodes": "2", "cpu": "40", "memory": "512GiB", "gpus": "8", "gpu_model": "Tesla V100", "gpu_memory": "32GiB"}
_LOOK_EVERY_S = 0.2
_DAY_S = 86400.0


@dataclass(frozen=True)
class Step:
    """A job that a team submits, or jobs that it deletes, and what is so afterwards."""

    team: str
    gpus: float
    held: tuple[float, float, float, float]
    waiting: tuple[int, int, int, int] = (0, 0, 0, 0)
    is_interactive: bool = False
    deletes: bool = False


@dataclass(frozen=True)
class Scene:
    """Some steps, and what a reader sees in them."""

    title: str
    steps: Sequence[Step]
    words: str


# Figures: NetApp TR-4858, sections 4.8 to 4.10.
SCENES = [
    Scene(
        "4.8 GPUs that are idle serve whoever asks",
        [
            Step("a", 1, (1, 0, 0, 0), is_interactive=True),
            Step("a", 1, (2, 0, 0, 0)),
            Step("a", 2, (4, 0, 0, 0)),
            Step("b", 0.6, (4, 0.6, 0, 0), is_interactive=True),
            Step("b", 0.4, (4, 1, 0, 0), is_interactive=True),
            Step("b", 1, (4, 2, 0, 0)),
            Step("b", 2, (4, 4, 0, 0)),
            Step("c", 0.5, (4, 4, 0.5, 0), is_interactive=True),
            Step("c", 0.3, (4, 4, 0.8, 0), is_interactive=True),
            Step("c", 0.2, (4, 4, 1, 0), is_interactive=True),
            Step("c", 2, (4, 4, 3, 0)),
            Step("c", 1, (4, 4, 4, 0)),
            Step("d", 4, (4, 4, 4, 4)),
        ],
        "Teams b and c hold twice their quota, because team d does not use its own. Five notebooks share two GPUs.",
    ),
    Scene(
        "4.9 A quota is a right",
        [Step("d", 2, (4, 4, 2, 6), (0, 0, 1, 0)), Step("d", 2, (4, 2, 2, 8), (0, 1, 1, 0))],
        "Team d asked for the rest of its quota, and got it at once: teams c and b gave back one job each, which waits "
        "and runs again later. Their notebooks did not move.",
    ),
    Scene(
        "4.10 What is left is shared by quota",
        [
            Step("a", 2, (4, 2, 2, 8), (1, 1, 1, 0)),
            Step("a", 2, (4, 2, 2, 8), (2, 1, 1, 0)),
            Step("b", 2, (4, 2, 2, 8), (2, 2, 1, 0)),
            Step("c", 2, (4, 2, 2, 8), (2, 2, 2, 0)),
            Step("d", 0, (8, 4, 4, 0), (0, 1, 1, 0), deletes=True),
        ],
        "All asked for more than there was. Then team d deleted its jobs, and its 8 GPUs went to the others as their "
        "quotas are: 4 to team a, 2 each to teams b and c.",
    ),
]


def walk(
    context: typer.Context,
    limit_s: Annotated[float, typer.Option("--limit", min=1, metavar="SECONDS", help="For each state.")] = 60,
    *,
    clean: Annotated[bool, typer.Option("--clean", help="Only delete the jobs of an earlier walk.")] = False,
) -> None:
    """Walk through NetApp's TR-4858 on simulated GPUs.

    Sections 4.8 to 4.10: four teams get quotas, submit jobs, borrow GPUs and give them back. The 16 GPUs are in a pool
    of their own. For site admins.
    """
    session = session_of(context)
    out, client = session.out, session.client()
    if clean:
        own = {project.name for project in client.projects.list()} & set(_TEAMS.values())
        count = _delete_jobs(client, sorted(own))
        if NAME in {pool.name for pool in client.pools.list()}:
            # A job that was deleted holds its GPUs until it has stopped.
            wait_for(lambda: is_free(client, NAME) or None, limit_s)
        out.done(f"{formats.count(count, 'job')} deleted.")
        return
    _prepare(client)
    out.line(f"Four teams and 16 simulated GPUs, in the pool {NAME}. Quotas: a 4, b 2, c 2, d 8.")
    report: list[dict[str, object]] = []
    counts: Counter[str] = Counter()
    for scene in SCENES:
        out.line(f"\n{scene.title}\n")
        for step in scene.steps:
            counts[step.team] += 1
            out.line(f"  {_do(client, step, f'{NAME}-{step.team}-{counts[step.team]}')}")
            _await_state(client, step, limit_s)
        held, waiting = _state(client)
        out.line("\n" + "\n".join(f"  {line}" for line in align(_table(held, waiting))))
        out.line(f"\n{scene.words}")
        report.append({"title": scene.title, "held": held, "waiting": waiting})
    if out.is_json:
        out.json({"pool": NAME, "is_simulated": True, "scenes": report})
    out.note(f"\nThe jobs stay for a day, to look at on the pages. `nearline demo {NAME} --clean` deletes them.")


def _prepare(client: "Client") -> None:
    """Make what is not there yet. Raises Conflict where an earlier walk goes on."""
    known = {project.name for project in client.projects.list()}
    for project in _TEAMS.values():
        if project not in known:
            client.projects.create(project, description="Made by `nearline demo`.")
    if NAME not in {resource.name for resource in client.compute.list()}:
        client.compute.attach(NAME, "simulated", settings=_NODES)
    pools = {pool.name: pool for pool in client.pools.list()}
    if NAME not in pools:
        client.pools.create(NAME, [NAME])
    elif NAME not in pools[NAME].resources:
        client.pools.move(NAME, [NAME])
    changes = [change_of(_TEAMS[team], gpu_quota_milli=1000 * quota) for team, quota in _QUOTAS.items()]
    client.queues.set_many(changes, pool=NAME)
    if any(any(part) for part in _state(client)):
        raise Conflict(
            f"The pool {NAME} is in use, by an earlier walk perhaps.", hint=f"`nearline demo {NAME} --clean` ends that."
        )


def _do(client: "Client", step: Step, name: str) -> str:
    """Do a step, and return the command that does the same."""
    project = _TEAMS[step.team]
    if step.deletes:
        count = _delete_jobs(client, [project])
        return f"{count} jobs of {project} are deleted"
    client.jobs.submit(
        project=project,
        name=name,
        command="train",
        pool=NAME,
        gpu_milli=round(1000 * step.gpus),
        is_preemptible=not step.is_interactive,
        simulated_duration_s=_DAY_S,
    )
    kind = " --not-preemptible" if step.is_interactive else ""
    return f"nearline job submit train --name {name} --gpus {step.gpus:g} --pool {NAME} --project {project}{kind}"


def _await_state(client: "Client", step: Step, limit_s: float) -> None:
    """Return when the state of a step has come about. Raises Failed."""
    deadline = time.monotonic() + limit_s
    while (state := _state(client)) != (list(step.held), list(step.waiting)):
        if time.monotonic() >= deadline:
            raise Failed(
                f"The teams hold {state[0]} GPUs and have {state[1]} jobs waiting, where the paper says "
                f"{list(step.held)} and {list(step.waiting)}.",
                hint="Nothing else may run in the pool; a slow machine may need a longer --limit.",
            )
        time.sleep(_LOOK_EVERY_S)


def _state(client: "Client") -> tuple[list[float], list[int]]:
    """Return the GPUs that teams a to d hold, and how many of their jobs wait."""
    queues = {queue.project: queue for queue in client.queues.list(pool=NAME)}
    team_queues = [queues[project] for project in _TEAMS.values()]
    return [queue.gpu_held_milli / 1000 for queue in team_queues], [queue.waiting_workloads for queue in team_queues]


def _table(held: Sequence[float], waiting: Sequence[int]) -> list[Sequence[str]]:
    """Return a bar for each team: `█` within its quota, `▒` over it, `·` of it that is not used."""
    rows: list[Sequence[str]] = [("TEAM", "QUOTA", "HOLDS", "", "WAITING")]
    for (team, quota), gpus, jobs in zip(_QUOTAS.items(), held, waiting, strict=True):
        within = min(round(gpus), quota)
        bar = "█" * within + "▒" * (round(gpus) - within) + "·" * (quota - within)
        rows.append((f"team {team}", str(quota), f"{gpus:g}", bar, str(jobs or "-")))
    return rows


def _delete_jobs(client: "Client", projects: Iterable[str]) -> int:
    names = [job.name for project in projects for job in client.jobs.list(project=project)]
    for name in names:
        client.jobs.delete(name)
    return len(names)
