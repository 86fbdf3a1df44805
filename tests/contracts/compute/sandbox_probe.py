"""What a hostile job tries against the platform. Run as a job, it prints one JSON object: the outcome of each try.

python sandbox_probe.py HOME PLATFORM_PID INPUT_ON_THE_HOST
"""

import ctypes
import json
import os
import signal
import socket
import sys
from pathlib import Path

PTRACE_ATTACH = 16
NEW_USER_AND_MOUNTS = 0x10000000 | 0x20000
MNT_DETACH = 2
libc = ctypes.CDLL(None, use_errno=True)


def call(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def names_in(folder: str) -> list[str]:
    return [path.name for path in Path(folder).iterdir()]


def read(path: str) -> None:
    with Path(path).open("rb") as file:
        file.read(1)


def open_to_write(path: str) -> None:
    """Find out whether it could be changed, and leave it as it is."""
    os.close(os.open(path, os.O_WRONLY))


def connect(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)


def uncover(home: str) -> None:
    """Become root of another namespace, take the cover off the home, and read what is below."""
    call(libc.unshare(NEW_USER_AND_MOUNTS))
    call(libc.umount2(home.encode(), MNT_DETACH))
    read(f"{home}/secret.key")


def make_writable(path: str) -> None:
    """Become root of another namespace, and take the protection off a mount."""
    call(libc.unshare(NEW_USER_AND_MOUNTS))
    bind_and_remount = 4096 | 32
    call(libc.mount(b"none", path.encode(), None, bind_and_remount, None))


def in_child(deed) -> None:
    """Do something that changes the process, and raise what it raised."""
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        try:
            deed()
        except OSError as error:
            os.write(write_end, str(error).encode())
        os._exit(0)
    os.close(write_end)
    message = os.read(read_end, 1000)
    os.wait()
    if message:
        raise OSError(message.decode())


def main() -> None:
    home, platform, on_host = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    given, data = f"{os.environ['NEARLINE_INPUT']}/parent", f"{os.environ['NEARLINE_DATA']}/digits"
    tries = {
        "read the key": lambda: read(f"{home}/secret.key"),
        "read the database": lambda: read(f"{home}/db.sqlite3"),
        "read the admin's token": lambda: read(f"{home}/admin.token"),
        "read another project's output": lambda: read(f"{home}/jobs/other/output/model"),
        "find its own records": lambda: read(f"{home}/jobs/probe/launch.json"),
        "forge its end": lambda: Path(f"{home}/jobs/probe/exit.json.forged").write_text("{}"),
        "reach a socket in the home": lambda: connect(f"{home}/socket"),
        "read the platform's environment": lambda: read(f"/proc/{platform}/environ"),
        "read the platform's memory": lambda: read(f"/proc/{platform}/mem"),
        "trace the platform": lambda: in_child(lambda: call(libc.ptrace(PTRACE_ATTACH, platform, None, None))),
        "signal the platform": lambda: os.kill(platform, signal.SIGCONT),
        "read an input under the host's own path": lambda: read(f"{on_host}/model.txt"),
        "change an input": lambda: Path(given, "model.txt").write_text("corrupted"),
        "add to an input": lambda: Path(given, "more.txt").touch(),
        "open an input for others": lambda: Path(given, "model.txt").chmod(0o777),
        "change a cached commit": lambda: Path(data, "0.png").write_text("corrupted"),
        "add to a cached commit": lambda: Path(data, "1.png").touch(),
        "change its parameters": lambda: Path(os.environ["NEARLINE_PARAMETERS"]).write_text("{}"),
        "change the platform's Python": lambda: open_to_write(sys.executable),
        "change the kernel's settings": lambda: open_to_write("/proc/sys/kernel/core_pattern"),
        "take the cover off the home": lambda: in_child(lambda: uncover(home)),
        "make an input writable": lambda: in_child(lambda: make_writable(given)),
    }
    outcomes = {}
    for name, deed in tries.items():
        try:
            deed()
        except OSError:
            outcomes[name] = "refused"
        else:
            outcomes[name] = "DONE"
    works = {
        "inputs": Path(given, "model.txt").read_text(),
        "data": Path(data, "0.png").exists(),
        "disks": [name for name in names_in("/dev") if name.startswith(("sd", "vd", "nvme", "loop", "mem", "kvm"))],
        "processes": sum(name.isdigit() for name in names_in("/proc")),
        "capabilities": Path("/proc/self/status").read_text().partition("CapEff:")[2].split()[0].strip("0"),
        "user": os.getuid(),
    }
    for folder in (os.environ["NEARLINE_OUTPUT"], os.environ["TMPDIR"], "/tmp", "/var/tmp", "/dev/shm", "."):
        Path(folder, "own.txt").write_text("mine")
    sys.stdout.write(json.dumps({"outcomes": outcomes, "works": works}))


if __name__ == "__main__":
    main()
