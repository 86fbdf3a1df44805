"""What can go wrong about flows, runs and experiments."""

from core.errors import Conflict, ErrorKind, InvalidInput, NotFound, PlatformError


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


class FlowMoved(Conflict):
    """Somebody kept another version while this one was written; `details` hold its number, author and text."""

    code = "flows.flow_moved"
    hint = "Look at both, then keep yours as the next version or go on from theirs."


class DraftMoved(Conflict):
    """The draft was changed in another window; `details` hold what it says now."""

    code = "flows.draft_moved"
    hint = "Look at both, then go on with one of them."


class DraftTooLarge(InvalidInput):
    """A draft is larger than any flow may be."""

    code = "flows.draft_too_large"


class ExampleNotFound(NotFound):
    """No example of that name ships with this installation."""

    code = "flows.example_not_found"


class RunNotFound(NotFound):
    """No such run, step or attempt, or the caller may not see it."""

    code = "flows.run_not_found"


class ExperimentNotFound(NotFound):
    """No such experiment, or the caller may not see it."""

    code = "flows.experiment_not_found"


class ArtifactNotFound(NotFound):
    """The experiment has no file of that name, or its bytes are gone."""

    code = "flows.artifact_not_found"


class InvalidFilter(InvalidInput):
    """The filter of a list of experiments cannot be read; `details.position` counts characters from 1."""

    code = "flows.invalid_filter"
    hint = 'Write it like: metrics.accuracy > 0.9 and params.lr in (0.1, 0.3) and flow = "digits".'


class InvalidColumn(InvalidInput):
    """There is nothing of that name to show, sort or group experiments by."""

    code = "flows.invalid_column"
    hint = "Write params.NAME, metrics.NAME, tags.NAME, or a plain field such as flow or created."


class NoteChanged(Conflict):
    """Somebody else wrote the note since the caller read it."""

    code = "flows.note_changed"
    hint = "Read the note as it is now, then add what you have to say."


class ViewNotFound(NotFound):
    """No such saved view, or the caller may not see it."""

    code = "flows.view_not_found"


class ViewExists(Conflict):
    """Somebody else keeps a view of that name."""

    code = "flows.view_exists"
    hint = "Choose another name."


class RunNotFinished(Conflict):
    """Only a run that has ended can be retried."""

    code = "flows.run_not_finished"
    hint = "Wait for the run to end, or cancel it first."


class NothingToRetry(Conflict):
    """Every step of the run succeeded."""

    code = "flows.nothing_to_retry"
    hint = "Start a new run instead."


class OutputsGone(Conflict):
    """What the steps to try again would read has been deleted; `details.step` names the step that wrote it."""

    code = "flows.outputs_gone"
    hint = "Retry from that step on, or start a new run."


class RunHasEnded(Conflict):
    """The run has ended and cannot be cancelled."""

    code = "flows.run_has_ended"


class InvalidBundle(InvalidInput):
    """The code that came with a flow cannot be used."""

    code = "flows.invalid_bundle"
    hint = "Send a tar.gz of at most 20 MiB that holds files and folders, and no links."


class BundleNotFound(NotFound):
    """No code bundle with that hash was sent before."""

    code = "flows.bundle_not_found"
    hint = "Send the code first: POST /flows/bundles."


class LeaseLost(PlatformError):
    """Another worker took this run over and goes on with it. Never reaches a person."""

    code = "flows.lease_lost"
    kind = ErrorKind.CONFLICT
