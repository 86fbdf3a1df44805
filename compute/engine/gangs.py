"""A gang: the replicas of one job, which start together and end together. Pure.

Replica 0 leads: peers meet at its address, its output is the job's, and its success is the success of the job. A
replica that fails before that fails the job.
An elastic gang gets and loses replicas while it runs, always the last ones. Their programs meet anew each time, as
`torchrun` does, at the address of replica 0, which stays.
One with a launcher has one more pod, which counts as replica 0 and leads: it runs the command of the job, as `mpirun`,
and starts processes in the replicas 1, 2, ..., the workers. Among these ranks begin at 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from compute.engine.ports import EndCause, JobReport, ReplicaReport, ReportState

PORT = 29500
"""Where replica 0 may listen for the others: the port that `torchrun` takes by itself."""
_ON_PLACE = frozenset({ReportState.STARTING, ReportState.RUNNING})
# What somebody did to a replica explains more than the errors of its peers, which have lost it.
_EXPLAINS_LITTLE = {EndCause.EXITED: 1, EndCause.STOPPED: 2}


_RESTARTS = 10
"""So often `torchrun` starts its processes again where those of another replica were lost."""


def rank_variables(
    rank: int, hosts: Sequence[str], *, gpus: int, hostfile: str, bounds: tuple[int, int] | None = None
) -> Mapping[str, str]:
    """Return the variables by which a replica finds the others: those of PyTorch, of `torchrun`, and of MPI.

    They describe one process a replica. Who starts several of them, such as `torchrun`, sets the ranks anew. With
    several GPUs there is no `LOCAL_RANK`: it tells frameworks that all processes are started already.
    `bounds` are the least and the most replicas of an elastic gang: `torchrun` then agrees on ranks and world size by a
    rendezvous, and what else counts replicas is as at the start of this one.
    """
    first, count = hosts[0], str(len(hosts))
    one_process = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"} if gpus <= 1 else {}
    return {
        "RANK": str(rank),
        "WORLD_SIZE": count,
        "NODE_RANK": str(rank),
        "NNODES": count,
        "MASTER_ADDR": first,
        "MASTER_PORT": str(PORT),
        **one_process,
        **(_fixed_nodes(rank, first, count) if bounds is None else _elastic_nodes(rank, hosts, *bounds)),
        "PET_NPROC_PER_NODE": str(max(gpus, 1)),
        "OMPI_MCA_orte_default_hostfile": hostfile,
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "PRTE_MCA_prte_default_hostfile": hostfile,
        **_place_in_gang(rank, len(hosts)),
        "NEARLINE_HOSTFILE": hostfile,
    }


# `torchrun` reads its own options from these, so that `torchrun train.py` needs none.
def _fixed_nodes(rank: int, first: str, count: str) -> Mapping[str, str]:
    return {
        "PET_NNODES": count,
        "PET_NODE_RANK": str(rank),
        "PET_MASTER_ADDR": first,
        "PET_MASTER_PORT": str(PORT),
    }


def _elastic_nodes(rank: int, hosts: Sequence[str], least: int, most: int) -> Mapping[str, str]:
    return {
        "PET_NNODES": f"{least}:{most}",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"{hosts[0]}:{PORT}",
        "PET_RDZV_ID": "nearline",
        # It would compare the address with its own host name, which has no domain, and give that to the others.
        "PET_RDZV_CONF": f"is_host={int(rank == 0)}",
        "PET_LOCAL_ADDR": hosts[rank],
        # Else a replica that joins never gets the address, which the first one has told only those before it.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "PET_MAX_RESTARTS": str(_RESTARTS),
    }


def launcher_variables(hosts: Sequence[str], *, gpus: int, hostfile: str) -> Mapping[str, str]:
    """Return the variables of a launcher, by which it finds the workers, which are at these hosts."""
    worker = rank_variables(0, hosts, gpus=gpus, hostfile=hostfile)
    ranks = {"RANK", "NODE_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}
    others = {name: value for name, value in worker.items() if name not in ranks and not name.startswith("PET_")}
    return {**others, **_place_in_gang(0, len(hosts) + 1)}


def worker_variables(rank: int, hosts: Sequence[str], *, gpus: int, hostfile: str) -> Mapping[str, str]:
    """Return the variables of a worker beside a launcher, by its rank among the workers."""
    variables = rank_variables(rank, hosts, gpus=gpus, hostfile=hostfile)
    return {**variables, **_place_in_gang(rank + 1, len(hosts) + 1)}


def _place_in_gang(number: int, count: int) -> Mapping[str, str]:
    return {"NEARLINE_REPLICA": str(number), "NEARLINE_REPLICAS": str(count)}


def write_hostfile(hosts: Sequence[str], *, gpus: int) -> str:
    """Return the hosts of the replicas as MPI reads them, with a slot for each GPU."""
    return "".join(f"{host} slots={max(gpus, 1)}\n" for host in hosts)


def join_reports(reports: Sequence[JobReport], *, is_elastic: bool = False) -> JobReport:
    """Return what the reports of all replicas, by rank, say about their job. An elastic one runs with those that do."""
    replicas = tuple(ReplicaReport(report.state, report.reason, report.gpus_seen) for report in reports)
    leader = replace(reports[0], replicas=replicas)
    started = [report.started_at for report in reports if report.started_at is not None]
    if any(report.state in _ON_PLACE for report in reports):
        awaited = reports[:1] if is_elastic else reports
        is_starting = any(report.state is ReportState.STARTING for report in awaited)
        state = ReportState.STARTING if is_starting else ReportState.RUNNING
        started_at = None if is_starting else min(started, default=None)
        return replace(
            leader,
            state=state,
            exit_code=None,
            cause=EndCause.EXITED,
            started_at=started_at,
            finished_at=None,
            reason=_explain_wait(reports),
        )
    if has_succeeded(reports):
        return leader
    failed = [rank for rank, report in enumerate(reports) if report.state is not ReportState.SUCCEEDED]
    rank = min(failed, key=lambda rank: (_EXPLAINS_LITTLE.get(reports[rank].cause, 0), reports[rank].finished_at, rank))
    ended = [report.finished_at for report in reports if report.finished_at is not None]
    return replace(
        reports[rank],
        replica=rank,
        replicas=replicas,
        started_at=min(started, default=None),
        finished_at=max(ended, default=None),
    )


def has_succeeded(reports: Sequence[JobReport]) -> bool:
    """Whether replica 0 has succeeded and none had failed before. What becomes of the others then does not matter."""
    leader, *others = reports
    end = leader.finished_at
    return leader.state is ReportState.SUCCEEDED and not any(
        report.state in {ReportState.FAILED, ReportState.LOST}
        and report.finished_at
        and end
        and report.finished_at < end
        for report in others
    )


def find_failed(reports: Sequence[JobReport]) -> int | None:
    """Return the rank of a replica that has failed; None: none has."""
    failed = (rank for rank, report in enumerate(reports) if report.state in {ReportState.FAILED, ReportState.LOST})
    return next(failed, None)


def _explain_wait(reports: Sequence[JobReport]) -> str:
    if (rank := find_failed(reports)) is not None and reports[0].state is not ReportState.SUCCEEDED:
        return f"Replica {rank} has failed; the others are stopped."
    waits = (f"Replica {rank}: {report.reason}" for rank, report in enumerate(reports) if report.reason)
    return next(waits, "")
