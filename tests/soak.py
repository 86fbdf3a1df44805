"""The drills of the data plane with the counts that a release is tried by. Run by hand: it takes an hour.

    python -m tests.soak --kills 100 --interleavings 10000

- kill -9 so often of each: a sync with its commit, a cached copy while it is filled and while it is removed, a commit on
  the server, and a collection;
- so many steps of uploads, commits, deletions, collections and crashes in any order.

Each is a test of the suite, where it has a smaller count. It ends with 1 where something was lost or wrong.
"""

import argparse
import os
import subprocess
import sys

DRILLS = (
    "client/tests/transfer/sync/test_kill_drill.py",
    "tests/drills/test_kill_hydration.py",
    "tests/apps/datasets/workers/test_collection_machine.py",
)


def main() -> int:
    """Run the drills one after the other; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--interleavings", type=int, default=10_000)
    wanted = parser.parse_args()
    counts = {"NEARLINE_SOAK_KILLS": wanted.kills, "NEARLINE_SOAK_INTERLEAVINGS": wanted.interleavings}
    environment = {**os.environ, **{name: str(count) for name, count in counts.items()}}
    return max(
        subprocess.run([sys.executable, "-m", "pytest", "-q", "-s", drill], env=environment, check=False).returncode
        for drill in DRILLS
    )


if __name__ == "__main__":
    sys.exit(main())
