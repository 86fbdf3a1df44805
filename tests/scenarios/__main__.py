"""`python -m tests.scenarios FILE… [--group G] [--feature F] [--policy P] [--json OUT]`: run scenarios and count what passes.

States and nodes must come out as written. What else a scenario wants is compared too, but only reported.
"""

import argparse
import json
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scheduler.engine.queues import ShareRequest, divide, divide_surplus
from scheduler.engine.snapshot import NEARLINE, PARITY, Policy
from tests.scenarios.extras import extras_of
from tests.scenarios.reading import Scenario
from tests.scenarios.running import run

SKIPPED_FEATURES = {"dra", "numa"}
VERDICTS = ("passed", "failed", "skipped")
MILLI = 1000
POLICIES = {"nearline": NEARLINE, "parity": PARITY}


class UnreadableFile(Exception):
    """The file holds no scenarios; the message says why."""


def main(arguments: list[str] | None = None) -> int:
    """Run the files named; return 1 when anything differs, 2 when a file cannot be read."""
    parser = argparse.ArgumentParser(prog="tests.scenarios", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--group", help="only scenarios of this group; fair_share for the division alone")
    parser.add_argument("--feature", help="only scenarios of this feature")
    parser.add_argument("--policy", choices=POLICIES, default="parity", help="whose rules decide (default: parity)")
    parser.add_argument("--json", type=Path, help="write the results there")
    chosen = parser.parse_args(arguments)
    try:
        files = [read(file) for file in chosen.files]
    except UnreadableFile as error:
        print(f"tests.scenarios: {error}", file=sys.stderr)
        return 2
    only = {"group": chosen.group, "feature": chosen.feature}
    results = [result for data in files for result in results_of(data, policy=POLICIES[chosen.policy], **only)]
    for result in results:
        if result.verdict == "failed":
            print(f"{result.id}: {'; '.join(result.misses)}")
    for result in results:
        if result.extras:
            print(f"{result.id}: extra: {'; '.join(result.extras)}")
    _summary(results)
    if chosen.json:
        chosen.json.write_text(json.dumps([asdict(result) for result in results], indent=1))
    return 1 if any(result.verdict == "failed" for result in results) else 0


@dataclass(frozen=True)
class Result:
    """What came of one scenario or fair-share case."""

    id: str
    group: str
    feature: str
    verdict: str
    misses: list[str]
    extras: list[str] = field(default_factory=list)


def read(file: Path) -> Scenario:
    """Return what a file holds."""
    try:
        data = json.loads(file.read_text())
    except OSError as error:
        raise UnreadableFile(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UnreadableFile(f"{file} is not JSON: {error}") from error
    kinds = ("scenarios", "fair_share_cases")
    if not isinstance(data, dict) or not any(isinstance(data.get(kind), list) for kind in kinds):
        raise UnreadableFile(f"{file} has neither a list of scenarios nor one of fair_share_cases")
    rows = [row for kind in kinds for row in data.get(kind) or []]
    if not all(isinstance(row, dict) and isinstance(row.get("id"), str) for row in rows):
        raise UnreadableFile(f"{file} has a scenario without an id")
    return data


def results_of(
    data: Scenario, *, policy: Policy = PARITY, group: str | None = None, feature: str | None = None
) -> Iterator[Result]:
    """Run everything in a file that is of the group and the feature."""
    rows = [(row, str(row.get("group")), str(row.get("feature"))) for row in data.get("scenarios") or []]
    rows += [(row, "fair_share", str(row.get("resource"))) for row in data.get("fair_share_cases") or []]
    for row, of_group, of_feature in rows:
        if group not in {None, of_group} or feature not in {None, of_feature}:
            continue
        if of_feature in SKIPPED_FEATURES:
            yield Result(row["id"], of_group, of_feature, "skipped", [f"the feature {of_feature} is not supported"])
        else:
            misses, extras = _examine(row, policy, is_division=of_group == "fair_share")
            yield Result(row["id"], of_group, of_feature, "failed" if misses else "passed", misses, extras)


def _examine(row: Scenario, policy: Policy, *, is_division: bool) -> tuple[list[str], list[str]]:
    """Return what came out otherwise, and what else did. One broken scenario must not hide the others."""
    try:
        if is_division:
            return _fair_share(row), []
        played = run(row, policy)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is told)
        return [_tell(error)], []
    try:
        return played.misses, extras_of(row, played.rounds)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is told)
        return played.misses, [_tell(error)]


def _tell(error: Exception) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"broke with {type(error).__name__} ({error}) at {Path(where.filename).name}:{where.lineno}"


def _fair_share(case: Scenario) -> list[str]:
    claims = [_claim(queue) for queue in case["queues"]]
    pull = case.get("usage_pull") or 0.0
    total = round(case["total"] * MILLI)
    if case["stage"] == "surplus_only":
        before = {queue["name"]: round(queue.get("share_before", 0) * MILLI) for queue in case["queues"]}
        shares = divide_surplus(total, claims, before, unit=MILLI, usage_pull=pull)
    else:
        shares = divide(total, claims, unit=MILLI, usage_pull=pull)
    wanted = {name: round(share * MILLI) for name, share in case["expected"]["share"].items()}
    return [
        f"{name}: wanted {want}, got {shares[name]}" for name, want in wanted.items() if abs(shares[name] - want) > 1
    ]


def _claim(queue: dict[str, Any]) -> ShareRequest:
    limit = queue["requested"] if queue["limit"] is None else queue["limit"]
    return ShareRequest(
        queue["name"],
        None if queue["quota"] is None else round(queue["quota"] * MILLI),
        round(min(queue["requested"], limit) * MILLI),
        queue["over_quota_weight"],
        (queue["created_rank"],),
        queue["priority"],
    )


def _summary(results: list[Result]) -> None:
    """Print a line for each group and feature, one for the extras, and the one that counts."""
    counts = Counter((result.group, result.feature, result.verdict) for result in results)
    for group, feature in sorted({(result.group, result.feature) for result in results}):
        row = "".join(f"{counts[group, feature, verdict]:>6} {verdict}" for verdict in VERDICTS)
        print(f"{group:<24}{feature:<12}{row}")
    print(f"extras, which do not count: {sum(bool(result.extras) for result in results)} scenarios differ in some")
    totals = Counter(result.verdict for result in results)
    print(", ".join(f"{totals[verdict]} {verdict}" for verdict in VERDICTS))


if __name__ == "__main__":
    sys.exit(main())
