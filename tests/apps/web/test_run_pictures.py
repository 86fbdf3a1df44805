"""A run as a picture and as bars."""

from datetime import UTC, datetime, timedelta

from core import clock
from flows.engine.spec import FlowSpec
from flows.models import Run
from flows.selectors.runs import AttemptView, StepView
from flows.web.graph_view import draw_flow, draw_run
from flows.web.timeline import rows_of

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def spec_of(*steps: dict) -> FlowSpec:
    return FlowSpec.model_validate({"flow": "x", "steps": [{"command": "true", **step} for step in steps]})


def step(
    key: str, state: str = "pending", *, index: int | None = None, after: tuple[str, ...] = (), **facts
) -> StepView:
    return StepView(
        key=key,
        index=index,
        label=key,
        title=key,
        state=state,
        depends_on=after,
        **{
            "reason": "",
            "parameters": {},
            "template": None,
            "decision": {},
            "attempts": [],
            "experiment_id": None,
            "started_at": None,
            "finished_at": None,
            **facts,
        },
    )


def test_a_grid_is_drawn_as_one_box_for_each_of_its_points():
    spec = spec_of({"name": "train", "grid": {"lr": [0.1, 0.01]}})
    steps = [step("train", index=number, parameters={"lr": lr, "seed": 1}) for number, lr in enumerate((0.1, 0.01))]

    picture = draw_run(Run(), spec, steps, [])

    assert [box.name for box in picture.boxes] == ["train lr=0.1", "train lr=0.01"]


def test_a_wide_fan_is_one_box_that_counts_and_shows_the_worst():
    spec = spec_of({"name": "train", "grid": {"seed": list(range(13))}})
    steps = [step("train", "succeeded", index=number) for number in range(12)] + [step("train", "failed", index=12)]

    [box] = draw_run(Run(), spec, steps, []).boxes

    assert (box.name, box.state, box.first_line) == ("train, 13 times", "failed", "1 failed, 12 succeeded")


def test_a_fallback_names_what_was_left_and_what_was_chosen():
    spec = spec_of({"name": "train", "compute": ["lab.gpu-8", "this-machine.small"]})
    tried = {"tried": [{"template": "lab.gpu-8", "waited_s": 3, "why": "no room"}], "chosen": "this.small"}

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


def test_an_attempt_is_a_bar_of_waiting_and_a_bar_of_running():
    attempt = AttemptView(
        number=1,
        state="succeeded",
        template="t",
        reason="",
        failure="",
        job_name="j",
        node="n",
        exit_code=0,
        experiment_id="e",
        created_at=START,
        started_at=START + timedelta(seconds=40),
        finished_at=START + timedelta(seconds=100),
    )
    run = Run(created_at=START, finished_at=START + timedelta(seconds=100))

    with clock.frozen_at(START + timedelta(hours=1)):
        [row] = rows_of(run, spec_of({"name": "a"}), [step("a", "succeeded", attempts=[attempt])])

    assert [(bar.start, bar.width, bar.state) for bar in row.bars] == [(0, 400, "pending"), (400, 600, "succeeded")]
