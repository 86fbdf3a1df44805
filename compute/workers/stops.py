"""Jobs that are to end are told so. Told again at each poll, until they have ended."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from django.db import transaction

from compute.adapters import drivers
from compute.engine.job_spec import DEFAULT_GRACE_PERIOD_S
from compute.engine.states import JobState, ReasonCode
from compute.errors import ResourceUnreachable
from compute.models import Job, Resource
from compute.selectors import failures
from compute.services import journal
from compute.workers import probes
from core import clock, hosts, isolation, orm
from scheduler.selectors.workloads import list_overdue, list_terminating

_ENDING = (JobState.LEAVING, JobState.SUSPENDING, JobState.STOPPING)


def evict_jobs() -> None:
    """Stop evicted jobs. They are requeued once they have stopped, unless they have reached a time limit."""
    # Asked without a lock first: most ticks find nothing.
    reasons = list_terminating()
    if not reasons:
        return

    overdue = list_overdue()

    @transaction.atomic
    def evict(workload_ids: Sequence[str]) -> list[str]:
        jobs = Job.objects.filter(workload_id__in=workload_ids, state__in=(JobState.STARTING, JobState.RUNNING))
        steps = []
        for job_id, token, workload_id in jobs.order_by("pk").values_list("pk", "token", "workload_id"):
            reason, limit = reasons[str(workload_id)], overdue.get(str(workload_id))
            state = JobState.LEAVING if limit is None else JobState.STOPPING
            why = {} if limit is None else {"reason_code": ReasonCode(limit)}
            steps.append(journal.Step(job_id, token, state, reason, {"reason": reason, **why}))
        return journal.record_steps(steps, now=clock.now())

    is_news = False
    for batch in orm.in_batches(list(reasons)):
        is_news |= any(isolation.in_batch(failures.EVICT, batch, evict))
    if is_news:
        stop_ending_jobs()


def stop_ending_jobs() -> None:
    """Tell every job that is being cancelled, evicted or suspended to end. What cannot be reached is told later."""
    ending = Job.objects.filter(state__in=_ENDING, resource__host__in=hosts.here()).select_related("resource")
    graces_s = defaultdict[Resource, dict[str, float]](dict)
    for job in ending.order_by("pk"):
        graces_s[job.resource][job.run_name] = job.grace_period_s
    # Those behind a network come last: the others would wait for their answers.
    places = sorted(graces_s, key=lambda resource: drivers.get_kind(resource.kind).is_remote)
    isolation.for_each(failures.STOP_ALL, places, lambda resource: _stop_on(resource, graces_s[resource]))


def stop_jobs(resource: Resource, names: Sequence[str], graces_s: Mapping[str, float]) -> None:
    """Tell these jobs to end, each within its grace period. One that fails stops none of the others.

    Raises ResourceUnreachable and CredentialsUnreadable.
    """
    driver = drivers.driver_of(resource)
    with drivers.side_by_side(resource, len(names)) as executor:
        isolation.for_each(
            failures.STOP,
            names,
            lambda name: driver.stop(name, graces_s.get(name, DEFAULT_GRACE_PERIOD_S)),
            concerns_all=(ResourceUnreachable,),
            executor=executor,
        )


def _stop_on(resource: Resource, graces_s: Mapping[str, float]) -> None:
    try:
        stop_jobs(resource, list(graces_s), graces_s)
    except ResourceUnreachable as error:
        probes.note_unreachable(resource=resource, error=error)
