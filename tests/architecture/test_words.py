"""Plain words: what the list bans stands nowhere in code, templates or documentation."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("banned_words.txt")
SUFFIXES = {".py", ".html", ".md", ".ts", ".tsx", ".scss", ".yaml", ".toml"}
# Changelog, decisions, migrations and the upgrade keep the words of their time.
PASSED_OVER = {"node_modules", ".venv", "dist", "migrations", "decisions", "upgrade", "CHANGELOG.md", "shared"}


def banned() -> list[re.Pattern[str]]:
    lines = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    return [re.compile(re.split(r"\s{2,}", line)[0]) for line in lines]


def texts() -> dict[str, str]:
    paths = [path.relative_to(ROOT) for path in ROOT.rglob("*") if path.suffix in SUFFIXES]
    kept = [path for path in paths if not PASSED_OVER & set(path.parts) and not path.parts[0].startswith(".")]
    return {str(path): (ROOT / path).read_text() for path in kept}


def test_every_line_of_the_list_says_what_to_write_instead():
    lines = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]

    assert [line for line in lines if not re.fullmatch(r"\S.*?\s{2,}\S.*", line)] == []


def test_no_banned_word_is_used():
    words = banned()

    found = [(path, word.pattern) for path, text in texts().items() for word in words if word.search(text)]

    assert found == []
