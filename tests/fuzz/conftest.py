"""What the fuzzers share: one of everything to ask for, everybody who asks, and the counts at the end of the run."""

from collections.abc import Iterator

import pytest

from tests.fuzz.tally import Tally

COUNT = "fuzz: "


@pytest.fixture
def tally(record_property) -> Iterator[Tally]:
    """Counts while a test runs, and fails it for any fault."""
    counts = Tally()
    with counts.watching():
        yield counts
    for name, count in counts.items():
        record_property(f"{COUNT}{name}", count)


def pytest_terminal_summary(terminalreporter) -> None:
    sums: dict[str, int] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, count in getattr(report, "user_properties", ()):
                if name.startswith(COUNT) and report.when == "teardown":
                    sums[name.removeprefix(COUNT)] = sums.get(name.removeprefix(COUNT), 0) + count
    if sums:
        counted = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in sums.items())
        terminalreporter.write_line(f"Fuzzers: {counted}")
