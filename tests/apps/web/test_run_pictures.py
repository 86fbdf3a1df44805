"""A run as a picture and as bars."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from django.test import RequestFactory

from compute.selectors.job_rows import RunHistory
from core import clock
from core.times import Interval
from flows.engine.spec import FlowSpec
from flows.models import Run
from flows.selectors.runs import AttemptView, StepView
from flows.web.graph_svg import draw_svg
from flows.web.graph_view import draw_flow
from flows.web.run_graph import RunLinks, draw_run, to_json
from flows.web.timeline import draw_timeline, path_of

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def spec_of(*steps: dict) -> FlowSpec:
    return FlowSpec.model_validate({"flow": "x", "steps": [{"command": "true", **step} for step in steps]})


def step(
    key: str,
    state: str = "pending",
    *,
    index: int | None = None,
    label: str = "",
    after: tuple[str, ...] = (),
    **facts,
) -> StepView:
    return StepView(
        key=key,
        index=index,
        label=label or key,
        title=label or key,
        state=state,
        depends_on=after,
        **{
            "reason": "",
            "parameters": {},
            "template": None,
            "decision": {},
            "attempts": [],
            "experiment_id": None,
            "is_simulated": False,
            "started_at": None,
            "finished_at": None,
            **facts,
        },
    )


def test_a_grid_is_drawn_as_one_box_for_each_of_its_points():
    spec = spec_of({"name": "train", "grid": {"lr": [0.1, 0.01]}})
    steps = [step("train", index=number, label=f"train lr={lr}") for number, lr in enumerate((0.1, 0.01))]

    picture = draw_run(Run(), spec, steps, [])

    assert [box.name for box in picture.boxes] == ["train lr=0.1", "train lr=0.01"]


def test_a_wide_fan_is_one_box_that_counts_and_shows_the_worst():
    spec = spec_of({"name": "train", "grid": {"seed": list(range(13))}})
    steps = [step("train", "succeeded", index=number) for number in range(12)] + [step("train", "failed", index=12)]

    [box] = draw_run(Run(), spec, steps, []).boxes

    assert (box.name, box.state, box.first_line) == ("train, 13 times", "failed", "1 failed, 12 succeeded")


def test_a_fallback_names_what_was_left_and_what_was_chosen():
    spec = spec_of({"name": "train", "compute": ["lab.gpu-8", "this-machine.small"]})
    tried = {"tried": [{"template": "lab.gpu-8", "waited_s": 3, "why": "no capacity"}], "chosen": "this.small"}

    [box] = draw_run(Run(), spec, [step("train", "queued", template="this.small", decision=tried)], []).boxes

    assert box.first_line == "lab.gpu-8 → this.small"


def test_a_dataset_stands_before_the_step_that_reads_it():
    spec = spec_of({"name": "train", "data": [{"dataset": "demo/digits"}]})
    run = Run(datasets={"demo/digits": {"dataset": "demo/digits", "commit": "c01d2aaf" + "0" * 56}})

    picture = draw_run(run, spec, [step("train")], [])

    dataset, train = picture.boxes
    assert (dataset.name, dataset.first_line) == ("digits", "@c01d2aaf")
    assert dataset.x < train.x
    assert len(picture.arrows) == 1


def test_a_flow_that_does_not_run_shows_where_its_steps_may_run():
    picture = draw_flow(spec_of({"name": "a", "compute": ["lab.one", "lab.two"]}, {"name": "b", "after": ["a"]}))

    assert [(box.name, box.first_line) for box in picture.boxes] == [
        ("a", "lab.one, then lab.two"),
        ("b", "this-machine.small"),
    ]


def test_a_fan_of_like_steps_is_one_box_and_what_differs_stands_alone():
    fan = [{"name": f"part-{number:02}", "after": ["a"]} for number in range(13)]
    spec = spec_of({"name": "a"}, *fan, {"name": "z", "after": [each["name"] for each in fan[:12]]})
    steps = [step(each.name, "succeeded", after=each.after) for each in spec.steps]

    picture = draw_run(Run(), spec, steps, [])

    assert [box.name for box in picture.boxes] == ["a", *(f"part-{n:02}" for n in range(12)), "part-12", "z"]
    wider = spec_of({"name": "a"}, *fan, {"name": "z", "after": [each["name"] for each in fan]})
    picture = draw_run(Run(), wider, steps, [])
    assert [(box.name, box.key) for box in picture.boxes] == [
        ("a", "step:a:0"),
        ("part-00 and 12 others", "group:part-00"),
        ("z", "step:z:0"),
    ]
    assert picture.edges == [("step:a:0", "group:part-00"), ("group:part-00", "step:z:0")]
    assert len(draw_run(Run(), wider, steps, [], opened=["part-00"]).boxes) == 15


def test_the_bar_of_a_group_shows_each_state_by_its_share():
    spec = spec_of({"name": "train", "grid": {"seed": list(range(20))}})
    states = ["failed"] * 5 + ["running"] * 10 + ["succeeded"] * 5
    steps = [step("train", state, index=number) for number, state in enumerate(states)]

    [box] = draw_run(Run(), spec, steps, []).boxes

    assert [(part.state, part.count, part.width / 182) for part in box.bar] == [
        ("failed", 5, 0.25),
        ("running", 10, 0.5),
        ("succeeded", 5, 0.25),
    ]
    assert box.bar[1].start == 45.5


def test_names_are_text_in_the_drawing_and_in_the_data():
    spec = spec_of({"name": "a", "grid": {"x": ["<script>"]}})
    picture = draw_run(Run(), spec, [step("a", "failed", index=0, parameters={"x": "<script>"})], [])

    drawn = draw_svg(picture, lambda box: f"?step={box.step}&x=1")

    assert "<script>" not in drawn
    assert 'href="?step=a&amp;x=1"' in drawn
    assert to_json(picture)["looks"] == {"failed": {"word": "Failed", "css": "failed", "icon": "alert-circle"}}


def test_a_link_keeps_what_it_is_not_about():
    links = RunLinks(RequestFactory().get("/?view=table&show=failed&step=a&index=1&tab=log"))

    assert links.step("b", 2) == "?view=table&show=failed&step=b&index=2#run-step"
    assert links.step("b", None) == "?view=table&show=failed&step=b#run-step"
    assert links.group("train") == "?view=table&show=failed&group=train#run-step"


def try_of(made: float, started: float | None, ended: float | None, state: str = "succeeded") -> AttemptView:
    def at(seconds: float | None) -> datetime | None:
        return None if seconds is None else START + timedelta(seconds=seconds)

    return AttemptView(
        number=1,
        state=state,
        template="t",
        reason="",
        failure="",
        job_name="j",
        node="n",
        exit_code=0,
        last_lines="",
        experiment_id="e",
        is_simulated=False,
        created_at=at(made),
        started_at=at(started),
        finished_at=at(ended),
    )


def timeline_of(spec: FlowSpec, *steps: StepView, seconds: float = 100):
    run = Run(created_at=START, finished_at=START + timedelta(seconds=seconds))
    links = RunLinks(RequestFactory().get("/"))
    with clock.frozen_at(START + timedelta(hours=1)):
        path = path_of(run, steps)
        return draw_timeline(run, spec, steps, path, links=links), path


def test_an_attempt_is_a_bar_of_waiting_and_a_bar_of_running():
    timeline, _ = timeline_of(spec_of({"name": "a"}), step("a", "succeeded", attempts=[try_of(0, 40, 100)]))

    [row] = timeline.rows
    assert [(bar.start, bar.width, bar.state, bar.title) for bar in row.bars] == [
        (0, 40, "pending", "waited 40 s for t"),
        (40, 60, "succeeded", "ran 1 min on n"),
    ]
    assert [(tick.place, tick.label) for tick in timeline.ticks] == [
        (0, "0"), (30, "30 s"), (60, "1 min"), (90, "1 min 30 s"),
    ]  # fmt: skip


def test_the_scale_of_a_run_of_weeks_counts_in_whole_days():
    timeline, _ = timeline_of(spec_of({"name": "a"}), seconds=20 * 86_400)

    assert [(tick.place, tick.label) for tick in timeline.ticks] == [
        (0, "0"), (20, "4 d"), (40, "8 d"), (60, "12 d"), (80, "16 d"), (100, "20 d"),
    ]  # fmt: skip


def test_the_critical_path_goes_back_by_the_parent_that_ended_last():
    spec = spec_of(
        {"name": "a"}, {"name": "b", "after": ["a"]}, {"name": "c", "after": ["a"]}, {"name": "d", "after": ["b", "c"]}
    )
    ends = {"a": (0, 10, 20), "b": (20, 25, 90), "c": (20, 21, 40), "d": (90, 92, 100)}
    steps = [
        step(
            each.name, "succeeded", after=each.after, attempts=[try_of(*ends[each.name])],
            finished_at=START + timedelta(seconds=ends[each.name][2]),
        )
        for each in spec.steps
    ]  # fmt: skip

    timeline, path = timeline_of(spec, *steps)

    assert [span.key for span in path.spans] == ["a", "b", "d"]
    assert (path.ran_s, path.waited_s) == (83, 17)
    assert [(row.label, row.is_critical) for row in timeline.rows] == [
        ("a", True),
        ("b", True),
        ("c", False),
        ("d", True),
    ]


def test_the_critical_path_counts_all_tries_of_a_step_and_no_time_between_them():
    tries = [try_of(0, 10, 20, "failed"), try_of(60, 61, 100)]
    steps = [step("a", "succeeded", attempts=tries, finished_at=START + timedelta(seconds=100))]

    _, path = timeline_of(spec_of({"name": "a"}), *steps)

    assert (path.ran_s, path.waited_s) == (49, 11)


def test_an_evicted_attempt_is_a_bar_for_each_of_its_runs():
    first = Interval(START, START + timedelta(seconds=10), START + timedelta(seconds=40))
    history = RunHistory([first], [], START + timedelta(seconds=40))
    evicted = replace(try_of(0, 60, 100), history=history)

    timeline, _ = timeline_of(spec_of({"name": "a"}), step("a", "succeeded", attempts=[evicted]))

    [row] = timeline.rows
    assert [(bar.start, bar.width, bar.state, bar.title) for bar in row.bars] == [
        (0, 10, "pending", "waited 10 s for t"),
        (10, 30, "cancelled", "ran 30 s on t, until it was evicted"),
        (40, 20, "pending", "waited 20 s for t"),
        (60, 40, "succeeded", "ran 40 s on n"),
    ]


def test_a_wide_grid_is_one_row_from_its_first_to_its_last():
    spec = spec_of({"name": "train", "grid": {"seed": list(range(13))}})
    steps = [step("train", "succeeded", index=n, attempts=[try_of(0, 10 + n, 40 + n)]) for n in range(13)]

    timeline, _ = timeline_of(spec, *steps)

    [row] = timeline.rows
    assert (row.label, row.group, row.href) == ("train, 13 times", "train", "?group=train#run-step")
    assert [(bar.start, bar.width) for bar in row.bars] == [(0, 10), (10, 42)]


def test_a_run_in_which_nothing_began_has_no_path():
    timeline, path = timeline_of(spec_of({"name": "a"}), step("a"))

    assert path.spans == []
    assert [row.bars for row in timeline.rows] == [[]]
