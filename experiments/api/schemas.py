"""What the routes of experiments take and answer."""

from datetime import datetime
from typing import Annotated, Literal

from ninja import Schema
from pydantic import Field

from core import bounds
from core.bodies import BodySchema
from core.times import Times
from experiments.engine.recorded import MAX_TEXT, MAX_VALUES

Scalar = bool | bounds.Whole | bounds.Finite | Annotated[bounds.Text, Field(max_length=MAX_TEXT)]


class LogProblemOut(Schema):
    """A log line that could not be read: why, and how it begins."""

    reason: str = Field(description="Why it could not be read.")
    line: str = Field(description="How the line begins; empty where no line is meant.")


class LogProblemsOut(Schema):
    """How many lines of a log were to record something and could not be read, and the first of them."""

    count: int = Field(description="How many lines could not be read.")
    first: list[LogProblemOut] = Field(description="The first five of them.")


class TriedOut(Schema):
    """A template that was left for the next one."""

    template: str
    waited_s: float
    why: str


class DecisionOut(Schema):
    """Where a step runs, and why there."""

    tried: list[TriedOut]
    chosen: str | None
    why: str


class DataOut(Schema):
    """A dataset that was read."""

    name: str
    reference: str
    dataset: str
    commit: str
    cached: bool


class ArtifactOut(Schema):
    """A file that an experiment left."""

    path: str
    size_bytes: int
    content_hash: str


class UsageOut(Schema):
    """What a job used around one moment."""

    at: datetime
    cpu_millicores: int | None
    memory_bytes: int | None
    gpu_percent: int | None
    gpu_memory_used_bytes: int | None


class ExperimentOut(Schema):
    """One experiment. One that belongs to no run has an empty `run`, and 0 as `run_number`, `index` and `attempt`."""

    id: str
    project: str
    run: str
    flow: str
    run_number: int
    step: str
    index: int
    attempt: int
    label: str
    title: str
    state: str
    reason: str
    parameters: dict[str, object]
    metrics: dict[str, float | str]
    tags: dict[str, object]
    template: str
    is_simulated: bool
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    times: Times | None
    url: str


class MetricIn(BodySchema):
    """A measurement. Without `step` it follows the last one of its key; without `at` it was made now."""

    key: bounds.Name
    value: bounds.Finite | Literal["nan", "inf", "-inf"]
    step: bounds.Whole | None = None
    at: bounds.Moment | None = None


class RecordsIn(BodySchema):
    """What is recorded together; a parameter or tag that is there gets its new value."""

    parameters: dict[bounds.Name, Scalar] = Field({}, max_length=MAX_VALUES)
    tags: dict[bounds.Name, Scalar] = Field({}, max_length=MAX_VALUES)
    metrics: list[MetricIn] = Field([], max_length=10_000)


class ExperimentIn(RecordsIn):
    """An experiment that belongs to no job."""

    project: bounds.Name
    title: bounds.Name


class FinishIn(BodySchema):
    """How an experiment ended."""

    state: Literal["succeeded", "failed", "cancelled"] = "succeeded"
    reason: bounds.Line = ""


class ExperimentDetailOut(ExperimentOut):
    """An experiment with everything that makes it reproducible, and what it left."""

    data: list[DataOut]
    code: dict[str, object]
    decision: DecisionOut
    artifacts: list[ArtifactOut]
    artifacts_error: str
    log_problems: LogProblemsOut
    usage: list[UsageOut]
    job_name: str
    note: str
    note_by: str
    note_at: datetime | None


class ExperimentPageOut(Schema):
    """Some experiments."""

    items: list[ExperimentOut]
    next_cursor: str | None


class PointOut(Schema):
    """One measurement; `value` is a text for NaN and the infinities."""

    step: int
    value: float | str
    at: datetime


class CurveOut(Schema):
    """The points of one metric, thinned out where there are many; `total` counts all of them."""

    key: str
    points: list[PointOut]
    total: int


class ComparisonOut(Schema):
    """Experiments side by side: the value of each, in the order asked for, or null."""

    experiments: list[ExperimentOut]
    parameters: dict[str, list[object]]
    metrics: dict[str, list[object]]
    tags: dict[str, list[object]]


class NoteIn(BodySchema):
    """What to write about an experiment. `seen_at` is `note_at` as it was read; null: there was no note."""

    note: bounds.Text
    seen_at: bounds.Moment | None = None


class NoteOut(Schema):
    """What people wrote about an experiment, who did last, and when."""

    note: str
    note_by: str
    note_at: datetime | None


class ExperimentTagIn(BodySchema):
    """The value of a tag; an empty one is that of a tag that says all by its name."""

    value: bounds.Line = ""


class ExperimentTagsOut(Schema):
    """The tags of an experiment."""

    tags: dict[str, object]


class ExperimentDeletionOut(Schema):
    """What the deletion of an experiment would mean."""

    effects: list[str] = Field(description="What is lost and what stays, as sentences.")


class ViewIn(BodySchema):
    """A view of a project's experiments: the query of its page's address, such as `q=tags.best&sort=-took`."""

    project: bounds.Name
    name: bounds.Name
    query: bounds.Text


class ViewChangeIn(BodySchema):
    """The new name of a saved view."""

    name: bounds.Name


class ViewOut(Schema):
    """A saved view, and who keeps it."""

    id: str
    project: str = Field(alias="project.name")
    name: str
    query: str
    owner: str = Field(alias="owner.username")
    created_at: datetime


class ViewPageOut(Schema):
    """Some saved views."""

    items: list[ViewOut]
    next_cursor: str | None
