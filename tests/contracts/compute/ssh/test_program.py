"""The program for hosts is made by whichever threads need it first."""

import ast
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

from compute.adapters.ssh import program


def test_modules_are_parsed_by_one_thread_at_a_time(monkeypatch):
    is_first, both_inside = threading.Lock(), threading.Event()
    inside = []

    def watch(source):
        inside.append(source)
        if len(inside) > 1:
            both_inside.set()
        if is_first.acquire(blocking=False):
            both_inside.wait(0.5)
        inside.pop()
        return ast.parse(source)

    monkeypatch.setattr(program, "ast", SimpleNamespace(**{**vars(ast), "parse": watch}))
    here = threading.Barrier(2)

    def read(_) -> list[str]:
        here.wait()
        return list(program._imports_of(Path(program.__file__)))

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(read, range(2))

    assert first == second
    assert not both_inside.is_set()


def test_a_host_needs_nothing_but_python(tmp_path):
    place = tmp_path / "program.pyz"
    place.write_bytes(program.build_program().data)
    modules = list(program._list_modules((program._ENTRY, program._SHIM)))
    script = f"import importlib, sys\nsys.path.insert(0, {str(place)!r})\nfor name in {modules}: importlib.import_module(name)"

    # Without packages of anybody, as on a host.
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
