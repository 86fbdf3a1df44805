"""How projects share: quotas, what goes beyond them, and the walk-through of TR-4858."""

from tests.factories.scheduler import decide, held, node, queue, wait

LAB = (node("dgx1-1", 8), node("dgx1-2", 8))
TEAMS = (queue("team-a", 4, age=4), queue("team-b", 2, age=3), queue("team-c", 2, age=2), queue("team-d", 8, age=1))


def test_the_queue_furthest_below_its_share_goes_first():
    outcome = decide(
        node("n1", 4),
        queue("a", 2),
        queue("b", 2),
        held("x", "a", "n1", {0: 1}),
        wait("a-next", "a", 1, minute=0),
        wait("b-first", "b", 1, minute=5),
    )

    assert outcome.order == ["b-first", "a-next"]


def test_queues_take_turns_whatever_the_time_of_submission():
    early = [wait(f"a{i}", "a", 1, minute=i) for i in range(4)]
    late = [wait(f"b{i}", "b", 1, minute=10 + i) for i in range(4)]

    outcome = decide(node("n1", 2), node("n2", 2), queue("a", 1, age=2), queue("b", 1, age=1), *early, *late)

    assert sorted(outcome.order) == ["a0", "a1", "b0", "b1"]


def test_idle_gpus_go_to_whoever_asks_beyond_the_quota():
    outcome = decide(node("n1", 4), queue("a", 1), queue("b", 3), *[wait(f"a{i}", "a", 1, minute=i) for i in range(5)])

    assert outcome.order == ["a0", "a1", "a2", "a3"]


def test_a_project_without_a_quota_uses_what_is_idle():
    outcome = decide(node("n1", 2), queue("guest", 0), wait("job", "guest", 2))

    assert outcome.nodes == {"job": "n1"}


def test_beyond_quotas_the_weights_decide():
    jobs = [wait(f"{team}{i:03}", team, 1) for team in ("heavy", "light") for i in range(100)]
    nodes = [node(f"n{i:02}", 10) for i in range(10)]

    outcome = decide(*nodes, queue("heavy", 10, weight=3), queue("light", 10, weight=1), *jobs)

    assert sum(name.startswith("heavy") for name in outcome.order) == 70
    assert sum(name.startswith("light") for name in outcome.order) == 30


def test_three_to_one_quotas_split_idle_gpus_three_to_one():
    jobs = [wait(f"{team}{i}", team, 1) for team in ("a", "b") for i in range(20)]

    outcome = decide(node("n1", 8), queue("a", 3), queue("b", 1), *jobs)

    assert sum(name.startswith("a") for name in outcome.order) == 6
    assert sum(name.startswith("b") for name in outcome.order) == 2


def test_what_is_not_preemptible_stays_within_the_quota():
    outcome = decide(
        node("n1", 8),
        queue("team-a", 2),
        held("notebook", "team-a", "n1", {0: 1}, firm=True),
        wait("second", "team-a", 1, firm=True),
        wait("third", "team-a", 1, minute=1, firm=True),
        wait("training", "team-a", 4, minute=2),
    )

    assert outcome.order == ["second", "training"]
    assert outcome.codes == {"third": "beyond_quota"}
    assert outcome.texts["third"] == (
        "is not preemptible, so it must stay within the quota: it needs 1 GPU, the quota of team-a is 2 GPUs, and "
        "its jobs that are not preemptible hold 2 GPUs"
    )


def test_preemptible_work_does_not_use_up_the_quota_of_what_is_not():
    outcome = decide(
        node("n1", 8), queue("a", 1), held("training", "a", "n1", {0: 1, 1: 1}), wait("notebook", "a", 1, firm=True)
    )

    assert outcome.order == ["notebook"]


def test_work_without_gpus_needs_no_gpu_quota():
    outcome = decide(node("n1"), queue("a", 0), wait("job", "a", firm=True))

    assert outcome.order == ["job"]


def test_a_cpu_quota_bounds_what_is_not_preemptible():
    outcome = decide(node("n1"), queue("a", cpu=2), wait("job", "a", cpu=3, firm=True))

    assert outcome.codes == {"job": "beyond_quota"}


def test_thirteen_submissions_fill_both_machines_of_the_paper():
    submissions = [
        ("a-1-1-jupyter", "team-a", 1, True),
        ("a-1-g", "team-a", 1, False),
        ("a-2-gg", "team-a", 2, False),
        ("b-1-g06", "team-b", 0.6, True),
        ("b-2-g04", "team-b", 0.4, True),
        ("b-3-g", "team-b", 1, False),
        ("b-4-gg", "team-b", 2, False),
        ("c-1-g05", "team-c", 0.5, True),
        ("c-2-g03", "team-c", 0.3, True),
        ("c-3-g02", "team-c", 0.2, True),
        ("c-4-gg", "team-c", 2, False),
        ("c-5-g", "team-c", 1, False),
        ("d-1-gggg", "team-d", 4, False),
    ]
    running, nodes, gpus = [], {}, {}
    for minute, (name, team, amount, is_interactive) in enumerate(submissions):
        outcome = decide(*LAB, *TEAMS, *running, wait(name, team, amount, minute=minute, firm=is_interactive))
        assert outcome.order == [name]
        nodes |= outcome.nodes
        gpus |= outcome.gpus
        parts = {index: milli / 1000 for index, milli in outcome.gpus[name].items()}
        running.append(held(name, team, outcome.nodes[name], parts, firm=is_interactive))

    used = dict.fromkeys(("dgx1-1", "dgx1-2"), 0)
    for name, devices in gpus.items():
        used[nodes[name]] += sum(devices.values())
    assert used == {"dgx1-1": 8000, "dgx1-2": 8000}
    assert gpus["b-1-g06"].keys() == gpus["b-2-g04"].keys()
    assert gpus["c-1-g05"].keys() == gpus["c-2-g03"].keys() == gpus["c-3-g02"].keys()


def test_the_first_step_of_the_bin_packing_quick_start_fills_four_gpus():
    outcome = decide(
        node("n1", 2), node("n2", 2), queue("team-a", 2), queue("team-b", 2),
        wait("a2", "team-a", 2), wait("a1", "team-a", 1, minute=1), wait("b1", "team-b", 1, minute=2),
    )  # fmt: skip

    assert sorted(outcome.order) == ["a1", "a2", "b1"]
    assert outcome.nodes["a1"] == outcome.nodes["b1"] != outcome.nodes["a2"]


def test_two_fractions_of_a_small_quota_share_one_device():
    outcome = decide(
        node("n1", 8), queue("a", 1), wait("frac05", "a", 0.5, firm=True), wait("frac03", "a", 0.3, minute=1)
    )

    assert outcome.gpus == {"frac05": {0: 500}, "frac03": {0: 300}}
