"""What other users of the machine may read of an installation: nothing."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from config.private_home import make_private

ROOT = Path(__file__).resolve().parents[3]
WRITE = """
import django; django.setup()
from django.conf import settings
from django.core.management import call_command
from django.db import connection
call_command("migrate", "core", verbosity=0)
with connection.cursor() as cursor:
    cursor.execute("CREATE TABLE t (x)")
    home = settings.NEARLINE.home
    (home / "later").mkdir()
    (home / "later" / "log").write_text("x")
    for path in sorted(home.rglob("*")):
        print(oct(path.stat().st_mode & 0o777), path.relative_to(home))
"""


@pytest.fixture(autouse=True)
def _same_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_installation_is_readable_by_its_owner_alone(tmp_path):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("NEARLINE_", "DATABASE_"))}
    paths = os.pathsep.join(str(ROOT / part) for part in (".", "platform", "client/src"))
    environment = {"NEARLINE_HOME": str(tmp_path / "home"), "DJANGO_SETTINGS_MODULE": "config.settings"}

    done = subprocess.run(
        [sys.executable, "-c", WRITE],
        env={**kept, **environment, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )

    assert mode(tmp_path / "home") == 0o700
    assert done.stdout.splitlines() == [
        "0o600 host-id",
        "0o700 later",
        "0o600 later/log",
        "0o600 nearline.sqlite3",
        "0o600 nearline.sqlite3-shm",
        "0o600 nearline.sqlite3-wal",
        "0o600 secret.key",
        "0o600 secrets.key",
    ]


def test_a_home_that_everybody_could_read_is_closed_at_the_next_start(tmp_path):
    home = tmp_path / "home"
    (home / "jobs").mkdir(parents=True)
    for name in ("nearline.sqlite3", "nearline.sqlite3-wal", "admin.token"):
        (home / name).touch(0o644)

    make_private(home)

    assert mode(home) == 0o700
    assert {path.name: mode(path) for path in home.iterdir()} == {
        "jobs": 0o700,
        "nearline.sqlite3": 0o600,
        "nearline.sqlite3-wal": 0o600,
        "admin.token": 0o600,
    }


def test_what_is_written_later_is_private_too(tmp_path):
    make_private(tmp_path)

    (tmp_path / "new").write_text("x")

    assert mode(tmp_path / "new") == 0o600


def test_a_home_that_does_not_exist_yet_is_left_to_who_makes_it(tmp_path):
    make_private(tmp_path / "home")

    assert not (tmp_path / "home").exists()


class _OfAnotherUser(type(Path())):
    def chmod(self, *_arguments, **_options):
        raise PermissionError


def test_the_start_is_refused_where_a_home_of_another_user_is_open_to_everybody(tmp_path):
    (tmp_path / "home").mkdir(mode=0o755)

    with pytest.raises(SystemExit, match="belongs to another user and everybody may read it"):
        make_private(_OfAnotherUser(tmp_path / "home"))

    assert mode(tmp_path / "home") == 0o755


def test_a_volume_of_another_user_that_only_our_group_may_enter_is_accepted(tmp_path):
    (tmp_path / "home").mkdir(mode=0o750)

    make_private(_OfAnotherUser(tmp_path / "home"))

    assert mode(tmp_path / "home") == 0o750
