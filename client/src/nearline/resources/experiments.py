"""Experiments: what each attempt of a step recorded."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from nearline._http import Http, Json, quoted
from nearline.models import Experiment
from nearline.resources.run_names import find_run_id


class Experiments:
    """Records of parameters, metrics, artifacts, code and data."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self,
        *,
        project: str | None = None,
        run: str | None = None,
        where: str | None = None,
        sort: str | None = None,
        limit: int | None = None,
        recorded: bool = False,
    ) -> Iterator[Experiment]:
        """Yield experiments, newest first or as `sort` says: `-metrics.accuracy` for the highest first.

        `where` is a filter such as `metrics.accuracy > 0.9 and params.lr in (0.1, 0.3)`. With `recorded` only those
        that recorded something, instead of every attempt of every step.
        """
        run = None if run is None else find_run_id(self._http, run)
        query = {"project": project, "run": run, "filter": where, "sort": sort, "recorded": recorded or None}
        return map(Experiment.read, self._http.list_items("/experiments", limit=limit, **query))

    def get(self, experiment_id: str) -> Experiment:
        """Return one experiment. Raises NotFound."""
        return Experiment.read(self._http.get("/experiments" + quoted(experiment_id)))

    def foresee_deletion(self, experiment_id: str) -> Sequence[str]:
        """Return, as sentences, what its deletion would mean. Raises NotFound, Denied and Conflict as `delete` does."""
        effects: Sequence[str] = self._http.get("/experiments" + quoted(experiment_id) + "/deletion")["effects"]
        return effects

    def delete(self, experiment_id: str) -> None:
        """Delete an experiment that has ended and is not of a run. Raises NotFound, Denied and Conflict."""
        self._http.delete("/experiments" + quoted(experiment_id))

    def compare(self, ids: Sequence[str]) -> Json:
        """Return parameters and metrics of several experiments side by side."""
        return self._http.get("/experiments/compare", ids=",".join(ids))

    def read_metric(self, experiment_id: str, key: str) -> Json:
        """Return all points of one metric."""
        return self._http.get("/experiments" + quoted(experiment_id) + "/metrics", key=key)

    def download_artifact(self, experiment_id: str, path: str, target: Path | str) -> Path:
        """Write one artifact to `target`, in one step when it is complete."""
        target = Path(target)
        draft = target.with_name(target.name + ".partial")
        route = "/experiments" + quoted(experiment_id) + "/artifacts" + quoted(*path.split("/"))
        with self._http.stream(route) as pieces, draft.open("wb") as file:
            for piece in pieces:
                file.write(piece)
        draft.replace(target)
        return target
