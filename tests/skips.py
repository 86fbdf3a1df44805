"""Says at the end of a test run what was skipped and why. In CI, a skip whose reason is not listed here is a failure.

Loaded as a plugin of pytest. With processes side by side only the first one, which gets all reports, says so.
"""

import os
from collections import Counter

import pytest

ALLOWED_IN_CI = {
    "needs Redis: `make services`": "make services runs it",
    "needs controllers that are processes of their own": "make services runs it",
    "the embedded product has one host": "make services runs it",
    "there another process may live, whose leases hold": "make test runs it",
    "`up` is the embedded product": "make test runs it",
    "the full installation keeps its rows elsewhere": "make test runs it",
    "the store is a folder only in the embedded product": "make test runs it",
    "only SQLite can be told how large it may become": "make test runs it",
    "only SQLite counts the steps of its statements": "make test runs it",
    "PostgreSQL holds no such price": "make test runs it",
    "SQLite has one writer at a time": "make services runs it",
    "this file system has no reflinks": "the machine's file system decides; the same test runs with hard links",
    "the user nobody cannot read this checkout": "the place of the checkout decides",
    "the folder with the reference scenarios is not at hand": "the scenarios are not part of the repository",
}
"""Beginnings of reasons, and why nothing is missed."""

_BEFORE = "Skipped: "


def count_reasons(reports: list[pytest.TestReport | pytest.CollectReport]) -> Counter[str]:
    """Return how many tests (or files, where a whole file is left out) were skipped for each reason."""
    return Counter(str(report.longrepr[2]).removeprefix(_BEFORE) for report in reports)


def forbidden(reasons: Counter[str]) -> list[str]:
    """Return the reasons that may not be there in CI."""
    return [reason for reason in reasons if not reason.startswith(tuple(ALLOWED_IN_CI))]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in CI that skipped what it should not."""
    is_in_ci = os.environ.get("CI") == "true" and not hasattr(session.config, "workerinput")
    if is_in_ci and session.exitstatus == pytest.ExitCode.OK and forbidden(_reasons(session.config)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """List the reasons, the most frequent first."""
    reasons = _reasons(config)
    if not reasons:
        return
    terminalreporter.section("skipped")
    for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        terminalreporter.write_line(f"{count:5} {reason}")
    if os.environ.get("CI") == "true":
        for reason in forbidden(reasons):
            terminalreporter.write_line(f"FAILED: in CI nothing is skipped because '{reason}' (see tests/skips.py)")


def _reasons(config: pytest.Config) -> Counter[str]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return count_reasons(reporter.stats.get("skipped", []) if reporter else [])
