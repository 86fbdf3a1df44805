"""A job that is only tried: whether it would start now, or when and where, and whom it would stop. Nothing changes."""

from dataclasses import dataclass

from accounts.models import Project
from accounts.permissions import Actor
from compute.engine.outlook import Outlook, in_words_of_trial
from compute.selectors import outlooks, start_forecasts
from compute.selectors.places import NewJob
from compute.selectors.start_forecasts import Forecaster
from compute.services import submissions
from compute.services.submissions import Submission
from scheduler.selectors.forecasts import StoredForecast


@dataclass(frozen=True)
class Trial:
    """What would become of a job if it was submitted now. `starts_now`: nothing has to end or to be stopped before.

    `is_simulated`: it would be placed where no command runs.
    """

    starts_now: bool
    is_simulated: bool
    outlook: Outlook


def try_job(*, actor: Actor, project: Project, submission: Submission) -> Trial:
    """Return what would become of a job.

    Raises TemplateNotFound, ResourceUnconfined, NoResourceFits and InvalidJobSpec as submitting it would.
    """
    submissions.require_submit(actor=actor, project=project)
    datasets = submissions.find_datasets(actor=actor, submission=submission)
    template = submissions.find_template(actor=actor, project=project, submission=submission, datasets=datasets)
    job = NewJob(
        project_id=project.pk,
        project=project.name,
        name=submission.name,
        command=submission.command,
        simulated_duration_s=submission.simulated_duration_s,
        commits=[each.commit.pk for each in datasets],
        timeout_s=submission.timeout_s,
        replicas=submission.replicas,
        placing=submission.placing,
        is_preemptible=submission.is_preemptible,
        priority=submission.priority,
        image=submission.image,
        pools=submission.pools_in(project),
        own_cpu_millicores=submission.cpu_millicores,
        own_memory_bytes=submission.memory_bytes,
    ).facts_at(template)
    # First among those that wait, so that its other places are looked at.
    forecaster = Forecaster([job, *start_forecasts.list_live_jobs()], is_exact=True)
    forecast = forecaster.forecast(job)
    made = StoredForecast(
        "", forecaster.now, forecaster.moment(forecast.likely_s), forecaster.moment(forecast.late_s), forecast.facts
    )
    outlook = in_words_of_trial(outlooks.read(actor, made), now=forecaster.now)
    starts_now = outlook.likely_at == forecaster.now and not outlook.stops
    return Trial(starts_now, template.resource.is_simulated, outlook)
