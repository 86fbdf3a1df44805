"""Topics that pages can subscribe to: `runs` (any of them) and `run:<id>`."""

from accounts.actor import Actor
from flows import signals
from flows.selectors import runs
from web import live


def _anybody(_actor: Actor, _key: str) -> None:
    """Everybody signed in may hear that some run moved; which one, the lists tell to its project's members."""


live.add_kind("runs", check=_anybody, stamps=lambda keys: dict.fromkeys(keys, runs.stamp_of_all_runs()))
live.add_kind("run", check=lambda actor, run_id: runs.get_run(actor=actor, run_id=run_id), stamps=runs.stamps_of_runs)
signals.run_changed.connect(live.wake, dispatch_uid="flows.live")
