"""What the address of the experiments' table asks for, and the addresses that lead from it to others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from django.http import QueryDict

from experiments.engine import columns
from experiments.engine.columns import Column, Kind

MAX_COLUMNS = 60
_MAX_PAGE = 1_000_000


@dataclass(frozen=True)
class TableQuery:
    """What is shown, and how. Empty texts: everything, newest first, not grouped, the columns that tell most.

    Only what recorded something is shown, but with `shows_all` every attempt of every step.
    """

    project: str = ""
    run: str = ""
    where: str = ""
    order: str = ""
    group: str = ""
    columns: tuple[Column, ...] = ()
    page: int = 1
    shows_all: bool = False

    @classmethod
    def of(cls, given: QueryDict) -> "TableQuery":
        """Read an address. Raises InvalidColumn. `up` and `down` move one of the columns."""
        chosen = list(dict.fromkeys(columns.parse(name) for name in given.getlist("c")[:MAX_COLUMNS]))
        for name, step in (("up", -1), ("down", 1)):
            if name in given and (moved := columns.parse(given.get(name, ""))) in chosen:
                place = chosen.index(moved)
                chosen.insert(max(0, place + step), chosen.pop(place))
        page = given.get("page", "1")
        return cls(
            project=given.get("project", "").strip(),
            run=given.get("run", "").strip(),
            where=given.get("q", "").strip(),
            order=given.get("sort", "").strip(),
            group=given.get("group", "").strip(),
            columns=tuple(chosen),
            shows_all=given.get("all") == "1",
            page=max(1, min(int(page), _MAX_PAGE)) if page.isdecimal() and len(page) < 9 else 1,  # noqa: PLR2004
        )

    def fields(self, *, without: Sequence[str] = ()) -> list[tuple[str, str]]:
        """Return the address as names and values, as a form repeats them. A view leaves the project to its own."""
        pairs = [("project", self.project), ("run", self.run), ("q", self.where), ("sort", self.order)]
        pairs += [("group", self.group), ("all", "1" if self.shows_all else "")]
        pairs += [("c", str(column)) for column in self.columns]
        if self.page > 1:
            pairs.append(("page", str(self.page)))
        # An empty project is a choice too: all of them.
        return [(name, value) for name, value in pairs if name not in without and (value or name == "project")]

    def address(self, **changes: object) -> str:
        """Return the query of the same table with something else asked of it, from its first page on."""
        return urlencode(replace(self, **{"page": 1, **changes}).fields())  # type: ignore[arg-type]

    def turned_to(self, page: int) -> str:
        """Return the query of another page of it."""
        return urlencode(replace(self, page=page).fields())

    def ordered_by(self, column: Column) -> str:
        """Return the order that a click on a column's head asks for: the best first, then the other way round."""
        is_falling = column.kind is Kind.METRIC and not column.is_lower_better
        first, other = (f"-{column}", str(column)) if is_falling else (str(column), f"-{column}")
        return other if self.order == first else first

    def narrowed_to(self, where: str) -> str:
        """Return the query of one group's members."""
        joined = f"({self.where}) and {where}" if " or " in self.where.lower() else f"{self.where} and {where}"
        return self.address(where=joined if self.where else where, group="")
