"""Names that would mislead Python or a reader."""

import ast
import importlib
import importlib.metadata
import platform
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = ("config", "core", "accounts", "web", "datasets", "scheduler", "compute", "experiments", "flows")
APPS = ("datasets", "scheduler", "compute", "experiments", "flows")
# Words that once named two things in one app.
WORDS = {"Comparison", "Row", "Box", "Fact", "Group", "Line", "Shortage", "Proof", "Quota", "Claim", "Placement"}
# Verbs where a noun says what a variable is.
VERBS = {"found", "wanted", "told", "said", "kept"}
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers", "base", "stuff"}


def tracked(pattern: str) -> list[Path]:
    """Return the files of the repository that match; those not added yet count as well."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", pattern]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return [path for path in (ROOT / name for name in names.split("\0") if name) if path.is_file()]


def test_our_folder_platform_does_not_hide_pythons_module():
    assert Path(platform.__file__).is_relative_to(sysconfig.get_paths()["stdlib"])
    assert not (ROOT / "platform" / "__init__.py").exists()


@pytest.mark.parametrize("name", OURS)
def test_our_packages_are_ours_and_no_installed_distribution_brings_one_of_the_same_name(name):
    module = importlib.import_module(name)

    assert Path(module.__file__).is_relative_to(ROOT)
    assert name not in importlib.metadata.packages_distributions()


def test_no_module_has_a_name_that_says_nothing():
    assert [str(path.relative_to(ROOT)) for path in tracked("*.py") if path.stem in EMPTY_NAMES] == []


@pytest.mark.parametrize("app", APPS)
def test_a_word_names_one_thing_in_an_app(app):
    trees = [ast.parse(path.read_text()) for path in tracked(f"{app}/*.py") if "migrations" not in path.parts]
    names = [node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]

    assert names
    assert [name for name in WORDS if names.count(name) > 1] == []


def find_verbs(source: str) -> list[str]:
    """Return the variables, parameters, fields and attributes of a module that are named by a verb."""
    nodes = list(ast.walk(ast.parse(source)))
    variables = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    attributes = [node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    parameters = [node.arg for node in nodes if isinstance(node, ast.arg)]
    return [name for name in variables + attributes + parameters if name.strip("_") in VERBS]


def test_what_a_variable_is_named_by_is_a_noun():
    sources = [path for path in tracked("*.py") if not {"tests", "migrations"} & set(path.parts)]

    assert {path.relative_to(ROOT): names for path in sources if (names := find_verbs(path.read_text()))} == {}


def test_a_planted_verb_is_found():
    source = "def count(wanted):\n    found: int = 0\n    for said in wanted:\n        self._told = said\n"

    assert find_verbs(source) == ["found", "said", "_told", "wanted"]


def test_packages_say_nothing_in_their_init():
    """Except where Django looks for models, and where the client shows what it offers."""
    filled = {path.relative_to(ROOT) for path in tracked("*__init__.py") if path.stat().st_size}

    client = Path("client/src/nearline")
    assert {path for path in filled if path.parent.name != "models"} <= {
        client / "__init__.py",
        client / "run/__init__.py",
    }


def test_locks_hold_versions_and_hashes_but_no_addresses():
    locks = [*tracked("requirements/*"), *tracked("*package-lock.json")]
    assert locks

    told = [path.name for path in locks if "://" in path.read_text() and path.suffix == ".txt"]
    resolved = [path.name for path in locks if '"resolved"' in path.read_text()]

    assert told + resolved == []
