"""Pages as a browser shows them: without white space that it does not show, and what stands in their forms."""

import re
from html.parser import HTMLParser


def flat(html: str) -> str:
    """Write every run of white space as one space, and none beside a tag."""
    return re.sub(r"(?<=>) | (?=<)", "", " ".join(html.split()))


def read_form(html: str, action: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return what stands in the fields of the form that is sent to an address, and what is said to be wrong with each.

    What is wrong with the form as a whole has an empty name. Of several fields of one name the last one counts.
    """
    reader = _FormReader(action)
    reader.feed(html)
    return {name: value.removeprefix("\n") for name, value in reader.values.items()}, reader.errors


class _FormReader(HTMLParser):
    def __init__(self, action: str) -> None:
        super().__init__()
        self.values: dict[str, str] = {}
        self.errors: dict[str, str] = {}
        self._action, self._is_inside, self._name, self._texts = action, False, "", None

    def handle_starttag(self, tag, attrs) -> None:
        given = dict(attrs)
        if tag == "form":
            self._is_inside, self._name = given.get("action") == self._action, ""
        if not self._is_inside:
            return
        if tag in {"input", "select", "textarea"} and given.get("name") != "csrfmiddlewaretoken":
            self._name = self._name if given.get("type") == "hidden" else given["name"]
            if tag == "textarea":
                self._texts, self.values[self._name] = self.values, ""
            elif tag == "input" and (given.get("type") not in {"checkbox", "radio"} or "checked" in given):
                self.values[given["name"]] = given.get("value") or ""
        elif tag == "option" and "selected" in given:
            self.values[self._name] = given["value"]
        elif given.get("role") == "alert":
            self._texts, self.errors[self._name] = self.errors, ""

    def handle_data(self, data) -> None:
        if self._texts is not None:
            self._texts[self._name] += data

    def handle_endtag(self, tag) -> None:
        if tag in {"div", "span", "textarea"}:
            self._texts = None
        self._is_inside &= tag != "form"
