"""The states of jobs and of their outputs, and the reasons of their ends, as other apps name them."""

from compute.engine.states import HOLDING, JOB_STATES, JobState, ReasonCode
from compute.models import OutputState

__all__ = ["HOLDING", "JOB_STATES", "JobState", "OutputState", "ReasonCode"]
