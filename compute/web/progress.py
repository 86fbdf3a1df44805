"""How far a running job is, as far as its forecast can say."""

from dataclasses import dataclass

from compute.engine.forecast import Forecast
from compute.engine.states import HOLDING
from compute.models import Job
from core import clock, units


@dataclass(frozen=True)
class Progress:
    """A bar and what it means in words. `percent` None: there is no history that could tell."""

    percent: int | None
    words: str
    source: str = ""


def progress_of(job: Job, forecast: Forecast | None) -> Progress | None:
    """Return how far a job is; None for one that does not run."""
    if job.state not in HOLDING:
        return None
    if forecast is None:
        return Progress(None, "no history yet")
    elapsed_s = (clock.now() - job.started_at).total_seconds() if job.started_at else 0.0
    left_s = forecast.left_at(elapsed_s)
    words = f"about {units.format_duration(left_s)} left" if left_s is not None else "longer than usual"
    source = (
        f"from {forecast.count} earlier like it: half took up to {units.format_duration(forecast.likely_s)}, "
        f"nine of ten up to {units.format_duration(forecast.late_s)}"
        if forecast.count
        else "declared, as its node is simulated"
    )
    return Progress(forecast.percent_at(elapsed_s), words, source)
