"""`python docs/structure.py`: counts the tree, its imports and what requests enter, into the last column of the page.

`python docs/structure.py FOLDER` prints the numbers of another checkout, with the packages that are installed here.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import CO_OPTIMIZED
from pathlib import Path
from time import strftime
from types import CodeType, FrameType

import grimp
import networkx as nx
import pytest
from django.test import Client

PAGE = Path(__file__).with_suffix(".md")
FOLDERS = {"client/src": ["nearline"], "platform": ["accounts", "config", "core", "web"]}
APPS = ["compute", "datasets", "experiments", "flows", "scheduler"]
A_PAGE = "a page (the list of jobs)"
REQUESTS = {
    A_PAGE: "test_jobs_are_listed_newest_first_and_by_any_heading_either_way",
    "a step, from its run to a metric": "test_a_condition_that_holds_lets_the_step_start_and_children_see_the_metric",
    "a GPU request that evicts a job of another flow": "test_the_step_waits_again_and_runs_on",
    "a file's bytes, from their sync until they are cached": (
        "test_a_synced_folder_is_read_from_the_cache_byte_for_byte"
    ),
}
FILES = ["compute/test_pages.py", "flows/test_advance.py", "flows/test_evictions.py", "caching/test_sync_to_cache.py"]


def count_tree(root: Path) -> dict[str, str]:
    """Return the numbers of a checkout's modules and of the imports between them."""
    folders = {root / folder: names for folder, names in {**FOLDERS, "": APPS}.items()}
    sys.path[:0] = map(str, folders)
    packages = [name for folder, names in folders.items() for name in names if (folder / name).is_dir()]
    texts = [path.read_text() for path in [root / "manage.py", *_sources(folders)]]
    graph = grimp.build_graph(*packages, cache_dir=None, exclude_type_checking_imports=True)
    arrows = [
        (module, imported)
        for module in graph.modules
        for imported in graph.find_modules_directly_imported_by(module)
        if ".migrations" not in module + imported
    ]
    modules = [text for text in texts if text.strip()]
    circles = [group for group in nx.strongly_connected_components(nx.DiGraph(arrows)) if len(group) > 1]
    return {
        "modules": f"{len(modules):,}",
        "lines": f"{sum(len(text.splitlines()) for text in modules):,}",
        "imports between modules": f"{len(arrows):,}",
        "imports a module": f"{len(arrows) / len(modules):.1f}",
        "circles of imports": f"{len(circles)}",
    }


def _sources(folders: dict[Path, list[str]]) -> Iterator[Path]:
    for folder, names in folders.items():
        for name in names:
            for path in sorted((folder / name).rglob("*.py")):
                if not {"migrations", "node_modules"} & set(path.parts):
                    yield path


def count_requests(root: Path) -> dict[str, str]:
    """Return how many modules each request enters, by running its test with this module as a plugin."""
    with tempfile.NamedTemporaryFile() as out:
        paths = [str(root / folder) for folder in ("", *FOLDERS)]
        environment = {"PYTHONPATH": os.pathsep.join([str(PAGE.parent), *paths]), "STRUCTURE_OUT": out.name}
        tests = [f"tests/apps/{name}" for name in FILES]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "structure",
            "-k",
            " or ".join(REQUESTS.values()),
            *tests,
        ]
        subprocess.run([*command, *tests], check=True, cwd=root, env=os.environ | environment, stdout=sys.stderr)
        numbers = dict(json.loads(line) for line in Path(out.name).read_text().splitlines())
    return {label: str(numbers[test]) for label, test in REQUESTS.items()}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Note how many modules of the product a test enters: those of which it calls a function."""
    import config.urls  # noqa: F401, PLC0415 (what is imported at the first request only would count as called)

    codes: set[CodeType] = set()
    if item.name == REQUESTS[A_PAGE]:
        request = Client.request

        def noted(self: Client, **environ: object) -> object:
            with _noting(codes):
                return request(self, **environ)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Client, "request", noted)
            yield
    else:
        with _noting(codes):
            yield
    folders = [item.config.rootpath / folder for folder in (*FOLDERS, *APPS)]
    # The body of a module or a class is no function.
    files = {Path(code.co_filename) for code in codes if code.co_flags & CO_OPTIMIZED}
    entered = [file for file in files if any(map(file.is_relative_to, folders))]
    with Path(os.environ["STRUCTURE_OUT"]).open("a") as out:
        out.write(json.dumps([item.name, len(entered)]) + "\n")


@contextmanager
def _noting(codes: set[CodeType]) -> Iterator[None]:
    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            codes.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def main() -> None:
    """Count, and write the page; or print the numbers of another checkout."""
    root = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else PAGE.parents[1]
    numbers = count_tree(root) | count_requests(root)
    if len(sys.argv) > 1:
        print(json.dumps(numbers, indent=2))
        return
    text = re.sub(r"now \(.*\) \|$", strftime("now (%-d %B %Y) |"), PAGE.read_text(), flags=re.MULTILINE)
    for label, number in numbers.items():
        text = re.sub(rf"^(\| {re.escape(label)} \|.*\|) [^|]* \|$", rf"\1 {number} |", text, flags=re.MULTILINE)
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
