"""How soon a training has its first batch of a commit that is cached nowhere: waiting for all of it, and starting early.

The same set is read by a job that waits for the whole copy and, as another dataset, by one that starts early; both begin
with the first batch. `bytes before` is what was read from the store by then, by who fills the copy, which goes on meanwhile, and by
the job. Needs versitygw, like `data_plane`. Seconds say little on a
busy machine; bytes do.
"""

import json
import os
import re
import time
from contextlib import ExitStack

from benchmarks.data_plane.trees import write_tree
from benchmarks.product import running
from tests.folders import open_folder
from tests.services import find_tools, s3

FILES = int(os.environ.get("BENCH_FILES", "2000"))
SIZE = int(os.environ.get("BENCH_SIZE", "400000"))
BATCH = int(os.environ.get("BENCH_BATCH", "32"))

_JOB = """
import json, os, sys, time
from itertools import islice
from pathlib import Path
import nearline
from nearline.resources.early_data import EarlyRoutes

name, is_early, batch = sys.argv[1], sys.argv[2] == "early", int(sys.argv[3])
read = 0
receive = EarlyRoutes.receive

def count_and_receive(routes, request, allocate, byte_range=None):
    global read
    data = receive(routes, request, allocate, byte_range)
    read += len(data)
    return data

EarlyRoutes.receive = count_and_receive
folder = Path(os.environ["NEARLINE_DATA"]) / name
began = time.time()
if is_early:
    files = nearline.open_data(name)
    first = list(islice(files.stream(shuffle=1), batch))
else:
    first = [path.read_bytes() for path in islice(sorted(folder.rglob("*.bin")), batch)]
at = time.time()
there = sum(path.stat().st_size for path in folder.rglob("*.bin"))
if is_early:
    nearline.data(name)
print(json.dumps({"began": began, "first": at, "there": there, "read": read, "complete": time.time()}))
"""


def main() -> None:
    """Print when the first batch was there, and what had been read by then."""
    versitygw = find_tools()["versitygw"]
    if versitygw is None:
        print("This needs versitygw, on the path or by NEARLINE_TEST_VERSITYGW; see CONTRIBUTING.md.")
        return
    with ExitStack() as stack:
        base = stack.enter_context(open_folder())
        found = stack.enter_context(s3(versitygw, base))
        product = stack.enter_context(
            running(
                NEARLINE_STORE_URL=f"s3://{found['NEARLINE_TEST_BUCKET']}/ours?endpoint={found['NEARLINE_TEST_S3']}",
                NEARLINE_STORE_ACCESS_KEY=found["NEARLINE_TEST_S3_ACCESS_KEY"],
                NEARLINE_STORE_SECRET_KEY=found["NEARLINE_TEST_S3_SECRET_KEY"],
            )
        )
        product.cli("project", "create", "bench", cwd=base)
        code = base / "code"
        code.mkdir()
        (code / "read.py").write_text(_JOB)
        total = FILES * SIZE
        print(f"\n{FILES:,} files of {SIZE:,} bytes, first batch of {BATCH}, load {os.getloadavg()[0]:.1f}\n")
        print(
            "| the job | first batch after s | of it in the job | all there after s | bytes before / all | read by the job / all |"
        )
        print("| --- | --- | --- | --- | --- | --- |")
        for number, way in enumerate(("waits", "early")):
            name = f"set-{way}"
            source = base / name
            write_tree(source, files=FILES, size=SIZE, seed=number)
            product.cli("data", "init", "--project", "bench", "--title", name, cwd=source)
            product.cli("data", "sync", "--quiet", cwd=source)
            options = ["--data", f"bench/{name}@main", "--code", str(code), "--template", "this-machine.small"]
            options += ["--start-early"] if way == "early" else []
            began = time.time()
            command = f"python read.py {name} {way} {BATCH}"
            job = product.cli_json("job", "submit", command, *options, "--project", "bench", cwd=base)
            log = product.cli("job", "logs", job["name"], "--follow", cwd=base).stdout
            told = json.loads(re.findall(r"^\{.*\}$", log, re.MULTILINE)[-1])
            share = min(1.0, (told["there"] + told["read"]) / total)
            print(
                f"| {way} | {told['first'] - began:.2f} | {told['first'] - told['began']:.2f} "
                f"| {told['complete'] - began:.2f} | {share:.1%} | {told['read'] / total:.1%} |"
            )
