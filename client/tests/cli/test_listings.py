"""Projects, tokens, compute and caches: tables for people, JSON for programs."""

import json

import pytest

from client.tests.cli.answers import AT, cached, dataset, page

TEMPLATE = {
    "full_name": "lab.gpu-half",
    "name": "gpu-half",
    "resource": "lab",
    "is_simulated": True,
    "cpu_millicores": 4000,
    "memory_bytes": 16 * 2**30,
    "gpu_milli": 500,
    "labels": {},
}
RESOURCE = {"name": "lab", "kind": "simulated", "state": "ready", "is_simulated": True}
USER = {"username": "ada", "is_site_admin": False, "is_disabled": False}
TOKEN = {"id": "tok_1", "name": "laptop", "created_at": AT, "expires_at": None, "last_used_at": None}


def test_projects_are_listed(cli, server):
    project = {"id": "prj_1", "name": "team", "description": "Us", "role": "admin", "created_at": AT}
    server.on("GET", "/projects", page(project))

    assert cli("project", "list").stdout == "PROJECT  ROLE   DESCRIPTION\nteam     admin  Us\n"
    assert json.loads(cli("project", "list", "--json").stdout) == page(project)
    assert cli("project", "list", "--quiet").stdout == "team\n"


def test_an_empty_listing_says_what_to_do_on_stderr(cli, server):
    server.on("GET", "/projects", page())

    done = cli("project", "list")

    assert done.stdout == ""
    assert "nearline project create NAME" in done.stderr
    assert cli("project", "list", "--quiet").output == ""


def test_a_project_is_created(cli, server):
    server.on("POST", "/projects", {"name": "team", "description": "Us"}, status=201)

    assert cli("project", "create", "team", "--description", "Us").exit_code == 0
    assert server.bodies("POST", "/projects") == [{"name": "team", "description": "Us"}]


def test_a_name_that_is_taken_ends_with_5(cli, server):
    server.refuse("POST", "/projects", 409, title="There is a project called 'team' already.", hint="Choose another.")

    assert cli("project", "create", "team").exit_code == 5


def test_a_token_is_shown_once(cli, server):
    server.on("POST", "/tokens", {**TOKEN, "secret": "nl_abc"}, status=201)

    assert cli("token", "create", "laptop", "--quiet").stdout == "nl_abc\n"
    assert json.loads(cli("token", "create", "laptop", "--json").stdout)["secret"] == "nl_abc"
    assert server.bodies("POST", "/tokens")[0] == {"name": "laptop", "expires_at": None}


def test_a_token_may_end(cli, server):
    server.on("POST", "/tokens", {**TOKEN, "secret": "nl_abc"}, status=201)

    cli("token", "create", "laptop", "--days", "30")

    assert server.bodies("POST", "/tokens")[0]["expires_at"].endswith("+00:00")


def test_a_token_cannot_end_after_the_last_date(cli, server):
    refused = cli("token", "create", "laptop", "--days", "99999999999")

    assert (refused.exit_code, server.asked) == (2, [])
    assert "'99999999999' is not a whole number from 1 to 36500." in refused.stderr


def test_an_import_from_an_unknown_source_makes_no_dataset(cli, server):
    server.on("GET", "/sources", page())

    refused = cli("data", "import", "--in-place", "nfs", "scans", "team/scans")

    assert refused.exit_code == 3
    assert "There is no source called 'nfs' that you may import from." in refused.stderr
    assert [(method, path) for method, path, *_ in server.asked] == [("GET", "/sources")]


def test_an_import_of_a_folder_that_is_not_there_makes_no_dataset(cli, server):
    server.on("GET", "/sources", page({"name": "nfs", "kind": "folder"}))
    server.refuse("GET", "/datasets/team/scans", 404, title="There is no dataset team/scans.")
    server.refuse("GET", "/projects/team/sources/nfs/files", 409, title="'none' is not in the source 'nfs'.")

    refused = cli("data", "import", "--in-place", "nfs", "none/", "team/scans")

    assert (refused.exit_code, refused.stderr) == (5, "✗ 'none' is not in the source 'nfs'.\n")
    assert [method for method, *_ in server.asked] == ["GET", "GET", "GET"]
    assert server.asked[-1][2] == {"prefix": "none"}


def test_an_import_takes_a_dataset_that_another_one_has_made_meanwhile(cli, server):
    """Two imports, or their two terminals, begin at once."""
    server.on("GET", "/sources", page({"name": "nfs", "kind": "folder"}))
    server.on("GET", "/projects/team/sources/nfs/files", {})
    missing = {"status": 404, "code": "x.y", "title": "There is no dataset team/scans.", "hint": "", "details": {}}
    server.answers["GET", "/datasets/team/scans"] = [(404, missing), (404, missing), (200, dataset(name="scans"))]
    server.refuse("POST", "/datasets", 409, title="There is a dataset team/scans already.")
    server.refuse("POST", "/datasets/team/scans/imports", 403, title="You may not import.")

    refused = cli("data", "import", "--in-place", "nfs", ".", "team/scans")

    assert refused.stderr == "✗ You may not import.\n"


def test_tokens_are_listed_without_secrets(cli, server):
    server.on("GET", "/tokens", page(TOKEN))

    assert cli("token", "list").stdout.splitlines()[1].split()[:2] == ["tok_1", "laptop"]


def test_revoking_a_token_is_not_done_by_accident(cli, server):
    server.on("DELETE", "/tokens/tok_1", None, status=204)

    refused = cli("token", "revoke", "tok_1")

    assert (refused.exit_code, server.asked) == (2, [])
    assert "--yes" in refused.stderr
    assert cli("token", "revoke", "tok_1", "--yes").exit_code == 0
    assert [its[:2] for its in server.asked] == [("DELETE", "/tokens/tok_1")]


def test_a_token_is_revoked_by_its_name_where_that_is_the_only_one(cli, server):
    facts = {"created_at": "2026-11-21T12:00:00Z", "expires_at": None, "last_used_at": None}
    names = {"tok_1": "ci", "tok_2": "laptop", "tok_3": "laptop"}
    server.on("GET", "/tokens", page(*({"id": id_, "name": name, **facts} for id_, name in names.items())))
    server.on("DELETE", "/tokens/tok_1", None, status=204)

    done, several, none = (cli("token", "revoke", name, "--yes") for name in ("ci", "laptop", "old"))

    assert "Revoked ci (tok_1)." in done.stderr
    assert (several.exit_code, none.exit_code) == (2, 3)
    assert "2 of your tokens are called 'laptop': tok_2, tok_3." in several.stderr
    assert "You have no token called 'old'." in none.stderr
    assert [path for method, path, *_ in server.asked if method == "DELETE"] == ["/tokens/tok_1"]


def test_templates_say_when_their_nodes_do_not_exist(cli, server):
    server.on("GET", "/compute/resources", page(RESOURCE))
    server.on("GET", "/compute/templates", page(TEMPLATE))

    assert cli("compute", "list").stdout.splitlines()[1].split() == [
        "lab.gpu-half",
        "4",
        "16",
        "GiB",
        "0.5",
        "simulated",
    ]
    assert json.loads(cli("compute", "list", "--json").stdout) == {"items": [RESOURCE], "templates": [TEMPLATE]}


def test_compute_says_on_which_host_a_machine_is_and_that_it_is_away(cli, server):
    machine = {**RESOURCE, "is_simulated": False, "host": "bee", "state": "unreachable"}
    server.on("GET", "/compute/resources", page(machine))
    server.on("GET", "/compute/templates", page(TEMPLATE))

    assert cli("compute", "list").stdout.splitlines()[1].rstrip().endswith("on bee, unreachable")


def test_a_resource_without_templates_is_listed_too(cli, server):
    bare = {**RESOURCE, "name": "new", "kind": "kubernetes", "is_simulated": False, "state": "ready", "sites": ["nas"]}
    server.on("GET", "/compute/resources", page(RESOURCE, bare))
    server.on("GET", "/compute/templates", page(TEMPLATE))

    assert cli("compute", "list").stdout.splitlines()[-1].split() == ["new", "kubernetes", "ready", "nas"]
    assert cli("compute", "list", "--quiet").stdout.splitlines() == ["lab.gpu-half"]


def test_cached_commits_are_listed_with_the_room_of_their_site(cli, server):
    site = {"name": "local", "capacity_bytes": 10**9, "committed_bytes": 1500, "used_bytes": 1500, "free_bytes": 10**9}
    hydrating = cached(state="hydrating", percent=40, path=None, waits_for="the claim: quota exceeded")
    server.on("GET", "/cache/commits", page(cached(pinned=True), hydrating))
    server.on("GET", "/cache/sites", page(site))

    done = cli("cache", "list")

    assert [line.split()[:4] for line in done.stdout.splitlines()[1:]] == [
        ["team/digits@abababab", "local", "✔", "ready"],
        ["team/digits@abababab", "local", "▶", "hydrating"],
    ]
    assert "40 %" in done.stdout
    assert "pinned" in done.stdout
    assert done.stderr == (
        "team/digits@abababab does not get on at local: it waits for the claim: quota exceeded\n"
        "local: 1.5 kB committed, 1.0 GB free of 1.0 GB\n"
    )
    assert json.loads(cli("cache", "list", "--json").stdout)["items"] == [cached(pinned=True), hydrating]


def test_a_site_is_added_with_the_settings_of_its_kind_and_the_name_of_its_cluster(cli, server):
    server.on("GET", "/compute/resources", page({"name": "lab-k8s", "id": "res_1", "kind": "kubernetes"}))
    server.on("POST", "/cache/sites", {"name": "filer", "kind": "nfs", "capacity_bytes": 2 * 10**12})

    settings = ["resource=lab-k8s", "server=filer.test", "path=/exports/cache", "size_bytes=2TB", "hard_links=false"]
    done = cli("cache", "add", "filer", "--kind", "nfs", *(word for text in settings for word in ("--set", text)))

    assert done.stderr == "✔ filer can hold 2.0 TB of commits.\n"
    config = {"server": "filer.test", "path": "/exports/cache", "size_bytes": 2 * 10**12, "hard_links": False}
    assert server.asked[-1][3] == {
        "name": "filer",
        "kind": "nfs",
        "root": "",
        "host": "",
        "config": {"resource": "res_1", **config},
        "capacity_bytes": None,
    }


def test_the_plan_says_what_goes_and_what_is_in_the_way(cli, server):
    plan = {
        "site": "local",
        "need_bytes": 5000,
        "free_bytes": 1000,
        "freed_bytes": 2000,
        "missing_bytes": 2000,
        "victims": [{"id": "cc_1", "label": "team/digits@abab", "charged_bytes": 2000}],
        "obstacles": [{"id": "cc_2", "label": "team/x@cdcd", "charged_bytes": 9000, "reason": "pinned"}],
    }
    server.on("GET", "/cache/plan", plan)

    done = cli("cache", "plan", "--site", "local", "--need", "5000")

    assert [line.split() for line in done.stdout.splitlines()] == [
        ["COMMIT", "SIZE", "WHAT"],
        ["team/digits@abab", "2.0", "kB", "goes"],
        ["team/x@cdcd", "9.0", "kB", "stays:", "pinned"],
    ]
    assert "2.0 kB are missing" in done.stderr
    assert server.asked[-1][2] == {"site": "local", "need_bytes": "5000"}
    assert json.loads(cli("cache", "plan", "--json").stdout) == plan


def test_people_are_listed(cli, server):
    server.on("GET", "/users", page(USER, {**USER, "username": "bob", "is_disabled": True}))

    assert cli("user", "list").stdout == "NAME  ROLE    STATE\nada   person\nbob   person  disabled\n"


def test_a_person_is_disabled_once_it_is_confirmed_and_what_goes_on_is_told(cli, server):
    work = [{"kind": "run", "name": "digits #3", "project": "team", "url": "/runs/run_1/"}]
    server.on("POST", "/users/ada/disable", {**USER, "is_disabled": True, "work": work})

    unconfirmed = cli("user", "disable", "ada")
    assert (unconfirmed.exit_code, server.asked) == (2, [])

    done = cli("user", "disable", "ada", "--yes")
    assert done.stdout == "Disabled:       ada\nStill running:  run digits #3 (team)\n"
    assert server.bodies("POST", "/users/ada/disable") == [{"stop_work": False}]


def test_a_person_is_enabled_and_signed_out(cli, server):
    server.on("POST", "/users/ada/enable", USER)
    server.on("POST", "/users/ada/sign-out", None, status=204)

    assert cli("user", "enable", "ada").stdout == "Enabled:  ada\n"
    assert "ada is signed out everywhere." in cli("user", "sign-out", "ada", "--tokens").stderr
    assert server.bodies("POST", "/users/ada/sign-out") == [{"revoke_tokens": True}]


RECORDED = {"id": "exp_1", "metrics": {"accuracy": 0.9}, "parameters": {"lr": 0.1}, "tags": {}, "state": "succeeded"}


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("metrics.acuracy > 0.5", "No experiment has the metric acuracy. There is: accuracy."),
        ("params.learning_rate = 1", "No experiment has the parameter learning_rate. There is: lr."),
        ("tags.best", "No experiment has the tag best."),
        ("metrics.accuracy > 0.95", "No experiment matches."),
    ],
)
def test_a_filter_that_finds_nothing_says_which_key_nobody_recorded(cli, server, where, said):
    server.on("GET", "/experiments", [page(), page(RECORDED)])

    done = cli("experiment", "list", "--filter", where)

    assert (done.exit_code, done.stdout, done.stderr) == (0, "", said + "\n")


@pytest.mark.parametrize("item", [{"title": "A page"}, {}])
def test_objects_of_another_server_are_refused_in_words_that_name_it(cli, server, item):
    server.on("GET", "/projects", {"items": [item], "next_cursor": None})

    done = cli("project", "list")

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("✗ http://127.0.0.1:8000 answered an object without 'name'. It is not a Nearline")
