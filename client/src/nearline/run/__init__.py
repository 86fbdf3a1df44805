"""What code calls inside a job: its parameters, data and outputs, and what it wants to have recorded.

Recording prints one line to stdout, which the platform reads from the job's log: nothing is lost when the platform
is away, and the same code runs anywhere. Only the standard library is needed, but for data that is read early.
"""

from nearline.run.places import (
    checkpoints,
    data,
    input,  # noqa: A004 (the word of the product)
    open_data,
    output,
    parameters,
)
from nearline.run.tags import checkpoint_saved, log_artifact, log_metric, log_param, set_tag

__all__ = [
    "checkpoint_saved",
    "checkpoints",
    "data",
    "input",
    "log_artifact",
    "log_metric",
    "log_param",
    "open_data",
    "output",
    "parameters",
    "set_tag",
]
