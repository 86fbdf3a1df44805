"""Pools by hand: what moves with a resource is said before it is moved."""

from client.tests.cli.answers import page

POOL = {"name": "cloud", "resources": ["cloud"], "nodes": 2, "gpu_milli": 16_000}
SAID = "There is work on these resources. 1 job runs on, with 1 GPU, and counts against the quotas of the new pool."


def test_pools_are_listed_with_their_resources(cli, server):
    server.on("GET", "/scheduler/pools", page(POOL))

    assert cli("pool", "list").stdout.splitlines() == [
        "POOL   GPUS  NODES  RESOURCES",
        "cloud  16    2      cloud",
    ]


def test_a_pool_is_created_with_resources(cli, server):
    server.on("POST", "/scheduler/pools", POOL, status=201)

    assert cli("pool", "create", "cloud", "cloud", "--yes").exit_code == 0
    assert server.bodies("POST", "/scheduler/pools") == [{"name": "cloud", "resources": ["cloud"], "moves_work": True}]


def test_rules_of_a_pool_are_changed_and_shown(cli, server):
    times = {"claim_delay_s": 60.0, "reclaim_min_runtime_s": 600.0, "surplus_min_runtime_s": 43_200.0}
    counts = {"evictions_at_most": 3, "surplus_evictions_at_most": 1, "consolidate_every_s": 300.0}
    rules = {"preset": "", **times, **counts, "usage_half_life_s": 604_800.0, "usage_pull": 0.5}
    server.on("PATCH", "/scheduler/pools/cloud/sharing", rules)
    server.on("GET", "/scheduler/pools", page(POOL | {"sharing": rules}))

    done = cli("pool", "set", "cloud", "--rules", "steady", "--past-use", "0.5", "--stops", "3")

    assert server.bodies("PATCH", "/scheduler/pools/cloud/sharing") == [
        {"preset": "steady", "usage_pull": 0.5, "evictions_at_most": 3}
    ]
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[3:5] + lines[-1:] == ["Rules: its own", "Claim delay: 1 min", "Past use: 0.5, half-life 7 d"]


def test_a_script_that_does_not_say_yes_is_told_what_would_move_and_moves_nothing(cli, server):
    server.refuse("PATCH", "/scheduler/pools/cloud", 400, title=SAID, code="scheduler.pool_has_work")

    done = cli("pool", "move", "cloud", "lab")

    assert done.exit_code == 2
    assert SAID in done.stderr
    assert server.bodies("PATCH", "/scheduler/pools/cloud") == [{"resources": ["lab"], "moves_work": False}]


def test_a_pool_is_deleted_once_it_is_confirmed(cli, server):
    server.on("DELETE", "/scheduler/pools/cloud", None, status=204)

    assert cli("pool", "delete", "cloud").exit_code == 2
    assert server.asked == []
    assert cli("pool", "delete", "cloud", "--yes").exit_code == 0


def test_a_pool_of_the_nodes_with_a_label_is_created_and_listed(cli, server):
    labels = [{"resource": "cloud", "label": "gpu=h100", "nodes": 2}, {"resource": "lab", "label": "gpu=h100"}]
    divided = POOL | {"labels": labels}
    server.on("POST", "/scheduler/pools", divided, status=201)
    server.on("GET", "/scheduler/pools", page(divided))

    done = cli("pool", "create", "cloud", "cloud", "lab", "--label", "gpu=h100")

    assert done.exit_code == 0
    assert done.stderr == "! No node of lab has the label gpu=h100 now. Those that get it join the pool.\n"
    assert server.bodies("POST", "/scheduler/pools") == [
        {"name": "cloud", "resources": ["cloud", "lab"], "label": "gpu=h100", "moves_work": False}
    ]
    assert cli("pool", "list").stdout.splitlines()[1] == "cloud  16    2      cloud (gpu=h100), lab (gpu=h100)"


def test_a_label_is_taken_out_of_a_pool_after_it_was_said_what_moves(cli, server):
    server.refuse("POST", "/scheduler/pools/cloud/label-removals", 400, title=SAID, code="scheduler.pool_has_work")

    done = cli("pool", "take-out", "cloud", "lab", "--label", "gpu=h100")

    assert done.exit_code == 2
    assert SAID in done.stderr
    assert server.bodies("POST", "/scheduler/pools/cloud/label-removals") == [
        {"resources": ["lab"], "label": "gpu=h100", "moves_work": False}
    ]
