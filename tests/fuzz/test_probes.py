"""The requests that once ended in a 500, stopped a page or were taken and never should have been: one a line."""

from tests.factories.api import call
from tests.fuzz.poison import POISON_CURSORS
from tests.transactions import undone

TEMPLATE = {"resource": "lab", "name": "more", "cpu_millicores": 1000, "memory_bytes": 2**30}
JOB = {"project": "team-a", "template": "lab.small", "command": "true"}
FLOW = {"project": "team-a", "text": "flow: letters\nsteps: [{name: train, command: 'true'}]\n"}
ALL_EDGES = {f"s{place}": [f"s{other}" for other in range(place)] for place in range(600)}

PROBES = [
    # method, path, body, the answer to a site admin
    ("POST", "/compute/templates", {**TEMPLATE, "price_per_hour": 1e50}, 400),
    ("POST", "/compute/templates", {**TEMPLATE, "price_per_hour": 1_000_000}, 400),
    ("POST", "/compute/templates", {**TEMPLATE, "price_per_hour": 999_999.9999}, 201),
    ("POST", "/compute/templates", {**TEMPLATE, "cpu_millicores": 10**4000}, 400),
    ("POST", "/compute/templates", {**TEMPLATE, "memory_bytes": 2**63}, 400),
    ("POST", "/compute/templates", {**TEMPLATE, "labels": {"zone": "\ud800"}}, 400),
    ("PATCH", "/compute/templates/lab.small", {"labels": None}, 400),
    ("PATCH", "/compute/templates/lab.small", {"price_per_hour": None, "labels": {}}, 200),
    ("POST", "/compute/jobs", {**JOB, "simulated_duration_s": float("inf")}, 400),
    ("POST", "/compute/jobs", {**JOB, "simulated_duration_s": float("nan")}, 400),
    ("POST", "/compute/jobs", {**JOB, "simulated_duration_s": 1e300}, 400),
    ("POST", "/compute/jobs", {**JOB, "command": "\ud800"}, 400),
    ("POST", "/compute/jobs", {**JOB, "command": "a\0b"}, 400),
    ("POST", "/compute/jobs/{job}/cancel", {"reason": "\ud800"}, 400),
    ("GET", "/compute/jobs/{job}/log?offset=10000000000000000000000", None, 400),
    ("GET", "/compute/jobs/{job}/log?offset=-1", None, 400),
    ("GET", "/compute/jobs/{job}/log?limit=10000000000000000000000", None, 400),
    ("GET", "/compute/jobs/{job}/usage?after=0001-01-01T00:00:00%2B23:59", None, 400),
    ("GET", "/compute/jobs/{job}/usage?after=2026-01-01T00:00:00", None, 400),
    ("GET", "/runs/{run}/events?after=10000000000000000000000", None, 400),
    ("GET", "/runs/{run}/steps/train/log?offset=10000000000000000000000", None, 400),
    ("GET", "/runs/{run}/steps/train/log?index=10000000000000000000000", None, 400),
    ("POST", "/runs/{run}/retry", {"step": "train", "index": 10**22}, 400),
    ("POST", "/tokens", {"name": "x", "expires_at": "0001-01-01T00:00:00Z"}, 400),
    ("POST", "/tokens", {"name": "x", "expires_at": "0001-01-01T00:00:00+23:59"}, 400),
    ("POST", "/tokens", {"name": "x", "expires_at": "2020-01-01T00:00:00Z"}, 400),
    ("POST", "/tokens", {"name": "x", "expires_at": 10**22}, 400),
    ("POST", "/tokens", {"name": "\ud800"}, 400),
    ("PATCH", "/me", {"first_name": "\ud800"}, 400),
    ("PATCH", "/datasets/team-a/xrays", {"description": "\ud800"}, 400),
    ("PATCH", "/datasets/team-a/xrays", {"description": "a" * 2001}, 400),
    ("PATCH", "/datasets/team-a/xrays", {"idle_days": float("inf")}, 400),
    ("PATCH", "/scheduler/queues/team-a", {"gpu_quota_milli": 10**30}, 400),
    ("PATCH", "/scheduler/queues/team-a", {"over_quota_weight": float("inf")}, 400),
    ("PATCH", "/cache/sites/local", {"idle_days": 1e300}, 400),
    ("GET", "/cache/plan?need_bytes=10000000000000000000000", None, 400),
    ("PUT", "/experiments/{experiment}/note", {"note": "\ud800"}, 400),
    ("PUT", "/experiments/{experiment}/note", {"note": "a", "seen_at": "0001-01-01T00:00:00+23:59"}, 400),
    ("PUT", "/experiments/{experiment}/tags/best", {"value": "\ud800"}, 400),
    ("PUT", "/experiments/{experiment}/tags/%00", {"value": "x"}, 400),
    ("POST", "/experiment-views", {"project": "team-a", "name": "\ud800", "query": ""}, 400),
    ("POST", "/flows", {**FLOW, "text": FLOW["text"] + 'title: "\\ud800"\n'}, 400),
    ("POST", "/flows", {**FLOW, "text": FLOW["text"] + "title: \ud800\n"}, 400),
    ("POST", "/flows/validate", {**FLOW, "text": '{"flow": "a", "title": ' + "9" * 5000 + "}", "format": "json"}, 200),
    ("POST", "/flows/{flow}/runs", {"parameters": {"x": "\ud800"}}, 400),
    ("POST", "/flows/{flow}/runs", {"parameters": {"x": 10**400}}, 400),
    ("POST", "/flows/layout", {"parents": ALL_EDGES}, 400),
    ("POST", "/flows/layout", {"parents": {name: names[:80] for name, names in ALL_EDGES.items()}}, 200),
    ("PUT", "/flows/drafts", {**FLOW, "key": "~new", "layout": {"train": [1e300, 0]}}, 400),
    ("POST", "/projects", {"name": "team-b", "description": "a" * 501}, 400),
]


def test_every_probe_is_answered_as_written(everything, tally):
    values = {**everything.values, "flow": f"team-a/{everything.values['flow']}"}
    for method, path, body, expected in PROBES:
        with undone():
            answer = call(everything.askers["root"].actor, method, path.format(**values), body)
        tally.note(answer.status, path)
        if answer.status != expected:
            tally.faults.append(f"{answer.status}, not {expected}: {method} {path} {str(body)[:100]}: {answer.body}")

    assert not tally.faults, "\n".join(tally.faults)


def test_no_list_breaks_at_a_page_link_that_is_not_its_own(everything, tally):
    values = everything.values
    lists = (
        "/projects",
        "/tokens",
        "/audit",
        "/datasets",
        "/cache/sites",
        "/cache/commits",
        "/compute/jobs",
        "/runs",
        "/scheduler/queues",
        "/scheduler/nodes",
        "/scheduler/workloads",
        "/flows",
        "/experiments",
        "/users",
        "/experiments?sort=-took",
        "/experiment-views",
        "/projects/team-a/members",
        "/projects/team-a/secrets",
        "/projects/team-a/audit",
        "/datasets/team-a/xrays/branches",
        "/datasets/team-a/xrays/tags",
        "/datasets/team-a/xrays/commits",
        "/datasets/team-a/xrays/files",
        "/datasets/team-a/xrays/files?glob=*",
        f"/datasets/team-a/xrays/diff?base={values['first']}",
        f"/uploads/{values['parts']}/parts",
        f"/cache/commits/{values['cached']}/events",
        "/flows/team-a/digits/versions",
    )
    for path in lists:
        for cursor in POISON_CURSORS:
            sign = "&" if "?" in path else "?"
            answer = call(everything.askers["root"].actor, "GET", f"{path}{sign}cursor={cursor}")
            tally.note(answer.status, path)
            if answer.status not in {200, 400}:
                tally.faults.append(f"{path}, {cursor}: {answer}")

    assert not tally.faults, "\n".join(tally.faults)
