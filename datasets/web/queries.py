"""Saved queries of a dataset: listed, made, looked at, made into a commit, deleted."""

from collections.abc import Callable

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.web.requests import PageRequest, text
from core.errors import PlatformError
from core.form_fields import SizeField
from datasets.engine.queries import LONGEST_PATTERN, Conditions
from datasets.errors import AmbiguousReference, InvalidLabel, InvalidQuery, NameTaken, ReferenceNotFound
from datasets.selectors import datasets, queries
from datasets.services import queries as services
from datasets.services import selections
from datasets.web import heading
from datasets.web.paths import link_path
from nearline.content.paths import show_path

_ROWS = 100
_FIELDS: dict[type[PlatformError], str] = {
    AmbiguousReference: "ref",
    InvalidLabel: "name",
    NameTaken: "name",
    ReferenceNotFound: "ref",
}
"""Beside which field of the form an error is shown."""


class ListField(forms.CharField):
    """Texts, one a line or parted otherwise."""

    def __init__(self, split: Callable[[str], list[str]], **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self._split = split

    def clean(self, value: object) -> tuple[str, ...]:
        """Return the texts that are not empty."""
        parts = self._split(super().clean(value))
        return tuple(part.strip() for part in parts if part.strip())


def _text(placeholder: str = "") -> forms.TextInput:
    return forms.TextInput({"class": "mono", "autocomplete": "off", "placeholder": placeholder})


def _lines(placeholder: str) -> forms.Textarea:
    return forms.Textarea({"class": "form-control mono", "rows": 2, "placeholder": placeholder})


class QueryForm(forms.Form):
    """A new query."""

    name = forms.CharField(max_length=100, widget=forms.TextInput({"autocomplete": "off"}))
    globs = ListField(
        str.splitlines,
        max_length=11_000,
        required=False,
        label="Paths, one a line",
        help_text="One of them. * stays within a name, ** crosses folders.",
        widget=_lines("train/**/*.png"),
    )
    contains = forms.CharField(
        max_length=LONGEST_PATTERN, required=False, label="Part of the path", strip=False, widget=_text()
    )
    regex = forms.CharField(
        max_length=LONGEST_PATTERN,
        required=False,
        label="Regular expression",
        strip=False,
        widget=_text(r"_\d{3}\.png$"),
    )
    types = ListField(
        lambda text: text.replace(",", " ").split(),
        max_length=1000,
        required=False,
        label="Types",
        widget=_text("png jpg"),
    )
    min_size_bytes = SizeField(required=False, label="At least", widget=forms.TextInput({"placeholder": "10 kB"}))
    max_size_bytes = SizeField(required=False, label="At most", widget=forms.TextInput({"placeholder": "1 GB"}))
    file_tags = ListField(
        str.splitlines,
        max_length=11_000,
        required=False,
        label="Tags of files, one a line",
        help_text="All of them, as a CSV, YAML or Parquet file of the commit lists them.",
        widget=_lines("label=Fibrosis"),
    )
    tags_file = forms.CharField(
        max_length=LONGEST_PATTERN,
        required=False,
        label="File with the tags",
        widget=_text("tags.csv, tags.yaml or tags.parquet"),
    )
    ref = forms.CharField(
        max_length=100,
        required=False,
        label="Asked of",
        help_text="A branch, tag or commit, where no other is named.",
        widget=_text("the newest commit"),
    )


def queries_page(request: PageRequest, project: str, name: str) -> HttpResponse:
    """List the queries of a dataset; a POST makes one."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    form = QueryForm(request.POST or None, auto_id="query-%s")
    if request.method == "POST" and form.is_valid():
        fields = form.cleaned_data
        query, ref = fields.pop("name"), fields.pop("ref")
        try:
            services.create_query(
                actor=request.actor, dataset=dataset, name=query, conditions=Conditions(**fields), ref=ref
            )
        except (AmbiguousReference, InvalidLabel, InvalidQuery, NameTaken, ReferenceNotFound) as error:
            form.add_error(_FIELDS.get(type(error)), error.message)
        else:
            messages.success(request, f"The query {query} is saved.")
            return redirect("datasets:query", project=project, name=name, query=query)
    context = heading.of(request.actor, dataset, tab="queries") | {
        "queries": queries.list_queries(request.actor, dataset).order_by("name"),
        "form": form,
    }
    return render(request, "datasets/queries.html", context, status=422 if form.errors else 200)


def query_page(request: PageRequest, project: str, name: str, query: str) -> HttpResponse:
    """Show what a query asks for, and the files that it selects of a commit."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    row = queries.get_query(request.actor, dataset, query)
    ref = text(request, "ref") or row.ref or dataset.default_branch
    source = queries.get_source(request.actor, row, ref)
    page = queries.list_query_files(request.actor, row, source, cursor=text(request, "cursor"), limit=_ROWS)
    context = heading.of(request.actor, dataset, tab="queries", ref=ref) | {
        "query": row,
        "commit": source,
        "selection": queries.find_selection(row, source),
        "selected": queries.sum_query_files(request.actor, row, source),
        "input": f"{project}/{name}@{ref}:{row.name}",
        "items": [(show_path(item.path), link_path(item.path), item) for item in page.items],
        "next_cursor": page.next_cursor,
    }
    return render(request, "datasets/query.html", context)


@require_POST
def select(request: PageRequest, project: str, name: str, query: str) -> HttpResponse:
    """Make the commit that holds what a query selects, and show its files."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    row = queries.get_query(request.actor, dataset, query)
    source = queries.get_source(request.actor, row, request.POST.get("ref", "").strip())
    commit = selections.select(actor=request.actor, query=row, source=source)
    return redirect(f"{reverse('datasets:files', args=[project, name])}?ref={commit.id}")


@require_POST
def delete_query(request: PageRequest, project: str, name: str, query: str) -> HttpResponse:
    """Delete a query; commits stay."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    services.delete_query(actor=request.actor, query=queries.get_query(request.actor, dataset, query))
    messages.success(request, f"The query {query} is deleted. What it selected stays.")
    return redirect("datasets:queries", project=project, name=name)
