"""Topics that pages can subscribe to: `jobs` (any of them) and `job:<name>`."""

from accounts.actor import Actor
from compute import signals
from compute.selectors import jobs, stamps
from web import live, live_stream


def _anybody(_actor: Actor, _key: str) -> None:
    """Everybody signed in may hear that some job changed; which one, the lists tell to its project's members."""


live.add_kind("jobs", check=_anybody, stamps=lambda keys: dict.fromkeys(keys, stamps.stamp_of_all_jobs()))
live.add_kind("job", check=lambda actor, name: jobs.get_job(actor=actor, name=name), stamps=stamps.stamps_of_jobs)
signals.job_changed.connect(live_stream.wake, dispatch_uid="compute.live")
