"""What a step of a chain costs other engines: CPU and time from one step to the next, for the same `true`.

`BENCH_PEERS` names a Python in whose environment peers are installed (`pip install luigi dbos snakemake
metaflow dagster`); one that is not there is named as missing. Each runs two chains of different lengths in a fresh
process and folder, as its documentation shows it, with its local defaults; the difference of the two is what a step
costs, without the start. `BENCH_STEPS` is that difference, for the slow ones a tenth of it.
"""

import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

STEPS, SHORT = int(os.environ.get("BENCH_STEPS", "40")), 10
SLOW = {"metaflow", "dagster"}
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))

_LUIGI = """
import luigi

class Step(luigi.Task):
    number = luigi.IntParameter()

    def requires(self):
        return [Step(self.number - 1)] if self.number else []

    def output(self):
        return luigi.LocalTarget(f"{self.number}.done")

    def run(self):
        subprocess.run(["true"], check=True)
        with self.output().open("w"):
            pass

assert luigi.build([Step(STEPS - 1)], local_scheduler=True, log_level="ERROR")
"""

_DBOS = """
from dbos import DBOS

DBOS(config={"name": "chain", "system_database_url": "sqlite:///chain.sqlite", "log_level": "ERROR"})

@DBOS.step()
def step():
    subprocess.run(["true"], check=True)

@DBOS.workflow()
def chain():
    for _ in range(STEPS):
        step()

DBOS.launch()
chain()
DBOS.destroy()
"""

_SNAKEMAKE = """
import pathlib

rules = [f'rule all:\\n    input: "{STEPS - 1}.done"\\n']
for number in range(STEPS):
    needs = f'    input: "{number - 1}.done"\\n' if number else ""
    rules.append(f'rule s{number}:\\n{needs}    output: touch("{number}.done")\\n    shell: "true"\\n')
pathlib.Path("Snakefile").write_text("\\n".join(rules))
subprocess.run([sys.executable, "-m", "snakemake", "--cores", "1", "--quiet", "all"], check=True)
"""

_METAFLOW = """
import pathlib

names = ["start", *(f"s{number}" for number in range(1, STEPS - 1)), "end"]
lines = ["import subprocess", "from metaflow import FlowSpec, step", "class Chain(FlowSpec):"]
for name, after in zip(names, [*names[1:], ""]):
    then = f"\\n        self.next(self.{after})" if after else ""
    lines.append(f'    @step\\n    def {name}(self):\\n        subprocess.run(["true"], check=True){then}')
lines.append("if __name__ == '__main__':\\n    Chain()")
pathlib.Path("chain.py").write_text("\\n".join(lines))
subprocess.run([sys.executable, "chain.py", "--quiet", "--no-pylint", "run"], check=True)
"""

_DAGSTER = """
import pathlib

lines = ["import subprocess", "from dagster import Nothing, In, Out, job, op"]
for number in range(STEPS):
    ins = "{'after': In(Nothing)}" if number else "{}"
    lines.append(f"@op(ins={ins}, out=Out(Nothing))\\ndef s{number}():\\n    subprocess.run(['true'], check=True)")
lines.append("@job\\ndef chain():\\n    done = s0()")
lines += [f"    done = s{number}(done)" for number in range(1, STEPS)]
pathlib.Path("chain.py").write_text("\\n".join(lines))
command = [sys.executable, "-m", "dagster", "job", "execute", "-f", "chain.py", "-j", "chain"]
subprocess.run(command, check=True, capture_output=True)
"""

PEERS = {"luigi": _LUIGI, "dbos": _DBOS, "snakemake": _SNAKEMAKE, "metaflow": _METAFLOW, "dagster": _DAGSTER}
_BEFORE = """
import json, os, resource, subprocess, sys, time
began = time.monotonic()
STEPS = int(sys.argv[1])
"""
_AFTER = """
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps([time.monotonic() - began, sum(each.ru_utime + each.ru_stime for each in used)]))
"""


def main() -> None:
    python = os.environ.get("BENCH_PEERS")
    if not python:
        print("BENCH_PEERS names no Python with peers, so none was measured.")
        return
    print("peer        CPU ms/step  ms/step")
    for name, script in PEERS.items():
        if subprocess.run([python, "-c", f"import {name}"], capture_output=True, check=False).returncode:
            print(f"{name:10}  missing")
            continue
        steps = STEPS // 10 if name in SLOW else STEPS
        pairs = [(_run(python, script, SHORT), _run(python, script, SHORT + steps)) for _ in range(ROUNDS)]
        wall, cpu = (statistics.median((long[at] - short[at]) / steps * 1000 for short, long in pairs) for at in (0, 1))
        print(f"{name:10}  {cpu:11.1f}  {wall:7.1f}", flush=True)


def _run(python: str, script: str, steps: int) -> tuple[float, float]:
    """Run a chain; return its seconds, and those of CPU of the engine and all that it started."""
    with tempfile.TemporaryDirectory(prefix="nearline-bench-") as folder:
        environment = {**os.environ, "HOME": folder, "DAGSTER_HOME": folder, "USERNAME": "bench"}
        command = [python, "-c", _BEFORE + script + _AFTER, str(steps)]
        done = subprocess.run(command, cwd=Path(folder), env=environment, capture_output=True, text=True, check=True)
    wall, cpu = json.loads(done.stdout.strip().splitlines()[-1])
    return wall, cpu


if __name__ == "__main__":
    main()
