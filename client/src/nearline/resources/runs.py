"""Runs of flows: look, follow, cancel, retry, delete."""

import time
from collections.abc import Callable, Iterator, Sequence

from nearline._http import Http, Json, quoted
from nearline.errors import Unavailable
from nearline.models import KeptOutput, Run
from nearline.resources.log_pieces import PIECE_BYTES, Piece, follow
from nearline.resources.run_names import find_run_id, run_path

_LONGEST_POLL_S = 2.0


class Runs:
    """Executions of flows. A run is named by its id, or as it is shown: `flow #1`, `project/flow #1`.

    Where a name is not an id, each method raises NotFound, and InvalidRequest where several runs are called so.
    """

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self, *, project: str | None = None, flow: str | None = None, state: str | None = None, limit: int | None = None
    ) -> Iterator[Run]:
        """Yield runs, newest first."""
        return map(Run.read, self._http.list_items("/runs", project=project, flow=flow, state=state, limit=limit))

    def get(self, run_id: str) -> Run:
        """Return a run with its steps. Raises NotFound."""
        return Run.read(self._http.get(run_path(self._http, run_id)))

    def cancel(self, run_id: str) -> Run:
        """Stop what runs and start nothing more."""
        return Run.read(self._http.post(run_path(self._http, run_id) + "/cancel", may_repeat=True))

    def retry(self, run_id: str, *, step: str = "", index: int | None = None) -> Run:
        """Try the failed steps again; or `step` (one try of a grid: `index`) and all after it. The rest is kept."""
        wish = {"step": step, "index": index} if step else None
        return Run.read(self._http.post(run_path(self._http, run_id) + "/retry", wish))

    def foresee_deletion(self, run_id: str) -> Sequence[str]:
        """Return, as sentences, what its deletion would mean. Raises NotFound, Denied and Conflict as `delete` does."""
        effects: Sequence[str] = self._http.get(run_path(self._http, run_id) + "/deletion")["effects"]
        return effects

    def delete(self, run_id: str) -> None:
        """Delete a run that has ended, with its steps, logs, outputs and experiments. It cannot be restored.

        Raises NotFound, Denied and Conflict.
        """
        self._http.delete(run_path(self._http, run_id))

    def keep(
        self,
        run_id: str,
        step: str,
        dataset: str,
        *,
        index: int | None = None,
        message: str = "",
        create: bool = False,
        allow_collisions: bool = False,
    ) -> KeptOutput:
        """Make the output of a step the newest version of a dataset of its project. Nothing is copied.

        Raises NotFound for a dataset that does not exist, unless `create`; Conflict when the step's output is not
        stored.
        """
        wish = {
            "dataset": dataset,
            "index": index,
            "message": message,
            "create": create,
            "allow_collisions": allow_collisions,
        }
        return KeptOutput.read(self._http.post(run_path(self._http, run_id) + "/steps" + quoted(step) + "/keep", wish))

    def wait(
        self,
        run_id: str,
        *,
        on_change: Callable[[Run], None] | None = None,
        timeout_s: float | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Run:
        """Return the run once nothing more will happen in it. Raises Unavailable when `timeout_s` is over."""
        started = time.monotonic()
        pause = 0.1
        run_id = find_run_id(self._http, run_id)
        runs = Runs(self._http.with_long_retries(timeout_s))
        while True:
            run = runs.get(run_id)
            if on_change:
                on_change(run)
            if run.is_finished:
                return run
            if timeout_s is not None and time.monotonic() - started > timeout_s:
                raise Unavailable(f"Run {run_id} is still {run.state}.", code="runs.timeout")
            sleep(pause)
            pause = min(pause * 1.1, _LONGEST_POLL_S)

    def read_log(
        self, run_id: str, step: str, *, index: int | None = None, attempt: int | None = None, offset: int = 0
    ) -> Json:
        """Return a piece of a step's log: `data`, `next_offset` and whether it `is_complete`."""
        path = run_path(self._http, run_id) + "/steps" + quoted(step) + "/log"
        return self._http.get(path, index=index, attempt=attempt, offset=offset, limit=PIECE_BYTES)

    def follow_log(
        self,
        run_id: str,
        step: str,
        *,
        index: int | None = None,
        attempt: int | None = None,
        is_following: bool = True,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Iterator[str]:
        """Yield the log's text; when following, until the step has ended and all of it was read."""
        run_id = find_run_id(self._http, run_id)

        def read(offset: int) -> Piece:
            piece = self.read_log(run_id, step, index=index, attempt=attempt, offset=offset)
            return piece["data"], piece["next_offset"], bool(piece.get("is_complete"))

        return follow(read, is_following=is_following, sleep=sleep)
