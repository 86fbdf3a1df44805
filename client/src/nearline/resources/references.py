"""How people name a dataset: `project/dataset@ref`, a bare name inside their project, or an address of it."""

from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from nearline.errors import InvalidRequest

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_HINT = "Write it like project/dataset, project/dataset@main, or paste the address of its page."


@dataclass(frozen=True)
class Reference:
    """A dataset, and possibly a branch, tag or commit of it, with the query to ask of it: `main:lungs`, `:lungs`."""

    project: str
    name: str
    ref: str | None = None

    def __str__(self) -> str:
        return f"{self.project}/{self.name}" + (f"@{self.ref}" if self.ref else "")

    @property
    def query(self) -> str:
        """The query that is asked; empty: none, the commit itself is meant."""
        return (self.ref or "").partition(":")[2]

    @property
    def dataset(self) -> str:
        """The reference without a branch, tag or commit."""
        return f"{self.project}/{self.name}"


def parse_reference(text: str, *, project: str | None = None, url: str | None = None) -> Reference:
    """Read a reference. `project` completes a bare name; an address must belong to the server at `url`.

    Raises InvalidRequest.
    """
    if "://" in text:
        return _parse_address(text, url)
    path, _, ref = text.partition("@")
    parts = path.split("/")
    if len(parts) == 1 and project:
        parts = [project, *parts]
    if len(parts) != 2 or not all(parts) or (not ref and "@" in text):  # noqa: PLR2004 (project and name)
        why = "" if len(parts) != 1 or project else " It names no project."
        raise InvalidRequest(f"'{text}' is not a dataset reference.{why}", hint=_HINT)
    return Reference(parts[0], parts[1], ref or None)


def _parse_address(text: str, url: str | None) -> Reference:
    address = _split(text)
    if url is not None and not is_same_server(text, url):
        raise InvalidRequest(
            f"'{text}' is on another server than {url}.",
            hint=f"Sign in there: `nearline login {address.scheme}://{address.netloc}`.",
        )
    _, separator, rest = address.path.partition("/datasets/")
    parts = [unquote(part) for part in rest.split("/") if part]
    if not separator or len(parts) < 2:  # noqa: PLR2004 (project and name)
        raise InvalidRequest(f"'{text}' is not the address of a dataset.", hint=_HINT)
    ref = parse_qs(address.query).get("ref", [None])[0]
    project, (name, _, inline) = parts[0], parts[1].partition("@")
    if parts[2:3] == ["commits"]:
        ref = "/".join(parts[3:])
    return Reference(project, name, inline or ref or None)


def server_of(address: str) -> str:
    """Return the server of a dataset's address, which is that of a page or of a commit in the API."""
    if "://" not in address:
        raise InvalidRequest(f"'{address}' is no address.", hint=_HINT)
    return address.partition("/datasets/")[0].removesuffix("/api/v1")


def is_same_server(one: str, other: str) -> bool:
    """Return whether two addresses lead to one server; the names of this machine's loopback are one."""
    return _place(one) == _place(other)


def _split(url: str) -> SplitResult:
    try:
        address = urlsplit(url)
        _ = address.port  # is read only when it is asked for
    except ValueError as error:
        raise InvalidRequest(f"'{url}' is no address: {error}.", hint=_HINT) from error
    return address


def _place(url: str) -> tuple[str, int | None]:
    address = _split(url)
    host = address.hostname or ""
    port = address.port or {"http": 80, "https": 443}.get(address.scheme)
    return ("loopback" if host in _LOOPBACK else host, port)
