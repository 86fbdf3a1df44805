"""What can go wrong about experiments. Codes that begin with `flows.` are from before experiments were an app."""

from core.errors import CHECK_MEMBERSHIP, Conflict, InvalidInput, NotFound


class ExperimentNotFound(NotFound):
    """No such experiment, or the caller may not see it."""

    code = "flows.experiment_not_found"
    hint = CHECK_MEMBERSHIP


class ArtifactNotFound(NotFound):
    """The experiment has no file of that name, or its bytes are gone."""

    code = "flows.artifact_not_found"


class ArtifactsNotMovable(Conflict):
    """What the first release stored of an experiment cannot be moved to the store; it stays where it is."""

    code = "experiments.artifacts_not_movable"
    hint = "Bring the folder 'artifacts' back, or leave the files where they are: they can be read there."


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
    hint = CHECK_MEMBERSHIP


class ViewExists(Conflict):
    """Somebody else keeps a view of that name."""

    code = "flows.view_exists"
    hint = "Choose another name."


class NotStandalone(Conflict):
    """The experiment records a job or an attempt, whose log says what it measured."""

    code = "experiments.not_standalone"
    hint = "Print it inside the job, or create an experiment that stands alone: POST /experiments."


class ExperimentHasEnded(Conflict):
    """The experiment was finished: nothing is recorded any more but notes and tags."""

    code = "experiments.has_ended"
    hint = "Create another experiment."


class ExperimentGoesOn(Conflict):
    """The experiment has not ended, or its files are still being stored, so it cannot be deleted."""

    code = "experiments.goes_on"
    hint = "Cancel its job, or finish it, and delete it then."


class ExperimentOfRun(Conflict):
    """The experiment records an attempt of a run, which reads what it holds, so it cannot be deleted by itself."""

    code = "experiments.of_run"
    hint = "Delete its run: `nearline run delete RUN`. `nearline experiment list` leaves out what recorded nothing."
