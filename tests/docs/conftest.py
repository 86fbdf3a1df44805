"""The running products that readers of the pages have before them."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.digits import write_digits
from tests.journeys.product import ROOT, Product

SIGN_IN = "Sign in once within 30 minutes:"
TRAIN = """\
import argparse
import os
from pathlib import Path

parser = argparse.ArgumentParser()
for name in ("--epochs", "--lr"):
    parser.add_argument(name, default="1")
parser.parse_args()
print("cnvrg_tag_accuracy: 0.97")
Path(os.environ["NEARLINE_OUTPUT"], "model.bin").write_text("weights")
"""


@pytest.fixture(scope="session")
def product(tmp_path_factory) -> Iterator[Product]:
    """A product with empty projects, and one with a dataset for what runs inside a job."""
    running = Product(tmp_path_factory.mktemp("docs") / "home").start()
    for name in ("demo", "team-a", "jobs"):
        running.cli("project", "create", name, cwd=running.home)
    images = tmp_path_factory.mktemp("images") / "digits"
    write_digits(images, per_class=1)
    running.cli("data", "init", "--project", "jobs", "--title", "digits", cwd=images)
    running.cli("data", "sync", cwd=images)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Iterator[tuple[Path, Product]]:
    """A folder as it is after `make up`: the environment, the examples, and a product that has shown its demo."""
    folder = tmp_path_factory.mktemp("checkout")
    (folder / ".venv").mkdir()
    (folder / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    shutil.copytree(ROOT / "examples", folder / "examples")
    running = Product(folder / ".nearline", environment={"SAMPLE": "1"}).start()
    running.wait_for(lambda: running.log_of("up"), lambda log: SIGN_IN in log)
    yield folder, running
    running.stop()


@pytest.fixture
def desk(tmp_path) -> Path:
    """A folder of somebody who reads the guides: data and code."""
    write_digits(tmp_path / "digits", per_class=2)
    write_digits(tmp_path / "chest-xray" / "train", per_class=2)
    (tmp_path / "chest-xray" / "train" / "bad_1.png").write_bytes(b"bad")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "late.png").write_bytes(b"late")
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "train.py").write_text(TRAIN)
    (tmp_path / "training" / "report.py").write_text("print('report')")
    return tmp_path
