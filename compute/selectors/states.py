"""The states of jobs and of their outputs, as other apps name them."""

from compute.engine.states import JobState
from compute.models import OutputState

__all__ = ["JobState", "OutputState"]
