"""Each `nearline` command that a message, a page or a guide names is one that there is."""

import re
import subprocess
from pathlib import Path

import typer

from nearline.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"(?:`|> |\$ )nearline ((?:[a-z][a-z0-9-]*)(?: [a-z][a-z0-9-]*)*)")
TEXTS = ("*.py", "*.html", "*.md", "*.sh", "*.ts", ":!docs/decisions")


def find_unknown(words: str) -> str:
    """Return the first of these words that is no command of the group before it; empty: there is none."""
    command = typer.main.get_command(app)
    for word in words.split():
        if not hasattr(command, "get_command"):
            return ""  # what follows are arguments
        found = command.get_command(None, word)
        if found is None:
            return word
        command = found
    return ""


def test_what_is_no_command_is_found():
    assert [find_unknown(words) for words in ("compute templates", "data query lost", "job show train")] == [
        "templates",
        "lost",
        "",
    ]


def test_every_command_that_a_text_names_exists():
    listed = subprocess.run(["git", "ls-files", "-z", *TEXTS], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [path for path in listed.stdout.split("\0") if path and (ROOT / path).exists()]
    named = {(path, words) for path in paths for words in NAMED.findall((ROOT / path).read_text())}

    assert len(named) > 100
    assert {(path, words) for path, words in named if find_unknown(words)} == set()
