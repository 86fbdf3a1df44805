"""What the platform and its program on a host tell each other: frames of JSON, and the facts of the port as JSON.

A frame is the length of a JSON text in four bytes, and the text.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from compute.engine.job_spec import JobSpec, Tree
from compute.engine.ports import (
    CheckpointFolder,
    EndCause,
    ForeignUse,
    GpuFacts,
    GpuShare,
    JobReport,
    Launch,
    NodeFacts,
    OutputFile,
    ReplicaReport,
    ReportState,
)
from compute.engine.visible_gpus import VisibleGpus
from core.taints import Taint

Json = dict[str, Any]

GREETING = b"nearline host 1\n"
"""What the program says before its first frame: what stands before it comes from the login of the user."""
LENGTH_BYTES = 4
MOST_FRAME_BYTES = 256 * 2**20


def frame(value: Mapping[str, object]) -> bytes:
    """Return a frame."""
    text = json.dumps(value).encode()
    return len(text).to_bytes(LENGTH_BYTES, "big") + text


def read(text: bytes) -> Json:
    """Return what is in a frame."""
    value: Json = json.loads(text)
    return value


def launch_to_json(launch: Launch) -> Json:
    """Return a launch as JSON types, secrets included. A host runs no gangs: the launch has no peers."""
    plain = {item.name: getattr(launch, item.name) for item in fields(launch) if item.name != "peers"}
    gpus = [[share.index, share.milli] for share in launch.gpus]
    checkpoint = launch.checkpoint and asdict(launch.checkpoint)
    special = {"spec": launch.spec.to_json(), "gpus": gpus, "secrets": dict(launch.secrets), "checkpoint": checkpoint}
    return plain | special


def launch_from_json(value: Json) -> Launch:
    """Return what `launch_to_json` was given."""
    gpus = tuple(GpuShare(index, milli) for index, milli in value["gpus"])
    checkpoint = value["checkpoint"]
    if checkpoint is not None:
        tree = checkpoint["tree"]
        checkpoint = CheckpointFolder(checkpoint["name"], tree and Tree(**tree))
    return Launch(
        **{
            **value,
            "spec": JobSpec.from_json(value["spec"]),
            "gpus": gpus,
            "slices": tuple(value["slices"]),
            "checkpoint": checkpoint,
        }
    )


def nodes_to_json(nodes: Sequence[NodeFacts]) -> list[Json]:
    """Return nodes as JSON types."""
    return [asdict(node) for node in nodes]


def nodes_from_json(values: Sequence[Json]) -> list[NodeFacts]:
    """Return what `nodes_to_json` was given."""
    return [_node_from_json(value) for value in values]


def _node_from_json(value: Json) -> NodeFacts:
    gpus = tuple(GpuFacts(**gpu) for gpu in value["gpus"])
    foreign = ForeignUse(**{**value["foreign"], "holders": tuple(value["foreign"]["holders"])})
    taints = tuple(Taint(*taint) for taint in value.get("taints", ()))
    return NodeFacts(**{**value, "gpus": gpus, "foreign": foreign, "taints": taints})


def report_to_json(report: JobReport) -> Json:
    """Return a report as JSON types."""
    return asdict(report) | {
        "started_at": report.started_at and report.started_at.isoformat(),
        "finished_at": report.finished_at and report.finished_at.isoformat(),
    }


def report_from_json(value: Json) -> JobReport:
    """Return what `report_to_json` was given."""
    moments = {key: value[key] and datetime.fromisoformat(value[key]) for key in ("started_at", "finished_at")}
    states = {"state": ReportState(value["state"]), "cause": EndCause(value["cause"])}
    replicas = tuple(
        ReplicaReport(ReportState(each["state"]), each["reason"], VisibleGpus.from_json(each["gpus_seen"]))
        for each in value["replicas"]
    )
    seen = VisibleGpus.from_json(value["gpus_seen"])
    return JobReport(**{**value, **moments, **states, "replicas": replicas, "gpus_seen": seen})


def files_to_json(files: Iterable[OutputFile]) -> list[Json]:
    """Return the files of a folder as JSON types."""
    return [asdict(file) for file in files]


def files_from_json(values: Sequence[Json]) -> list[OutputFile]:
    """Return what `files_to_json` was given."""
    return [OutputFile(**value) for value in values]
