"""`nearline compute` after a resource was attached: nodes, draining, new credentials, templates, its end."""

import json

import pytest

from client.tests.cli.answers import page

NODE = {
    "id": "node_1",
    "name": "dgx-1",
    "resource": "dgx",
    "pool": "a100",
    "is_ready": True,
    "is_drained": False,
    "is_simulated": False,
    "cpu_millicores": 40_000,
    "cpu_held_millicores": 4000,
    "memory_bytes": 512 * 2**30,
    "memory_held_bytes": 0,
    "gpus": [{"held_milli": 500}, {"held_milli": 1000}],
}
RESOURCE = {"name": "dgx", "kind": "kubernetes", "state": "ready"}
TEMPLATE = {"name": "big", "resource": "dgx", "cpu_millicores": 8000, "memory_bytes": 2**34, "gpu_milli": 1000}


def test_nodes_are_listed_with_what_is_held_on_them(cli, server):
    server.on("GET", "/scheduler/nodes", page(NODE, NODE | {"id": "node_0", "name": "dgx-0", "is_drained": True}))
    server.on("GET", "/compute/resources", page(RESOURCE | {"foreign_gpus": {"dgx-0": 3}}))

    assert cli("compute", "nodes").stdout.splitlines() == [
        "NODE   RESOURCE  POOL  STATE    CPU HELD  MEMORY HELD     GPUS HELD",
        "dgx-0  dgx       a100  drained  4 of 40   0 B of 512 GiB  4.5 of 5, 3 by others",
        "dgx-1  dgx       a100  ready    4 of 40   0 B of 512 GiB  1.5 of 2",
    ]


def test_a_resource_without_nodes_is_told_from_one_that_there_is_not(cli, server):
    server.on("GET", "/scheduler/nodes", page())
    server.on("GET", "/compute/resources", page(RESOURCE))

    empty, missing = cli("compute", "nodes", "dgx"), cli("compute", "nodes", "nope")

    assert (empty.exit_code, empty.stdout, empty.stderr) == (0, "", "There is no node.\n")
    assert (missing.exit_code, missing.stderr.splitlines()[0]) == (3, "✗ There is no compute resource called 'nope'.")


@pytest.mark.parametrize("name", ["lab", "lab.", ".big", ""])
def test_a_template_without_its_resource_or_name_is_refused_in_words(cli, server, name):
    done = cli("compute", "add-template", name, "--cpu", "1", "--memory", "1GiB")

    assert (done.exit_code, done.stderr) == (
        2,
        f"✗ '{name}' does not name a template.\nhint: Write RESOURCE.NAME, as lab.small.\n",
    )
    assert server.asked == []


def test_a_resource_or_one_node_is_drained_and_opened_again(cli, server):
    server.on("GET", "/scheduler/nodes", page(NODE))
    server.on("PATCH", "/scheduler/nodes/node_1", NODE)
    server.on("PATCH", "/compute/resources/dgx", RESOURCE)

    drained = cli("compute", "drain", "dgx")
    opened = cli("compute", "drain", "dgx", "--node", "dgx-1", "--undo")

    assert server.bodies("PATCH", "/compute/resources/dgx") == [{"is_drained": True}]
    assert server.bodies("PATCH", "/scheduler/nodes/node_1") == [{"is_drained": False}]
    assert (drained.stderr, opened.stderr) == (
        "✔ dgx takes no new jobs; running jobs continue.\n",
        "✔ dgx-1 takes new jobs again.\n",
    )


def test_a_node_that_there_is_not_is_not_drained(cli, server):
    server.on("GET", "/scheduler/nodes", page(NODE))

    done = cli("compute", "drain", "dgx", "--node", "dgx-7")

    assert (done.exit_code, done.stderr.splitlines()[0]) == (3, "✗ dgx has no node called 'dgx-7'.")


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--kubeconfig",), ["kubeconfig"]),
        (("--key",), ["private_key"]),
        (("--key", "--cert"), ["docker_key", "docker_certificate"]),
    ],
)
def test_new_credentials_are_sent_by_the_names_of_their_kind(cli, server, here, options, names):
    server.on("PATCH", "/compute/resources/dgx", RESOURCE)
    (here / "file").write_text("secret")

    done = cli("compute", "rotate", "dgx", *[word for option in options for word in (option, "file")])

    assert server.bodies("PATCH", "/compute/resources/dgx") == [{"credentials": dict.fromkeys(names, "secret")}]
    assert done.stderr == "✔ dgx answers with the new credentials.\n"


def test_nothing_is_asked_without_credentials_or_changes(cli, server):
    assert [cli("compute", *words).exit_code for words in (("rotate", "dgx"), ("set-template", "dgx.big"))] == [2, 2]
    assert server.asked == []


def test_a_template_is_changed_and_deleted(cli, server):
    server.on("PATCH", "/compute/templates/dgx.big", TEMPLATE | {"price_per_hour": "2.50"})
    server.on("DELETE", "/compute/templates/dgx.big", None)

    done = cli("compute", "set-template", "dgx.big", "--gpus", "1", "--price", "none")
    gone = cli("compute", "delete-template", "dgx.big", "--yes")

    assert server.bodies("PATCH", "/compute/templates/dgx.big") == [{"gpu_milli": 1000, "price_per_hour": None}]
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["dgx.big", "8", "16", "1", "2.50"]
    assert gone.stderr == "✔ dgx.big is deleted.\n"


def test_a_resource_is_detached(cli, server):
    server.on("DELETE", "/compute/resources/dgx", None)

    assert cli("compute", "detach", "dgx", "--yes").stderr == "✔ dgx is detached.\n"


def test_before_a_resource_is_detached_it_is_told_what_is_lost(cli, server):
    server.on("GET", "/compute/templates", page(TEMPLATE, TEMPLATE | {"resource": "lab"}))

    refused = cli("compute", "detach", "dgx")

    assert refused.exit_code == 2
    assert refused.stderr.startswith(
        "✗ Detach dgx? Jobs and flows can no longer ask for it, nor for its templates dgx.big. What is cached stays on "
        "its site until it is evicted. Attaching it again needs its credentials again."
    )
    assert [method for method, *_ in server.asked] == ["GET"]


LOSS = {"resource": "dgx", "effects": ["2 started jobs: lost.", "The cache site dgx with 1 copy (1.0 GB): removed."]}


def test_before_a_resource_is_given_up_it_is_told_what_is_lost(cli, server):
    server.on("GET", "/compute/resources/dgx/loss", LOSS)

    refused = cli("compute", "give-up", "dgx")

    assert refused.exit_code == 2
    assert refused.stderr.splitlines()[:4] == [
        "! dgx will be given up.",
        "  2 started jobs: lost.",
        "  The cache site dgx with 1 copy (1.0 GB): removed.",
        "✗ Give up dgx? It cannot be undone. Nobody is here to answer.",
    ]
    assert [method for method, *_ in server.asked] == ["GET"]


def test_a_resource_is_given_up(cli, server):
    server.on("GET", "/compute/resources/dgx/loss", LOSS)
    server.on("POST", "/compute/resources/dgx/give-up", LOSS)

    done = cli("compute", "give-up", "dgx", "--yes", "--json")

    assert json.loads(done.stdout) == LOSS


def test_a_cluster_is_shown_with_its_storage_its_quotas_and_what_it_keeps_jobs_from(cli, server):
    storage = {"name": "fast", "provisioner": "csi.trident.netapp.io", "access": "many nodes", "is_default": True}
    cluster = {
        "version": "v1.34.4",
        "trident_version": "26.06.0",
        "storage": [storage | {"snapshots": "no", "clones": "yes"}],
        "backends": [{"name": "svm1", "driver": "ontap-nas", "state": "offline", "reason": "SVM is not reachable"}],
        "quotas": [{"quota": "team", "resource": "requests.nvidia.com/gpu", "used": "2", "hard": "4"}],
    }
    server.on("GET", "/compute/resources", page(RESOURCE | {"cluster": cluster, "warnings": ["No labels."]}))
    server.on("GET", "/scheduler/nodes", page(NODE, NODE | {"id": "node_2", "is_ready": False}))

    shown, missing = cli("compute", "show", "dgx"), cli("compute", "show", "nope")

    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert "Nodes: 2, 1 of them ready: nearline compute nodes dgx" in lines
    assert "Trident: 26.06.0" in lines
    assert "Class fast: csi.trident.netapp.io, the default, mounted by many nodes, snapshots: no, clones: yes" in lines
    assert "Backend svm1: ontap-nas, offline SVM is not reachable" in lines
    assert "Quota team: requests.nvidia.com/gpu: 2 of 4" in lines
    assert "No labels." in shown.stderr
    assert (missing.exit_code, missing.stderr.splitlines()[0]) == (3, "✗ There is no compute resource called 'nope'.")


def test_what_happened_to_a_resource_is_listed(cli, server):
    lost = {"at": "2026-03-01T12:00:00+00:00", "source": "platform", "text": "does not answer: No route.", "by": ""}
    drained = {**lost, "text": "the node n-1 takes no new jobs", "by": "root", "is_warning": False}
    server.on("GET", "/compute/resources/dgx/events", page({**lost, "is_warning": True}, drained))

    [_, first, second] = cli("compute", "events", "dgx").stdout.splitlines()

    assert first.endswith("platform  warning: does not answer: No route.")
    assert second.endswith("root      the node n-1 takes no new jobs")


@pytest.mark.parametrize(("typed", "exit_code", "sent"), [("geheim\n", 0, "geheim"), ("", 2, None)])
def test_the_secret_of_a_bucket_is_read_from_stdin_and_none_is_refused(cli, server, typed, exit_code, sent):
    source = {"name": "lake", "kind": "s3", "location": "s3://lake", "projects": []}
    server.on("PUT", "/sources/lake", source)

    done = cli("source", "set", "lake", "s3://lake", "--access-key", "key", stdin=typed)

    assert done.exit_code == exit_code
    assert [body["secret_key"] for body in server.bodies("PUT", "/sources/lake")] == ([sent] if sent else [])
