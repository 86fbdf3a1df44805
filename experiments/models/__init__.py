"""Experiments with what they measured, recorded and left; and what makes lists of them quick."""

from experiments.models.experiment import Artifact, Experiment, MetricLast, MetricPoint, MetricStretch
from experiments.models.listing import Fact, FactKey, SavedView

__all__ = [
    "Artifact",
    "Experiment",
    "Fact",
    "FactKey",
    "MetricLast",
    "MetricPoint",
    "MetricStretch",
    "SavedView",
]
