"""Jobs on compute resources."""

import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearline.cli import formats
from nearline.cli.asking import confirm
from nearline.cli.code import note_left_out
from nearline.cli.commands.analytics import show_evictions
from nearline.cli.group import CommandGroup
from nearline.cli.options import Limit, Project, Yes
from nearline.cli.outlook import show_changes, show_outlook
from nearline.cli.output import printable, report, write_log
from nearline.cli.quantities import read_bytes, read_milli, read_seconds
from nearline.cli.session import Session, session_of
from nearline.errors import Conflict, Denied, InvalidRequest, NearlineError, NotFound, NotSignedIn, Unavailable

if TYPE_CHECKING:
    from nearline.models import Job
    from nearline.resources.jobs import JobOptions

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="As `nearline job list` shows them.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="As `nearline job list` shows it.")]
Pools = Annotated[
    list[str] | None, typer.Option("--pool", help="Find a place in this pool; again for others, the best first.")
]
PriorityText = Annotated[
    str, typer.Option("--priority", help="Within the project: train, build-preemptible, build, inference or a number.")
]
Gpus = Annotated[str, typer.Option("--gpus", metavar="NUMBER", help="As 2, or 0.5 for a part of one.")]
Cpus = Annotated[str, typer.Option("--cpu", metavar="CORES", help="Else what belongs to its GPUs.")]
Memory = Annotated[str, typer.Option("--memory", metavar="SIZE", help="As 16GiB; else what belongs to it.")]
TemplateName = Annotated[str, typer.Option("--template", help="Take size and resource from a template.")]
ResourceName = Annotated[str, typer.Option("--resource", help="Run there.")]
Image = Annotated[str, typer.Option("--image", "-i", help="For resources that run containers.")]
Data = Annotated[list[str] | None, typer.Option("--data", help="A dataset that it reads; again for more.")]
Ports = Annotated[list[int] | None, typer.Option("--port", min=1, max=65535, help="On which it listens.")]
Replicas = Annotated[int, typer.Option("--replicas", min=1, help="Run it so often at once, as a gang.")]
MinReplicas = Annotated[
    int, typer.Option("--min-replicas", min=0, help="Start with so many, and grow while others need nothing.")
]
HasLauncher = Annotated[
    bool, typer.Option("--launcher", help="One more pod, without GPUs, runs the command, as mpirun; replicas run sshd.")
]
LauncherCpu = Annotated[
    str, typer.Option("--launcher-cpu", metavar="CORES", help="With a launcher of so many cores; else 0.5.")
]
LauncherMemory = Annotated[
    str, typer.Option("--launcher-memory", metavar="SIZE", help="With a launcher of so much memory; else 1GiB.")
]
WorkerCommand = Annotated[
    str, typer.Option("--worker-command", help="What replicas run beside a launcher; else exec /usr/sbin/sshd -D.")
]
WorkerPort = Annotated[
    int | None,
    typer.Option("--worker-port", min=0, max=65535, help="A launcher waits until replicas listen there; else 22."),
]
GpuMemory = Annotated[str, typer.Option("--gpu-memory", metavar="SIZE", help="A share of a GPU by memory, as 10GiB.")]
MigProfile = Annotated[str, typer.Option("--mig-profile", metavar="PROFILE", help="A slice of a GPU, as 2g.10gb.")]
GpuLimit = Annotated[
    str, typer.Option("--gpu-limit", metavar="NUMBER", help="Of its GPU, while nobody else uses it: 0.8.")
]
NodeLabels = Annotated[
    list[str] | None, typer.Option("--node-label", metavar="KEY=VALUE", help="Its nodes have one of these.")
]
RequiredLevel = Annotated[
    str, typer.Option("--required-level", metavar="LABEL", help="All replicas where this label has one value.")
]
PreferredLevel = Annotated[
    str, typer.Option("--preferred-level", metavar="LABEL", help="The same, where it is possible.")
]
RunTime = Annotated[str, typer.Option("--timeout", help="How long it may run, as 30m or 12h.")]
Duration = Annotated[
    float, typer.Option("--simulated-duration", min=0, metavar="SECONDS", help="On nodes that do not exist.")
]
StartEarly = Annotated[bool, typer.Option("--start-early", help="Start once the first files of its data are there.")]
Checkpoints = Annotated[
    bool, typer.Option("--checkpoints", help="Give it $NEARLINE_CHECKPOINT_DIR, which outlives its runs.")
]
Preemptible = Annotated[bool, typer.Option("--preemptible/--not-preemptible", help="May it be stopped?")]
Interactive = Annotated[bool, typer.Option("--interactive", help="As --not-preemptible --priority build.")]
Completions = Annotated[
    int, typer.Option("--completions", min=1, help="Run it as so many parts, each with its $NEARLINE_INDEX.")
]
Parallelism = Annotated[int, typer.Option("--parallelism", min=1, help="So many of its parts run at once at most.")]
Replica = Annotated[int, typer.Option(help="Which replica of a gang.", min=0)]

app = CommandGroup(
    help="Jobs on compute resources: submit, list, show, stop, keep, suspend, resume, logs, exec, bash, port-forward."
)


@app.command("submit")
def submit(  # noqa: PLR0917 (each is an option of the command line)
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND",
            help="A line for a shell, or after -- a program and its arguments; left out, the image runs its own.",
        ),
    ] = None,
    project: Project = None,
    name: Annotated[str, typer.Option("--name", help="Left out, it gets one.")] = "",
    gpus: Gpus = "",
    cpu: Cpus = "",
    memory: Memory = "",
    template: TemplateName = "",
    resource: ResourceName = "",
    pools: Pools = None,
    image: Image = "",
    env: Annotated[list[str] | None, typer.Option("--env", "-e", metavar="KEY=VALUE", help="A variable.")] = None,
    secrets: Annotated[list[str] | None, typer.Option("--secret", help="A secret of the project, as variable.")] = None,
    data: Data = None,
    code: Annotated[
        str, typer.Option("--code", metavar="FOLDER", help="Send this folder; the job begins in a copy of it.")
    ] = "",
    ports: Ports = None,
    volumes: Annotated[
        list[str] | None,
        typer.Option("--volume", metavar="NAME:/PATH[:ro]", help="A claim of a cluster, or a folder of a host."),
    ] = None,
    replicas: Replicas = 1,
    completions: Completions = 1,
    parallelism: Parallelism = 1,
    retries: Annotated[
        int | None,
        typer.Option("--retries", min=0, help="So often what fails runs again, in all; else 6 times for parts."),
    ] = None,
    min_replicas: MinReplicas = 0,
    launcher_cpu: LauncherCpu = "",
    launcher_memory: LauncherMemory = "",
    worker_command: WorkerCommand = "",
    worker_port: WorkerPort = None,
    gpu_memory: GpuMemory = "",
    mig_profile: MigProfile = "",
    gpu_limit: GpuLimit = "",
    node_labels: NodeLabels = None,
    required_level: RequiredLevel = "",
    preferred_level: PreferredLevel = "",
    timeout: RunTime = "",
    idle_limit: Annotated[str, typer.Option("--idle-limit", help="How long it may be idle, as 2h.")] = "",
    grace: Annotated[
        float, typer.Option("--grace-period", min=0, metavar="SECONDS", help="Between SIGTERM and SIGKILL.")
    ] = 10.0,
    duration: Duration = 60.0,
    priority: PriorityText = "",
    *,
    start_early: StartEarly = False,
    checkpoints: Checkpoints = False,
    is_preemptible: Preemptible = True,
    interactive: Interactive = False,
    has_launcher: HasLauncher = False,
    jupyter: Annotated[
        bool, typer.Option("--jupyter", help="Run a Jupyter, on port 8888 or the first --port.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say when it would start, and submit nothing.")] = False,
) -> None:
    """Queue a job, with a size of its own or that of a template."""
    from nearline.cli.progress import progress_of  # noqa: PLC0415 (only where something is sent)
    from nearline.resources.code_bundle import get_code  # noqa: PLC0415

    session = session_of(context)
    words = words or []
    command = words[0] if len(words) == 1 else shlex.join(words)
    options: JobOptions = {
        **_placement(
            template=template,
            resource=resource,
            pools=pools,
            gpus=gpus,
            cpu=cpu,
            memory=memory,
            gpu_memory=gpu_memory,
            mig_profile=mig_profile,
            gpu_limit=gpu_limit,
            image=image,
            data=data,
            start_early=start_early,
            checkpoints=checkpoints,
            ports=ports,
            replicas=replicas,
            min_replicas=min_replicas,
            node_labels=node_labels,
            required_level=required_level,
            preferred_level=preferred_level,
            timeout=timeout,
            duration=duration,
            interactive=interactive,
            is_preemptible=is_preemptible,
            priority=priority,
        ),
        "name": name,
        "env": read_variables(env or []),
        "secrets": secrets or [],
        "volumes": volumes or [],
        "grace_period_s": grace,
        "jupyter": jupyter,
    }
    if idle_limit:
        options["idle_limit_s"] = read_seconds(idle_limit)
    add_launcher(
        options,
        cpu=launcher_cpu,
        memory=launcher_memory,
        command=worker_command,
        port=worker_port,
        is_asked=has_launcher,
    )
    add_parts(options, completions=completions, parallelism=parallelism, retries=retries)
    if dry_run:
        _show_trial(session, project, command, options)
        return
    bundle = get_code(Path(code)) if code else None
    with progress_of(session.out) as on_progress:
        job = session.client().jobs.submit(
            project=session.project(project), command=command, code=bundle, on_progress=on_progress, **options
        )
    if bundle is not None:
        note_left_out(session.out, bundle.left_out)
    session.out.record(
        job, [("job", job.name), ("state", formats.state(job.state)), ("template", job.template), ("why", job.reason)]
    )
    if job.ports and not job.is_simulated:
        reach = f"nearline job port-forward {job.name} {' '.join(map(str, job.ports))}"
        page = f"{session.settings().url}/jobs/{job.name}/"
        session.out.note(f"Once it runs, reach its ports from its page, {page}, or by: {reach}")
    if job.is_simulated:
        session.out.note(f"{job.resource} is simulated: the job only takes its time.")


def _placement(
    *,
    template: str,
    resource: str,
    pools: list[str] | None,
    gpus: str,
    cpu: str,
    memory: str,
    gpu_memory: str,
    mig_profile: str,
    gpu_limit: str,
    image: str,
    data: list[str] | None,
    start_early: bool,
    checkpoints: bool,
    ports: list[int] | None,
    replicas: int,
    min_replicas: int,
    node_labels: list[str] | None,
    required_level: str,
    preferred_level: str,
    timeout: str,
    duration: float,
    interactive: bool,
    is_preemptible: bool,
    priority: str,
) -> "JobOptions":
    """Return what decides when and where a job starts. Raises InvalidRequest."""
    options: JobOptions = {
        "template": template,
        "resource": resource,
        "pools": pools or [],
        "image": image,
        "data": data or [],
        "start_early": start_early,
        "checkpoints": checkpoints,
        "ports": ports or [],
        "replicas": replicas,
        "simulated_duration_s": duration,
        "is_preemptible": is_preemptible and not interactive,
    }
    if timeout:
        options["timeout_s"] = read_seconds(timeout)
    add_priority(options, priority or ("build" if interactive else ""))
    add_size(options, gpus=gpus, cpu=cpu, memory=memory)
    add_placing(options, gpu_memory=gpu_memory, mig_profile=mig_profile, gpu_limit=gpu_limit)
    if min_replicas:
        options["min_replicas"] = min_replicas
    if node_labels:
        options["node_labels"] = node_labels
    if required_level:
        options["required_level"] = required_level
    if preferred_level:
        options["preferred_level"] = preferred_level
    return options


def _show_trial(session: Session, project: str | None, command: str, options: "JobOptions") -> None:
    trial = session.client().jobs.try_out(project=session.project(project), command=command, **options)
    if session.out.is_json:
        session.out.json(trial)
    else:
        show_outlook(session.out, trial["outlook"])


def add_placing(options: "JobOptions", *, gpu_memory: str, mig_profile: str, gpu_limit: str = "") -> None:
    """Note which part of a GPU a job asks for, as it was typed; what is empty is left out. Raises InvalidRequest."""
    if gpu_memory:
        options["gpu_memory_bytes"] = _positive(read_bytes(gpu_memory), gpu_memory)
    if mig_profile:
        options["mig_profile"] = mig_profile
    if gpu_limit:
        options["gpu_limit_milli"] = _positive(read_milli(gpu_limit), gpu_limit)


def add_launcher(
    options: "JobOptions", *, cpu: str, memory: str, command: str, port: int | None, is_asked: bool
) -> None:
    """Note the launcher of a gang as it was typed; one is asked for by any of these. Raises InvalidRequest."""
    launcher: dict[str, object] = {}
    if cpu:
        launcher["cpu_millicores"] = _positive(read_milli(cpu), cpu)
    if memory:
        launcher["memory_bytes"] = _positive(read_bytes(memory), memory)
    if command:
        launcher["worker_command"] = command
    if port is not None:
        launcher["worker_port"] = port
    if launcher or is_asked:
        options["launcher"] = launcher


def add_parts(options: "JobOptions", *, completions: int, parallelism: int, retries: int | None) -> None:
    """Note as how many parts a job runs; what is usual is left out, as older servers do not know it."""
    if completions > 1 or parallelism > 1:
        options["completions"], options["parallelism"] = completions, parallelism
    if retries is not None:
        options["retries"] = retries


def add_size(options: "JobOptions", *, gpus: str, cpu: str, memory: str) -> None:
    """Note the size of a job as it was typed; what is empty is left out. Raises InvalidRequest."""
    if gpus:
        options["gpu_milli"] = _positive(read_milli(gpus), gpus)
    if cpu:
        options["cpu_millicores"] = _positive(read_milli(cpu), cpu)
    if memory:
        options["memory_bytes"] = read_bytes(memory)


def add_priority(options: "JobOptions", text: str) -> None:
    """Note a priority as it was typed: a number, or a name, which the server knows. Nothing where it is empty."""
    if text:
        options["priority"] = int(text) if text.isdecimal() and text.isascii() else text


def read_variables(pairs: list[str]) -> dict[str, str]:
    """Return the variables of `KEY=VALUE`. Raises InvalidRequest."""
    variables = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise InvalidRequest(f"'{pair}' is not a variable.", hint="Write it like EPOCHS=20.")
        variables[key] = value
    return variables


def _positive(milli: int, text: str) -> int:
    if milli < 0:
        raise InvalidRequest(f"'{text}' is negative.")
    return milli


@app.command("list")
def list_jobs(
    context: typer.Context,
    project: Project = None,
    state: Annotated[str | None, typer.Option(help="Only jobs in this state.")] = None,
    cause: Annotated[str | None, typer.Option(help="Only jobs that failed for this, as out_of_memory.")] = None,
    limit: Limit = 20,
) -> None:
    """List jobs, newest first. One whose resource does not answer is `unknown`."""
    session = session_of(context)
    jobs = list(session.client().jobs.list(project=project, state=state, cause=cause, limit=limit))
    rows = [
        (
            job.name,
            job.project,
            formats.state("unknown" if job.is_unknown else job.state),
            f"{job.resource} {formats.nodes(job.nodes or (job.node,))}".strip() + formats.simulated(job.is_simulated),
            formats.ago(job.created_at),
            (job.why or job.reason).partition("\n")[0],
        )
        for job in jobs
    ]
    columns = ("JOB", "PROJECT", "STATE", "WHERE", "CREATED", "WHY")
    session.out.table(jobs, columns, rows, empty="There is no job.", ends_in_prose=True)


def _gpu_part(job: "Job") -> str:
    """Return the part of a GPU that a job asks for; empty: it asks for GPUs by number, or for none."""
    part = job.mig_profile or (formats.memory(job.gpu_memory_bytes) if job.gpu_memory_bytes else "")
    limit = f"up to {job.gpu_limit_milli / 1000:g}" if job.gpu_limit_milli else ""
    cap = "" if job.gpu_milli else job.gpu_cap
    return ", ".join(filter(None, (part, limit, cap)))


def _gpus_seen(job: "Job") -> str:
    """Return what a job sees of its GPUs; empty: it has none, or has not run."""
    if job.gpu_check is not None:
        return str(job.gpu_check["text"])
    has_gpus = job.raw.get("gpus") or job.slices
    return "not known" if has_gpus and job.started_at is not None and not job.is_simulated else ""


@app.command("usage")
def list_usage(context: typer.Context, name: Name, limit: Limit = 20) -> None:
    """Print what a job used about once a second, oldest first.

    On a cluster its GPUs alone are measured.
    """
    session = session_of(context)
    samples = list(session.client().jobs.list_usage(name))[-limit:]
    rows = [
        (
            sample.at,
            formats.cpus(sample.cpu_millicores),
            formats.memory(sample.memory_bytes),
            "-" if sample.gpu_percent is None else f"{sample.gpu_percent:g} %",
            formats.memory(sample.gpu_memory_used_bytes),
        )
        for sample in samples
    ]
    columns = ("AT", "CPU", "MEMORY", "GPU", "GPU MEMORY")
    session.out.table(samples, columns, rows, empty="Nothing was measured.")


@app.command("show")
def show(context: typer.Context, name: Name) -> None:
    """Show one job, and its replicas or parts with node and state."""
    session = session_of(context)
    job = session.client().jobs.get(name)
    outlook = job.raw.get("outlook")
    state = formats.state("unknown" if job.is_unknown else job.state)
    where = f"{job.resource} {job.node}".strip() + formats.simulated(job.is_simulated)
    replicas = str(job.replica_count) if job.replica_count > 1 else ""
    if job.min_replicas:
        replicas = f"{job.min_replicas} to {replicas}"
    if job.launcher is not None:
        replicas = f"{job.replica_count}, and a launcher"
    checkpoint = (job.raw.get("checkpoint") or {}).get("text", "")
    pages = [f"{session.settings().url}{path}" for path in job.raw.get("port_urls", {}).values()]
    fields = (
        *(
            ("job", job.name),
            ("project", job.project),
            ("state", state),
            ("why", job.why or (outlook["text"] if outlook else job.reason)),
            ("other places", job.raw.get("closed_places", "")),
        ),
        ("GPUs", f"{formats.gpus(job.gpu_milli)}{f' ({job.gpu_cap})' if job.gpu_cap else ''}" if job.gpu_milli else ""),
        *(("template", job.template), ("where", where), ("replicas", replicas), ("checkpoint", checkpoint)),
        ("part of", job.raw.get("part_of", "")),
        ("parts", f"{job.completions}, {job.parallelism} at once" if job.completions > 1 else ""),
        ("GPUs at its start", _gpus_seen(job)),
        *(("gpu", _gpu_part(job)), ("slices", ", ".join(job.slices)), ("node labels", ", ".join(job.node_labels))),
        *(("required level", job.required_level), ("preferred level", job.preferred_level)),
        ("time", formats.times(job.raw.get("times") or {})),
        *(("pool", job.raw.get("pool", "")), ("pools", ", ".join(job.pools))),
        ("timeout", "" if job.timeout_s is None else formats.duration(job.timeout_s)),
        ("idle limit", "" if job.idle_limit_s is None else formats.duration(job.idle_limit_s)),
        ("idle", "" if job.idle is None else job.idle.text),
        ("priority", f"{job.priority}{'' if job.is_preemptible else ', not preemptible'}"),
        ("volumes", ", ".join(job.volumes)),
        *(("ports", " ".join(map(str, job.ports))), ("in a browser", "\n".join(pages))),
        ("jupyter token", job.raw.get("jupyter_token", "")),
    )
    session.out.record(job, fields)
    if job.replicas and not session.out.is_json:
        rows = [
            (
                f"{rank} (launcher)" if job.launcher is not None and not rank else rank,
                *(each["node"], formats.state(each["state"] or job.state), each["reason"]),
            )
            for rank, each in enumerate(job.replicas)
        ]
        session.out.table([], ("REPLICA", "NODE", "STATE", "WHY"), rows, empty="")
    if job.parts and not session.out.is_json:
        parts = [
            (each["part_index"], each["name"], each["node"] or "-", formats.state(each["state"]), each["reason"])
            for each in job.parts
        ]
        session.out.table([], ("INDEX", "JOB", "NODE", "STATE", "WHY"), parts, empty="")


@app.command("evictions")
def evictions(context: typer.Context, name: Name) -> None:
    """List the evictions of a job with their receipts."""
    session = session_of(context)
    job = session.client().jobs.get(name)
    show_evictions(session.out, list(session.client().analytics.list_evictions(job=job.name)))


@app.command("try")
def try_job(  # noqa: PLR0917 (each is an option of the command line)
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TEMPLATE] [COMMAND]",
            help="What it would run: runs like it are known. Of two, its template first.",
        ),
    ] = None,
    project: Project = None,
    gpus: Gpus = "",
    cpu: Cpus = "",
    memory: Memory = "",
    template: TemplateName = "",
    resource: ResourceName = "",
    pools: Pools = None,
    image: Image = "",
    data: Data = None,
    ports: Ports = None,
    replicas: Replicas = 1,
    completions: Completions = 1,
    parallelism: Parallelism = 1,
    min_replicas: MinReplicas = 0,
    launcher_cpu: LauncherCpu = "",
    launcher_memory: LauncherMemory = "",
    gpu_memory: GpuMemory = "",
    mig_profile: MigProfile = "",
    gpu_limit: GpuLimit = "",
    node_labels: NodeLabels = None,
    required_level: RequiredLevel = "",
    preferred_level: PreferredLevel = "",
    timeout: RunTime = "",
    duration: Duration = 60.0,
    priority: PriorityText = "",
    *,
    start_early: StartEarly = False,
    checkpoints: Checkpoints = False,
    is_preemptible: Preemptible = True,
    interactive: Interactive = False,
    has_launcher: HasLauncher = False,
) -> None:
    """Say when a job would start, where, and whom it would stop."""
    named, command = _split_words(words or [])
    if named and template and named != template:
        raise InvalidRequest(f"The job has two templates: '{named}' and '{template}'.")
    options = _placement(
        template=template or named,
        resource=resource,
        pools=pools,
        gpus=gpus,
        cpu=cpu,
        memory=memory,
        gpu_memory=gpu_memory,
        mig_profile=mig_profile,
        gpu_limit=gpu_limit,
        image=image,
        data=data,
        start_early=start_early,
        checkpoints=checkpoints,
        ports=ports,
        replicas=replicas,
        min_replicas=min_replicas,
        node_labels=node_labels,
        required_level=required_level,
        preferred_level=preferred_level,
        timeout=timeout,
        duration=duration,
        interactive=interactive,
        is_preemptible=is_preemptible,
        priority=priority,
    )
    add_launcher(options, cpu=launcher_cpu, memory=launcher_memory, command="", port=None, is_asked=has_launcher)
    add_parts(options, completions=completions, parallelism=parallelism, retries=None)
    _show_trial(session_of(context), project, command, options)


def _split_words(words: Sequence[str]) -> tuple[str, str]:
    """Return the template and the command of `[TEMPLATE] [COMMAND]`: one word alone is a command."""
    match words:
        case []:
            return "", ""
        case [command]:
            return "", command
        case [template, command]:
            return template, command
    raise InvalidRequest(f"'{words[2]}' is one word too many.", hint="Quote the command: 'python train.py'.")


@app.command("why")
def why(
    context: typer.Context,
    name: Name,
    *,
    changes: Annotated[
        bool, typer.Option("--changes", help="Tell all changes that are tried, also those that do not help.")
    ] = False,
) -> None:
    """Say why a job waits, when it starts, and what would help.

    Also where else it could start, and whom a change would stop.
    """
    session = session_of(context)
    jobs = session.client().jobs
    job = jobs.get(name)
    outlook = job.raw.get("outlook")
    if session.out.is_json:
        session.out.json(jobs.try_changes(name) if changes else outlook or {})
        return
    if outlook is None:
        reason = f"{printable(job.reason).rstrip('.')}. " if job.reason else ""
        waits = (
            "There is no forecast of it yet."
            if job.state == "pending"
            else f"It waits no more; its state is {job.state}."
        )
        session.out.line(f"{reason}{waits}")
    else:
        show_outlook(session.out, outlook)
    if closed := job.raw.get("closed_places"):
        session.out.line(printable(closed))
    if (advice := job.raw.get("advice")) and not (outlook and outlook.get("likely_at")):
        session.out.line(f"What would help: {printable(advice).rstrip('.')}.")
    if changes:
        show_changes(session.out, jobs.try_changes(name))
    elif job.state == "pending":
        # Who may not submit is told no changes; the rest of the answer is theirs.
        with suppress(Denied):
            show_changes(session.out, jobs.try_changes(name), only_helping=True)


@app.command("exec")
def run_command(
    context: typer.Context,
    name: Name,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="The program and what it is given.")],
    *,
    replica: Replica = 0,
    with_input: Annotated[bool, typer.Option("--stdin", "-i", help="Let it read what this command is given.")] = False,
    in_terminal: Annotated[bool, typer.Option("--tty", "-t", help="Run it in this terminal: -it.")] = False,
) -> None:
    """Run a command in a job that runs. Its exit code becomes that of this command.

    The command sees the job's files, processes and secrets. Without -t it runs on clusters only.
    """
    session = session_of(context)
    if in_terminal:
        raise typer.Exit(run_in_terminal(session, name, command, replica=replica))
    stdin = sys.stdin.buffer.read() if with_input else b""
    raise typer.Exit(run_in_job(session, name, command, stdin=stdin, replica=replica))


@app.command("bash")
def bash(context: typer.Context, name: Name, *, replica: Replica = 0) -> None:
    """Open a shell in a job that runs. Its exit code becomes that of this command.

    Commands that are piped run without a terminal, on clusters only.
    """
    raise typer.Exit(run_shell(session_of(context), name, replica=replica))


def run_shell(session: Session, name: str, *, replica: int = 0) -> int:
    """Run a shell in this terminal, or what is piped, and return the exit code."""
    from nearline.cli.terminal import SHELL  # noqa: PLC0415 (few commands connect)

    if sys.stdin.isatty():
        return run_in_terminal(session, name, SHELL, replica=replica)
    return run_in_job(session, name, SHELL, stdin=sys.stdin.buffer.read(), replica=replica)


def run_in_terminal(session: Session, name: str, command: Sequence[str], *, replica: int = 0) -> int:
    """Run a command of a job in this terminal, and return its exit code. Raises InvalidRequest where it is none."""
    from nearline.cli import terminal  # noqa: PLC0415 (few commands connect)

    terminal.require_terminal()
    columns, rows = terminal.get_size()
    jobs = session.client().jobs
    offer = jobs.offer_terminal(name, command, columns=columns, rows=rows, kind=terminal.get_kind(), replica=replica)
    with jobs.connect(offer) as connection:
        return terminal.lead(connection)


def run_in_job(session: Session, name: str, command: Sequence[str], *, stdin: bytes = b"", replica: int = 0) -> int:
    """Run a command in a job, print what it prints, and return its exit code. Raises Unavailable."""
    exit_code = None
    for piece in session.client().jobs.run_command(name, command, stdin=stdin, replica=replica):
        target = sys.stderr.buffer if piece.is_error else sys.stdout.buffer
        target.write(piece.data)
        target.flush()
        exit_code = piece.exit_code
    if exit_code is None:
        raise Unavailable("The connection to the command ended before the command did; it may still run.")
    return exit_code


@app.command("port-forward")
def port_forward(
    context: typer.Context,
    name: Name,
    ports: Annotated[list[str], typer.Argument(metavar="[LOCAL:]PORT...", help="As 8888, or 9000:8888.")],
    *,
    replica: Replica = 0,
) -> None:
    """Reach ports of a job from this machine, until Ctrl-C or its end.

    It listens on 127.0.0.1. What connects there is carried through the platform to the port of the job.
    """
    forward_ports(session_of(context), name, ports, replica=replica)


def forward_ports(session: Session, name: str, ports: Sequence[str], *, replica: int = 0) -> None:
    """Carry connections to ports of this machine to ports of a job, until Ctrl-C or the job's end."""
    from nearline.cli.forwarding import (  # noqa: PLC0415 (few commands connect)
        HOST,
        Forwarder,
        host_for_browsers,
        listen,
        read_forward,
    )

    forwards = [read_forward(text) for text in ports]

    def tell(error: NearlineError) -> None:
        report(error, as_json=session.out.is_json)

    forwarder = Forwarder(session.client().jobs, name, replica=replica, tell=tell)
    forwarder.check(forwards)
    listeners = [listen(forward) for forward in forwards]
    facts = [
        {"address": HOST, "port": listener.getsockname()[1], "job_port": forward.remote}
        for listener, forward in zip(listeners, forwards, strict=True)
    ]
    if session.out.is_json:
        session.out.json({"job": name, "forwards": facts})
    for fact in facts:
        session.out.line(f"{HOST}:{fact['port']} leads to port {fact['job_port']} of {printable(name)}.")
    job, browsed = session.client().jobs.get(name), host_for_browsers(session.client().url)
    for fact in facts:
        if job.ports and fact["job_port"] == job.ports[0] and (token := job.raw.get("jupyter_token")):
            session.out.line(f"http://{browsed}:{fact['port']}/lab?token={token}")
    if browsed != HOST:
        session.out.note(f"In a browser take {browsed}: to {HOST} it sends the cookies of Nearline, to the job too.")
    session.out.note("End it with Ctrl-C.")
    sys.stdout.flush()
    # What a connection has to tell comes after these lines: until here, connections wait in the listener's backlog.
    for listener, forward in zip(listeners, forwards, strict=True):
        forwarder.serve(listener, forward.remote)
    with suppress(KeyboardInterrupt):
        forwarder.wait()


def for_each(session: Session, names: Sequence[str], act: Callable[[str], None]) -> None:
    """Do something to each job; one that refuses keeps none of the others from it. Ends with the last one's exit code.

    A server that is away, or a token that it does not know, ends it at once.
    """
    exit_code = 0
    for name in names:
        try:
            act(name)
        except NotSignedIn:
            raise
        except (Conflict, Denied, InvalidRequest, NotFound) as error:
            report(error, as_json=session.out.is_json)
            exit_code = error.exit_code
    if exit_code:
        raise typer.Exit(exit_code)


@app.command("stop")
def stop(context: typer.Context, names: Names) -> None:
    """Stop jobs for good. One that has ended stays as it is."""
    session = session_of(context)
    for_each(session, names, lambda name: _tell(session, session.client().jobs.cancel(name)))


@app.command("delete")
def delete(context: typer.Context, names: Names, *, yes: Yes = False) -> None:
    """Stop jobs for good and forget them: their names are free again."""
    session = session_of(context)
    confirm(f"Delete {', '.join(names)}? What a job printed goes from view; its experiment stays.", yes=yes)

    def act(name: str) -> None:
        session.client().jobs.delete(name)
        session.out.done(f"{name} is deleted.")

    for_each(session, names, act)


@app.command("suspend")
def suspend(context: typer.Context, names: Names) -> None:
    """Stop jobs and give their resources back until they are resumed."""
    session = session_of(context)
    for_each(session, names, lambda name: _tell(session, session.client().jobs.suspend(name)))


@app.command("resume")
def resume(context: typer.Context, names: Names) -> None:
    """Queue suspended jobs again. They start anew."""
    session = session_of(context)
    for_each(session, names, lambda name: _tell(session, session.client().jobs.resume(name)))


@app.command("keep")
def keep(context: typer.Context, names: Names) -> None:
    """Keep jobs that are idle: their idle time begins anew."""
    session = session_of(context)

    def act(name: str) -> None:
        session.client().jobs.keep(name)
        session.out.done(f"{name} goes on. Its idle time counts from now.")

    for_each(session, names, act)


def _tell(session: Session, job: "Job") -> None:
    how = "queued again once it has stopped" if job.state == "leaving" else job.state
    session.out.done(f"{job.name} is {how}.")


@app.command("rerun")
def rerun(
    context: typer.Context,
    name: Name,
    new_name: Annotated[str, typer.Option("--name", help="How the new job is called; else it gets a name.")] = "",
) -> None:
    """Submit a job once more, as it was."""
    session = session_of(context)
    job = session.client().jobs.rerun(name, new_name=new_name)
    session.out.record(job, [("job", job.name), ("state", formats.state(job.state)), ("why", job.reason)])


@app.command("logs")
def logs(
    context: typer.Context,
    name: Name,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the end.")] = False,
) -> None:
    """Print what a job has written."""
    session = session_of(context)
    text = ""
    for piece in session.client().jobs.follow_log(name, is_following=follow):
        if session.out.is_json:
            text += piece
        else:
            write_log(piece)
    if session.out.is_json:
        session.out.json({"text": text})
