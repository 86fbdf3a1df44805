"""What a training loop loses that is interrupted again and again on a running product. Run by hand: it takes minutes.

    python -m tests.journeys.interruptions [--interruptions 50] [--seed 1]

A job with checkpoints is suspended at random moments and resumed. It prints what each interruption cost, in steps as the
loop itself counts them and in seconds as the platform tells it, and ends with 1 where more than one interval between two
checkpoints was lost, or the result is not that of a run without interruptions. Its small form in the suite is
tests/apps/experiments/test_checkpointed_training.py.
"""

import argparse
import json
import random
import shlex
import sys
import tempfile
import time
from pathlib import Path

from nearline import Client
from tests.journeys import training
from tests.journeys.product import ROOT, Product

LIMIT_S = 1800
PAUSE_S = 0.02
STEPS_EACH = 15
"""So many steps the loop has for each interruption, at the least."""


def main() -> int:
    """Run the training to its end and return the exit code."""
    parser = argparse.ArgumentParser(description="What a training loop loses that is interrupted again and again.")
    parser.add_argument("--interruptions", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        readable = {"NEARLINE_JOB_READABLE_PATHS": str(ROOT)}
        product = Product(Path(folder) / "home", readable).start()
        try:
            return _train(product, options.interruptions, random.Random(options.seed))
        finally:
            product.stop()


def _train(product: Product, count: int, chance: random.Random) -> int:
    client = Client(product.url, token=product.token)
    client.projects.create("demo")
    steps = STEPS_EACH * (count + 1)
    sources = shlex.quote(str(ROOT / "client" / "src"))
    client.jobs.submit(
        project="demo",
        name="train",
        command=f"PYTHONPATH={sources} exec python {shlex.quote(training.__file__)} {steps} {PAUSE_S}",
        template="this-machine.small",
        checkpoints=True,
    )
    told = []
    for number in range(count):
        _wait_until_step(product, STEPS_EACH * number + chance.randrange(STEPS_EACH))
        client.jobs.suspend("train")
        _wait_for_state(client, "suspended")
        client.jobs.resume("train")
        _wait_for_state(client, "running")
        told.append(client.jobs.get("train").raw["checkpoint"])
        sys.stdout.write(f"{number + 1}: {told[-1]['text']}\n")
    _wait_for_state(client, "succeeded")
    result = json.loads(next((product.home / "jobs").glob("train~*/output/result.json")).read_text())
    lost = [int(line) for line in result["lost"].split()][1:]
    is_right = result["weight"] == training.result_of(steps)
    seconds = [each["lost_s"] for each in told if each["lost_s"] is not None]
    sys.stdout.write(
        f"{len(lost)} interruptions; steps lost: {sum(lost)} in all, at most {max(lost)} of {training.EVERY} at once\n"
        f"told as lost: {sum(seconds):.1f} s in all, at most {max(seconds):.1f} s at once\n"
        f"the result is {'that' if is_right else 'NOT that'} of {steps} steps without an interruption\n"
    )
    return 0 if is_right and len(lost) == count and max(lost) <= training.EVERY else 1


def _wait_until_step(product: Product, step: int) -> None:
    """Wait until the loop has come so far."""
    folders, deadline = product.home / "jobs" / ".checkpoints", time.monotonic() + LIMIT_S
    while max(map(training.read_progress, folders.glob("ckpt_*")), default=-1) < step:
        assert time.monotonic() < deadline, step
        time.sleep(0.05)


def _wait_for_state(client: Client, state: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while (job := client.jobs.get("train")).state != state:
        assert time.monotonic() < deadline, job
        assert job.state not in {"failed", "lost", "cancelled"}, job
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
