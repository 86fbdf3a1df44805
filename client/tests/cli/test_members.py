"""`nearline member`, `secret`, `user create` and `project audit`: who may do what, and values that jobs get."""

from client.tests.cli.answers import page

MOMENT = "2026-11-26T10:00:00.000Z"
ADA = {"username": "ada", "role": "member", "created_at": MOMENT}
TOKEN = {"name": "HF_TOKEN", "updated_at": MOMENT}
SECRET = "/projects/team-a/secrets/HF_TOKEN"


def test_members_are_listed_given_roles_and_removed(cli, server):
    server.on("GET", "/projects/team-a/members", page(ADA))
    server.on("PUT", "/projects/team-a/members/ada", ADA)
    server.on("DELETE", "/projects/team-a/members/ada", None)

    listed = cli("member", "list", "--project", "team-a", "--quiet")
    changed = cli("member", "set", "ada", "member", "--project", "team-a")
    removed = cli("member", "remove", "ada", "--project", "team-a", "--yes")

    assert listed.stdout == "ada\n"
    assert changed.stdout == "Member:   ada\nRole:     member\nProject:  team-a\n"
    assert server.bodies("PUT", "/projects/team-a/members/ada") == [{"role": "member"}]
    assert removed.stderr == "✔ ada is no member of team-a now.\n"


def test_a_role_that_there_is_not_is_refused_with_those_that_there_are(cli, server):
    done = cli("member", "set", "ada", "king", "--project", "team-a")

    assert done.exit_code == 2
    assert done.stderr.endswith("Invalid value for 'role': 'king' is not one of 'viewer', 'member', 'admin'.\n")
    assert server.asked == []


def test_nobody_is_removed_without_an_answer(cli, server):
    assert cli("member", "remove", "ada", "--project", "team-a").exit_code == 2
    assert server.asked == []


def test_the_value_of_a_secret_comes_from_stdin_without_its_last_line_end(cli, server):
    server.on("PUT", SECRET, TOKEN)

    done = cli("secret", "set", "HF_TOKEN", "--project", "team-a", stdin="first\nsecond\r\n")

    assert server.bodies("PUT", SECRET) == [{"value": "first\nsecond"}]
    assert done.stdout == "Secret:   HF_TOKEN\nProject:  team-a\n"


def test_a_value_that_never_ends_is_refused_before_anything_is_sent(cli, server):
    done = cli("secret", "set", "HF_TOKEN", "--project", "team-a", stdin="x" * 65_537)

    assert (done.exit_code, done.stderr.splitlines()[0]) == (2, "✗ What came on stdin is longer than 64 KiB.")
    assert server.asked == []


def test_secrets_are_listed_and_deleted(cli, server):
    server.on("GET", "/projects/team-a/secrets", page(TOKEN))
    server.on("DELETE", SECRET, None)

    assert cli("secret", "list", "--project", "team-a", "--quiet").stdout == "HF_TOKEN\n"
    assert cli("secret", "delete", "HF_TOKEN", "--project", "team-a", "--yes").exit_code == 0


def test_a_person_is_added_with_the_link_that_signs_them_in(cli, server):
    server.on("POST", "/users", {"username": "ada", "is_site_admin": True, "is_disabled": False}, status=201)
    server.on("POST", "/users/ada/sign-in-links", {"url": "http://127.0.0.1:8000/sign-in/x/"}, status=201)

    done = cli("user", "create", "ada", "--site-admin")

    assert server.bodies("POST", "/users") == [{"username": "ada", "password": None, "is_site_admin": True}]
    assert done.stdout == "Person:        ada\nSign-in link:  http://127.0.0.1:8000/sign-in/x/\n"


def test_what_was_done_is_listed_for_one_project_or_all(cli, server):
    target = {"target_kind": "secret", "target_id": "1", "target_name": "HF_TOKEN"}
    entry = {"id": "a1", "created_at": MOMENT, "actor_name": "ada", "action": "accounts.set_secret", "facts": {}}
    server.on("GET", "/audit", page(entry | target))
    server.on("GET", "/projects/team-a/audit", page(entry | target))

    everywhere, there = cli("project", "audit"), cli("project", "audit", "team-a")

    assert everywhere.stdout.splitlines()[1].split()[-4:] == ["ada", "accounts.set_secret", "secret", "HF_TOKEN"]
    assert there.stdout == everywhere.stdout
