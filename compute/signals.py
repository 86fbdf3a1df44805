"""News of this app, sent on commit, and the questions that it asks those above it."""

from django.dispatch import Signal

job_changed = Signal()
"""Jobs changed state (`job_ids: list[str]`), batched per transaction. Says "look again": the rows tell the rest.

`stopped_ids` are those of them that have ended, or wait again: others may start in their place now."""

job_submitted = Signal()
"""A person submitted a job (`job_id: str`, `datasets`: what it reads, each with `name`, `reference`, `dataset`,
`commit` and `cached`). Sent inside the transaction that creates the job: what a receiver writes exists with the job or
not at all."""

files_due = Signal()
"""May the files of this ended job go? (`job_id: str`, `unused_since: datetime`), asked inside the transaction that
notes that they are gone. A receiver returns True when it needs them still, and holds whatever makes that so."""

output_due = Signal()
"""May the stored outputs of these deleted jobs go? (`job_ids: Collection[str]`), asked inside the transaction that lets
them go. A receiver returns the ids of those whose files it shows still; once it does not, it calls
`deletions.release_outputs`."""

output_awaited = Signal()
"""Is the output of this job, which has succeeded, still to be stored? (`job_id: str`). A receiver returns True when it
will have that done."""

log_due = Signal()
"""May the logs of these deleted jobs go, which have ended? (`job_ids: Collection[str]`). A receiver returns the ids of
those whose logs it still reads."""
