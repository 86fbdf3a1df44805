"""Symbolic links are carried when relative and provably inside the tree, and refused with the name otherwise."""

from nearline.content.errors import BadPath
from nearline.content.paths import MAX_PATH_BYTES, show_path


def check_target(path: bytes, target: bytes) -> None:
    """Raise BadPath unless the link at `path` to `target` stays in the tree whatever else the tree contains.

    `..` may only lead: the folders above a link are real folders, so leading steps up are what they seem, but
    after a name that may itself be a link, a step up can lead anywhere.
    """
    if not target or len(target) > MAX_PATH_BYTES or b"\0" in target:
        raise BadPath(path, "is a symbolic link whose target is no legal path")
    shown = show_path(target)
    if target.startswith(b"/"):
        raise BadPath(path, f"is a symbolic link to the absolute path '{shown}'")
    depth = path.count(b"/")
    may_step_up = True
    for component in target.split(b"/"):
        if component == b"..":
            depth -= 1
            if depth < 0:
                raise BadPath(path, f"is a symbolic link that leads out of the dataset, to '{shown}'")
            if not may_step_up:
                raise BadPath(path, f"is a symbolic link with '..' after a name, to '{shown}'")
        elif component not in {b"", b"."}:
            may_step_up = False
