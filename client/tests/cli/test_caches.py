"""`nearline cache` for one copy of a commit, and for a site."""

from client.tests.cli.answers import page

COMMIT = "c" * 64
COPY = {
    **dict.fromkeys(("path", "rate_bytes_s", "eta_s", "last_used_at", "last_used_by", "evicts_at", "error")),
    **dict.fromkeys(("files_done", "files_total", "bytes_done", "bytes_total", "bytes_moved", "bytes_shared"), 0),
    "id": "copy_1",
    "dataset": "team-a/digits",
    "commit": COMMIT,
    "site": "near",
    "state": "ready",
    "percent": 100.0,
    "pinned": True,
}
SITE = {"name": "near", "kind": "folder", "capacity_bytes": 2 * 10**12, "idle_days": 0.0}


def asked_for_one(server, *copies):
    server.on("GET", "/datasets/team-a/digits/commits/main", {"id": COMMIT, "message": ""})
    server.on("GET", "/cache/commits", page(*copies))


def test_a_copy_is_pinned_and_let_go(cli, server):
    asked_for_one(server, COPY)
    server.on("POST", "/cache/commits/copy_1/pin", COPY)

    done = cli("cache", "pin", "team-a/digits@main")
    cli("cache", "pin", "team-a/digits@main", "--undo")

    assert server.bodies("POST", "/cache/commits/copy_1/pin") == [{"pinned": True}, {"pinned": False}]
    assert done.stdout.splitlines()[-1] == "Pinned:  yes"


def test_a_copy_is_scrubbed_and_tells_what_happened(cli, server):
    asked_for_one(server, COPY)
    event = {"id": "1", "at": "2026-11-26T10:00:00.000Z", "kind": "damage", "state": "ready", "facts": {}}
    server.on("POST", "/cache/commits/copy_1/scrub", COPY)
    server.on("GET", "/cache/commits/copy_1/events", page(event | {"message": "One file was healed."}))

    assert cli("cache", "scrub", "team-a/digits@main").exit_code == 0
    assert cli("cache", "events", "team-a/digits@main").stdout.endswith("One file was healed.\n")


def test_a_copy_that_there_is_not_or_on_several_sites_is_told(cli, server):
    asked_for_one(server)
    none = cli("cache", "pin", "team-a/digits@main")
    asked_for_one(server, COPY, COPY | {"id": "copy_2", "site": "far"})
    several = cli("cache", "pin", "team-a/digits@main")

    assert (none.exit_code, none.stderr.splitlines()[0]) == (3, "✗ team-a/digits@main is not cached.")
    assert (several.exit_code, several.stderr.splitlines()[0]) == (
        2,
        "✗ team-a/digits@main is cached on several sites: far, near.",
    )


def test_a_site_is_changed(cli, server):
    server.on("PATCH", "/cache/sites/near", SITE)

    done = cli("cache", "set", "near", "--capacity", "2TB")

    changes = {"capacity_bytes": 2 * 10**12, "idle_days": None, "config": {}}
    assert server.bodies("PATCH", "/cache/sites/near") == [changes]
    assert done.stdout.splitlines() == ["Site:       near", "Capacity:   2.0 TB", "Idle days:  never"]


def test_settings_of_a_site_on_volumes_are_changed_and_told(cli, server):
    filling = {"fill_pods": 8, "bytes_per_pod": 10**10}
    server.on("PATCH", "/cache/sites/near", SITE | {"volumes": 12, "max_volumes": 20, "config": filling})

    words = ("max_volumes=20", "fill_pods=none", "bytes_per_pod=10GB")
    done = cli("cache", "set", "near", *(part for word in words for part in ("--set", word)))
    refused = [cli("cache", "set", "near", "--set", word) for word in ("max_volumes=many", "storage_class=slow")]

    changes = {"max_volumes": 20, "fill_pods": None, "bytes_per_pod": 10**10}
    assert server.bodies("PATCH", "/cache/sites/near") == [
        {"idle_days": None, "capacity_bytes": None, "config": changes}
    ]
    assert done.stdout.splitlines()[3:] == [
        "Volumes:        12 of 20",
        "Fill pods:      8",
        "Bytes per pod:  10.0 GB",
    ]
    assert [each.stderr.splitlines() for each in refused] == [
        ["✗ 'many' is no whole number.", "hint: Write a whole number, as 2, or none."],
        [
            "✗ 'storage_class' of a site cannot be changed.",
            "hint: These can be: max_volumes, fill_pods, bytes_per_pod.",
        ],
    ]


def test_a_new_site_gets_its_numbers_as_numbers(cli, server):
    server.on("POST", "/cache/sites", SITE)
    server.on("GET", "/compute/resources", page())

    cli("cache", "add", "near", "--kind", "volume", "--set", "max_volumes=20", "--set", "bytes_per_pod=1GiB")

    [body] = server.bodies("POST", "/cache/sites")
    assert body["config"] == {"max_volumes": 20, "bytes_per_pod": 2**30}


def test_the_volumes_of_a_site_are_listed_and_planned_with(cli, server):
    space = {"committed_bytes": 10**9, "free_bytes": 10**9, "volumes": 12, "max_volumes": 12}
    server.on("GET", "/cache/commits", page())
    server.on("GET", "/cache/sites", page(SITE | space))
    plan = {"free_bytes": 10**9, "freed_bytes": 0, "missing_bytes": 0, "missing_volumes": 1}
    server.on("GET", "/cache/plan", plan | {"volumes": 12, "max_volumes": 12})

    listed, planned = cli("cache", "list"), cli("cache", "plan", "--need", "5")

    assert "near: 1.0 GB committed, 1.0 GB free of 2.0 TB; volumes 12 of 12" in listed.stderr
    assert "It has 12 of at most 12 volumes, and 1 of those that have to stay must leave first." in planned.stderr


def test_an_array_is_read_with_a_password_from_stdin_and_forgotten(cli, server):
    route = "/cache/sites/near/array"
    space = {
        "what": "svm1",
        "source": "/api/svm/svms",
        "size_bytes": 10**12,
        "used_bytes": 10**11,
        "available_bytes": None,
    }
    told = {"site": "near", "url": "https://array", "svm": "svm1", "volumes": "", "space": [space]}
    moment = {"read_at": "2026-11-26T10:00:00.000Z", "unknown_since": None, "error": None}
    server.on("PUT", route, told | moment)
    server.on("DELETE", route, None)

    words = ("--url", "https://array", "--svm", "svm1", "--user", "reader")
    done = cli("cache", "array", "near", *words, stdin="secret\n")
    gone = cli("cache", "array", "near", "--remove")

    account = {"url": "https://array", "svm": "svm1", "user": "reader", "password": "secret"}
    assert server.bodies("PUT", route) == [account | {"volumes": "", "certificate": ""}]
    assert done.stdout.splitlines()[1].split() == ["svm1", "1.0", "TB", "100", "GB", "-", "/api/svm/svms"]
    assert gone.stderr == "✔ No array is read for near now.\n"
