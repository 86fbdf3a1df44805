"""Tokens of pods and jobs at every route: each opens the few that it is for, while what it is for goes on, and no other.

Which token opens a route is said by the function that authenticates it. So a new way to authenticate has to be named
here with what its token is for, and each route behind it is tried with the tokens of all others.
"""

from dataclasses import replace

import pytest
from django.core.cache import cache
from django.test import Client

from accounts.api.auth import authenticate, authenticate_or_check_password
from compute.adapters import job_tokens
from compute.adapters.job_tokens import Claims, sign_attempt
from compute.api.attempt_routes import authenticate_attempt
from compute.engine.states import JobState
from compute.models import Job
from config.api import api
from core import clock
from datasets.adapters import copy_tokens
from datasets.adapters.folder import StoreGrant
from datasets.api.copy_routes import authenticate_copy
from datasets.api.early_routes import authenticate_reader
from datasets.api.import_job_routes import authenticate_import
from datasets.engine.cache_states import CacheState
from datasets.engine.ports import SIGNED_LIFETIME
from datasets.models import CachedCommit, CacheHold, ImportState, InPlaceImport, Store
from tests.architecture.test_permission_matrix import API_ROOT, Route, fill_in
from tests.contracts.compute_driver import make_launch
from tests.transactions import undone

OPEN = {
    authenticate_attempt: "attempt",
    authenticate_copy: "copy",
    authenticate_reader: "reader",
    authenticate_import: "import",
}
"""Whose token the routes behind a function take; that of a person opens none of them."""


OF_PERSONS = [("GET", "/api/v1/me", 401), ("POST", "/api/v1/tokens", 401), ("GET", "/metrics", 401), ("GET", "/", 302)]
"""What is open to people alone. All other routes authenticate in the same way, which is looked at first."""


def routes_of_jobs() -> dict[tuple[str, str], str]:
    """Return whose token opens a route, for each that a person's does not."""
    return {
        (method, f"{router.prefix}{path}".replace("{path:", "{")): OPEN.get(callback, f"{callback} has no line here")
        for router in api._get_bound_routers()
        for path, view in router.path_operations.items()
        for operation in view.operations
        for callback in operation.auth_callbacks or [None]
        for method in operation.methods
        if callback not in {authenticate, authenticate_or_check_password}
    }


@pytest.fixture
def tokens(everything) -> dict[str, str]:
    """Something of each kind that goes on, and what its holder has; also what opens no route of the API at all."""
    values = everything.values
    job = Job.objects.get(name=values["job"])
    launch = replace(make_launch(job.name), job_id=job.pk)
    Job.objects.filter(pk=job.pk).update(state=JobState.RUNNING, token=launch.token)
    copy = CachedCommit.objects.get(pk=values["cached"])
    CacheHold.objects.get_or_create(cached_commit=copy, holder="job")
    claims = Claims(everything.askers["member"].actor.user_id, job.pk, job.run_name, 0, port=8888)
    ends_at = clock.now() + SIGNED_LIFETIME
    return {
        "attempt": sign_attempt(launch),
        "copy": copy_tokens.sign_copy(copy.pk),
        "reader": copy_tokens.sign_reader(copy.pk, "job"),
        "import": copy_tokens.sign_import(values["running_import"]),
        "ticket": job_tokens.sign_ticket(claims),
        "pass": job_tokens.sign_pass(claims),
        "grant": StoreGrant("GET", Store.objects.get().pk, "datasets/a", 0, "", ends_at).seal(),
        "jupyter": job_tokens.jupyter_token_of(job.pk),
    }


def test_every_way_to_authenticate_says_whose_token_it_takes():
    assert set(routes_of_jobs().values()) == set(OPEN.values())


def test_a_token_opens_the_routes_that_it_is_for_and_no_other(everything, tokens):
    surprises = []
    for (method, path), kind in routes_of_jobs().items():
        url = API_ROOT + fill_in(Route(method, path, {}), everything.values, everything.askers["nobody"])
        for other, token in tokens.items():
            status = ask(method, url, token)
            if (status != 401) != (other == kind):
                surprises.append(f"{method} {path} by the token of {other}: {status}")
        status = ask(method, f"{url}?token={tokens[kind]}", "")
        if status != 401:
            surprises.append(f"{method} {path} by a token in the address: {status}")
    for kind, token in tokens.items():
        cache.clear()  # few worthless tokens are taken of an address
        for method, url, expected in OF_PERSONS:
            if (status := ask(method, url, token)) != expected:
                surprises.append(f"{method} {url} by the token of {kind}: {status}")
        status = ask("GET", f"/store/{token}", "")
        if status != (404 if kind == "grant" else 403):
            surprises.append(f"the store by the token of {kind}: {status}")

    assert surprises == []


def test_a_token_ends_with_what_it_is_for(everything, tokens):
    ends = {
        "attempt": Job.objects.filter(name=everything.values["job"]),
        "copy": CachedCommit.objects.filter(pk=everything.values["cached"]),
        "import": InPlaceImport.objects.filter(pk=everything.values["running_import"]),
    }
    ends["attempt"].update(state=JobState.SUCCEEDED)
    ends["copy"].update(state=CacheState.EVICTING)
    ends["import"].update(state=ImportState.REFERENCED)

    for (method, path), kind in routes_of_jobs().items():
        url = API_ROOT + fill_in(Route(method, path, {}), everything.values, everything.askers["nobody"])
        cache.clear()
        assert (method, path, ask(method, url, tokens[kind])) == (method, path, 401)


def ask(method: str, url: str, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with undone():
        answer = Client(REMOTE_ADDR="203.0.113.9").generic(
            method, url, b"{}", content_type="application/json", headers=headers
        )
    return answer.status_code
