from dataclasses import replace

from compute.engine.environment import JobPaths, job_environment
from compute.engine.job_spec import JobSpec
from compute.engine.placing import Placing
from compute.engine.ports import GpuShare, Launch

PATHS = JobPaths(work="/j/work", data="/j/data", input="/j/in", output="/j/out", parameters="/j/p.json", tmp="/j/tmp")


def launch(*, gpus=(), secrets=None, **spec):
    return Launch(
        spec=JobSpec(name="run-1", command="true", **spec),
        token="t",
        job_id="job_1",
        kind="experiment",
        project="team-a",
        node_name="n",
        cpu_millicores=1000,
        memory_bytes=2**30,
        gpus=gpus,
        secrets=secrets or {},
    )


def test_a_job_gets_exactly_these_variables():
    assert job_environment(launch(), PATHS, search_path="/bin") == {
        "PATH": "/bin",
        "HOME": "/j/work",
        "LANG": "C.UTF-8",
        "TMPDIR": "/j/tmp",
        "PYTHONUNBUFFERED": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "",
        "NEARLINE_JOB_ID": "job_1",
        "NEARLINE_JOB_NAME": "run-1",
        "NEARLINE_PROJECT": "team-a",
        "NEARLINE_NODE": "n",
        "NEARLINE_DATA": "/j/data",
        "NEARLINE_INPUT": "/j/in",
        "NEARLINE_OUTPUT": "/j/out",
        "NEARLINE_PARAMETERS": "/j/p.json",
        "CNVRG_JOB_ID": "job_1",
        "CNVRG_JOB_NAME": "run-1",
        "CNVRG_JOB_TYPE": "Experiment",
        "CNVRG_PROJECT": "team-a",
        "CNVRG_OUTPUT_DIR": "/j/out",
    }


def test_the_jobs_own_variables_win_and_secrets_win_over_them():
    found = job_environment(
        launch(env={"LANG": "de_DE.UTF-8", "KEY": "plain"}, secrets={"KEY": "secret"}), PATHS, search_path="/bin"
    )

    assert (found["LANG"], found["KEY"]) == ("de_DE.UTF-8", "secret")


def test_the_name_by_which_a_jobs_processes_are_found_cannot_be_changed():
    found = job_environment(launch(env={"NEARLINE_JOB_NAME": "another"}), PATHS, search_path="/bin")

    assert found["NEARLINE_JOB_NAME"] == "run-1"


def test_a_share_of_a_gpu_is_uncapped_and_a_slice_is_not():
    share = job_environment(launch(gpus=(GpuShare(0, 250),)), PATHS, search_path="/bin")
    cut = job_environment(replace(launch(gpus=(GpuShare(0, 250),)), slices=("0:2g.10gb@4",)), PATHS, search_path="/bin")

    assert (share.get("NEARLINE_GPU_CAP"), cut.get("NEARLINE_GPU_CAP")) == ("uncapped", None)


def test_a_limit_above_the_share_is_told_to_the_job():
    found = job_environment(
        launch(gpus=(GpuShare(0, 250),), placing=Placing(gpu_limit_milli=800)), PATHS, search_path="/bin"
    )

    assert (found["NEARLINE_GPU_LIMIT"], found["NEARLINE_GPU_CAP"]) == ("0.8", "uncapped")


def test_gpus_are_named_by_index_with_the_fraction_of_the_first():
    half = job_environment(launch(gpus=(GpuShare(3, 250),)), PATHS, search_path="/bin")
    two = job_environment(launch(gpus=(GpuShare(0, 1000), GpuShare(4, 1000))), PATHS, search_path="/bin")

    assert (half["CUDA_VISIBLE_DEVICES"], half["NEARLINE_GPU_FRACTION"]) == ("3", "0.25")
    assert (two["CUDA_VISIBLE_DEVICES"], two["NEARLINE_GPU_FRACTION"]) == ("0,4", "1")
