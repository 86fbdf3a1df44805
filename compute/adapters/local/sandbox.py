"""The sandbox of a job on this machine: namespaces in which it sees its own folders and little of the platform.

A job has user, mount, PID and IPC namespaces of its own, and no capabilities. The file system is read-only but for the
job's own folders, hidden folders are empty but for what is shown in them, `/dev` holds its GPUs and the usual few
devices, and `/proc` the job's own processes, which beside NVIDIA's GPUs may write there about themselves. The network
is shared, because jobs call the API. Making it needs no privilege and no package, only a kernel (5.12 or newer) that
lets users make namespaces.

This module imports little, because the process that starts jobs holds it all the time.
"""

import ctypes
import errno
import os
import signal
import time
from stat import S_ISDIR, S_ISREG

HIDE, READ, WRITE = "hide", "read", "write"
"""What an entry of a view does with its path: `(HIDE, path, "")` empties a folder; `(HIDE, path, source)` puts another
one there. `(READ, path, source)` and `(WRITE, path, source)` show the source at a path. All are absolute."""

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_GPU_DEVICES = ("nvidia", "dri", "kfd", "infiniband", "accel")
_NVIDIA_GPU = "nvidia"
"""Begins the name of the file of each of NVIDIA's GPUs; its minor number follows."""
DEVICES = "/dev"
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}

# From linux/sched.h, mount.h, fcntl.h, prctl.h, securebits.h and capability.h. These system calls have the same number
# on every architecture.
_NEW_NAMESPACES = 0x10000000 | 0x20000 | 0x20000000 | 0x08000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 1, 2, 4, 8, 1 << 14, 1 << 18
_OPEN_TREE, _MOVE_MOUNT, _CLONE3, _MOUNT_SETATTR = 428, 429, 435, 442
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH = 1, 4
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_MOUNT_ATTR_RDONLY = 1
_PR_SET_SECUREBITS, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 28, 36, 38
_NO_PRIVILEGES_FOR_ROOT = 0b11
_CAPABILITY_VERSION_3 = 0x20080522

_WRITE_BITS = 0o222

_OPEN_TRIES, _OPEN_PAUSE_S = 5, 0.02

_libc = ctypes.CDLL(None, use_errno=True)


class SandboxRefused(Exception):
    """The kernel refused a step. The text says which, for people."""


def fork() -> int:
    """Fork like `os.fork`, with the child as the first process of new namespaces. For processes with one thread.

    Raises SandboxRefused.
    """
    arguments = (ctypes.c_uint64 * 8)(_NEW_NAMESPACES, 0, 0, 0, signal.SIGCHLD)
    return _check(_libc.syscall(_CLONE3, arguments, ctypes.sizeof(arguments)), "Namespaces for users cannot be made")


def enter(
    view: list[tuple[str, str, str]], user: int, group: int, gpus: list[int] | None = None, devices: str = DEVICES
) -> None:
    """Give the namespaces of this process, the first in them, a view of the file system and its own processes.

    `user` and `group` are the ids outside, and the same inside. `gpus` are the minor numbers of those GPUs of NVIDIA
    whose files there are to be; None: of all. `devices` is the folder with the files of GPUs. Raises SandboxRefused.
    """
    for file, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        _write(f"/proc/self/{file}", text)
    _check(_mount("none", "/", None, _MS_REC | _MS_PRIVATE), "Mounts cannot be kept apart")
    entries = sorted(view, key=lambda entry: entry[1].split("/"))
    # What is shown is taken hold of before anything is hidden or read-only.
    trees = [_open_tree(source) if source else -1 for _, _, source in entries]
    trees_of_devices = _open_devices(gpus, devices)
    _set_read_only(_AT_FDCWD, "/", _AT_RECURSIVE)
    covers = [_cover_devices(trees_of_devices)]
    for (kind, path, _), tree in zip(entries, trees, strict=True):
        if kind == HIDE and tree < 0:
            os.makedirs(path, exist_ok=True)  # noqa: PTH103 (pathlib would be loaded for this alone)
            _cover(path)
            covers.append(path)
            continue
        if kind == READ:
            _set_read_only(tree, "", _AT_EMPTY_PATH | _AT_RECURSIVE)
        _make_place(path, tree)
        _move(tree, path)
    for path in covers:
        _set_read_only(_AT_FDCWD, path, 0)
    _mount_processes(may_write=any(name.startswith(_NVIDIA_GPU) for name in trees_of_devices))


def adopt_orphans() -> None:
    """Become the parent of every process below this one whose own parent ends."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def join(process: int) -> None:
    """Enter the sandbox of a process, by its pidfd: what is forked from now on runs there.

    For processes with one thread. Raises SandboxRefused.
    """
    _check(_libc.setns(process, _NEW_NAMESPACES), "The job's sandbox cannot be entered")


def drop_privileges() -> None:
    """Give up all capabilities for good, also for a job of root. Raises SandboxRefused."""
    _check(_libc.prctl(_PR_SET_SECUREBITS, _NO_PRIVILEGES_FOR_ROOT, 0, 0, 0), "Root cannot be kept without privileges")
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()), "Capabilities cannot be dropped")
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "New privileges cannot be refused")


def try_out() -> None:
    """Make a sandbox with nothing in it, and print why that fails. Ends this process."""
    user, group = os.getuid(), os.getgid()
    try:
        if fork() == 0:
            enter([(HIDE, "/tmp", "")], user, group)  # noqa: S108 (hidden, not written to)
            drop_privileges()
        else:
            os.wait()
    except (SandboxRefused, OSError) as error:
        os.write(1, str(error).encode())
    os._exit(0)


def lead_processes(status: int) -> None:
    """Be the first process of a PID namespace: fork, return in the child, and otherwise wait for it and exit.

    Writes the child's wait status to a descriptor. All other processes of the namespace end when this one does.
    """
    child = os.fork()
    if child == 0:
        return
    try:
        # The lock of the job's folder is among what is closed: it is the shim's alone.
        os.dup2(status, 0)
        os.closerange(1, os.sysconf("SC_OPEN_MAX"))
        ended, code = 0, 0
        while ended != child:
            ended, code = os.wait()
        os.write(0, str(code).encode())
    finally:
        os._exit(0)


def _open_devices(gpus: list[int] | None, folder: str) -> dict[str, int]:
    shown = None if gpus is None else {f"{_NVIDIA_GPU}{minor}" for minor in gpus}
    names = [name for name in os.listdir(folder) if name.startswith(_GPU_DEVICES)]  # noqa: PTH208
    own = [name for name in names if shown is None or name in shown or not _is_gpu(name)]
    usual = [name for name in _DEVICES if os.path.exists(f"{DEVICES}/{name}")]  # noqa: PTH110
    paths = {**{name: f"{folder}/{name}" for name in own}, **{name: f"{DEVICES}/{name}" for name in usual}}
    return {name: _open_tree(path) for name, path in paths.items()}


def _is_gpu(name: str) -> bool:
    return name.startswith(_NVIDIA_GPU) and name[len(_NVIDIA_GPU) :].isdigit()


def _cover_devices(devices: dict[str, int]) -> str:
    _cover("/dev")
    for name, tree in devices.items():
        _make_place(f"/dev/{name}", tree)
        _move(tree, f"/dev/{name}")
    for name, target in _LINKS.items():
        os.symlink(target, f"/dev/{name}")  # noqa: PTH211
    for name, kind, options in (("shm", "tmpfs", "mode=1777"), ("pts", "devpts", "newinstance,ptmxmode=0666,mode=620")):
        os.mkdir(f"/dev/{name}")  # noqa: PTH102
        _check(_mount(kind, f"/dev/{name}", kind, _MS_NOSUID | _MS_NOEXEC, options), f"/dev/{name} cannot be mounted")
    return "/dev"


def _cover(path: str) -> None:
    _check(_mount("tmpfs", path, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755"), f"{path} cannot be hidden")


def _mount_processes(*, may_write: bool) -> None:
    """Mount a list of the job's own processes. With `may_write` they may write there what concerns them alone.

    CUDA begins only where it can: NVIDIA's driver, from version 570 on, writes the names of its threads there.
    """
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC | (0 if may_write else _MS_RDONLY)
    _check(_mount("proc", "/proc", "proc", flags), "A list of the job's own processes cannot be mounted")
    if not may_write:
        return
    others = [f"/proc/{name}" for name in os.listdir("/proc") if not name.isdigit()]  # noqa: PTH208
    for path in others:
        mode = os.lstat(path).st_mode
        # Links lead to processes.
        if S_ISDIR(mode) or (S_ISREG(mode) and mode & _WRITE_BITS):
            tree = _open_tree(path)
            _set_read_only(tree, "", _AT_EMPTY_PATH | _AT_RECURSIVE)
            _move(tree, path)


def _make_place(path: str, tree: int) -> None:
    """Make what `tree` can be mounted on, where it does not exist."""
    if os.path.lexists(path):
        return
    if os.path.isdir(f"/proc/self/fd/{tree}"):  # noqa: PTH112
        os.makedirs(path, exist_ok=True)  # noqa: PTH103
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))


def _open_tree(path: str) -> int:
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_RECURSIVE
    for _ in range(_OPEN_TRIES):
        tree: int = _libc.syscall(_OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags)
        if tree >= 0 or ctypes.get_errno() != errno.ENOENT:
            break
        time.sleep(_OPEN_PAUSE_S)  # a link to a copy that is published at this moment leads nowhere until it is renewed
    return _check(tree, f"{path} cannot be shown")


def _move(tree: int, path: str) -> None:
    done = _libc.syscall(_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(path), _MOVE_MOUNT_F_EMPTY_PATH)
    _check(done, f"{path} cannot be shown")
    os.close(tree)


def _set_read_only(descriptor: int, path: str, flags: int) -> None:
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    done = _libc.syscall(_MOUNT_SETATTR, descriptor, os.fsencode(path), flags, attributes, ctypes.sizeof(attributes))
    _check(done, f"{path or 'A folder'} cannot be made read-only")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> int:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    result: int = _libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])
    return result


def _write(path: str, text: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SandboxRefused(f"{path} cannot be written: {error.strerror}.") from error


def _check(result: int, otherwise: str) -> int:
    if result < 0:
        raise SandboxRefused(f"{otherwise}: {os.strerror(ctypes.get_errno())}.")
    return result
