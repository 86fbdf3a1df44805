"""Storing what a job left in its output folder as a tree of its project. May be repeated; nothing is stored twice."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain

import structlog

from accounts.models import Project
from accounts.permissions import Actor
from compute.engine.job_spec import HostFolder
from compute.engine.ports import OutputReader
from compute.errors import ResourceUnreachable
from compute.models import Job, OutputState
from compute.selectors import jobs as job_selectors
from compute.selectors.outputs import holder_of
from core import globs
from core.units import count_of
from datasets.errors import SourceChanged
from datasets.services import trees
from datasets.services.trees import LeftOut, SourceFile
from nearline.content import paths
from nearline.content.ignore import IGNORE_FILES, IgnoreRules, split_lines
from nearline.content.paths import show_path, to_bytes, to_text

__all__ = [
    "SourceFile",
    "Stored",
    "find_fault",
    "give_up_output",
    "store_files",
    "store_folder",
    "store_output",
]

log = structlog.get_logger(__name__)

MAX_FILES = 1_000_000
_SYSTEM = Actor.system("outputs of jobs")
# So often is an output read whose files are written to meanwhile.
_READS = 10
_NAMED = 3
# Matching takes a time that grows with the rules, for each letter of each path.
_MOST_RULE_BYTES = 64 << 10

FindChanged = Callable[[HostFolder | None], Collection[str]]
"""Returns which files of a folder are not as their job left them. Asked after reading."""


@dataclass(frozen=True)
class Stored:
    """How many files of an output the store holds, and what of it it does not."""

    files: int
    error: str


def store_output(
    job: Job,
    *,
    patterns: Sequence[str],
    find_changed: FindChanged = lambda _: (),
    before_each: Callable[[SourceFile], object] = lambda _: None,
) -> Stored:
    """Store the files that a job left and whose path fits one of the patterns, and note it in the job's row.

    The rules of a `.nearlineignore` at the top of the output are honoured. Files that were changed since the job ended
    are left out. `output_error` says what is left out, except by patterns. What is stored already stays as it is. What
    `before_each` raises before a file is read ends it. Raises ResourceUnreachable while a resource does not answer.
    """
    if job.output_state == OutputState.STORED:
        return Stored(job.output_files, job.output_error)
    if job.files_deleted_at is not None:
        return give_up_output(job.pk, "The outputs are lost: the files of the job are gone.")
    changed: frozenset[str] = frozenset()
    try:
        output = job_selectors.open_output(job)
        for _ in range(_READS):
            selection = _Selection(output, patterns, changed)
            try:
                tree = _store(job, _tell_each(selection.list_files(), before_each))
                changes = changed.union(find_changed(output.source))
            except SourceChanged as error:
                changes = changed | {str(error.details["path"])}
            if changes == changed:
                return _note_output(job.pk, tree, selection.describe_left_out())
            changed = changes
        fault = f"{_show(sorted(changed))} kept changing."
    except OSError as error:
        fault = str(error)
    except ResourceUnreachable as error:
        if job.resource.detached_at is None:  # the files are there, and it may answer again
            raise
        fault = error.message
    log.warning("outputs.not_stored", job=job.name, error=fault)
    return give_up_output(job.pk, f"The outputs could not be kept: {fault}")


def give_up_output(job_id: str, fault: str) -> Stored:
    """Note that the output of a job is not stored, and why; where another worker has stored it meanwhile, it is."""
    rows = Job.objects.filter(pk=job_id)
    if rows.exclude(output_state=OutputState.STORED).update(output_state=OutputState.FAILED, output_error=fault):
        return Stored(0, fault)
    return Stored(*rows.values_list("output_files", "output_error").get())


def _note_output(job_id: str, tree: trees.StoredTree | None, left_out: str) -> Stored:
    """Note what the store holds of the output of a job; None: no file."""
    files, size_bytes = (tree.files, tree.size_bytes) if tree is not None else (0, 0)
    Job.objects.filter(pk=job_id).update(
        output_state=OutputState.STORED,
        output_root=tree.root if tree is not None else "",
        output_files=files,
        output_bytes=size_bytes,
        output_error=left_out,
    )
    return Stored(files, left_out)


def store_files(job: Job, files: Iterable[SourceFile], *, left_out: str) -> Stored:
    """Store files that lie elsewhere as the output of a job, in the order of their paths."""
    return _note_output(job.pk, _store(job, files), left_out)


def store_folder(project: Project, folder: OutputReader, *, holder: str) -> tuple[trees.StoredTree | None, str]:
    """Store all files of a folder; return their tree, None where there is none, and what was left out and why."""
    selection = _Selection(folder, ("**",), frozenset())
    return _store_tree(project, holder, selection.list_files()), selection.describe_left_out()


def find_fault(path: bytes) -> str:
    """Return why the store cannot hold a file of this path; empty when it can."""
    why = paths.find_fault(path)
    return f"'{show_path(path)}' {why}." if why else ""


def _tell_each(files: Iterable[SourceFile], before_each: Callable[[SourceFile], object]) -> Iterator[SourceFile]:
    for file in files:
        before_each(file)
        yield file


def _store(job: Job, files: Iterable[SourceFile]) -> trees.StoredTree | None:
    """Store files; None where there are none."""
    return _store_tree(Project.objects.get(pk=job.project_id), holder_of(job.pk), files)


def _store_tree(project: Project, holder: str, files: Iterable[SourceFile]) -> trees.StoredTree | None:
    rest = iter(files)
    first = next(rest, None)
    if first is None:
        return None
    return trees.store_tree(actor=_SYSTEM, project=project, holder=holder, files=chain([first], rest))


class _Selection:
    """Which files of an output are stored. What was left out is known once all of them were listed."""

    def __init__(self, output: OutputReader, patterns: Sequence[str], changed: frozenset[str]) -> None:
        self._output = output
        self._patterns = patterns
        self._changed = changed
        self._rules, self._too_long = _read_rules(output)
        self._ignored = 0
        self._bad = LeftOut()
        self._is_cut = False

    def list_files(self) -> Iterator[SourceFile]:
        """Yield the files in the order of their paths."""
        count = 0
        for file in self._output.list_files():
            path = to_bytes(file.path)
            if file.path in self._changed or not globs.matches_any(to_text(path), self._patterns):
                continue
            if self._rules.covers(path):
                self._ignored += 1
                continue
            if why := file.why or paths.find_fault(path):
                self._bad.add(path, why)
                continue
            if count == MAX_FILES:
                self._is_cut = True
                return
            count += 1
            mode = 0o755 if file.mode & 0o100 else 0o644
            open_file = partial(self._output.open, file.path)
            yield SourceFile(path, mode, file.size_bytes, file.modified_at_ns, open_file)

    def describe_left_out(self) -> str:
        """Return what was left out and why, as a sentence each; empty when nothing was."""
        sentences = [
            self._changed and f"Changed after the step had ended, so not kept: {_show(sorted(self._changed))}.",
            str(self._bad),
            self._ignored and f".nearlineignore leaves out {count_of(self._ignored, 'file')}.",
            self._too_long
            and f"{self._too_long} has more than {_MOST_RULE_BYTES // 1024} KiB, so no file was left out by it.",
            self._is_cut and f"More than {MAX_FILES:,} files; only the first ones were kept.",
        ]
        return " ".join(str(sentence) for sentence in sentences if sentence)


def _read_rules(output: OutputReader) -> tuple[IgnoreRules, str]:
    """Return the rules, and the name of a file of them that is too long."""
    lines: list[str] = []
    too_long = ""
    for name in map(os.fsdecode, IGNORE_FILES):
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError), output.open(name) as file:
            data = file.read(_MOST_RULE_BYTES + 1)
            if len(data) > _MOST_RULE_BYTES:
                too_long = name
            else:
                lines += split_lines(data)
    return IgnoreRules(lines), too_long


def _show(paths: Sequence[str]) -> str:
    return ", ".join(paths[:_NAMED])
