"""What the server answers about things, in the shapes of its API."""

from typing import Any

AT = "2026-11-20T10:00:00+00:00"
COMMIT_ID = "ab" * 32


def page(*items: dict[str, Any], next_cursor: str | None = None) -> dict[str, Any]:
    """Return a list as the server answers it."""
    return {"items": list(items), "next_cursor": next_cursor}


def commit(**changed: Any) -> dict[str, Any]:
    return {
        "id": COMMIT_ID,
        "short": COMMIT_ID[:8],
        "parent": "cd" * 32,
        "root": "ef" * 32,
        "message": "More",
        "author": "ada",
        "source": "cli",
        "created_at": AT,
        "files": 3,
        "size_bytes": 1500,
        "added": 1,
        "removed": 2,
        "changed": 3,
        "branches": ["main"],
        "tags": ["v1"],
        "cached": [{"site": "local", "state": "ready", "percent": 100}],
        **changed,
    }


def dataset(**changed: Any) -> dict[str, Any]:
    return {
        "id": "ds_1",
        "project": "team",
        "name": "digits",
        "reference": "team/digits",
        "description": "",
        "kind": "general",
        "files": 3,
        "size_bytes": 1500,
        "default_branch": "main",
        "newest_commit": commit(),
        "url": "http://127.0.0.1:8000/datasets/team/digits/",
        "created_at": AT,
        **changed,
    }


def cached(**changed: Any) -> dict[str, Any]:
    return {
        "id": "cc_1",
        "dataset": "team/digits",
        "commit": COMMIT_ID,
        "site": "local",
        "state": "ready",
        "files_done": 3,
        "files_total": 3,
        "bytes_done": 1500,
        "bytes_total": 1500,
        "bytes_moved": 1500,
        "bytes_shared": 0,
        "percent": 100,
        "rate_bytes_s": None,
        "eta_s": None,
        "path": "/cache/digits",
        "pinned": False,
        "last_used_at": AT,
        "last_used_by": "ada",
        "evicts_at": None,
        "error": None,
        **changed,
    }


def step(key: str, state: str = "succeeded", **changed: Any) -> dict[str, Any]:
    return {
        "key": key,
        "index": None,
        "state": state,
        "reason": None,
        "depends_on": [],
        "template": "this-machine.small",
        "decision": None,
        "attempts": [],
        "experiment_id": f"ex_{key}",
        "started_at": AT,
        "finished_at": "2026-11-20T10:00:03.500000+00:00",
        **changed,
    }


def run(state: str = "succeeded", *steps: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {
        "id": "run_1",
        "project": "team",
        "flow": "digits",
        "number": 7,
        "state": state,
        "reason": "",
        "parameters": {"lr": 0.1},
        "created_by": "ada",
        "created_at": AT,
        "started_at": AT,
        "finished_at": None,
        "url": "http://127.0.0.1:8000/runs/run_1/",
        "steps": list(steps),
        **changed,
    }


def experiment(**changed: Any) -> dict[str, Any]:
    return {
        "id": "ex_1",
        "project": "team",
        "run": "run_1",
        "step": "train",
        "state": "succeeded",
        "parameters": {"lr": 0.1},
        "metrics": {"accuracy": 0.97},
        "tags": {"kind": "svm"},
        "created_at": AT,
        **changed,
    }
