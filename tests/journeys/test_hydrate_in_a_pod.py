"""An init container brings a commit into its volume, with nothing but a URL and a token."""

import json
import os
import subprocess
import uuid

from tests.journeys.digits import contents, write_digits
from tests.journeys.product import BIN, ROOT
from tests.journeys.test_sync_then_clone import new_dataset, token_of


def hydrate(url, target, token, *arguments):
    """Run the program with the client alone: no settings, no profile, no server code."""
    return subprocess.run(
        [BIN / "python", "-m", "nearline.hydrate", url, target, "--token-env", "POD_TOKEN", *arguments],
        cwd="/",
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "client/src"), "POD_TOKEN": token},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_a_commit_comes_into_a_volume_by_its_url_and_a_token(product, folder, tmp_path):
    files = write_digits(folder)
    (folder / "link").symlink_to("0/0000.png")
    reference = new_dataset(product, folder)
    commit = product.cli_json("data", "commits", reference, cwd=folder)["items"][0]
    viewer, stranger = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("pod", "stranger"))
    for name in (viewer, stranger):
        product.api("POST", "/users", {"username": name, "password": "a long enough password"})
    product.api("PUT", f"/projects/{reference.split('/')[0]}/members/{viewer}", {"role": "viewer"})
    url = f"{product.url}/api/v1/datasets/{reference}/commits/{commit['id']}"

    done = hydrate(url, tmp_path / "volume", token_of(product, viewer), "--json", "--read-only")
    again = hydrate(url, tmp_path / "volume", token_of(product, viewer), "--json", "--read-only")
    refused = hydrate(url, tmp_path / "mine", token_of(product, stranger), "--json")

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["commit_id"], told["files"]) == (commit["id"], files + 1)
    assert contents(tmp_path / "volume") == contents(folder)
    assert (tmp_path / "volume/link").is_symlink()
    assert (tmp_path / "volume/0/0000.png").stat().st_mode & 0o777 == 0o444
    assert (again.returncode, json.loads(again.stdout)["bytes_moved"]) == (0, 0)
    assert refused.returncode == 3
    assert not (tmp_path / "mine").exists()
