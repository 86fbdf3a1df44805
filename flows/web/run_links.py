"""Where the links in a page of a run lead: to the same page, with another step or group in its panel."""

from urllib.parse import urlencode

from django.http import HttpRequest

from flows.web.graph_view import NodeBox

_OF_PANEL = ("step", "index", "group", "tab", "attempt", "file")


class RunLinks:
    """Makes the addresses for one request. Everything else that its address says stays."""

    def __init__(self, request: HttpRequest) -> None:
        query = request.GET.copy()
        for name in _OF_PANEL:
            query.pop(name, None)
        self._query = f"{query.urlencode()}&" if query else ""

    def step(self, key: str, index: int | None, **more: object) -> str:
        """Return the address that shows a step; `more` says which tab, attempt or file of it."""
        asked = {"step": key, **({} if index is None else {"index": index}), **more}
        return f"?{self._query}{urlencode(asked)}#run-step"

    def box(self, box: NodeBox) -> str:
        """Return the address behind a box of the graph."""
        if box.group:
            return self.group(box.group)
        return self.step(box.step, box.index) if box.step else box.link

    def group(self, name: str) -> str:
        """Return the address that shows a group of steps."""
        return f"?{self._query}{urlencode({'group': name})}#run-step"
