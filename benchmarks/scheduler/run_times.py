"""How well run times are learnt: P50 and P90 of each job of the Philly trace as it comes, by `scheduler.engine.run_times`.

Nothing waits: each job starts as it comes, and is told how long it will run by those of its virtual cluster and size
that came before: of the last 2,000 ends, as the product reads them, and of the runs that go on. `loss` is the mean
pinball loss of the logarithm (of seconds + 60), so that a factor counts the same for short and long jobs.
"""

import math
import os
import statistics
from collections.abc import Iterator, Sequence

from benchmarks.scheduler import philly
from benchmarks.scheduler.philly_replay import Arrival
from scheduler.engine.run_times import Lengths, Run, learn

EVERY = int(os.environ.get("BENCH_EVERY", "10"))
"""Of the jobs one in so many is told."""

PARTS = ((1000, 3000), (3000, 5600), (5600, 6000), (6000, 6700), (6700, 8000), (8000, 12_000))
MOST_EARLIER = 2000
WAYS = [
    (f"{'all' if counts_running else 'ended'}, {half_life:g}", counts_running, half_life)
    for half_life in (math.inf, 200, 100, 50, 25)
    for counts_running in (False, True)
]
"""Which runs count, and after how many later ones half as much."""


def main() -> None:
    jobs = philly.read_jobs(philly.read_quotas())[: PARTS[-1][1]]
    print(f"{'runs, half-life':16}" + "".join(f"{f'{first} to {end}':>29}" for first, end in PARTS))
    print(f"{'':16}" + f"{'P50 held':>13}{'P90':>5}{'loss P50':>6}{'P90':>5}" * len(PARTS))
    rows = {name: "" for name, *_ in WAYS}
    for first, end in PARTS:
        samples = [(jobs[number].work_s, list(_runs(jobs, number))) for number in range(first, end, EVERY)]
        for name, counts_running, half_life in WAYS:
            kinds = [(work_s, [run for run in runs if counts_running or not run.goes_on]) for work_s, runs in samples]
            rows[name] += _figures([(work_s, learn(runs, half_life)) for work_s, runs in kinds])
    for name, figures in rows.items():
        print(f"{name:16}{figures}")


def _runs(jobs: Sequence[Arrival], number: int) -> Iterator[Run]:
    """Yield the runs like a job at the time when it comes, the last one first."""
    job = jobs[number]
    ends = sorted(end_s for one in jobs[:number] if (end_s := one.at_s + one.work_s) <= job.at_s)
    since_s = ends[-MOST_EARLIER] if len(ends) >= MOST_EARLIER else 0.0
    for one in reversed(jobs[:number]):
        if (one.queue, one.gpus) == (job.queue, job.gpus):
            if one.at_s + one.work_s > job.at_s:
                yield Run(job.at_s - one.at_s, goes_on=True)
            elif one.at_s + one.work_s >= since_s:
                yield Run(one.work_s)


def _figures(samples: Sequence[tuple[float, Lengths]]) -> str:
    known = [(work_s, lengths.length_s(0.5, 0.0), lengths.length_s(0.9, 0.0)) for work_s, lengths in samples]
    known = [each for each in known if each[1] < math.inf]
    likely, late = (100 * statistics.mean(each[0] <= each[which] for each in known) for which in (1, 2))
    losses = [
        statistics.mean(_loss(each[0], each[which], part) for each in known) for which, part in ((1, 0.5), (2, 0.9))
    ]
    return f"{likely:13.1f}{late:5.1f}{losses[0]:6.3f}{losses[1]:6.3f}"


def _loss(length_s: float, told_s: float, part: float) -> float:
    off = math.log((length_s + 60) / (told_s + 60))
    return max(part * off, (part - 1) * off)


if __name__ == "__main__":
    main()
