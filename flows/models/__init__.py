"""Flows and their versions, runs with their steps and attempts, experiments with what they measured."""

from flows.models.draft import FlowDraft
from flows.models.experiment import Artifact, Experiment, MetricLast, MetricPoint, MetricStretch
from flows.models.experiment_view import Fact, FactKey, SavedView
from flows.models.flow import Bundle, Flow, FlowVersion
from flows.models.run import Attempt, AttemptInput, InputState, Run, RunEvent, Step

__all__ = [
    "Artifact",
    "Attempt",
    "AttemptInput",
    "Bundle",
    "Experiment",
    "Fact",
    "FactKey",
    "Flow",
    "FlowDraft",
    "FlowVersion",
    "InputState",
    "MetricLast",
    "MetricPoint",
    "MetricStretch",
    "Run",
    "RunEvent",
    "SavedView",
    "Step",
]
