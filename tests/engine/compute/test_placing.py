"""What a job asks of GPUs and nodes besides its size: what contradicts itself is refused, in words."""

import json

import pytest

from compute.engine.placing import Launcher, Placing
from compute.errors import InvalidJobSpec

GB = 10**9
PART = "A limit of a GPU belongs to a share of one: ask for a part of a GPU, or for its memory."


@pytest.mark.parametrize(
    ("placing", "gpu_milli", "replicas", "fault"),
    [
        (
            Placing(gpu_memory_bytes=4 * GB),
            500,
            1,
            "A GPU is asked for by number, by memory or by MIG profile: name one of them.",
        ),
        (
            Placing(gpu_memory_bytes=4 * GB, mig_profile="2g.10gb"),
            0,
            1,
            "A GPU is asked for by number, by memory or by MIG profile: name one of them.",
        ),
        (Placing(gpu_memory_bytes=99 * 10**6), 0, 1, "A share of a GPU has at least 100 MB of memory."),
        (Placing(mig_profile="half"), 0, 1, "'half' is no MIG profile; write one like 2g.10gb."),
        (Placing(gpu_limit_milli=800), 0, 1, PART),
        (Placing(gpu_limit_milli=800), 2000, 1, PART),
        (Placing(gpu_limit_milli=800, mig_profile="2g.10gb"), 0, 1, PART),
        (
            Placing(gpu_limit_milli=200),
            500,
            1,
            "The limit of a GPU lies above the part that is asked for, and is at most 1.",
        ),
        (Placing(node_labels=("a100",)), 0, 1, "'a100' is no label of a node; write key=value."),
        (
            Placing(required_level="a rack"),
            0,
            1,
            "'a rack' is no label of nodes; write one like topology.kubernetes.io/rack.",
        ),
        (Placing(min_replicas=3), 1000, 2, "It needs 3 replicas at least, and has 2 at most."),
        (
            Placing(min_replicas=1, launcher=Launcher()),
            1000,
            2,
            "A job with a launcher has all of its replicas, or none: leave out the least number.",
        ),
        (Placing(launcher=Launcher(cpu_millicores=0)), 0, 1, "A launcher needs some CPU and some memory."),
        (
            Placing(launcher=Launcher(worker_command=" ")),
            0,
            1,
            "Replicas beside a launcher need a command, such as /usr/sbin/sshd -D.",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(placing, gpu_milli, replicas, fault):
    with pytest.raises(InvalidJobSpec) as refused:
        placing.check(gpu_milli=gpu_milli, replicas=replicas)

    assert refused.value.message == fault


def test_a_launcher_is_read_back_and_told():
    placing = Placing(launcher=Launcher(cpu_millicores=1500, worker_port=2222))

    assert Placing.read(json.loads(json.dumps(placing.to_json()))) == placing
    assert Placing.read({"launcher": {}}).launcher == Launcher()
    assert placing.in_words() == [("Launcher", "1.5 CPU, 1 GiB; the replicas run exec /usr/sbin/sshd -D")]


def test_what_fits_together_is_taken_and_read_back():
    placing = Placing(
        gpu_memory_bytes=4 * GB,
        gpu_limit_milli=800,
        node_labels=("gpu=a100", "run.ai/type=x"),
        required_level="topology.kubernetes.io/rack",
        min_replicas=2,
    )

    placing.check(gpu_milli=0, replicas=4)

    assert Placing.read(placing.to_json()) == placing
    assert (Placing.read(None), Placing().to_json()) == (Placing(), {})
    assert (placing.is_elastic(4), placing.is_elastic(2)) == (True, False)
