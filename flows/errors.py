"""What can go wrong about flows and runs."""

from core.errors import CHECK_MEMBERSHIP, Conflict, ErrorKind, InvalidInput, NotFound, PlatformError


class InvalidFlow(InvalidInput):
    """A flow file has problems; `details.problems` lists all of them with their lines."""

    code = "flows.invalid_flow"
    hint = "Run `nearline flow validate FILE` to see every problem with its line."


class InvalidExpression(InvalidInput):
    """A condition or a reference cannot be read."""

    code = "flows.invalid_expression"


class InvalidParameters(InvalidInput):
    """The values given for a run do not fit the flow's parameters."""

    code = "flows.invalid_parameters"


class FlowNotFound(NotFound):
    """The project has no such flow, or no such version of it."""

    code = "flows.flow_not_found"
    hint = CHECK_MEMBERSHIP


class FlowMoved(Conflict):
    """Somebody kept another version while this one was written; `details` hold its number, author and text."""

    code = "flows.flow_moved"
    hint = "Compare both, then keep yours as the next version or go on from theirs."


class DraftMoved(Conflict):
    """The draft was changed in another window; `details` hold what it says now."""

    code = "flows.draft_moved"
    hint = "Compare both, then go on with one of them."


class DraftTooLarge(InvalidInput):
    """A draft is larger than any flow may be."""

    code = "flows.draft_too_large"


class ExampleNotFound(NotFound):
    """No example of that name ships with this installation."""

    code = "flows.example_not_found"


class RunNotFound(NotFound):
    """No such run, step or attempt, or the caller may not see it."""

    code = "flows.run_not_found"
    hint = CHECK_MEMBERSHIP


class StepNotFound(RunNotFound):
    """The run is there, and has no step of that name."""

    code = "flows.step_not_found"
    hint = "`nearline run show RUN` and the page of the run list its steps."


class StepAmbiguous(InvalidInput):
    """The step has several tries, of a grid or as parts, and none of them is named; `details.step` names the step."""

    code = "flows.step_ambiguous"
    hint = "Name one of them by its index, or as in `nearline run logs RUN 'train C=10'`."


class RunNotFinished(Conflict):
    """Only a run that has ended can be retried."""

    code = "flows.run_not_finished"
    hint = "Wait for the run to end, or cancel it first."


class RunGoesOn(Conflict):
    """The run has not ended, so it cannot be deleted."""

    code = "flows.run_goes_on"
    hint = "Cancel it first: `nearline run cancel RUN`. Delete it once it has ended."


class FlowHasLiveRuns(Conflict):
    """Runs of the flow have not ended, so it cannot be deleted."""

    code = "flows.flow_has_live_runs"
    hint = "Cancel them first: `nearline run cancel RUN`. Delete the flow once they have ended."


class NothingToRetry(Conflict):
    """Every step of the run succeeded."""

    code = "flows.nothing_to_retry"
    hint = "Start a new run instead."


class OutputsGone(Conflict):
    """What the steps to try again would read has been deleted; `details.step` names the step that wrote it."""

    code = "flows.outputs_gone"
    hint = "Retry from that step on, or start a new run."


class OutputNotStored(Conflict):
    """The store holds no output of the step: it left no file, or has not succeeded; `details.step` names it."""

    code = "flows.output_not_stored"
    hint = "Outputs are stored when their step has succeeded. The step's page says what was stored, and what was not."


class RunHasEnded(Conflict):
    """The run has ended and cannot be cancelled."""

    code = "flows.run_has_ended"


class InvalidBundle(InvalidInput):
    """The code that came with a flow cannot be used."""

    code = "flows.invalid_bundle"
    hint = "Leave data out by .nearlineignore and keep it in a dataset. An archive holds no links."


class BundleNotFound(NotFound):
    """No code bundle with that hash was sent before."""

    code = "flows.bundle_not_found"
    hint = "Send the code first: POST /flows/bundles."


class LeaseLost(PlatformError):
    """Another worker took this run over and goes on with it. Never reaches a person."""

    code = "flows.lease_lost"
    kind = ErrorKind.CONFLICT
