"""What a person syncs with the command line is what jobs read from the cache, byte for byte."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from accounts.services import tokens
from datasets.models import CachedCommit, Dataset
from nearline.cli.main import app
from tests.factories.datasets import make_store, read_tree

pytestmark = pytest.mark.django_db(transaction=True)

FILES = {"a/one.png": b"1" * 1000, "a/two.png": b"2" * 2000, "b/big.bin": bytes(range(256)) * 5000}


@pytest.fixture
def command_line(member, live_server, settings, tmp_path, monkeypatch):
    """Return a function that runs a command in a folder of the member's."""
    settings.NEARLINE = replace(settings.NEARLINE, public_url=live_server.url)
    make_store(tmp_path / "store")
    _, secret = tokens.create_token(actor=member, name="laptop", expires_at=None)
    monkeypatch.setenv("NEARLINE_URL", live_server.url)
    monkeypatch.setenv("NEARLINE_TOKEN", secret)
    folder = tmp_path / "xrays"
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    monkeypatch.chdir(folder)

    def run(*arguments):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        return done.output

    return run


def test_a_synced_folder_is_read_from_the_cache_byte_for_byte(command_line, site, worker):
    command_line("data", "init", "--project", "team-a", "--title", "xrays")
    command_line("data", "sync", "--quiet")
    command_line("data", "cache", "team-a/xrays@main")
    worker.work()

    cached = CachedCommit.objects.get()
    assert (cached.state, cached.commit.dataset) == ("ready", Dataset.objects.get(name="xrays"))
    assert read_tree(Path(cached.path)) == FILES
