"""Background work of flows: ids in, one service, done. Each tick does what lost rings would have asked for."""

from core import doorbell
from core.doorbell import Lane
from flows.services import artifacts, harvest
from flows.workers import advance, cleaning, staging


@doorbell.task("flows.advance", lane=Lane.ADVANCE, every_s=1.0)
def advance_runs(run_id: str | None = None) -> None:
    """Move one run on, or all that have news."""
    if run_id is None:
        advance.advance_all()
    else:
        advance.advance_each([run_id])


@doorbell.task("flows.harvest", lane=Lane.NOTIFY, every_s=2.0)
def harvest_logs() -> None:
    """Read on in the logs of what runs."""
    harvest.harvest_running()


@doorbell.task("flows.store_artifacts", lane=Lane.NOTIFY, every_s=5.0)
def store_artifacts(run_id: str | None = None) -> None:
    """Keep the outputs of attempts that succeeded."""
    artifacts.store_artifacts(run_id)


@doorbell.task("flows.copy_input", lane=Lane.CACHE, every_s=2.0)
def copy_inputs(input_id: str | None = None) -> None:
    """Write copies of datasets that attempts want for themselves."""
    if input_id is None:
        staging.copy_all()
    else:
        staging.copy_each([input_id])


@doorbell.task("flows.release_inputs", lane=Lane.NOTIFY, every_s=5.0)
def release_inputs() -> None:
    """Let go of what ended attempts held."""
    staging.release_inputs()


@doorbell.task("flows.clean", lane=Lane.TIDY, every_s=3600.0)
def delete_run_folders() -> None:
    """Delete what runs kept whose jobs' files are deleted."""
    cleaning.delete_run_folders()
