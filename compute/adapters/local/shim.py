"""The process that stands beside one job of the local driver: starts it, watches it, writes down how it ended.

`main` is the spawner: it forks a shim for each job that comes through its channel, and ends with the platform; the
shims outlive both. It imports little, because what it holds every shim holds too: no json, no subprocess, and of ours
only the sandbox and what masks secrets. A shim holds the lock of the job's folder as long as it lives, so
"does the job run" is a question about a lock and never about a process id that may be reused.

It writes into FOLDER: `log`, `usage.jsonl`, `started.json` (from then on the command may have run, so nobody starts
it again; written anew once it is known which GPUs the job sees) and, atomically and last, `exit.json`. Orders come
through the FIFO `control`: `stop GRACE_SECONDS`.

Limits. CPU: the command is bound to the cores in the order (as many as its template has CPUs, rounded up), at a lower
priority than the platform. Memory: the resident memory of all its processes is looked at five times a second, and
above the limit all are killed; a limit on addresses (RLIMIT_AS) would end programs that reserve much and use little,
as every CUDA program does. Time: SIGTERM, and after the grace SIGKILL, to every process of the job.
"""

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from stat import S_ISDIR, S_ISLNK

from compute.adapters.local import sandbox
from compute.engine.masking import Mask

TAG_PREFIXES = (b"::nearline ", b"cnvrg_")
# Its value is a path of the run alone; another platform on this machine may have a job of the same name.
MARK = "NEARLINE_OUTPUT"
ORDER_END = "end of order"
# 0 is real: the session and the parent of every process that began outside of this container.
_NONE = -1
_KILL_ROUNDS = 20
_LOOK_EVERY_S = 0.2
_SAMPLE_EVERY_S = 1.0
_DRAIN_S = 0.5
_ORPHANS_S = 2.0
_READ_BYTES = 1 << 16
_DESCRIPTORS = 4
_COPY_BYTES = 1 << 30
_LONGEST_HEAD = max(map(len, TAG_PREFIXES))
_LONGEST_LINE = 1 << 20
_NO_TAG = b"-" * _LONGEST_HEAD
_TAGS_ALLOWANCE_BYTES = 16 << 20
_NICENESS = 5
_VISIBLE = "CUDA_VISIBLE_DEVICES"
# Tells which GPUs the job can open, and no refusal, on the pipe that ends when it has become its command.
_OPENS = b"\0"
# What the platform writes is for its user alone; a job may write into folders that it shares with others.
JOB_UMASK = 0o022


class Order:
    """What the driver asks for: texts with a NUL between them."""

    def __init__(self, parts: list[str]) -> None:
        take = iter(parts)
        self.token, self.directory, self.code = next(take), next(take), next(take)
        self.timeout_s = float(next(take))
        self.grace_s = float(next(take))
        self.memory_bytes, self.log_limit_bytes = int(next(take)), int(next(take))
        self.cores = [int(core) for core in next(take).split(",") if core]
        self.argv = [next(take) for _ in range(int(next(take)))]
        pairs = [next(take).partition("=") for _ in range(int(next(take)))]
        self.env = {key: value for key, _, value in pairs}
        gpus = [triple.split(":", 2) for triple in next(take).split(",") if triple]
        self.gpus = [(int(index), int(milli)) for index, milli, _ in gpus]
        # Where they are on the PCI bus; empty: not known.
        self.gpu_places = [place for *_, place in gpus]
        self.gpu_packages = next(take)
        self.masked = [next(take).encode("utf-8", "surrogateescape") for _ in range(int(next(take)))]
        # Empty: the job runs without a sandbox.
        self.view = [(next(take), next(take), next(take)) for _ in range(int(next(take)))]


def read_order(data: bytes) -> Order | None:
    """Return the order; None when its writer died in the middle of it."""
    parts = data.decode("utf-8", "surrogateescape").split("\0")
    return Order(parts) if parts[-1] == ORDER_END else None


class BoundedLog:
    """A log file that stops growing: after the limit only lines with metrics are kept (themselves bounded)."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self.dropped_bytes = 0
        self._descriptor = descriptor
        self._limit = limit
        self._size = os.fstat(descriptor).st_size
        self._hard_limit = limit + _TAGS_ALLOWANCE_BYTES
        self._head = b""  # the first bytes of the line that is partly in the file
        self._line = b""  # what waits for the end of its line, once the limit is reached
        self._is_full = False

    def write(self, data: bytes) -> None:
        """Take what the command printed."""
        if not self._is_full:
            data = self._write_below_limit(data)
        if data:
            self._sift(data)

    def close(self) -> None:
        """Write what waits, and how much is missing."""
        if self._line:
            self._keep_or_drop(self._line)
        if self.dropped_bytes:
            note = f"[nearline] {self.dropped_bytes} bytes of output are not kept: the log reached its limit of "
            self._put(f"\n{note}{self._limit} bytes. Lines with metrics were kept.\n".encode())
        os.close(self._descriptor)

    def _write_below_limit(self, data: bytes) -> bytes:
        """Write what fits, whole lines only once space gets short, and return the rest."""
        free_bytes = self._limit - self._size
        self._is_full = len(data) > free_bytes
        end = data.rfind(b"\n", 0, max(free_bytes, 0)) + 1 if self._is_full else len(data)
        self._put(data[:end])
        last = data.rfind(b"\n", 0, end) + 1
        self._head = data[last:end][:_LONGEST_HEAD] if last else (self._head + data[:end])[:_LONGEST_HEAD]
        return data[end:]

    def _sift(self, data: bytes) -> None:
        lines = (self._line + data).split(b"\n")
        self._line = lines.pop()
        for line in lines:
            self._keep_or_drop(line + b"\n")
            self._head = b""
        if len(self._line) > _LONGEST_LINE:
            self._drop(self._line)
            self._line, self._head = b"", _NO_TAG

    def _keep_or_drop(self, line: bytes) -> None:
        is_kept = (self._head + line).startswith(TAG_PREFIXES) and self._size + len(line) <= self._hard_limit
        if not is_kept and self._head and line.endswith(b"\n"):
            # The line is partly in the file: it gets its end, so that what follows stands on a line of its own.
            self._drop(line[:-1])
            line, is_kept = b"\n", True
        (self._put if is_kept else self._drop)(line)

    def _drop(self, data: bytes) -> None:
        self.dropped_bytes += len(data)

    def _put(self, data: bytes) -> None:
        while data:
            try:
                written = os.write(self._descriptor, data)
            except OSError:  # a full disk must not end the job
                self._drop(data)
                return
            self._size += written
            data = data[written:]


class ProcessFacts:
    """What /proc says about one process."""

    def __init__(self, pid: int, text: bytes) -> None:
        fields = text[text.rindex(b")") + 2 :].split()
        self.pid = pid
        self.parent = int(fields[1])
        self.session = int(fields[3])
        self.cpu_ticks = sum(map(int, fields[11:15]))
        # The state is that of the first thread; others may go on after it.
        self.has_ended = fields[0] == b"Z" and int(fields[17]) <= 1
        self.started_ticks = int(fields[19])
        self.memory_bytes = int(fields[21]) * _PAGE_BYTES


_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def _read(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(descriptor, _READ_BYTES)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def process_facts(pid: int) -> ProcessFacts | None:
    """Return what is known of a process; None when it is gone."""
    text = _read(f"/proc/{pid}/stat")
    return ProcessFacts(pid, text) if text else None


def list_processes(output: str, *, session: int = _NONE, shim: int = _NONE, since_ticks: int = 0) -> list[ProcessFacts]:
    """Return the processes of a run: those of its session, and those that left it but carry its output folder.

    In the middle of an exec a process has no environment. Those whose parent has ended are known then too, because
    their shim adopts them.
    """
    mark = os.fsencode(f"{MARK}={output}\0")
    own = os.getpid()
    processes = []
    for entry in os.listdir("/proc"):  # noqa: PTH208 (pathlib would be loaded for this alone)
        if entry.isdigit() and int(entry) != own:
            facts = process_facts(int(entry))
            if facts is None or facts.has_ended or facts.started_ticks < since_ticks:
                continue
            is_near = facts.session == session or facts.parent == shim
            if is_near or mark in _read(f"/proc/{entry}/environ") + b"\0":
                processes.append(facts)
    return processes


def kill_all(list_all: Callable[[], list[ProcessFacts]]) -> None:
    """Kill every process of a run, again while new ones appear."""
    for _ in range(_KILL_ROUNDS):
        processes = list_all()
        if not processes:
            return
        for facts in processes:
            _send(facts.pid, signal.SIGKILL)
        time.sleep(0.002)


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _proportional_memory(pids: list[int]) -> int:
    """Return the memory of processes, shared pages counted once where the kernel tells; one that has ended has none."""
    total = 0
    for pid in pids:
        text = _read(f"/proc/{pid}/smaps_rollup")
        if not text:
            facts = process_facts(pid)
            total += facts.memory_bytes if facts is not None else 0
        for line in text.splitlines():
            if line.startswith(b"Pss:"):
                total += int(line.split()[1]) * 1024
    return total


def _kernel_kills() -> int:
    for line in _read("/proc/vmstat").splitlines():
        if line.startswith(b"oom_kill "):
            return int(line.split()[1])
    return 0


def copy_tree(source: str, target: str) -> None:
    """Copy what a folder holds into another one: files with their modes, and links as they are. Raises OSError."""
    for name in os.listdir(source):  # noqa: PTH208 (pathlib would be loaded for this alone)
        old, new = f"{source}/{name}", f"{target}/{name}"
        mode = os.lstat(old).st_mode
        if S_ISDIR(mode):
            os.makedirs(new, exist_ok=True)  # noqa: PTH103
            copy_tree(old, new)
        elif S_ISLNK(mode):
            os.symlink(os.readlink(old), new)  # noqa: PTH115, PTH211
        else:
            _copy_file(old, new)


def _copy_file(source: str, target: str) -> None:
    descriptor = os.open(source, os.O_RDONLY)
    try:
        facts = os.fstat(descriptor)
        copy = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, facts.st_mode & 0o777)
        try:
            os.fchmod(copy, facts.st_mode & 0o777 | 0o200)
            while os.sendfile(copy, descriptor, None, _COPY_BYTES):
                pass
        finally:
            os.close(copy)
    finally:
        os.close(descriptor)


def _write_atomically(path: str, text: str) -> None:
    with open(path + ".part", "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(text)
    os.replace(path + ".part", path)  # noqa: PTH105


class Shim:
    """One job from its start to its end."""

    gpu_files = "/proc/driver/nvidia/gpus"
    devices = sandbox.DEVICES

    def __init__(self, folder: str, order: Order, control: int) -> None:
        self.folder = folder
        self.output_folder = f"{folder}/output"
        self.order = order
        self.control = control
        self.cause = "exited"
        self.started_at = time.time()
        self.started = time.monotonic()
        self.kill_at: float | None = None
        self.cpu_ticks = 0
        self.sampled = self.started
        self.look_at = self.started + _LOOK_EVERY_S
        self.known: list[int] = []
        self.peak_bytes = 0
        self.kernel_kills = _kernel_kills()
        descriptor = os.open(f"{folder}/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.log = BoundedLog(descriptor, order.log_limit_bytes)
        self.mask = Mask(order.masked)
        self.gpu_use: Callable[[], tuple[int | None, int | None]] = lambda: (None, None)
        self.openable: list[int] | None = None
        self.read_gpus: Callable[[], str] = lambda: ""
        self.gpus_seen = ""

    def run(self) -> None:
        """Run the command and write down its end."""
        self._write_start()
        tell_news(self.folder)
        try:
            if self.order.code:
                copy_tree(self.order.code, self.order.directory)
            self._start()
        except (OSError, sandbox.SandboxRefused) as error:
            self.log.write(f"[nearline] The command could not be started: {error}\n".encode())
            self.log.close()
            self._write_end("not_started", None, 0.0)
            return
        if self.order.gpus:
            self._begin_with_gpus()
        self._watch()
        self._kill()
        _, status, used = os.wait4(self.pid, 0)
        self._kill_orphans()
        self._drain()
        # The first process of a sandbox tells how the command ended, unless it was killed itself.
        exit_code = os.waitstatus_to_exitcode(int(os.read(self.report, 100) or status))
        self.peak_bytes = max(self.peak_bytes, used.ru_maxrss * 1024)
        if exit_code == -signal.SIGKILL and self.cause == "exited" and _kernel_kills() > self.kernel_kills:
            self.cause = "out_of_memory"
        self._last_sample(used.ru_utime + used.ru_stime)
        self.log.write(self.mask.finish())
        self.log.close()
        self._write_end(self.cause, exit_code, used.ru_utime + used.ru_stime)

    def _write_start(self) -> None:
        seen = f', "gpus_seen": {self.gpus_seen}' if self.gpus_seen else ""
        facts = f'"token": "{self.order.token}", "started_at": {self.started_at:.6f}, "shim": {os.getpid()}{seen}'
        _write_atomically(f"{self.folder}/started.json", f"{{{facts}}}\n")

    def _rewrite_start(self) -> None:
        try:
            self._write_start()
        except OSError:  # a full disk must not end the job
            return

    def _begin_with_gpus(self) -> None:
        # What this loads is held by the shims of jobs with GPUs alone.
        from compute.adapters.local.gpu_check import LocalGpuCheck  # noqa: PLC0415
        from compute.adapters.local.gpu_meter import start_meter  # noqa: PLC0415

        check = LocalGpuCheck(self.openable, self.order.env.get(_VISIBLE), self.gpu_files)
        self.read_gpus = lambda: check.text
        self.gpu_use = start_meter(self.order.gpu_packages, self.order.gpus, lambda: self.known, check)

    def _start(self) -> None:
        self.output, write_end = os.pipe()
        self.report, reporting = os.pipe()
        has_become, becoming = os.pipe()
        ids = os.getuid(), os.getgid()
        self.own_minors = self._find_own_minors() if self.order.view else None
        if self.own_minors:
            self._renumber_gpus()
        sandbox.adopt_orphans()
        self.pid = sandbox.fork() if self.order.view else os.fork()
        if self.pid == 0:
            self._become_command(write_end, reporting, becoming, ids)
        os.close(write_end)
        os.close(reporting)
        os.close(becoming)
        # Ends when the child has become the command: before that it might miss a signal.
        answer = b""
        while piece := os.read(has_become, _READ_BYTES):
            answer += piece
        os.close(has_become)
        if answer.startswith(_OPENS):
            self.openable = [int(minor) for minor in answer[len(_OPENS) :].split()]
        elif answer:
            raise sandbox.SandboxRefused(answer.decode())
        os.set_blocking(self.output, False)
        facts = process_facts(self.pid)
        self.since_ticks = facts.started_ticks if facts else 0
        try:
            self.ended = os.pidfd_open(self.pid)
        except OSError:  # an old kernel: the end is then noticed by the next check
            self.ended = -1

    def _become_command(self, write_end: int, reporting: int, becoming: int, ids: tuple[int, int]) -> None:
        order = self.order
        try:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(write_end, 1)
            os.dup2(write_end, 2)
            for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            if order.cores:
                os.sched_setaffinity(0, order.cores)
            os.nice(_NICENESS)
            prefer_for_memory_kill()
            os.umask(JOB_UMASK)
            os.setsid()
            if order.view:
                _enter_sandbox(order.view, ids, reporting, self.own_minors, self.devices)
            os.chdir(order.directory)
            if order.gpus:
                self._tell_openable(becoming, sandbox.DEVICES if order.view else self.devices)
            os.execvpe(order.argv[0], order.argv, order.env)  # noqa: S606 (running the job's command is the purpose)
        except sandbox.SandboxRefused as error:
            os.write(becoming, str(error).encode())
        except OSError as error:
            os.write(2, f"[nearline] {order.argv[0]}: {error.strerror}\n".encode("utf-8", "surrogateescape"))
            os._exit(127 if isinstance(error, FileNotFoundError) else 126)
        finally:
            os._exit(126)

    def _find_own_minors(self) -> list[int] | None:
        """Return the minor numbers of the GPUs that the job was given; None where these are not known."""
        minors = []
        for place in self.order.gpu_places:
            lines = _read(f"{self.gpu_files}/{place}/information").splitlines() if place else []
            values = [line.partition(b":")[2].strip() for line in lines if line.startswith(b"Device Minor")]
            if len(values) != 1 or not values[0].isdigit():
                return None
            minors.append(int(values[0]))
        return minors

    def _renumber_gpus(self) -> None:
        """Give the GPUs the numbers that CUDA has for them where it finds their files alone: from 0, as on the bus."""
        indexes = [index for index, _ in self.order.gpus]
        if self.order.env.get(_VISIBLE) == ",".join(map(str, indexes)):
            ordered = sorted(indexes)
            self.order.env[_VISIBLE] = ",".join(str(ordered.index(index)) for index in indexes)

    def _tell_openable(self, becoming: int, devices: str) -> None:
        """Write the minor numbers of the GPUs whose files this process can open; nothing where that is not known.

        No file is opened: the driver may take seconds to wake a GPU.
        """
        try:
            names = (name for name in os.listdir(devices) if name.startswith("nvidia"))  # noqa: PTH208
            files = {name.removeprefix("nvidia"): f"{devices}/{name}" for name in names}
            minors = [minor for minor, file in files.items() if minor.isdigit() and os.access(file, os.R_OK | os.W_OK)]
            os.write(becoming, _OPENS + " ".join(minors).encode())
        except OSError:  # what cannot be looked at must not end the job
            pass

    def _watch(self) -> None:
        poller = select.poll()
        for descriptor in (self.output, self.control, self.ended):
            if descriptor >= 0:
                poller.register(descriptor, select.POLLIN)
        while True:
            for descriptor, _ in poller.poll(self._poll_timeout_s() * 1000):
                if descriptor == self.output:
                    if not self._read_output():
                        poller.unregister(self.output)
                elif descriptor == self.control:
                    self._obey(os.read(self.control, 4096))
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return
            self._keep_limits(time.monotonic())

    def _poll_timeout_s(self) -> float:
        return _LOOK_EVERY_S if self.ended >= 0 else 0.02

    def _read_output(self) -> bool:
        """Move output into the log; say whether more may come."""
        try:
            data = os.read(self.output, _READ_BYTES)
        except BlockingIOError:
            return True
        self.log.write(self.mask.feed(data))
        return bool(data)

    def _obey(self, orders: bytes) -> None:
        for line in orders.split(b"\n"):
            words = line.split()
            if len(words) == 2 and words[0] == b"stop" and self.kill_at is None:  # noqa: PLR2004 (a verb and a number)
                self._terminate("stopped", float(words[1]))

    def _terminate(self, cause: str, grace_s: float) -> None:
        self.cause = cause
        self.kill_at = time.monotonic() + grace_s
        if grace_s > 0:
            for facts in self._list_processes():
                _send(facts.pid, signal.SIGTERM)
        else:
            self._kill()

    def _kill(self) -> None:
        kill_all(self._list_processes)

    def _list_processes(self) -> list[ProcessFacts]:
        return list_processes(self.output_folder, session=self.pid, shim=os.getpid(), since_ticks=self.since_ticks)

    def _kill_orphans(self) -> None:
        """Kill what the command left behind, until none of it is left. What cannot be killed is not waited for long."""
        until = time.monotonic() + _ORPHANS_S
        while time.monotonic() < until:
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            self._kill()

    def _reap_orphans(self) -> None:
        """Let go of orphans that have ended. The command itself is waited for at its end."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while (ended := os.waitid(os.P_ALL, 0, options)) is not None and ended.si_pid != self.pid:
            os.waitpid(ended.si_pid, 0)

    def _keep_limits(self, now: float) -> None:
        if self.kill_at is None and 0 < self.order.timeout_s <= now - self.started:
            self._terminate("timeout", self.order.grace_s)
        if self.kill_at is not None and now >= self.kill_at:
            self._kill()
        if now >= self.look_at:
            self.look_at = now + _LOOK_EVERY_S
            self._look(now)

    def _look(self, now: float) -> None:
        """Measure the job's processes, and end it when they hold too much memory."""
        self._reap_orphans()
        if (seen := self.read_gpus()) != self.gpus_seen:
            self.gpus_seen = seen
            self._rewrite_start()
        if now - self.sampled >= _SAMPLE_EVERY_S or not self.known:
            processes = self._list_processes()
            self.known = [facts.pid for facts in processes]
            if self.pid not in self.known:
                return  # the command has ended meanwhile: what it used is told by the last sample
        else:
            processes = [facts for facts in map(process_facts, self.known) if facts is not None]
        memory_bytes = sum(facts.memory_bytes for facts in processes)
        self.peak_bytes = max(self.peak_bytes, memory_bytes)
        if now - self.sampled >= _SAMPLE_EVERY_S:
            ticks = sum(facts.cpu_ticks for facts in processes)
            self._sample(now, max(0, ticks - self.cpu_ticks) / _TICKS_PER_S / (now - self.sampled), memory_bytes)
            self.cpu_ticks, self.sampled = ticks, now
        limit = self.order.memory_bytes
        if 0 < limit < memory_bytes and _proportional_memory(self.known) > limit:
            self.cause = "out_of_memory"
            self.kill_at = now
            self._kill()

    def _sample(self, now: float, cores: float, memory_bytes: int) -> None:
        """Write down what was measured at a moment of the monotonic clock."""
        at = time.time() - (time.monotonic() - now)  # to look at all processes takes a while
        line = f'{{"at": {at:.3f}, "cpu_millicores": {round(cores * 1000)}, "memory_bytes": {memory_bytes}'
        for key, value in zip(("gpu_percent", "gpu_memory_used_bytes"), self.gpu_use(), strict=True):
            line += "" if value is None else f', "{key}": {value}'
        line += "}\n"
        try:
            descriptor = os.open(f"{self.folder}/usage.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError:
            return
        try:
            os.write(descriptor, line.encode())
        except OSError:  # a full disk must not end the job
            pass
        finally:
            os.close(descriptor)

    def _last_sample(self, cpu_s: float) -> None:
        now = time.monotonic()
        passed = now - self.sampled
        rest_s = max(0.0, cpu_s - self.cpu_ticks / _TICKS_PER_S)
        self._sample(now, rest_s / max(passed, 0.001), self.peak_bytes if self.sampled == self.started else 0)

    def _drain(self) -> None:
        poller = select.poll()
        poller.register(self.output, select.POLLIN)
        until = time.monotonic() + _DRAIN_S
        # Once in any case, however late it is: one read takes all that a pipe holds.
        while poller.poll(max(0.0, until - time.monotonic()) * 1000) and self._read_output():
            if time.monotonic() >= until:
                return

    def _write_end(self, cause: str, exit_code: int | None, cpu_s: float) -> None:
        facts = {
            "token": f'"{self.order.token}"',
            "cause": f'"{cause}"',
            "exit_code": "null" if exit_code is None else exit_code,
            "signal": -exit_code if exit_code is not None and exit_code < 0 else "null",
            "started_at": f"{self.started_at:.6f}",
            "finished_at": f"{time.time():.6f}",
            "cpu_s": f"{cpu_s:.3f}",
            "max_memory_bytes": self.peak_bytes,
            "dropped_bytes": self.log.dropped_bytes,
        }
        if seen := self.read_gpus():
            facts["gpus_seen"] = seen
        text = ", ".join(f'"{key}": {value}' for key, value in facts.items())
        _write_atomically(f"{self.folder}/exit.json", f"{{{text}}}\n")


def _enter_sandbox(
    view: list[tuple[str, str, str]], ids: tuple[int, int], reporting: int, gpus: list[int] | None, devices: str
) -> None:
    """Return in the process of a new sandbox that is to become the command; its first one stays, and reports the end.

    Raises SandboxRefused.
    """
    try:
        sandbox.enter(view, *ids, gpus, devices)
        sandbox.lead_processes(reporting)
        os.setpgid(0, 0)
        sandbox.drop_privileges()
    except OSError as error:
        raise sandbox.SandboxRefused(str(error)) from error


def prefer_for_memory_kill() -> None:
    """Let the kernel, when memory runs out, choose the job and not the platform."""
    try:
        descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(descriptor, b"500")
        os.close(descriptor)
    except OSError:
        pass


def tell_news(folder: str) -> None:
    """Wake the platform if it listens. If it does not, it finds our files when it looks."""
    jobs, _, name = folder.rpartition("/")
    try:
        descriptor = os.open(f"{jobs}/.news", os.O_WRONLY | os.O_NONBLOCK)
        os.write(descriptor, name.encode() + b"\n")
    except OSError:
        pass


def main(shim: type[Shim] = Shim) -> None:
    """Fork a shim for each message (a job's folder, with descriptors) until the platform closes the channel or dies."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the shims
    while True:
        folder, descriptors, _, _ = socket.recv_fds(channel, _READ_BYTES, _DESCRIPTORS)
        if not folder:
            return
        if os.fork() == 0:
            try:
                channel.close()
                watch_over(shim, os.fsdecode(folder), descriptors)
            except BaseException:  # noqa: BLE001 (goes into the job's log; a fork must not return to the loop)
                sys.excepthook(*sys.exc_info())
            finally:
                os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)


def watch_over(shim: type[Shim], folder: str, descriptors: list[int]) -> None:
    """Be the shim of a job: take its order and see it through."""
    lock, control, log, order = descriptors
    os.setsid()
    os.chdir(folder)
    os.dup2(log, 2)
    for descriptor in (lock, control, log, order):
        os.set_inheritable(descriptor, False)  # noqa: FBT003 (takes it by position only)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, lambda _number, _frame: os.write(control, b"stop 5\n"))
    data = b""
    while piece := os.read(order, _READ_BYTES):
        data += piece
    read = read_order(data)
    if read is not None:
        shim(folder, read, control).run()
        tell_news(folder)
