"""`manage.py up` as someone meets it on a bad day: one clear sentence each, and no traceback."""

import os
import socket
import subprocess
import urllib.error
import urllib.request

import pytest

from tests.journeys.product import BIN, ROOT, Product, is_full

pytestmark = pytest.mark.skipif(is_full(), reason="`up` is the embedded product")


def up(product: Product) -> subprocess.CompletedProcess[str]:
    command = [BIN / "python", "manage.py", "up"]
    return subprocess.run(
        command, cwd=ROOT, env=product.environment, capture_output=True, text=True, timeout=300, check=False
    )


def assert_one_sentence(done: subprocess.CompletedProcess[str], words: str) -> None:
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_port_in_use_is_named_with_another_to_try(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        product = Product(tmp_path / "home", port=taken.getsockname()[1])

        done = up(product)

    assert_one_sentence(done, f"Port {product.port} is in use on 127.0.0.1. Choose another: PORT=")


def test_a_second_process_on_the_same_state_is_refused_by_name_of_the_first(product):
    second = Product(product.home)

    done = up(second)

    assert_one_sentence(done, f"already runs on the state in {product.home} (process {product.processes['up'].pid})")


def test_a_home_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("not a folder")

    done = up(Product(tmp_path / "file" / "home"))

    assert_one_sentence(done, "cannot be written")


def test_a_header_does_not_void_the_limit_of_worthless_tokens(own_product):
    def status(number: int) -> int:
        headers = {"Authorization": "Bearer nl_guess", "X-Forwarded-For": f"203.0.113.{number}"}
        try:
            with urllib.request.urlopen(urllib.request.Request(f"{own_product.url}/api/v1/me", headers=headers)) as ok:
                return ok.status
        except urllib.error.HTTPError as refused:
            return refused.code

    assert [status(number) for number in range(21)] == [401] * 20 + [429]


def test_a_port_that_is_no_number_is_named(tmp_path):
    done = up(Product(tmp_path / "home", environment={"PORT": "eight"}))

    assert_one_sentence(done, "PORT is 'eight', which is not a number from 1 to 65535.")


def test_a_database_that_is_none_is_named_with_its_place(tmp_path):
    product = Product(tmp_path / "home")
    product.home.mkdir()
    (product.home / "nearline.sqlite3").write_bytes(b"not a database, but larger than the header of one" * 100)

    done = up(product)

    assert_one_sentence(done, "The database cannot be used: file is not a database. Check DATABASE_URL;")


def make_environment(tmp_path, python: str) -> subprocess.CompletedProcess[str]:
    """Let make set up a virtual environment by a `python3` that is this shell script."""
    program = tmp_path / "python3"
    program.write_text(f"#!/bin/sh\n{python}\n")
    program.chmod(0o755)
    command = [
        "make",
        "-f",
        str(ROOT / "Makefile"),
        f"PYTHON={program}",
        f"VENV={tmp_path}/venv",
        f"{tmp_path}/venv/bin/pip",
    ]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)


def test_an_old_python_is_refused_by_make_before_anything_is_made(tmp_path):
    done = make_environment(tmp_path, '[ "$1" = --version ] && echo Python 3.8.1 && exit 0\nexit 1')

    assert done.returncode != 0
    assert "Nearline needs Python 3.11 or newer" in done.stdout
    assert not (tmp_path / "venv").exists()


def test_an_environment_that_failed_for_lack_of_a_package_is_made_once_it_is_there(tmp_path):
    bare = '[ "$2" = venv ] || exit 0\nmkdir -p "$3/bin"; touch "$3/bin/python"'

    failed = make_environment(tmp_path, f"{bare}; exit 1")
    done = make_environment(tmp_path, f'{bare} "$3/bin/pip"')

    assert "On Debian: apt install python3-venv" in failed.stdout
    assert (failed.returncode, done.returncode) == (2, 0)
    assert (tmp_path / "venv" / "bin" / "pip").exists()


def make_packages(tmp_path, pip: str) -> subprocess.CompletedProcess[str]:
    """Let make install the Python packages by a `pip` that is this shell script."""
    folder = tmp_path / "venv" / "bin"
    folder.mkdir(parents=True)
    for name, script in {"python": "", "pip": pip}.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    command = ["make", f"VENV={tmp_path}/venv", f"{tmp_path}/venv/.run"]
    # Run by `make test`, it would take itself for a part of that and say which folder it enters.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_setting_up_says_what_it_does_and_hides_the_rest(tmp_path):
    done = make_packages(tmp_path, "echo a warning; echo another >&2")

    assert (done.returncode, done.stdout, done.stderr) == (0, "Installing Python packages (1 to 2 min)…\n", "")


def test_setting_up_that_fails_shows_the_end_of_its_log_and_its_place(tmp_path):
    done = make_packages(tmp_path, "seq 100; echo no network >&2; exit 1")

    first, *shown, place = done.stdout.splitlines()
    assert done.returncode != 0
    assert first == "Installing Python packages (1 to 2 min)…"
    assert shown == [*map(str, range(82, 101)), "no network"]
    assert place.endswith(f"this failed. Its whole output is in {tmp_path}/venv/setup.log.")
    assert not (tmp_path / "venv" / ".run").exists()


def test_a_second_start_keeps_everything_and_makes_nothing_twice(own_product, tmp_path):
    token = own_product.token
    resources = own_product.api("GET", "/compute/resources")
    own_product.stop()

    own_product.start()

    assert own_product.token == token
    assert [item["name"] for item in own_product.api("GET", "/compute/resources")["items"]] == [
        item["name"] for item in resources["items"]
    ]


def test_the_first_token_is_readable_by_its_owner_only(product):
    assert oct((product.home / "admin.token").stat().st_mode & 0o777) == "0o600"
