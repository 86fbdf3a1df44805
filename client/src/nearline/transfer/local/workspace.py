"""The `.nearline/` folder of a linked folder: what it is linked to, the last synced state, and the lock."""

import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from nearline.errors import DENIALS, TAKEN_HINT, Conflict, Failed, hint_for
from nearline.settings import Malformed, find_text, get_text, read_object

FOLDER_NAME = ".nearline"
# Where, below a folder, its link is.
LINK_FILE = b"/.nearline/config.json"
_LINK_HINT = f"Its link is kept in '{FOLDER_NAME}' there: make the folder writable, or use another one."
_RELINK_HINT = "Link it again: `nearline data set --url PROJECT/NAME`."
_LOCK_HINT = f"What is known of its files is kept in '{FOLDER_NAME}' there: make the folder writable."
_URL, _NAME = re.compile(r"https?://\S+"), re.compile(r"[^/\s]+")
_ID = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Link:
    """What a folder is linked to."""

    url: str
    project: str
    dataset: str
    branch: str


@dataclass(frozen=True)
class State:
    """The version that the folder was last brought together with; None before the first time."""

    commit: str | None = None
    root: str | None = None


class Workspace:
    """A linked folder. `root` is the folder itself, `home` its `.nearline/`, or a copy of what that knows."""

    def __init__(self, root: Path, home: Path | None = None) -> None:
        self.root = root
        self.home = home or root / FOLDER_NAME

    @classmethod
    def create(cls, root: Path, link: Link, has_commit: Callable[[str], bool] = lambda _: False) -> Self:
        """Link a folder, which is made where it does not exist. A link that was there is replaced.

        Its state is kept where it is of this dataset: under the same name, or where `has_commit` says so. A link or
        state that cannot be read is replaced.
        """
        workspace = cls(root)
        try:
            workspace.home.mkdir(parents=True, exist_ok=True)
            workspace.temporary.mkdir(exist_ok=True)
            workspace.manifests.mkdir(exist_ok=True)
            if workspace.is_linked and not workspace._keeps_state(link, has_commit):
                workspace.write_state(State())
            _write_json(workspace.home / "config.json", {"version": 1, **asdict(link)})
        except OSError as error:
            raise _cannot_link(root, error.strerror, hint_for(error, denied=_LINK_HINT)) from error
        return workspace

    def _keeps_state(self, link: Link, has_commit: Callable[[str], bool]) -> bool:
        """Whether the last synced state holds for another link as well."""
        try:
            commit = self.state.commit
        except Failed:
            return False
        with suppress(Failed):
            if _place(self.link) == _place(link):
                return True
        return commit is not None and has_commit(commit)

    @classmethod
    def require_linkable(cls, root: Path) -> None:
        """Raise Failed where a folder that exists cannot be linked, as nothing can be written into it."""
        home = cls(root).home
        if home.exists() and not home.is_dir():
            raise _cannot_link(root, f"'{FOLDER_NAME}' in it is no folder", TAKEN_HINT)
        if not os.access(home if home.is_dir() else root, os.W_OK | os.X_OK):
            raise _cannot_link(root, "it cannot be written to", _LINK_HINT)

    @classmethod
    def find(cls, start: Path) -> Self | None:
        """Return the linked folder that `start` is or lies in."""
        start = start.resolve()
        for folder in (start, *start.parents):
            workspace = cls(folder)
            if workspace.is_linked:
                return workspace
        return None

    @property
    def is_linked(self) -> bool:
        """Return whether the folder is linked to a dataset."""
        return (self.home / "config.json").exists()

    @property
    def link(self) -> Link:
        """Return what the folder is linked to."""
        with _reading(self.home / "config.json") as config:
            project, dataset = get_text(config, "project", _NAME), get_text(config, "dataset", _NAME)
            return Link(get_text(config, "url", _URL), project, dataset, get_text(config, "branch", _NAME))

    def begin_clone(self, root: str) -> None:
        """Note which tree is brought into a folder that is linked to nothing, so that it can be gone on with."""
        try:
            self.home.mkdir(parents=True, exist_ok=True)
            _write_json(self.home / "clone.json", {"version": 1, "root": root})
        except OSError as error:
            raise _cannot_link(self.root, error.strerror, hint_for(error, denied=_LINK_HINT)) from error

    @property
    def cloned_root(self) -> str | None:
        """Return the tree whose clone was begun here and has not ended."""
        path = self.home / "clone.json"
        if not path.exists():
            return None
        with _reading(path) as clone:
            return find_text(clone, "root", _ID)

    @property
    def state(self) -> State:
        """Return the last synced state."""
        path = self.home / "state.json"
        if not path.exists():
            return State()
        with _reading(path) as state:
            return State(find_text(state, "commit", _ID), find_text(state, "root", _ID))

    @property
    def temporary(self) -> Path:
        """Return the folder for files that are not visible yet, on the file system of the folder itself."""
        return self.home / "tmp"

    @property
    def manifests(self) -> Path:
        """Return the folder in which manifests are kept."""
        return self.home / "manifests"

    @property
    def cache_path(self) -> Path:
        """Return the place of the stat cache."""
        return self.home / "cache.db"

    def write_state(self, state: State) -> None:
        """Replace the synced state: afterwards it is durable, and no reader ever sees half of it."""
        _write_json(self.home / "state.json", {"version": 1, **asdict(state)})

    def switch_branch(self, branch: str) -> None:
        """Follow another branch from now on; the next sync brings both together."""
        _write_json(self.home / "config.json", {"version": 1, **asdict(replace(self.link, branch=branch))})

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other transfers out of this folder. Raises Conflict when one is under way.

        The system drops the lock with the process, so nothing is left behind by one that was killed.
        """
        try:
            descriptor = self._open_lock()
        except OSError as error:
            raise Failed(
                f"Cannot write '{error.filename}': {error.strerror}.",
                code="client.local_file",
                hint=hint_for(error, denied=_LOCK_HINT),
            ) from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Conflict(
                    f"Another sync is running in '{self.root}'.", code="client.locked", hint="Wait for it to end."
                ) from error
            self._sweep()
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def readable(self) -> Iterator[Self]:
        """Yield the folder for work that only reads it; where it cannot be written to, with a copy of what it knows."""
        try:
            os.close(self._open_lock())
        except OSError as error:
            if error.errno in DENIALS:
                with tempfile.TemporaryDirectory(prefix="nearline-") as home:
                    yield self._copy(Path(home))
                return
        yield self  # any other error is told by who locks it

    def _open_lock(self) -> int:
        self.temporary.mkdir(parents=True, exist_ok=True)
        self.manifests.mkdir(exist_ok=True)
        return os.open(self.home / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _copy(self, home: Path) -> Self:
        copy = type(self)(self.root, home)
        copy.manifests.mkdir()
        for name in ("config.json", "state.json"):
            path = self.home / name
            try:
                shutil.copyfile(path, copy.home / name)
            except FileNotFoundError:
                continue  # it was never synced
            except OSError as error:
                raise _damaged(path, error.strerror, hint_for(error, denied=_RELINK_HINT)) from error
        with suppress(OSError):
            for path in self.manifests.iterdir():
                (copy.manifests / path.name).symlink_to(path.absolute())
            # Beside a log that is not merged yet the notes are not whole; without any, all files are read.
            if not Path(f"{self.cache_path}-wal").exists():
                shutil.copyfile(self.cache_path, copy.cache_path)
        return copy

    def _sweep(self) -> None:
        """Remove what a killed transfer left; the lock says that none is running."""
        for leftover in self.temporary.iterdir():
            leftover.unlink(missing_ok=True)


def _place(link: Link) -> tuple[str, str, str]:
    return link.url, link.project, link.dataset


@contextmanager
def _reading(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield what a file of the workspace holds. Raises Failed, also for what its reader finds malformed."""
    try:
        yield read_object(path)
    except OSError as error:
        raise _damaged(path, error.strerror, hint_for(error, denied=_RELINK_HINT)) from error
    except Malformed as error:
        raise _damaged(path, str(error)) from error


def _cannot_link(root: Path, reason: str | None, hint: str) -> Failed:
    return Failed(f"Cannot link '{root}': {reason}.", code="client.local_file", hint=hint)


def _damaged(path: Path, reason: str | None, hint: str | None = None) -> Failed:
    return Failed(f"'{path}' cannot be read: {reason}.", code="client.local_file", hint=hint or _RELINK_HINT)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    write_atomically(path, json.dumps(value, indent=1).encode())


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file: afterwards it is durable, and no reader ever sees half of it."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
