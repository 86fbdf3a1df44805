"""The form that submits a job, or only tries it."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render

from accounts.models import Project
from accounts.permissions import Actor, Level
from accounts.selectors import get_project, list_projects
from accounts.web.requests import PageRequest, text
from compute.adapters.kinds import MOST_CORES, MOST_GPUS
from compute.engine.job_spec import DEFAULT_GRACE_PERIOD_S
from compute.engine.placing import Launcher
from compute.models import Resource, Template
from compute.selectors import resources, templates
from compute.services import submissions, trials
from compute.services.jobs import Placing
from compute.services.submissions import Submission
from core import bounds, priorities, units
from core.errors import PlatformError
from core.form_fields import DurationField, SizeField
from datasets.selectors import caches, datasets
from scheduler.selectors import pools
from scheduler.selectors.resource_pools import ResourcePools

_MOST_COPIES = 100
_MOST_PORT = 65_535


class JobForm(forms.Form):
    """What shall run, and where."""

    project = forms.ChoiceField()
    template = forms.ChoiceField(
        required=False, label="Size", help_text="A template says what the job gets, and on which resource."
    )
    gpus = forms.FloatField(required=False, min_value=0, max_value=MOST_GPUS, label="GPUs")
    cpu = forms.FloatField(required=False, min_value=0.001, max_value=MOST_CORES, label="CPU cores")
    memory = SizeField(
        most=bounds.MAX_QUANTITY,
        required=False,
        widget=forms.TextInput(attrs={"placeholder": "16 GiB"}),
    )
    resource = forms.ChoiceField(required=False, help_text="Where it runs; any: where it can start first.")
    pool = forms.ChoiceField(
        required=False,
        help_text="In which pool of nodes a resource is found; with a size or a resource, one of those named there.",
    )
    next_pool = forms.ChoiceField(
        required=False,
        label="Next pool",
        help_text="Where it runs if it can start there at once, and not in the first.",
    )
    command = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 5, "class": "form-control", "spellcheck": "false"}),
        max_length=100_000,
        required=False,
        help_text="A shell runs it in an empty folder. Only an image or Jupyter, below, does without.",
    )
    name = forms.CharField(max_length=63, required=False, help_text="Left empty, it gets one.")
    image = forms.CharField(max_length=300, required=False, help_text="For resources that run containers.")
    reads = forms.MultipleChoiceField(
        required=False, widget=forms.CheckboxSelectMultiple(attrs={"class": "form-check-input"})
    )
    replicas = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=bounds.MAX_REPLICAS,
        initial=1,
        help_text="More than one run together as a gang, on a cluster or simulated nodes.",
    )
    completions = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=bounds.MAX_COMPLETIONS,
        initial=1,
        label="Completions",
        help_text="More than one: it runs as so many parts, each with its $NEARLINE_INDEX, until all have succeeded.",
    )
    parallelism = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=bounds.MAX_COMPLETIONS,
        initial=1,
        help_text="So many of its parts run at once at most.",
    )
    retries = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=bounds.MAX_COMPLETIONS,
        help_text="So often what fails runs again, in all; left empty, 6 times with completions.",
    )
    min_replicas = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=bounds.MAX_REPLICAS,
        label="Replicas at least",
        help_text="With so many it starts, and grows while others need nothing; left empty, with all of them.",
    )
    launcher = forms.BooleanField(required=False, widget=forms.CheckboxInput(attrs={"class": "form-check-input"}))
    launcher_cpu = forms.FloatField(
        required=False,
        min_value=0.001,
        max_value=MOST_CORES,
        label="CPU of the launcher",
        widget=forms.NumberInput(attrs={"placeholder": "0.5", "step": "any"}),
        help_text="Its cores; left empty, 0.5.",
    )
    launcher_memory = SizeField(
        most=bounds.MAX_QUANTITY,
        required=False,
        label="Memory of the launcher",
        widget=forms.TextInput(attrs={"placeholder": "1 GiB"}),
        help_text="Left empty, 1 GiB.",
    )
    worker_command = forms.CharField(
        max_length=10_000,
        required=False,
        label="Command of replicas",
        widget=forms.TextInput(attrs={"placeholder": Launcher.worker_command}),
        help_text="What they run beside a launcher.",
    )
    worker_port = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=_MOST_PORT,
        label="Port of replicas",
        widget=forms.NumberInput(attrs={"placeholder": Launcher.worker_port}),
        help_text="The launcher begins once each replica listens there; left empty, 22; 0: once their names are known.",
    )
    gpu_memory = SizeField(
        most=bounds.MAX_QUANTITY,
        required=False,
        label="Memory of a GPU",
        widget=forms.TextInput(attrs={"placeholder": "10 GiB"}),
        help_text="A share of one GPU by its memory, in place of GPUs.",
    )
    mig_profile = forms.CharField(
        max_length=30,
        required=False,
        label="MIG profile",
        widget=forms.TextInput(attrs={"placeholder": "2g.10gb"}),
        help_text="A slice of one GPU, in place of GPUs.",
    )
    gpu_limit = forms.FloatField(
        required=False,
        min_value=0.001,
        max_value=1,
        label="GPU limit",
        help_text="How much of its GPU it may use while nobody else does: 0.8. Left empty, its share.",
    )
    node_labels = forms.CharField(
        max_length=2000,
        required=False,
        label="Labels of nodes",
        widget=forms.TextInput(attrs={"placeholder": "gpu=a100, gpu=h100"}),
        help_text="Its nodes have one of them.",
    )
    required_level = forms.CharField(
        max_length=253,
        required=False,
        label="All replicas in one",
        widget=forms.TextInput(attrs={"placeholder": "topology.kubernetes.io/rack"}),
        help_text="A label of nodes: all replicas run where it has one value.",
    )
    preferred_level = forms.CharField(
        max_length=253,
        required=False,
        label="Better in one",
        widget=forms.TextInput(attrs={"placeholder": "topology.kubernetes.io/rack"}),
        help_text="The same, where it is possible.",
    )
    simulated_duration_s = forms.FloatField(
        required=False, min_value=0, initial=60, label="Seconds", help_text="How long it takes on a simulated node."
    )

    timeout = DurationField(
        required=False,
        max_length=30,
        widget=forms.TextInput(attrs={"placeholder": "12h"}),
        help_text="How long it may run; left empty, as long as it likes.",
    )
    idle_limit = DurationField(
        required=False,
        max_length=30,
        widget=forms.TextInput(attrs={"placeholder": "2h"}),
        help_text="How long it may be idle; left empty, as long as the project rules. You are warned before it stops.",
    )
    priority = forms.ChoiceField(
        required=False,
        initial=priorities.DEFAULT,
        choices=[(number, f"{name} ({number})") for name, number in priorities.NAMES.items()],
        help_text="Within its project: the higher goes first, and may take the place of lower preemptible work.",
    )
    env = forms.CharField(
        required=False,
        max_length=100_000,
        label="Environment variables",
        widget=forms.Textarea(
            attrs={"rows": 3, "class": "form-control mono", "spellcheck": "false", "placeholder": "EPOCHS=20"}
        ),
        help_text="One a line. What is secret belongs into a secret.",
    )
    volumes = forms.CharField(
        required=False,
        max_length=10_000,
        widget=forms.TextInput(attrs={"placeholder": "scans:/mnt/scans:ro"}),
        help_text="NAME:/path or NAME:/path:ro, with spaces between: a claim of a cluster, or a folder of a host.",
    )
    secrets = forms.CharField(
        required=False,
        max_length=10_000,
        widget=forms.TextInput(attrs={"placeholder": "HF_TOKEN"}),
        help_text="Names of secrets of its project, which it gets as variables.",
    )
    ports = forms.CharField(
        required=False,
        max_length=1000,
        widget=forms.TextInput(attrs={"placeholder": "8888, 6006"}),
        help_text="Where its programs listen, for those who are to reach them.",
    )
    jupyter = forms.BooleanField(required=False, widget=forms.CheckboxInput(attrs={"class": "form-check-input"}))
    grace_period = DurationField(
        required=False,
        max_length=30,
        widget=forms.TextInput(attrs={"placeholder": f"{DEFAULT_GRACE_PERIOD_S:g}s"}),
        help_text="How long it has between SIGTERM and SIGKILL when it is stopped.",
    )
    start_early = forms.BooleanField(required=False, widget=forms.CheckboxInput(attrs={"class": "form-check-input"}))
    checkpoints = forms.BooleanField(required=False, widget=forms.CheckboxInput(attrs={"class": "form-check-input"}))
    is_preemptible = forms.BooleanField(
        required=False, initial=True, widget=forms.CheckboxInput(attrs={"class": "form-check-input"})
    )

    def __init__(self, request: PageRequest) -> None:
        """Offer what the person may use."""
        initial = {"project": text(request, "project"), "template": text(request, "template")}
        super().__init__(request.POST or None, initial={key: value for key, value in initial.items() if value})
        actor = request.actor
        writable = [each.name for each in list_projects(actor=actor) if (actor.level_in(each.pk) or 0) >= Level.WRITE]
        self.fields["project"].choices = [(name, name) for name in writable]  # type: ignore[attr-defined]
        named = [pool.name for pool in pools.list_pools(actor=actor) if pool.name != pools.DEFAULT]
        places = ResourcePools() if named else None
        shapes = [(shape.full_name, _describe(shape, places)) for shape in templates.list_templates(actor=actor)]
        self.fields["template"].choices = [("", "Its own, as below"), *shapes]  # type: ignore[attr-defined]
        resource_rows = [(each.name, _name(each, places)) for each in resources.list_resources(actor=actor)]
        self.fields["resource"].choices = [("", "Any"), *resource_rows]  # type: ignore[attr-defined]
        if named:
            choices = [(name, name) for name in [pools.DEFAULT, *named]]
            self.fields["pool"].choices = [("", "As the project prefers"), *choices]  # type: ignore[attr-defined]
            self.fields["next_pool"].choices = [("", "None"), *choices]  # type: ignore[attr-defined]
        else:
            del self.fields["pool"], self.fields["next_pool"]
        ready = [copy for copy in caches.list_cached_commits(actor=actor)[:_MOST_COPIES] if copy.state == "ready"]
        cached = [(caches.label_of(copy), f"{caches.label_of(copy)} on {copy.site.name}") for copy in ready]
        self.fields["reads"].choices = cached + _list_uncached(actor, dict(cached))  # type: ignore[attr-defined]

    def clean_env(self) -> dict[str, str]:
        """Return the variables."""
        lines = [line.strip() for line in self.cleaned_data["env"].splitlines() if line.strip()]
        if wrong := [line for line in lines if not all(line.partition("=")[:2])]:
            raise forms.ValidationError(f"'{wrong[0]}' is not a variable. Write it like EPOCHS=20.")
        return {name.strip(): value for name, _, value in (line.partition("=") for line in lines)}

    def clean_secrets(self) -> list[str]:
        """Return the names."""
        return _words(self.cleaned_data["secrets"])

    def clean_ports(self) -> list[int]:
        """Return the numbers."""
        words = _words(self.cleaned_data["ports"])
        if wrong := [
            word for word in words if not (word.isascii() and word.isdecimal() and 1 <= int(word) <= _MOST_PORT)
        ]:
            raise forms.ValidationError(f"'{wrong[0]}' is no port: ports are numbers from 1 to {_MOST_PORT}.")
        return [int(word) for word in words]

    def clean(self) -> dict[str, object]:
        """Require a command of what has none of its own."""
        cleaned: dict[str, object] = super().clean() or self.cleaned_data
        if not any(cleaned.get(name) for name in ("command", "image", "jupyter")) and "command" not in self.errors:
            self.add_error("command", "Say what shall run.")
        return cleaned

    @property
    def has_launcher(self) -> bool:
        """Whether anything is said of a launcher."""
        names = ("launcher", "launcher_cpu", "launcher_memory", "worker_command", "worker_port")
        return any(self[name].value() or self[name].errors for name in names)

    @property
    def has_more(self) -> bool:
        """Whether anything is said in the part that is folded otherwise."""
        names = ("env", "secrets", "volumes", "ports", "jupyter", "grace_period")
        return any(self[name].value() or self[name].errors for name in names)


def submit_page(request: PageRequest) -> HttpResponse:
    """Show the form; a POST submits the job and shows it, or with `try` says what would become of it."""
    if request.method == "POST":
        # Who may not submit there is told so, whatever else is wrong with the form.
        project = get_project(actor=request.actor, name=request.POST.get("project", ""))
        submissions.require_submit(actor=request.actor, project=project)
    form = JobForm(request)
    if form.is_valid():
        try:
            if "try" in request.POST:
                trial = trials.try_job(actor=request.actor, project=project, submission=_submission_of(form, project))
                return render(request, "compute/submit.html", {"form": form, "trial": trial})
            job = submissions.submit_job(actor=request.actor, project=project, submission=_submission_of(form, project))
        except PlatformError as error:
            form.add_error(None, f"{error.message} {error.hint}".strip())
        else:
            messages.success(request, f"{job.label} waits for its resources.")
            return redirect("compute:job", name=job.name)
    return render(request, "compute/submit.html", {"form": form})


def _list_uncached(actor: Actor, cached: Collection[str]) -> list[tuple[str, str]]:
    """Return the newest commits that are on no site: a job waits for them."""
    heads = [(each, datasets.newest_commit_of(each)) for each in datasets.list_datasets(actor=actor)[:_MOST_COPIES]]
    labels = [f"{each.project.name}/{each.name}@{head.short}" for each, head in heads if head is not None]
    return [(label, f"{label}, not cached yet: the job waits for it") for label in labels if label not in cached]


def _submission_of(form: JobForm, project: Project) -> Submission:
    fields = form.cleaned_data
    duration_s = fields["simulated_duration_s"]
    return Submission(
        template=fields["template"],
        resource=fields["resource"],
        pools=_pools_of(fields, project),
        gpu_milli=_milli(fields["gpus"]),
        cpu_millicores=_milli(fields["cpu"]),
        memory_bytes=fields["memory"] or None,
        command=fields["command"],
        name=fields["name"],
        image=fields["image"],
        env=fields["env"],
        secrets=fields["secrets"],
        ports=fields["ports"],
        volumes=fields["volumes"].split(),
        jupyter=fields["jupyter"],
        data=fields["reads"],
        start_early=fields["start_early"],
        replicas=fields["replicas"] or 1,
        completions=fields["completions"] or 1,
        parallelism=fields["parallelism"] or 1,
        retries=fields["retries"],
        placing=Placing(
            gpu_memory_bytes=fields["gpu_memory"] or 0,
            gpu_limit_milli=_milli(fields["gpu_limit"]) or 0,
            mig_profile=fields["mig_profile"].strip(),
            node_labels=tuple(_words(fields["node_labels"])),
            required_level=fields["required_level"].strip(),
            preferred_level=fields["preferred_level"].strip(),
            min_replicas=fields["min_replicas"] or 0,
            launcher=_launcher_of(fields),
        ),
        simulated_duration_s=Submission.simulated_duration_s if duration_s is None else duration_s,
        checkpoints=fields["checkpoints"],
        is_preemptible=fields["is_preemptible"],
        timeout_s=fields["timeout"],
        idle_limit_s=fields["idle_limit"],
        grace_period_s=DEFAULT_GRACE_PERIOD_S if fields["grace_period"] is None else fields["grace_period"],
        priority=int(fields["priority"] or priorities.DEFAULT),
    )


def _launcher_of(fields: Mapping[str, Any]) -> Launcher | None:
    """Return the launcher that is asked for, by its mark or by anything that is said of it."""
    given = {
        "cpu_millicores": _milli(fields["launcher_cpu"]),
        "memory_bytes": fields["launcher_memory"] or None,
        "worker_command": fields["worker_command"].strip() or None,
        "worker_port": fields["worker_port"],
    }
    known = {name: value for name, value in given.items() if value is not None}
    return Launcher(**known) if known or fields["launcher"] else None


def _pools_of(fields: Mapping[str, str], project: Project) -> Sequence[str]:
    """Return the pools in their order; empty: none is chosen."""
    first, second = fields.get("pool", ""), fields.get("next_pool", "")
    before = [first] if first else pools.list_preferred(project.pk) if second else []
    return before if not second or second in before else [*before, second]


def _words(line: str) -> list[str]:
    return line.replace(",", " ").split()


def _milli(number: float | None) -> int | None:
    return None if number is None else round(units.ONE_GPU * number)


def _name(resource: Resource, places: ResourcePools | None) -> str:
    described = ", ".join([resource.name, *_list_pools(resource.pk, "", places)])
    return f"{described}{' (simulated)' if resource.is_simulated else ''}"


def _describe(shape: Template, places: ResourcePools | None) -> str:
    parts = [f"{units.format_cpu(shape.cpu_millicores)} CPU", units.format_memory(shape.memory_bytes)]
    if shape.gpu_milli:
        parts.append(f"{units.format_gpus(shape.gpu_milli)} GPU")
    parts += _list_pools(shape.resource_id, shape.pool, places)
    return f"{shape.full_name}: {', '.join(parts)}{' (simulated)' if shape.resource.is_simulated else ''}"


def _list_pools(resource_id: str, pool: str, places: ResourcePools | None) -> list[str]:
    """Say in which pools a job can be: the one that its template names, or any of a resource that labels divide."""
    if pool:
        return [f"pool {pool}"]
    if places is None or not places.is_divided(resource_id):
        return []
    return [f"pool {' or '.join(each.name for each in places.list_pools(resource_id))}"]
