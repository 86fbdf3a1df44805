"""What lists of experiments show, filter, sort and group by: plain fields such as `flow`, and recorded `params.lr`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from experiments.errors import InvalidColumn


class Kind(StrEnum):
    """Where a column's value comes from. The first four are recorded under a key of the user's own choosing."""

    PARAM = "params"
    METRIC = "metrics"
    TAG = "tags"
    DATA = "data"
    PLAIN = ""


class Nature(StrEnum):
    """What can be done with a value. MIXED: a number where it reads as one, else a text."""

    NUMBER = "number"
    TEXT = "text"
    MIXED = "mixed"
    MOMENT = "moment"
    SECONDS = "seconds"


PLAIN: Mapping[str, Nature] = {
    "title": Nature.TEXT,
    "state": Nature.TEXT,
    "project": Nature.TEXT,
    "flow": Nature.TEXT,
    "run": Nature.NUMBER,
    "step": Nature.TEXT,
    "template": Nature.TEXT,
    "by": Nature.TEXT,
    "note": Nature.TEXT,
    "created": Nature.MOMENT,
    "took": Nature.SECONDS,
}
"""The fields that every experiment has."""

RECORDED = (Kind.PARAM, Kind.METRIC, Kind.TAG, Kind.DATA)
MAX_KEY = 200
"""Keys are compared, sorted and grouped by so many of their first characters."""

_SINGULAR = {"param": Kind.PARAM, "metric": Kind.METRIC, "tag": Kind.TAG}
_FALLING = re.compile(r"(?:^|[^a-z])(?:loss|error|err|mse|mae|rmse|perplexity|regret|latency|seconds|time)(?:$|[^a-z])")


@dataclass(frozen=True)
class Column:
    """One column. A plain one has its name as `key`."""

    kind: Kind
    key: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.key}" if self.kind else self.key

    @property
    def nature(self) -> Nature:
        """What can be done with its values."""
        if self.kind is Kind.PLAIN:
            return PLAIN[self.key]
        return {Kind.METRIC: Nature.NUMBER, Kind.DATA: Nature.TEXT}.get(self.kind, Nature.MIXED)

    @property
    def is_lower_better(self) -> bool:
        """Whether a metric's name says that it is to fall, such as `val_loss`."""
        return _FALLING.search(self.key.lower()) is not None


def parse(text: str) -> Column:
    """Read `params.lr`, `metrics.accuracy`, `tags.best`, `data.team/digits` or a plain name. Raises InvalidColumn."""
    kind, dot, key = text.partition(".")
    if dot and (recorded_kind := kind_of(kind)) is not None and key:
        return Column(recorded_kind, key[:MAX_KEY])
    if text in PLAIN:
        return Column(Kind.PLAIN, text)
    raise InvalidColumn(
        f"'{text}' is not a column. Write params.NAME, metrics.NAME, tags.NAME, data.PROJECT/DATASET, or one of "
        f"{', '.join(PLAIN)}."
    )


def kind_of(word: str) -> Kind | None:
    """Return the kind of recorded values that a word names; None when it names none."""
    return _SINGULAR.get(word) or (Kind(word) if word in set(RECORDED) else None)


@dataclass(frozen=True)
class Order:
    """By which column a list goes. What has no value there comes last, in both directions."""

    column: Column
    is_falling: bool

    def __str__(self) -> str:
        return f"{'-' if self.is_falling else ''}{self.column}"


def parse_order(text: str) -> Order:
    """Read `metrics.accuracy`, or `-metrics.accuracy` for the highest first. Raises InvalidColumn."""
    return Order(parse(text.removeprefix("-")), text.startswith("-"))
