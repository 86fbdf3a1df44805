"""Sources of imports in place, for site admins: what was imported from each, and who may import from it."""

from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from accounts.models import Project
from accounts.permissions import Actor
from accounts.selectors import get_project
from accounts.web.requests import PageRequest, text
from core.errors import PlatformError
from core.pagination import paginate
from datasets.errors import (
    CacheSiteUnavailable,
    InvalidCacheSite,
    InvalidSource,
    SourceFileChanged,
    SourceUnreachable,
)
from datasets.models import FileSource, SourceKind
from datasets.selectors import sources as reads
from datasets.services import sources
from web.refused_forms import add_error, show_again, shown

_ROWS = 50
_UNREADABLE = (CacheSiteUnavailable, InvalidCacheSite, InvalidSource, SourceFileChanged, SourceUnreachable)


class PermitForm(forms.Form):
    """Which projects may import from a source."""

    projects = forms.CharField(
        required=False,
        max_length=70_000,
        help_text="Those that may import from it, one a line.",
        widget=forms.Textarea({"class": "form-control mono", "rows": 3}),
    )


class SourceForm(PermitForm):
    """What sources of every kind have."""

    name = forms.CharField(max_length=63, help_text="Lower-case letters, digits and dashes.")
    field_order = (
        "name",
        "folder",
        "site",
        "bucket",
        "endpoint",
        "region",
        "keys_below",
        "access_key",
        "secret_key",
        "projects",
    )


class FolderForm(SourceForm):
    """A folder, such as a mounted NFS export."""

    folder = forms.CharField(
        max_length=1000,
        widget=forms.TextInput({"class": "mono", "placeholder": "/mnt/scans"}),
        help_text="The same path on every host of the platform.",
    )

    def location(self) -> str:
        """Return the folder."""
        return str(self.cleaned_data["folder"])


class BucketForm(SourceForm):
    """A part of a bucket."""

    bucket = forms.CharField(max_length=255, widget=forms.TextInput({"class": "mono"}))
    endpoint = forms.CharField(
        max_length=300, required=False, widget=forms.TextInput({"class": "mono"}), help_text="Empty: AWS."
    )
    region = forms.CharField(max_length=100, required=False, help_text="Empty: us-east-1.")
    keys_below = forms.CharField(
        max_length=500,
        required=False,
        label="Prefix",
        widget=forms.TextInput({"class": "mono"}),
        help_text="Empty: the whole bucket.",
    )
    access_key = forms.CharField(
        max_length=200, required=False, help_text="It needs to list and read only. Empty: that of the store in it."
    )
    secret_key = forms.CharField(
        max_length=200,
        required=False,
        widget=forms.PasswordInput({"autocomplete": "off"}),
        help_text="Kept encrypted, never shown again.",
    )

    def location(self) -> str:
        """Return the address of the form that stores have."""
        given = self.cleaned_data
        query = urlencode({key: given[key] for key in ("endpoint", "region") if given[key]})
        return f"s3://{given['bucket']}/{given['keys_below'].strip('/')}{'?' if query else ''}{query}"


class VolumeForm(SourceForm):
    """A volume of a cluster."""

    site = forms.CharField(
        max_length=63,
        label="Cache site",
        help_text="Of kind existing, without a commit. Settings, Cache policy makes one.",
    )

    def location(self) -> str:
        """Return the address of the site."""
        return f"site://{self.cleaned_data['site']}"


_KindForm = FolderForm | BucketForm | VolumeForm
_FORMS: dict[str, tuple[str, type[_KindForm]]] = {
    SourceKind.FOLDER: ("Add a folder", FolderForm),
    SourceKind.S3: ("Add a part of a bucket", BucketForm),
    SourceKind.SITE: ("Add a volume of a cluster", VolumeForm),
}


def sources_page(request: PageRequest) -> HttpResponse:
    """Show every source."""
    sources.require_manage(actor=request.actor)
    page = paginate(
        reads.list_sources(actor=request.actor), cursor=text(request, "cursor"), limit=_ROWS, newest_first=False
    )
    uses = reads.measure_uses(page.items)
    context = {
        "sources": [
            (row, uses.get(row.pk, reads.SourceUse()), shown(request, _permit_form(row))) for row in page.items
        ],
        "next_cursor": page.next_cursor,
        "forms": [(title, kind, shown(request, form(auto_id=f"{kind}-%s"))) for kind, (title, form) in _FORMS.items()],
    }
    return render(request, "datasets/sources.html", context)


@require_POST
def set_source(request: PageRequest) -> HttpResponse:
    """Register a source, or say anew where one of this name lies."""
    sources.require_manage(actor=request.actor)
    kind = request.POST.get("kind", "")
    kind = kind if kind in _FORMS else SourceKind.FOLDER
    form = _FORMS[kind][1](request.POST, auto_id=f"{kind}-%s")
    if form.is_valid():
        given = form.cleaned_data
        keys = {key: given[key] for key in ("access_key", "secret_key") if key in given}
        try:
            projects = _read_projects(request.actor, given["projects"])
            sources.set_source(
                actor=request.actor, name=given["name"], location=form.location(), projects=projects, **keys
            )
        except PlatformError as error:
            form.add_error(None, f"{error.message} {error.hint}".strip())
        else:
            messages.success(request, f"{given['name']} can be read, and is a source now.")
            return redirect("datasets:sources")
    return show_again(request, "datasets:sources", form)


@require_POST
def permit(request: PageRequest, source: str) -> HttpResponse:
    """Say which projects may import from a source; those that are not named may no more."""
    sources.require_manage(actor=request.actor)
    form = _permit_form(reads.get_source(actor=request.actor, name=source), request.POST)
    if form.is_valid():
        try:
            projects = _read_projects(request.actor, form.cleaned_data["projects"])
            sources.set_source(actor=request.actor, name=source, projects=projects)
        except PlatformError as error:
            add_error(form, error, {"": "projects"})
        else:
            names = ", ".join(sorted(project.name for project in projects)) or "no project"
            messages.success(request, f"{names} may import from {source}.")
            return redirect("datasets:sources")
    return show_again(request, "datasets:sources", form)


@require_POST
def check(request: PageRequest, source: str) -> HttpResponse:
    """See whether a source can be read, and have what was imported compared with it."""
    try:
        count = sources.check_source(actor=request.actor, name=source)
    except _UNREADABLE as error:
        messages.error(request, f"{error.message} {error.hint}".strip())
    else:
        compared = f" {count} import{'' if count == 1 else 's'} from it are compared with it now." if count else ""
        messages.success(request, f"{source} can be listed and read.{compared}")
    return redirect("datasets:sources")


@require_POST
def remove(request: PageRequest, source: str) -> HttpResponse:
    """Forget a source that nothing reads from."""
    sources.remove_source(actor=request.actor, name=source)
    messages.success(request, f"{source} is forgotten. Its files are where they were.")
    return redirect("datasets:sources")


def _permit_form(source: FileSource, data: QueryDict | None = None) -> PermitForm:
    names = "\n".join(project.name for project in source.projects.all())
    return PermitForm(data, auto_id=f"permit-{source.pk}-%s", initial={"projects": names})


def _read_projects(actor: Actor, names: str) -> list[Project]:
    return [get_project(actor=actor, name=name) for name in dict.fromkeys(names.split())]
