"""`python -m tests.scenarios FILE… [--group G] [--feature F] [--json OUT]`: run scenarios and count what passes."""

import argparse
import json
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from scheduler.engine.rules.fair_share import Claim, divide, divide_surplus
from tests.scenarios.reading import Scenario
from tests.scenarios.running import run

SKIPPED_FEATURES = {"dra", "numa"}
VERDICTS = ("passed", "failed", "skipped")
MILLI = 1000


def main() -> int:
    """Run the files named; return 1 when anything differs."""
    parser = argparse.ArgumentParser(prog="tests.scenarios", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--group")
    parser.add_argument("--feature")
    parser.add_argument("--json", type=Path, help="write the results there")
    arguments = parser.parse_args()
    results = [
        result
        for file in arguments.files
        for result in results_of(json.loads(file.read_text()))
        if arguments.group in {None, result.group} and arguments.feature in {None, result.feature}
    ]
    for result in results:
        if result.verdict == "failed":
            print(f"{result.id}: {'; '.join(result.misses)}")
    _summary(results)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(result) for result in results], indent=1))
    return 1 if any(result.verdict == "failed" for result in results) else 0


@dataclass(frozen=True)
class Result:
    """What came of one scenario or fair-share case."""

    id: str
    group: str
    feature: str
    verdict: str
    misses: list[str]


def results_of(data: Scenario) -> Iterator[Result]:
    """Run everything in a file."""
    for scenario in data.get("scenarios", []):
        if scenario["feature"] in SKIPPED_FEATURES:
            misses, verdict = [f"the feature {scenario['feature']} is not supported"], "skipped"
        else:
            misses = _safely(scenario)
            verdict = "failed" if misses else "passed"
        yield Result(scenario["id"], scenario["group"], scenario["feature"], verdict, misses)
    for case in data.get("fair_share_cases", []):
        misses = _fair_share(case)
        yield Result(case["id"], "fair_share", case["resource"], "failed" if misses else "passed", misses)


def _safely(scenario: Scenario) -> list[str]:
    try:
        return run(scenario)
    except Exception:  # noqa: BLE001 (one broken scenario must not hide the others)
        return [f"broke: {traceback.format_exc(limit=-3)}"]


def _fair_share(case: Scenario) -> list[str]:
    unit = MILLI
    claims = [
        Claim(
            queue["name"],
            None if queue["quota"] is None else round(queue["quota"] * MILLI),
            round(min(queue["requested"], queue["requested"] if queue["limit"] is None else queue["limit"]) * MILLI),
            queue["over_quota_weight"],
            (queue["created_rank"],),
            queue["priority"],
        )
        for queue in case["queues"]
    ]
    pull = case.get("usage_pull") or 0.0
    total = round(case["total"] * MILLI)
    if case["stage"] == "surplus_only":
        before = {queue["name"]: round(queue.get("share_before", 0) * MILLI) for queue in case["queues"]}
        shares = divide_surplus(total, claims, before, unit=unit, usage_pull=pull)
    else:
        shares = divide(total, claims, unit=unit, usage_pull=pull)
    wanted = {name: round(share * MILLI) for name, share in case["expected"]["share"].items()}
    return [
        f"{name}: wanted {want}, got {shares[name]}" for name, want in wanted.items() if abs(shares[name] - want) > 1
    ]


def _summary(results: list[Result]) -> None:
    counts = Counter((result.group, result.feature, result.verdict) for result in results)
    for group, feature in sorted({(result.group, result.feature) for result in results}):
        row = "".join(f"{counts[group, feature, verdict]:>6} {verdict}" for verdict in VERDICTS)
        print(f"{group:<24}{feature:<12}{row}")
    totals = Counter(result.verdict for result in results)
    print(", ".join(f"{totals[verdict]} {verdict}" for verdict in VERDICTS))


if __name__ == "__main__":
    sys.exit(main())
