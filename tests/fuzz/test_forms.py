"""Every page and form, asked by everybody with the usual values and with those that broke something once.

Nothing ends in a 5xx or a traceback.
"""

import os
from urllib.parse import quote, urlencode

import pytest
from django.conf import settings as django_settings
from django.test import Client
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.architecture import routes
from tests.architecture.test_permission_matrix import PAGES, Route, fill_in
from tests.architecture.world import ROLES, World
from tests.fuzz.poison import POISON_TEXTS
from tests.fuzz.tally import Tally
from tests.transactions import undone

PARTS = 3
STEADY = settings(
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    max_examples=int(os.environ.get("NEARLINE_TEST_EXAMPLES", "6")),  # of each page
)
WORDS = [
    *(
        "age",
        "all",
        "area",
        "at",
        "attempt",
        "base",
        "before",
        "branch",
        "by",
        "cached",
        "columns",
        "cpu",
        "cursor",
        "down",
    ),
    *(
        "draft",
        "file",
        "filter",
        "find",
        "from",
        "glob",
        "gpus",
        "group",
        "ids",
        "index",
        "key",
        "kind",
        "like",
        "memory",
    ),
    *(
        "need",
        "offset",
        "open",
        "page",
        "path",
        "person",
        "pick",
        "project",
        "q",
        "ref",
        "show",
        "site",
        "sort",
        "start",
    ),
    *(
        "state",
        "step",
        "tab",
        "template",
        "text",
        "topic",
        "try",
        "up",
        "version",
        "view",
        "weight",
        "what",
        "x",
        "hide",
    ),
]
"""What the pages read from their addresses."""
TEXTS = st.sampled_from(POISON_TEXTS) | st.text(max_size=40)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_page_and_no_form_breaks(everything, tally, part):
    for route in PAGES[part::PARTS]:
        fuzz(everything, tally, route)

    assert not tally.faults, "\n".join(tally.faults)


def fuzz(everything: World, tally: Tally, route: Route) -> None:
    """Ask one address as everybody."""
    usual_query = routes.queries(everything.values).get(route.name, "")
    usual = routes.bodies(everything.values).get(route.name, {})
    fields = sorted({*usual, "message", "name", "label", "description", "kind", "days", "index", "next", "back"})

    @STEADY
    @given(
        role=st.sampled_from(ROLES),
        asked=st.dictionaries(st.sampled_from(WORDS), TEXTS, max_size=3),
        filled=st.dictionaries(st.sampled_from(fields), TEXTS, max_size=3),
        parts=st.lists(TEXTS, max_size=1),
        is_part=st.booleans(),
    )
    def ask(role, asked, filled, parts, is_part):
        asker = everything.askers[role]
        path = fill_in(route, everything.values, asker)
        if parts and "{" in route.path:
            pieces = path.strip("/").split("/")
            pieces[-1 if len(pieces) < 3 else 2] = quote(parts[0], safe="", errors="replace") or "x"
            path = "/" + "/".join(pieces) + ("/" if path.endswith("/") else "")
        query = "&".join(filter(None, [usual_query, urlencode(asked, errors="replace")]))
        form = {**usual, **{name: text.encode(errors="replace").decode() for name, text in filled.items()}}
        client = Client(raise_request_exception=False, headers={"HX-Request": "true"} if is_part else None)
        if asker.session:
            client.cookies[django_settings.SESSION_COOKIE_NAME] = asker.session
        with undone():
            address = f"{path}?{query}"
            answer = client.post(address, form) if route.method == "POST" else client.generic(route.method, address)
            if answer.streaming and not answer.is_async:
                b"".join(answer.streaming_content)
        tally.note(
            answer.status_code, f"{route.method} {address} by {role} {form if route.method == 'POST' else ''}"[:600]
        )

    ask()
