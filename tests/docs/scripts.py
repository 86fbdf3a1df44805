"""A page as one shell script, as a reader would type it from top to bottom, and what it printed held against the page."""

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.docs.blocks import Block

_LIMIT_S = 3600
_END = "@@ end"
# What differs from one time to the next, and what takes its place on both sides.
_UNSTABLE = (
    # How far a transfer is, or the state of a copy, which is told every five seconds: on a busy machine only.
    (
        re.compile(
            r"^(Checking|Downloading|Hydrating|Looking at|Provisioning|Queued|Ready|Uploading)\b.* files\b.*\n?",
            re.MULTILINE,
        ),
        "",
    ),
    (re.compile(r"\b[0-9a-f]{8}([0-9a-f]{56})?\b"), "<commit>"),
    (re.compile(r"\b(exp|run)_[0-9a-z]{20}"), r"<\1>"),
    (re.compile(r"just now|\d+ (s|min|h) ago"), "<ago>"),
    (re.compile(r"(?<==)0\.\d+"), "<number>"),
    (re.compile(r"[ \t]+"), " "),
)
_PRINTS = re.compile(r"print\(.*\) +# (.+)$", re.MULTILINE)

JOB = """\
flow: example
steps:
  - name: prepare
    command: echo model > $NEARLINE_OUTPUT/model.bin
  - name: job
    command: python job.py
    after: [prepare]
    parameters: {lr: 0.1}
    data: [{dataset: jobs/digits, cached: true}]
"""


@dataclass(frozen=True)
class Command:
    """A part of the script. `printed`: the lines that the page shows; None when it shows none."""

    line: int
    text: str
    printed: Sequence[str] | None = None


def run_page(blocks: Sequence[Block], folder: Path, environment: Mapping[str, str]) -> list[str]:
    """Run the examples of a page in a folder and return what is wrong with them, each with its line."""
    commands = [command for block in blocks if block.mark != "not run" for command in _commands_of(block)]
    parts = [f"{{ {command.text}\n}} </dev/null 2>&1\nprintf '\\n{_END} %d\\n' $?\n" for command in commands]
    script = folder / ".page.sh"
    script.write_text("".join(parts))
    done = subprocess.run(
        ["bash", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=_LIMIT_S, check=False
    )
    outputs = re.findall(rf"(.*?)\n{_END} (\d+)\n", done.stdout, re.DOTALL)
    assert len(outputs) == len(commands), done.stdout + done.stderr
    return [
        f"line {command.line}: {fault}\n{output}"
        for command, (output, status) in zip(commands, outputs, strict=True)
        if (fault := _fault_of(command, output.strip("\n"), int(status)))
    ]


def _commands_of(block: Block) -> Iterator[Command]:
    if block.mark == "in a job":
        yield Command(block.line, _in_a_job(block.text))
    elif block.language == "sh":
        yield from _session(block)
    elif block.language == "yaml":
        path = block.value or "flow.yaml"
        yield Command(block.line, f"{_save(path, block.text)}\nnearline flow validate {path} --project demo")
    elif block.language == "python":
        wanted = [f"...{said}..." for said in _PRINTS.findall(block.text)]
        yield Command(block.line, f"python - <<'EOF'\n{block.text}EOF", ["...", *wanted] if wanted else None)
    elif block.language == "filter":
        yield Command(block.line, f"nearline experiment list --filter '{block.text.strip()}'")
    elif block.language != "text":
        raise AssertionError(f"line {block.line}: nobody knows how to run '{block.language}'; see tests/docs/blocks.py")


def _session(block: Block) -> Iterator[Command]:
    """Every line is a command, with those that continue it; or, when lines begin with `$`, these are, and what follows each is what it prints."""
    text = re.sub(r"\\\n *", "", block.text)
    lines = list(enumerate(text.splitlines(), block.line))
    if not block.text.startswith("$ "):
        yield from (Command(number, text) for number, text in lines if text.strip())
        return
    starts = [place for place, (_, text) in enumerate(lines) if text.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        number, text = lines[start]
        yield Command(number, text[2:], [printed for _, printed in lines[start + 1 : end]])


def _in_a_job(text: str) -> str:
    saved = "\n".join([_save("job/job.py", text), _save("job/flow.yaml", JOB)])
    return f"mkdir -p job\n{saved}\necho > job/confusion.png\nnearline flow run job/flow.yaml --project jobs --wait"


def _save(path: str, text: str) -> str:
    return f"cat > {path} <<'EOF'\n{text}EOF"


def _fault_of(command: Command, output: str, status: int) -> str:
    if status != 0:
        return f"`{command.text}` ended with {status}"
    if command.printed is not None and not is_like(output, "\n".join(command.printed)):
        shown = "\n".join(command.printed)
        return f"`{command.text}` is said to print\n{shown}\nbut printed"
    return ""


def is_like(output: str, shown: str) -> bool:
    """Say whether a page shows an output: `...` stands for anything, ids and times for others of their kind."""
    pattern = re.escape(_steady(shown)).replace(r"\.\.\.", ".*")
    return re.fullmatch(pattern, _steady(output), re.DOTALL) is not None


def _steady(text: str) -> str:
    for unstable, name in _UNSTABLE:
        text = unstable.sub(name, text)
    return "\n".join(line.strip() for line in text.strip().splitlines())
