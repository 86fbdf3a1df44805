"""Flows and their versions, runs with their steps and attempts."""

from flows.models.flow import Bundle, Flow, FlowDraft, FlowVersion
from flows.models.run import Attempt, AttemptInput, InputState, Run, RunEvent, Step

__all__ = [
    "Attempt",
    "AttemptInput",
    "Bundle",
    "Flow",
    "FlowDraft",
    "FlowVersion",
    "InputState",
    "Run",
    "RunEvent",
    "Step",
]
