"""Writing a flow: the page that starts a new one, and the editor, whose plain form works without script."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render

from accounts.models import Project
from accounts.permissions import Level
from accounts.selectors import get_project, list_projects, list_secrets
from accounts.web.requests import PageRequest, text
from compute.selectors import resources, templates
from core import units
from datasets.selectors import datasets
from flows.models import FlowDraft, FlowVersion
from flows.selectors import examples
from flows.selectors import flows as selectors
from flows.selectors.flows import NEW
from flows.selectors.specs import DEFAULT_TEMPLATE
from flows.services import drafts, flows
from flows.services.drafts import Writing
from flows.web.source import lines_of
from scheduler.selectors import pools

if TYPE_CHECKING:
    from compute.models import Template

_MOST_NAMES = 300
_CANVAS = "flow: new-flow\nsteps: []\n"
_YAML = """\
flow: new-flow
title: Two steps that feed each other
parameters:
  greeting: {type: str, default: hello, help: What the first step writes.}
steps:
  - name: prepare
    command: echo ${{ parameters.greeting }} > "$NEARLINE_OUTPUT/greeting.txt"
  - name: report
    after: [prepare]
    command: cat "$NEARLINE_INPUT/prepare/greeting.txt"
"""
_STARTS = {"canvas": _CANVAS, "yaml": _YAML}


@dataclass(frozen=True)
class Desk:
    """What somebody works on: which flow of which project, from which version, and the draft there is."""

    project: Project
    key: str
    version: FlowVersion | None = None
    draft: FlowDraft | None = None
    start: Writing = field(default_factory=lambda: Writing(_CANVAS))
    is_text: bool = False

    @property
    def base(self) -> int | None:
        """The number of the version that the writing begins from."""
        if self.draft is not None:
            return self.draft.base_version
        return self.version.number if self.version else None

    @property
    def text(self) -> str:
        """What stands in the plain form."""
        return self.draft.text if self.draft else self.version.text if self.version else self.start.text

    @property
    def example(self) -> str:
        """The example whose code the writing needs."""
        return self.draft.example if self.draft else self.start.example


def new_page(request: PageRequest) -> HttpResponse:
    """Offer what a flow can be started from; with `?draft=` open the editor on it. A POST keeps the plain form."""
    project_name = request.POST.get("project") or text(request, "project")
    key = request.POST.get("key") or text(request, "draft") or ""
    if not project_name or not (key or request.method == "POST"):
        return _start_page(request, project_name)
    project = get_project(actor=request.actor, name=project_name)
    key = key if key.startswith(NEW) else NEW + uuid4().hex[:8]
    name = text(request, "start") or "canvas"
    draft = selectors.find_draft(actor=request.actor, project=project, key=key)
    if name in _STARTS or draft is not None:
        start = Writing(_STARTS.get(name, _CANVAS))
    else:
        start = Writing(examples.get_example(name).text, example=name)
    return _editor(request, Desk(project, key, None, draft, start, is_text=name == "yaml"))


def edit_page(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Open the editor on a flow. A POST keeps the plain form as a version, or shows every problem with its line."""
    flow = selectors.get_flow(actor=request.actor, project=project, name=name)
    version = selectors.get_version(actor=request.actor, flow=flow)
    draft = selectors.find_draft(actor=request.actor, project=flow.project, key=name)
    return _editor(request, Desk(flow.project, name, version, draft))


def _start_page(request: PageRequest, project_name: str | None) -> HttpResponse:
    writable = [
        project.name
        for project in list_projects(actor=request.actor)
        if (request.actor.level_in(project.id) or 0) >= Level.WRITE
    ]
    context = {
        "projects": writable,
        "target": project_name if project_name in writable else writable[0] if writable else "",
        "examples": examples.list_examples(),
        "drafts": selectors.list_new_drafts(actor=request.actor)[:20],
        "key": NEW + uuid4().hex[:8],
        "project_name": project_name,
    }
    return render(request, "flows/new.html", context)


def _editor(request: PageRequest, desk: Desk) -> HttpResponse:
    may_write = (request.actor.level_in(desk.project.pk) or 0) >= Level.WRITE
    context: dict[str, object] = {
        "desk": desk,
        "project_name": desk.project.name,
        "source": desk.text,
        "base": desk.base,
        "may_write": may_write,
    }
    if request.method != "POST":
        return render(request, "flows/edit.html", context | {"config": _config(request, desk, may_write=may_write)})
    source = request.POST.get("text", "").replace("\r\n", "\n")
    checked = flows.validate_spec(actor=request.actor, project=desk.project, text=source)
    shown = context | {"source": source, "checked": checked, "lines": lines_of(source, checked)}
    if request.htmx:
        return render(request, "flows/problems.html", shown)
    base = _number(request.POST.get("base", ""))
    newest = desk.version.number if desk.version else None
    if checked.spec is None or (newest is not None and base != newest):
        # Sent again from this page, it is kept over the version that the page now shows.
        shown |= {"base": newest, "moved": desk.version if base != newest else None}
        return render(request, "flows/edit.html", shown | {"config": None})
    writing = Writing(source, _kept_layout(desk), base, request.POST.get("example", ""))
    version = drafts.publish(actor=request.actor, project=desk.project, key=desk.key, writing=writing)
    messages.success(request, f"Version {version.number} of {version.flow.name} is kept.")
    return redirect("flows:flow", project=desk.project.name, name=version.flow.name)


def _kept_layout(desk: Desk) -> dict[str, Any]:
    """Return where the nodes stand; the plain form cannot move them."""
    return dict(desk.draft.layout if desk.draft else desk.version.layout if desk.version else {})


def _number(value: str) -> int | None:
    return int(value) if value.isdecimal() else None


def _config(request: PageRequest, desk: Desk, *, may_write: bool) -> dict[str, Any]:
    """Return what the editor's script reads; `platform/web/ui/src/editor/model/editor.ts` has its types."""
    actor, draft = request.actor, desk.draft
    version: dict[str, Any] = {"number": None, "text": desk.start.text, "layout": {}}
    if desk.version is not None:
        version = {"number": desk.version.number, "text": desk.version.text, "layout": desk.version.layout}
    is_admin = (actor.level_in(desk.project.pk) or 0) >= Level.ADMIN
    secrets = list_secrets(actor=actor, project=desk.project).values_list("name", flat=True) if is_admin else []
    return {
        "project": desk.project.name,
        "key": desk.key,
        "user": actor.name,
        "version": version,
        "draft": draft
        and {
            "text": draft.text,
            "layout": draft.layout,
            "base_version": draft.base_version,
            "example": draft.example,
            "revision": draft.revision,
            "updated_at": draft.updated_at.isoformat(),
        },
        "example": desk.example,
        "view": "split" if desk.is_text else "canvas",
        "may_write": may_write,
        "templates": [
            {"name": each.full_name, "detail": _size_of(each)} for each in templates.list_templates(actor=actor)
        ],
        "resources": [
            {"name": name, "detail": "simulated" if is_simulated else ""}
            for name, is_simulated in resources.list_resources(actor=actor).values_list("name", "is_simulated")
        ],
        "pools": [
            {"name": name, "detail": ""} for name in pools.list_pools(actor=actor).values_list("name", flat=True)
        ],
        "default_template": DEFAULT_TEMPLATE,
        "datasets": _datasets(request, desk.project.name),
        "secrets": list(secrets),
    }


def _datasets(request: PageRequest, project: str) -> Sequence[dict[str, str]]:
    """Return the datasets that can be named, those of the project first."""
    names = []
    for dataset in datasets.list_datasets(actor=request.actor)[:_MOST_NAMES]:
        newest = datasets.newest_commit_of(dataset)
        detail = (
            f"{units.count_of(newest.files, 'file')}, {units.format_bytes(newest.size_bytes)}" if newest else "empty"
        )
        names.append({"name": f"{dataset.project.name}/{dataset.name}", "detail": detail})
    return sorted(names, key=lambda item: (not item["name"].startswith(f"{project}/"), item["name"]))


def _size_of(template: "Template") -> str:
    gpus = f", {units.format_gpus(template.gpu_milli)} GPU" if template.gpu_milli else ""
    size = f"{units.format_cpu(template.cpu_millicores)} CPU, {units.format_memory(template.memory_bytes)}{gpus}"
    return f"{size}, simulated" if template.resource.is_simulated else size
