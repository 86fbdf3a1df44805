"""The home folder holds password hashes, keys and sessions: no other user of the machine may read it."""

import os
import stat
from contextlib import suppress
from pathlib import Path

_PRIVATE_FOLDER, _PRIVATE_FILE = 0o700, 0o600


def make_private(home: Path) -> None:
    """Create files for their owner alone from now on, and close the folder and what lies directly in it to others.

    What lies deeper can be reached by nobody who may not enter `home`. Raises SystemExit where another user owns a
    folder that everybody may enter.
    """
    os.umask(0o077)
    with suppress(FileNotFoundError, NotADirectoryError):
        _close(home)
        for path in home.iterdir():
            with suppress(FileNotFoundError):
                _close(path)


def _close(path: Path) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    private = mode & (_PRIVATE_FOLDER if path.is_dir() else _PRIVATE_FILE | stat.S_IXUSR)
    if mode == private:
        return
    try:
        path.chmod(private)
    except PermissionError:
        # A volume may belong to root and be open to a group that is ours alone.
        if mode & stat.S_IRWXO:
            raise SystemExit(
                f"{path} belongs to another user and everybody may read it, though it holds passwords and keys. "
                f"Make it yours (chown), or choose another folder with NEARLINE_HOME."
            ) from None
