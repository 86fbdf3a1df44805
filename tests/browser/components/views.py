"""Every component that pages are made of, in every state that it knows."""

from datetime import timedelta

from django import forms
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from accounts.errors import LastAdmin
from core import clock
from core.outages import DatabaseUnavailable
from core.pagination import read_sort
from web import looks
from web.series import Chart, Series

LONG = "run-01m7ye80xjxqyb49a1j7-a-step-with-a-very-long-name-indeed-0-1"


class SampleForm(forms.Form):
    """One field of each kind."""

    name = forms.CharField(help_text="What helps to fill it in.")
    kind = forms.ChoiceField(choices=[("one", "one"), ("two", "two")])
    agreed = forms.BooleanField(required=False)


def components_page(request: HttpRequest) -> HttpResponse:
    now = clock.now()
    wrong = SampleForm({"wrong-kind": "three"}, prefix="wrong")
    wrong.is_valid()
    context = {
        "states": list(looks._LOOKS),
        "moments": [now, now - timedelta(minutes=5), now - timedelta(days=40), now + timedelta(hours=3), None],
        "sizes": [0, 999, 10**6, 123_456_789, 10**15, None],
        "seconds": [0.04, 12, 200, 100_000, None],
        "percents": [0, 37, 99, 100],
        "long": LONG,
        "nothing": None,
        "sort": read_sort(request, {"name": "name", "size": "size"}, "-name"),
        "form": SampleForm(),
        "wrong": wrong,
        "error": LastAdmin("mia is the last admin of team-a."),
        "charts": [
            Chart("Two lines with a gap", [0, 1, 2, 3], "step", "", [
                Series("train", 0, [1.0, 0.5, None, 0.25]), Series("test", 1, [1.0, 0.75, 0.7, 0.69]),
            ]),
            Chart("A single point", [1], "second", " GiB", [Series("n" * 63, 2, [3.5])]),
            Chart("Many points", list(range(1000)), "step", "", [Series("loss", 3, [1 / (x + 1) for x in range(1000)])]),
        ],
    }  # fmt: skip
    return render(request, "components.html", context)


def read_log(_request: HttpRequest) -> HttpResponse:
    text = "\x1b[32mgreen\x1b[0m and plain\n\x1b[1;31mred and bold\x1b[0m\n<b>no markup</b>\n"
    return JsonResponse({
        "offset": 0, "text": text, "next_offset": len(text), "size_bytes": len(text), "is_complete": True,
    })  # fmt: skip


def away_page(_request: HttpRequest) -> HttpResponse:
    raise DatabaseUnavailable("The server's database does not answer.")
