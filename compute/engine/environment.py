"""The variables with which a job starts: its own, ours, and cnvrg's names for the same."""

from collections.abc import Mapping
from dataclasses import dataclass

from compute.engine.ports import Launch
from core.gpus import ONE_GPU

UNCAPPED = "uncapped"
"""What is said of a part of a GPU: no kind of resource keeps a job from using more of the device.

Not of a slice (MIG), which the device itself keeps apart."""


@dataclass(frozen=True)
class JobPaths:
    """Where the job finds its things, as the job itself sees the paths. `checkpoint` is empty where it keeps none."""

    work: str
    data: str
    input: str
    output: str
    parameters: str
    tmp: str
    checkpoint: str = ""


def job_environment(launch: Launch, paths: JobPaths, *, search_path: str) -> Mapping[str, str]:
    """Return the whole environment of a job. Nothing of the platform's own environment is in it."""
    base = {"PATH": search_path, "HOME": paths.work, "LANG": "C.UTF-8", "TMPDIR": paths.tmp, "PYTHONUNBUFFERED": "1"}
    # Ours come last: a job may change its PATH, but not the GPUs that it was given or the name it is known by.
    return base | dict(launch.spec.env) | dict(launch.secrets) | _devices(launch) | _ours(launch, paths)


def _ours(launch: Launch, paths: JobPaths) -> dict[str, str]:
    checkpoint = {"NEARLINE_CHECKPOINT_DIR": paths.checkpoint} if paths.checkpoint else {}
    return checkpoint | {
        "NEARLINE_JOB_ID": launch.job_id,
        "NEARLINE_JOB_NAME": launch.spec.name,
        "NEARLINE_PROJECT": launch.project,
        "NEARLINE_NODE": launch.node_name,
        "NEARLINE_DATA": paths.data,
        "NEARLINE_INPUT": paths.input,
        "NEARLINE_OUTPUT": paths.output,
        "NEARLINE_PARAMETERS": paths.parameters,
        "CNVRG_JOB_ID": launch.job_id,
        "CNVRG_JOB_NAME": launch.spec.name,
        "CNVRG_JOB_TYPE": launch.kind.capitalize(),
        "CNVRG_PROJECT": launch.project,
        "CNVRG_OUTPUT_DIR": paths.output,
    }


def _devices(launch: Launch) -> dict[str, str]:
    # The order of nvidia-smi is that of the PCI bus; CUDA's own default is "fastest first".
    # Without a GPU the variable is empty, so that a job cannot take one that it was not given.
    visible = ",".join(str(share.index) for share in launch.gpus)
    variables = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": visible}
    if launch.gpus:
        # Not by core.units, which needs packages that a host reached by SSH does not have.
        milli = launch.gpus[0].milli
        variables["NEARLINE_GPU_FRACTION"] = f"{milli / 1000:g}"
        if milli != ONE_GPU and not launch.slices:
            variables["NEARLINE_GPU_CAP"] = UNCAPPED
            if limit_milli := launch.spec.placing.gpu_limit_milli:
                variables["NEARLINE_GPU_LIMIT"] = f"{limit_milli / 1000:g}"
    return variables
