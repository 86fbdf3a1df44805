"""Run:AI's `submit` and `submit-dist`."""

import re
import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from nearline.cli.commands.jobs import (
    Completions,
    Parallelism,
    Pools,
    PriorityText,
    add_launcher,
    add_parts,
    add_placing,
    add_priority,
    add_size,
    read_variables,
)
from nearline.cli.group import CommandGroup, NearlineCommand, accepts, refuses
from nearline.cli.outlook import show_outlook
from nearline.cli.quantities import read_bytes
from nearline.cli.runai.columns import name_of
from nearline.cli.runai.listings import ProjectName
from nearline.cli.session import Session, session_of
from nearline.errors import InvalidRequest

if TYPE_CHECKING:
    from typer._click import Context

    from nearline.models import Job
    from nearline.resources.jobs import JobOptions

app = CommandGroup(help="Run:AI's submissions.")

_TAIL = "nearline.runai.tail"
_FOREVER_S = 3600.0
_TYPE_LABEL = "run.ai/type"
_LAST_PORT = 65535
_JUPYTER_IMAGE, _JUPYTER_PORT = "jupyter/scipy-notebook", "8888"
_NO_RIGHTS = "Jobs have no rights on their nodes. Build what is needed into the image."
_FOLLOW = "Read its output: logs NAME --follow."
_UNTOLD = {"tf": "No $TF_CONFIG is set.", "xgboost": "No tracker of XGBoost runs."}
_REFUSED: Mapping[str, str] = {
    "--ttl-after-finish=": "Ended jobs are kept as history, and hold nothing.",
    "--cpu-limit=": "Not every resource limits cores. Ask for what it needs: --cpu.",
    "--image-pull-policy=": "The settings of a cluster say when images are pulled.",
    "--always-pull-image": "The settings of a cluster say when images are pulled.",
    "--host-ipc": _NO_RIGHTS,
    "--host-network": _NO_RIGHTS,
    "--run-as-user=": _NO_RIGHTS,
    "--create-home-dir": _NO_RIGHTS,
    "--prevent-privilege-escalation": "No job may escalate its rights: leave it out.",
    "--stdin": _FOLLOW,
    "--tty/-t": _FOLLOW,
    "--attach": _FOLLOW,
    "--template=": "Name a template with `nearline job submit --template`.",
    "--git-sync=": "Build the code into the image, or push it with a flow: `nearline flow push`.",
    "--inference": "Serving models is not supported.",
}

Image = Annotated[str, typer.Option("--image", "-i", help="The container image.")]
Gpus = Annotated[str, typer.Option("--gpu", "-g", metavar="NUMBER", help="GPUs, or a part of one: 2, 0.5.")]
GpuMemory = Annotated[str, typer.Option("--gpu-memory", metavar="SIZE", help="A share of a GPU by memory, as 4G.")]
MigProfile = Annotated[str, typer.Option("--mig-profile", "--mig", metavar="PROFILE", help="A slice, as 2g.10gb.")]
NodeType = Annotated[str, typer.Option("--node-type", metavar="LABEL", help="The value of run.ai/type, or KEY=VALUE.")]
Cpus = Annotated[str, typer.Option("--cpu", metavar="CORES", help="Cores; else what belongs to its GPUs.")]
Memory = Annotated[str, typer.Option("--memory", metavar="SIZE", help="As 4G; else what belongs to its GPUs.")]
MemoryLimit = Annotated[
    str, typer.Option("--memory-limit", metavar="SIZE", help="The same as --memory: it gets so much, and no more.")
]
WorkingDir = Annotated[
    str, typer.Option("--working-dir", metavar="PATH", help="Its command begins in this folder, which has to be there.")
]
NewName = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Left out, it gets one.")]
NameOption = Annotated[str | None, typer.Option("--name", help="The same as NAME.")]
Prefix = Annotated[str, typer.Option("--job-name-prefix", help="It is called so, and something random.")]
Program = Annotated[str, typer.Option("--command", help="The program; or -- and a whole command line at the end.")]
Arguments = Annotated[list[str] | None, typer.Option("--args", help="An argument of it; again for more.")]
Variables = Annotated[list[str] | None, typer.Option("--environment", "-e", metavar="KEY=VALUE", help="A variable.")]
Data = Annotated[list[str] | None, typer.Option("--data", help="A dataset of Nearline that it reads.")]
Volumes = Annotated[
    list[str] | None, typer.Option("--volume", "-v", metavar="HOST:PATH[:ro|rw]", help="A folder of a host.")
]
Claims = Annotated[list[str] | None, typer.Option("--pvc", metavar="NAME:PATH[:ro]", help="A claim of a cluster.")]
Duration = Annotated[
    float,
    typer.Option(
        "--simulated-duration",
        min=0,
        metavar="SECONDS",
        envvar="NEARLINE_SIMULATED_DURATION",
        help="How long it takes on simulated nodes.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say when it would start, and submit nothing.")]


class SubmitCommand(NearlineCommand):
    """A command whose command line ends, after `--`, with that of the job."""

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """Take what follows `--` as it is; `--command` before it has no other value."""
        if "--" in args:
            end = args.index("--")
            ctx.meta[_TAIL] = args[end + 1 :]
            args = args[: end - 1] if end and args[end - 1] == "--command" else args[:end]
        return super().parse_args(ctx, args)


def _submission(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that are refused, or have no effect."""
    return refuses(_REFUSED)(accepts("--large-shm", "--local-image")(command))


@app.command("submit", cls=SubmitCommand)
@_submission
def submit(  # noqa: PLR0917 (each is an option of Run:AI's command line)
    context: typer.Context,
    name: NewName = None,
    name_option: NameOption = None,
    name_prefix: Prefix = "",
    project: ProjectName = None,
    image: Image = "",
    gpus: Gpus = "",
    gpu_memory: GpuMemory = "",
    mig_profile: MigProfile = "",
    node_type: NodeType = "",
    cpu: Cpus = "",
    memory: Memory = "",
    memory_limit: MemoryLimit = "",
    command: Program = "",
    args: Arguments = None,
    working_dir: WorkingDir = "",
    env: Variables = None,
    data: Data = None,
    volumes: Volumes = None,
    claims: Claims = None,
    service_type: Annotated[
        str, typer.Option("--service-type", metavar="TYPE", help="Without effect: each port has a URL of its own.")
    ] = "",
    ports: Annotated[
        list[str] | None, typer.Option("--port", metavar="PORT[:PORT]", help="On which it listens.")
    ] = None,
    completions: Completions = 1,
    parallelism: Parallelism = 1,
    backoff_limit: Annotated[
        int | None, typer.Option("--backoff-limit", min=0, help="So often what fails of it runs again, in all.")
    ] = None,
    pools: Pools = None,
    priority: PriorityText = "",
    duration: Duration = _FOREVER_S,
    *,
    interactive: Annotated[bool, typer.Option("--interactive", help="Never preempted; only within quota.")] = False,
    preemptible: Annotated[bool, typer.Option("--preemptible", help="Interactive, and may be preempted.")] = False,
    jupyter: Annotated[bool, typer.Option("--jupyter", help="A Jupyter notebook on port 8888.")] = False,
    elastic: Annotated[
        bool,
        typer.Option("--elastic", help="Start with one of the -g GPUs, and grow to twice as many."),
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Submit a job as Run:AI's `submit` does."""
    session = session_of(context)
    if jupyter:
        image, ports = image or _JUPYTER_IMAGE, ports or [_JUPYTER_PORT]
    if service_type not in {"", "portforward", "loadbalancer", "nodeport", "ingress"}:
        raise InvalidRequest(f"'{service_type}' is no type of service.")
    options: JobOptions = {
        **_options(image=image, pools=pools, env=env, data=data, volumes=volumes, claims=claims, duration=duration),
        "name": _name_of(name, name_option, name_prefix),
        "ports": [_port(text) for text in ports or []],
        "jupyter": jupyter,
        "is_preemptible": preemptible or not interactive,
    }
    usual = "build-preemptible" if preemptible else "build" if interactive else ""
    add_priority(options, priority or usual)
    _add_size(
        options,
        gpus=gpus,
        gpu_memory=gpu_memory,
        mig_profile=mig_profile,
        cpu=cpu,
        memory=_limited(memory, memory_limit),
    )
    _add_node_type(options, node_type)
    add_parts(options, completions=completions, parallelism=parallelism, retries=backoff_limit)
    if (parallelism > 1 or backoff_limit) and (interactive or preemptible or elastic):
        flag = "--parallelism" if parallelism > 1 else "--backoff-limit"
        raise InvalidRequest(f"{flag} does not go with --interactive, --preemptible and --elastic.")
    if elastic:
        if interactive or preemptible:
            raise InvalidRequest("An interactive job cannot be elastic.")
        _make_elastic(options)
    if preemptible:
        session.out.warn("The job can be preempted at any time, as it may be over quota.")
    line = _begin_in(working_dir, _command_line(context, command, args or []))
    job = _send(session, project, line, options, is_dry=dry_run)
    if job is not None and job.ports and not job.is_simulated:
        ports_of_job = " ".join(f"--port {port}" for port in job.ports)
        session.out.note(
            f"Once it runs, `runai describe job {name_of(job)}` shows the URLs of its ports; `runai port-forward "
            f"{name_of(job)} {ports_of_job}` leads to them too."
        )


@app.command("submit-dist", cls=SubmitCommand)
@_submission
def submit_dist(  # noqa: PLR0917 (each is an option of Run:AI's command line)
    context: typer.Context,
    framework: Annotated[str, typer.Argument(metavar="mpi|pytorch|tf|xgboost", help="What the workers speak.")],
    name: NewName = None,
    name_option: NameOption = None,
    name_prefix: Prefix = "",
    project: ProjectName = None,
    workers: Annotated[int, typer.Option("--workers", min=1, help="How many, all at once or none.")] = 1,
    image: Image = "",
    gpus: Gpus = "",
    gpu_memory: GpuMemory = "",
    mig_profile: MigProfile = "",
    node_type: NodeType = "",
    cpu: Cpus = "",
    memory: Memory = "",
    memory_limit: MemoryLimit = "",
    command: Program = "",
    args: Arguments = None,
    working_dir: WorkingDir = "",
    env: Variables = None,
    data: Data = None,
    volumes: Volumes = None,
    claims: Claims = None,
    pools: Pools = None,
    priority: PriorityText = "",
    duration: Duration = _FOREVER_S,
    *,
    dry_run: DryRun = False,
) -> None:
    """Submit a job of several workers, each with the GPUs that -g says.

    With mpi a launcher without GPUs runs the command, and the workers run sshd for it. With the others each worker runs
    the command.
    """
    if framework not in {"mpi", "pytorch", "tf", "xgboost"}:
        raise InvalidRequest(
            f"'{framework}' is no framework of submit-dist.",
            code="client.argument_refused",
            hint="Write: mpi, pytorch, tf or xgboost.",
        )
    options: JobOptions = {
        **_options(image=image, pools=pools, env=env, data=data, volumes=volumes, claims=claims, duration=duration),
        "name": _name_of(name, name_option, name_prefix),
        "replicas": workers,
    }
    add_priority(options, priority)
    _add_size(
        options,
        gpus=gpus,
        gpu_memory=gpu_memory,
        mig_profile=mig_profile,
        cpu=cpu,
        memory=_limited(memory, memory_limit),
    )
    _add_node_type(options, node_type)
    session = session_of(context)
    line = _begin_in(working_dir, _command_line(context, command, args or []))
    # One worker starts its processes itself.
    if framework == "mpi" and workers > 1:
        add_launcher(options, cpu="", memory="", command="", port=None, is_asked=True)
    job = _send(session, project, line, options, is_dry=dry_run)
    if job is not None and framework in _UNTOLD and not job.is_simulated:
        session.out.warn(f"{_UNTOLD[framework]} The workers find each other by $NEARLINE_HOSTFILE and $RANK.")


def _options(
    *,
    image: str,
    pools: list[str] | None,
    env: list[str] | None,
    data: list[str] | None,
    volumes: list[str] | None,
    claims: list[str] | None,
    duration: float,
) -> "JobOptions":
    """Return what both kinds of submission say of a job."""
    if not image:
        raise InvalidRequest("-i, --image must be set")
    return {
        "image": image,
        "pools": pools or [],
        "env": read_variables(env or []),
        "data": data or [],
        "volumes": [*map(_volume, volumes or []), *map(_claim, claims or [])],
        "simulated_duration_s": duration,
    }


def _add_size(options: "JobOptions", *, gpus: str, gpu_memory: str, mig_profile: str, cpu: str, memory: str) -> None:
    """Note the size of a job; GPUs are asked for in one way. Raises InvalidRequest."""
    if sum(map(bool, (gpus, gpu_memory, mig_profile))) > 1:
        raise InvalidRequest("Of -g, --gpu-memory and --mig-profile only one can be given.")
    add_placing(options, gpu_memory=gpu_memory, mig_profile=mig_profile)
    add_size(options, gpus=gpus or ("" if gpu_memory or mig_profile else "0"), cpu=cpu, memory=memory)


def _add_node_type(options: "JobOptions", node_type: str) -> None:
    if node_type:
        options["node_labels"] = [node_type if "=" in node_type else f"{_TYPE_LABEL}={node_type}"]


def _make_elastic(options: "JobOptions") -> None:
    """Turn whole GPUs into replicas of one each, of which one is enough to start. Raises InvalidRequest."""
    gpus, rest = divmod(options.get("gpu_milli", 0), 1000)
    if rest or not gpus:
        raise InvalidRequest("An elastic job asks for whole GPUs: -g 2.")
    options["gpu_milli"], options["replicas"], options["min_replicas"] = 1000, 2 * gpus, 1


def _send(
    session: Session,
    project: str | None,
    command: str,
    options: "JobOptions",
    *,
    is_dry: bool,
) -> "Job | None":
    """Submit a job and return it; None where it was only tried. Raises InvalidRequest."""
    jobs, named = session.client().jobs, _project_of(session, project)
    if is_dry:
        trial = jobs.try_out(project=named, command=command, **options)
        if session.out.is_json:
            session.out.json(trial)
        else:
            show_outlook(session.out, trial["outlook"])
        return None
    job = jobs.submit(project=named, command=command, **options)
    if session.out.is_json or session.out.is_quiet:
        session.out.record(job, [("job", job.name)])
        return job
    session.out.line(f"The job '{name_of(job)}' has been submitted successfully")
    session.out.line(f"You can run `runai describe job {name_of(job)} -p {named}` to check the job status")
    _tell_simulated(session, job)
    return job


def _tell_simulated(session: Session, job: "Job") -> None:
    if job.is_simulated:
        missing = [
            *(["no image is pulled"] if job.image else []),
            *(["no port is opened"] if job.ports else []),
            *(["no volume is mounted"] if job.volumes else []),
        ]
        session.out.note(f"{job.resource} is simulated: {', '.join(['no command runs', *missing])}.")


def _project_of(session: Session, given: str | None) -> str:
    project = given or session.settings().project
    if project is None:
        raise InvalidRequest(
            "Define a project by --project flag, alternatively set a project as default",
            hint="Write: config project NAME.",
        )
    return project


def _command_line(context: typer.Context, command: str, args: Sequence[str]) -> str:
    """Return what the job runs: the program with its arguments, or what follows `--`; empty is what its image runs."""
    tail: list[str] = context.meta.get(_TAIL, [])
    words = [*([command] if command else []), *args, *tail]
    if args and not command:
        raise InvalidRequest("--args without --command is not supported.", hint="Name the program: --command X.")
    return shlex.join(words)


def _begin_in(folder: str, command: str) -> str:
    """Return a command line that begins in a folder. `exec`: signals reach the program, and not a shell before it."""
    if not folder:
        return command
    if not command:
        raise InvalidRequest(
            "--working-dir without --command is not supported: an image's own program begins where the image says.",
            code="client.flag_refused",
            hint="Name the program: --command X.",
        )
    return f"cd {shlex.quote(folder)} && exec {command}"


def _limited(memory: str, limit: str) -> str:
    """Return the memory that a job asks for, which is also its limit. Raises InvalidRequest for two of them."""
    if memory and limit and read_bytes(memory) != read_bytes(limit):
        raise InvalidRequest(
            f"--memory {memory} and --memory-limit {limit} differ: a job gets what it asks for, and no more.",
            code="client.flag_refused",
            hint="Give one of them.",
        )
    return memory or limit


def _name_of(name: str | None, option: str | None, prefix: str) -> str:
    if "" in {name, option}:
        raise InvalidRequest("The name of the job is empty.", hint="Leave it out, and the job gets one.")
    if name and option and name != option:
        raise InvalidRequest(f"The job has two names: '{name}' and '{option}'.")
    return name or option or (f"{prefix}-{secrets.token_hex(3)}" if prefix else "")


def _volume(text: str) -> str:
    if not re.fullmatch(r"[^:]+:/[^:]*(:r[ow])?", text):
        raise InvalidRequest(f"-v '{text}' is not written as HOST:PATH[:ro|rw].", hint="Write it like /raid:/data:ro.")
    return text


def _claim(text: str) -> str:
    """Return how a job names a claim. Only simulated nodes take `[CLASS]:SIZE:PATH[:ro]`, which is a new one."""
    if not re.fullmatch(r"([^:]+|[^:]*:[0-9.]+[kKMGTPE]i?):/[^:]*(:ro)?", text):
        raise InvalidRequest(
            f"--pvc '{text}' is not written as NAME:PATH[:ro].", hint="A new one is [CLASS]:SIZE:PATH."
        )
    is_new = re.fullmatch(r"[^:]*:[0-9.]+[kKMGTPE]i?:.*", text)
    return f"claim {text}" if is_new else text


def _port(text: str) -> int:
    """Return the port of the container in `8080` or `80:8080`."""
    port = text.rpartition(":")[2]
    if not re.fullmatch("[0-9]{1,5}", port) or not 1 <= int(port) <= _LAST_PORT:
        raise InvalidRequest(f"'{text}' is not a port.", hint="Write it like 8888.")
    return int(port)
