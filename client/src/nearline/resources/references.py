"""How people name what has files.

A dataset is `project/dataset@ref`, a bare name inside their project, or an address of it; the output of a step is
`run:RUN/STEP`, where RUN is an id or a name such as `flow #1`, and that of a job `job:NAME`.
"""

import re
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from nearline.errors import InvalidRequest
from nearline.resources.run_names import SHOWN

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_RUN, _JOB = "run:", "job:"
_OUTPUT_OF_RUN = re.compile(rf"{_RUN}(?P<run>{SHOWN}|[^/]+)/(?P<step>.+)", re.DOTALL)
_OUTPUT_HINT = "Write it like run:RUN/STEP, 'run:RUN/train C=10' or job:NAME; `nearline run list` shows runs."
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


@dataclass(frozen=True)
class OutputReference:
    """What a step of a run left, its newest try; where `step` is empty, what a job left."""

    owner: str
    step: str = ""

    def __str__(self) -> str:
        return f"{_RUN}{self.owner}/{self.step}" if self.step else f"{_JOB}{self.owner}"

    @property
    def name(self) -> str:
        """What a folder with its files may be called."""
        return re.sub(r"[^\w.=+-]+", "-", self.step or self.owner).strip("-.") or "output"


TreeReference: TypeAlias = Reference | OutputReference
"""What has files: a commit of a dataset, or an output."""


def is_output(text: str) -> bool:
    """Return whether a reference means an output; no project is called so."""
    return text.startswith((_RUN, _JOB))


def parse_output(text: str) -> OutputReference:
    """Read a reference to an output. Raises InvalidRequest."""
    if text.startswith(_RUN):
        if match := _OUTPUT_OF_RUN.fullmatch(text):
            return OutputReference(match["run"], match["step"])
        raise InvalidRequest(f"'{text}' names no step of a run.", hint=_OUTPUT_HINT)
    owner = text.removeprefix(_JOB)
    if not is_output(text) or not owner:
        raise InvalidRequest(f"'{text}' names no output.", hint=_OUTPUT_HINT)
    return OutputReference(owner)


def parse_reference(text: str, *, project: str | None = None, url: str | None = None) -> Reference:
    """Read a reference. `project` completes a bare name; an address must belong to the server at `url`.

    Raises InvalidRequest, also for an output, which is no dataset.
    """
    if is_output(text):
        raise InvalidRequest(
            f"'{text}' is an output, where a dataset is needed.",
            hint="Outputs are read by `nearline data files`, `clone` and `diff`. "
            "`nearline run keep RUN STEP DATASET` makes a version of a dataset of one.",
        )
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
