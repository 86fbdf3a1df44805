"""A flow of 100 independent steps, a real process each, against starting the same processes directly.

The peer runs the same 100 commands with a thread pool of the machine's cores and `subprocess`: no rows, no logs, no
retries. What lies between is the price of a step that survives a kill.
"""

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.product import median, running

STEPS = 100
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
COMMAND = "true"


def main() -> None:
    flow = f"flow: fan\nsteps:\n  - name: fan\n    command: '{COMMAND}'\n    grid: {{n: {list(range(STEPS))}}}\n    compute: [this-machine.tiny]\n"
    through, direct = [], []
    with running() as product, TemporaryDirectory() as folder:
        here = Path(folder)
        (here / "flow.yaml").write_text(flow)
        product.cli("project", "create", "bench", cwd=here)
        shape = {"name": "tiny", "cpu_millicores": 100, "memory_bytes": 50_000_000, "gpu_milli": 0}
        product.api("POST", "/compute/templates", {"resource": "this-machine", **shape})
        product.cli("flow", "push", "flow.yaml", "--project", "bench", cwd=here)
        for _ in range(ROUNDS):
            started = time.perf_counter()
            run = product.api("POST", "/flows/bench/fan/runs", {"parameters": {}})
            done = product.wait_for(
                lambda: product.api("GET", f"/runs/{run['id']}"), lambda r: r["state"] not in ("pending", "running")
            )
            through.append(time.perf_counter() - started)
            if done["state"] != "succeeded":
                raise SystemExit(f"The run {done['state']}: {done['reason']}")
            started = time.perf_counter()
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(lambda _: subprocess.run(["sh", "-c", COMMAND], check=True), range(STEPS)))
            direct.append(time.perf_counter() - started)
    print(f"{STEPS} steps, a process each, median of {ROUNDS}")
    print(f"through a flow run  {median(through):6.2f} s   {median(through) / STEPS * 1000:6.1f} ms a step")
    print(f"started directly    {median(direct):6.2f} s   ratio {median(through) / median(direct):.1f}")
