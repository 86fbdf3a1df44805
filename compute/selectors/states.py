"""The states of jobs and the reasons of their ends, as other apps name them."""

from compute.engine.states import HOLDING, JOB_STATES, JobState, ReasonCode

__all__ = ["ENDED", "HOLDING", "JOB_STATES", "JobState", "ReasonCode"]

ENDED = JOB_STATES.final
"""The states in which a job has ended."""
