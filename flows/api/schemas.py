"""What the routes of flows take and answer."""

from datetime import datetime
from typing import Literal

from ninja import Schema
from pydantic import Field

from compute.selectors.outlooks import Outlook
from compute.selectors.waits import Wait
from core import bounds
from core.bodies import BodySchema
from core.times import Times
from experiments.api.schemas import DecisionOut, LogProblemsOut

Scalar = bool | bounds.Whole | bounds.Finite | bounds.Text


class FlowIn(BodySchema):
    """A flow file. `bundle` names code that was sent to /flows/bundles before."""

    project: bounds.Name
    text: bounds.FileText
    format: Literal["yaml", "json"] = "yaml"
    bundle: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")


class ValidateIn(BodySchema):
    """A flow file to check."""

    project: bounds.Name
    text: bounds.FileText
    format: Literal["yaml", "json"] = "yaml"


class ProblemOut(Schema):
    """Something to mend, or (with `is_note`) to know. `step` is empty for what concerns the whole flow."""

    line: int | None
    column: int | None
    path: str
    code: str
    message: str
    is_note: bool
    step: str


class ValidationOut(Schema):
    """What a flow file says, and all that is to be said about it."""

    is_valid: bool
    spec: dict[str, object] | None
    problems: list[ProblemOut]


class CodeUploadIn(BodySchema):
    """The beginning of an upload of code. `client_id` is a name that the client gives itself."""

    project: bounds.Name
    client_id: str = Field(default="", max_length=200)


class CodeUploadOut(Schema):
    """An upload session for a tree of code, whose packs and manifests are sent to `/uploads/{id}`.

    What the trees under `known_roots` hold need not be sent again.
    """

    id: str
    known_roots: list[str] = Field(description="Roots of trees of the project's newest code.")
    expires_at: datetime
    put_proof: str


class CodeTreeIn(BodySchema):
    """The end of an upload of code: the root of its tree."""

    upload: bounds.Name = Field(description="The upload session that brought the tree.")
    root: str = Field(pattern=r"^[0-9a-f]{64}$")


class BundleOut(Schema):
    """Code that is kept."""

    bundle: str
    size_bytes: int
    files: int


class FlowVersionOut(Schema):
    """What a flow said at one time."""

    id: str
    project: str
    flow: str
    number: int
    hash: str
    bundle: str
    created_by: str
    created_at: datetime


class FlowVersionDetailOut(FlowVersionOut):
    """A version with its text."""

    format: str
    text: str
    spec: dict[str, object]


class NewestVersionOut(Schema):
    """The newest version of a flow, in short."""

    number: int | None
    hash: str | None


class FlowOut(Schema):
    """A flow."""

    id: str
    project: str
    name: str
    title: str
    description: str
    newest_version: NewestVersionOut
    url: str
    created_at: datetime
    updated_at: datetime


class FlowDetailOut(FlowOut):
    """A flow with what its newest version says."""

    version: FlowVersionDetailOut


class FlowPageOut(Schema):
    """Some flows."""

    items: list[FlowOut]
    next_cursor: str | None


class FlowVersionPageOut(Schema):
    """Some versions."""

    items: list[FlowVersionOut]
    next_cursor: str | None


class CodeIn(BodySchema):
    """Which code a run is started from. `diff_hash` None: everything was committed."""

    commit: str = Field(default="", max_length=100)
    diff_hash: str | None = Field(default=None, max_length=100)
    branch: str | None = Field(default=None, max_length=300)
    remote: str | None = Field(default=None, max_length=1000)


class RunIn(BodySchema):
    """What a run is given. `version` is a hash, the beginning of one, or a number; without it the newest.

    `data` names other commits, branches or tags for dataset references of the flow: `{"demo/digits@main": "3d468961"}`.
    """

    parameters: dict[bounds.Name, Scalar] = Field({}, max_length=1000)
    version: bounds.Name | None = None
    code: CodeIn | None = None
    data: dict[bounds.Name, bounds.Name] = Field({}, max_length=1000)


class RetryIn(BodySchema):
    """From which step on to try again, `index` naming one try of a grid; without a step, whatever did not succeed."""

    step: bounds.Name = ""
    index: bounds.Count | None = None


class KeepIn(BodySchema):
    """In which dataset of the run's project to keep an output: its name, or `project/name`. `index` names one try."""

    dataset: bounds.Name
    index: bounds.Count | None = None
    message: bounds.Text = ""
    create: bool = False
    allow_collisions: bool = False


class KeptOutputOut(Schema):
    """The commit that an output became."""

    dataset: str
    branch: str
    commit: str
    files: int
    size_bytes: int


class RunFilter(Schema):
    """Which runs are listed."""

    project: str | None = None
    flow: str | None = None
    state: str | None = None
    number: bounds.Count | None = None


class LogPart(Schema):
    """Which part of which log: `index` inside a grid, `attempt` (without it the newest), and bytes."""

    index: bounds.Count | None = None
    attempt: bounds.Count | None = None
    offset: bounds.Offset = 0
    limit: int = Field(default=262144, ge=1, le=1048576)


class FailureOut(Schema):
    """What the platform could not do; it tries again at `next_try_at`. `log_id` names it in the platform's log."""

    message: str = Field(description="What could not be done, and why, as one sentence.")
    attempts: int = Field(description="How often it was tried.")
    next_try_at: datetime = Field(description="When it is tried again.")
    log_id: str = Field(description="The id under which the platform's log has the whole error.")


class AttemptOut(Schema):
    """One try of a step. `last_lines` are the lines of its log that say why it failed."""

    number: int
    state: str
    template: str
    reason: str
    failure: str
    job_name: str
    node: str
    exit_code: int | None
    last_lines: str
    experiment_id: str
    is_simulated: bool
    is_unknown: bool
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    times: Times | None
    log_problems: LogProblemsOut


class StepOut(Schema):
    """One instance of a step; `label` is its name with its values of the grid, `train C=10`.

    `index` is null for a step that is no grid; while it waits, `advice`
    says what would let it start, `wait` when, and `outlook` why, when and where else.
    """

    key: str
    index: int | None
    label: str
    title: str
    state: str
    reason: str
    advice: str
    wait: Wait | None
    outlook: Outlook | None
    depends_on: list[str]
    parameters: dict[str, object]
    template: str | None
    decision: DecisionOut
    attempts: list[AttemptOut]
    experiment_id: str | None
    is_simulated: bool
    is_unknown: bool
    started_at: datetime | None
    finished_at: datetime | None
    times: Times | None


class RunOut(Schema):
    """One execution of a flow. `total_s`: seconds from when it was asked for to its last end, or to now."""

    id: str
    project: str
    flow: str
    number: int
    version: str
    state: str
    reason: str
    is_cancelling: bool
    parameters: dict[str, object]
    datasets: list[dict[str, object]]
    code: dict[str, object]
    created_by: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    total_s: float
    url: str


class RunDetailOut(RunOut):
    """A run with its steps. `failures` is what the platform cannot do for it now."""

    steps: list[StepOut]
    times: Times
    failures: list[FailureOut]


class RunPageOut(Schema):
    """Some runs."""

    items: list[RunOut]
    next_cursor: str | None


class EventOut(Schema):
    """Something that happened in a run, to a `step` by its label; `seq` counts from 1 without gaps."""

    seq: int
    kind: str
    step: str | None
    step_key: str
    step_index: int | None
    message: str
    data: dict[str, object]
    at: datetime


class EventPageOut(Schema):
    """Some events; ask again with `after` = `last_seq`."""

    items: list[EventOut]
    last_seq: int
    is_complete: bool


class FlowDeletionOut(Schema):
    """What the deletion of a run, or of a flow with its runs, would mean."""

    effects: list[str] = Field(description="What is lost and what stays, as sentences.")


class StepLogOut(Schema):
    """Part of a log; ask again from `next_offset` until `is_complete`."""

    data: str
    next_offset: int
    is_complete: bool
