"""A form that was refused stands on its page again, with what was typed and, at each field, what is wrong with it.

Pages that show no form again say in one line what is wrong with what was sent.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from http import HTTPStatus
from typing import Any, TypeVar

from django import forms
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import resolve, reverse

from accounts.errors import InvalidName
from accounts.services.projects import NAME_PATTERN
from accounts.web.requests import page_before, with_storable_texts
from core.errors import Conflict, PlatformError

F = TypeVar("F", bound=forms.BaseForm)


def name_field(**options: Any) -> forms.CharField:
    """Return a field for the name of a thing, of which a browser refuses what cannot be one, and says why."""
    rules = {"pattern": NAME_PATTERN, "title": InvalidName.hint}
    return forms.CharField(widget=forms.TextInput(rules), **options)


def explain_errors(*sent: forms.Form) -> str:
    """Return the errors of all fields, each after its label."""
    return "; ".join(
        f"{form[field].label}: {' '.join(map(str, errors))}" for form in sent for field, errors in form.errors.items()
    )


def field_of(error: PlatformError) -> str:
    """Return the name of the field that a service refused; empty: it does not tell."""
    return str(error.details.get("field", "name" if isinstance(error, InvalidName | Conflict) else ""))


def add_error(form: forms.BaseForm, error: PlatformError, fields: Mapping[str, str] | None = None) -> None:
    """Say at its field why a service refused what a form asks for; `fields`: what the form calls them otherwise."""
    name = field_of(error)
    name = (fields or {}).get(name, name)
    form.add_error(name if name in form.fields else None, f"{error.message} {error.hint}".strip())


def show_again(
    request: HttpRequest, page: str, *sent: forms.BaseForm, of: Sequence[str] = (), **query: str
) -> HttpResponse:
    """Answer with the page that forms were sent from, which shows them as they were sent.

    It has all its forms by `shown`. `of`: the arguments of its path. `query`: what it shows in any case; else it shows
    the rows that it showed.
    """
    url = reverse(page, args=of)
    seen = page_before(request)
    again = copy(request)
    again.method, again.path, again.path_info = "GET", url, url
    fields = QueryDict(seen.query if seen.path == url else "", mutable=True)
    for name, value in query.items():
        fields[name] = value
    again.META = {**request.META, "QUERY_STRING": fields.urlencode()}
    again.GET = with_storable_texts(fields)  # type: ignore[assignment]  # it is immutable too
    again.refused_forms = {form.auto_id: form for form in sent}  # type: ignore[attr-defined]
    view = resolve(url)
    answer: HttpResponse = view.func(again, *view.args, **view.kwargs)
    answer.status_code = HTTPStatus.UNPROCESSABLE_ENTITY
    return answer


def shown(request: HttpRequest, fresh: F) -> F:
    """Return the form that was refused in place of a fresh one, whose fields have the same ids; else the fresh one."""
    refused: F = getattr(request, "refused_forms", {}).get(fresh.auto_id, fresh)
    return refused
