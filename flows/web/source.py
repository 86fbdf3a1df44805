"""The text of a flow, line by line, with what is wrong on each."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from flows.engine.problems import Problem
from flows.services.flows import Validation


@dataclass(frozen=True)
class SourceLine:
    """A line of a flow's source, and what is wrong there."""

    number: int
    text: str
    problems: Sequence[Problem]


def lines_of(source: str, checked: Validation) -> list[SourceLine]:
    """Return the lines of a text that was checked."""
    problems_of: dict[int | None, list[Problem]] = defaultdict(list)
    for problem in checked.problems:
        problems_of[problem.line].append(problem)
    return [SourceLine(number, line, problems_of[number]) for number, line in enumerate(source.splitlines(), start=1)]
