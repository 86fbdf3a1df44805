"""A dataset goes from one folder to another, changes, conflicts, and comes back, all through the CLI."""

import json
import subprocess
import uuid

from tests.journeys.digits import contents, write_digits
from tests.journeys.product import BIN, ROOT


def new_dataset(product, folder) -> str:
    """Make a project and a dataset from `folder`, sync it once, and return its reference."""
    project = f"p-{uuid.uuid4().hex[:8]}"
    product.cli("project", "create", project, cwd=folder)
    product.cli("data", "init", "--project", project, "--title", "digits", cwd=folder)
    product.cli("data", "sync", "--message", "first", cwd=folder)
    return f"{project}/digits"


def commits_of(product, reference, folder) -> list[dict]:
    return product.cli_json("data", "commits", reference, cwd=folder)["items"]


def token_of(product, username: str) -> str:
    """Make a token for someone by the management shell, as an operator would."""
    code = (
        "from accounts.models import User; from accounts.selectors import actor_of; from accounts.services import tokens;"
        f"actor = actor_of(User.objects.get(username={username!r}));"
        "print(tokens.create_token(actor=actor, name='t', expires_at=None)[1])"
    )
    command = [BIN / "python", "manage.py", "shell", "-v", "0", "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=product.environment, capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


def test_what_was_synced_is_cloned_byte_for_byte(product, folder, tmp_path):
    files = write_digits(folder)

    reference = new_dataset(product, folder)
    product.cli("data", "clone", reference, "copy", cwd=tmp_path)

    assert contents(tmp_path / "copy") == contents(folder)
    [commit] = commits_of(product, reference, folder)
    assert (commit["files"], commit["added"], commit["message"]) == (files, files, "first")


def test_a_second_sync_without_changes_says_up_to_date_and_makes_no_commit(product, folder):
    write_digits(folder)
    reference = new_dataset(product, folder)

    done = product.cli("data", "sync", cwd=folder)

    assert "up to date" in done.stdout + done.stderr
    assert len(commits_of(product, reference, folder)) == 1


def test_a_change_moves_and_stores_only_the_change(product, folder):
    write_digits(folder)
    reference = new_dataset(product, folder)
    (folder / "0" / "0000.png").write_bytes(b"edited" * 100)
    for number in range(10):
        (folder / "1" / f"new-{number}.png").write_bytes(f"new {number} ".encode() * 50)
    for number in range(5):
        (folder / "2" / f"{number:04}.png").unlink()

    synced = product.cli_json("data", "sync", "--message", "second", cwd=folder)

    newest = commits_of(product, reference, folder)[0]
    assert (newest["added"], newest["removed"], newest["changed"]) == (10, 5, 1)
    assert synced["bytes_uploaded"] == 600 + sum(len(f"new {number} ") * 50 for number in range(10))


def test_a_file_changed_on_both_sides_keeps_the_local_one_and_writes_the_servers_beside_it(product, folder, tmp_path):
    write_digits(folder, per_class=2)
    reference = new_dataset(product, folder)
    product.cli("data", "clone", reference, "other", cwd=tmp_path)
    (tmp_path / "other" / "3" / "0001.png").write_bytes(b"theirs")
    product.cli("data", "sync", cwd=tmp_path / "other")
    (folder / "3" / "0001.png").write_bytes(b"ours")

    product.cli("data", "sync", cwd=folder)

    assert (folder / "3" / "0001.png").read_bytes() == b"ours"
    assert (folder / "3" / "0001.png.conflict").read_bytes() == b"theirs"
    assert len(commits_of(product, reference, folder)) == 3


def test_cnvrg_commands_run_unchanged(product, folder, tmp_path):
    write_digits(folder, per_class=1)
    project = f"p-{uuid.uuid4().hex[:8]}"
    product.cli("project", "create", project, cwd=folder)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    extra = elsewhere / "extra.txt"
    extra.write_text("more")

    product.cli("data", "init", cwd=folder, NEARLINE_PROJECT=project)
    synced = product.cli("data", "sync", cwd=folder)
    url = f"{product.url}/datasets/{project}/digits"
    product.cli("data", "clone", url, cwd=elsewhere)
    listed = product.cli("data", "files", url, "--json", cwd=elsewhere)
    product.cli("data", "put", url, "extra.txt", cwd=elsewhere)
    commits = product.cli("data", "commits", url, "--json", cwd=elsewhere)

    assert "Data sync finished" in synced.stdout + synced.stderr
    assert contents(elsewhere / "digits") == contents(folder)
    assert len(json.loads(listed.stdout)["items"]) == 10
    assert len(json.loads(commits.stdout)["items"]) == 2


def test_revert_brings_an_old_state_back_as_a_new_commit(product, folder):
    write_digits(folder, per_class=2)
    reference = new_dataset(product, folder)
    [first] = commits_of(product, reference, folder)
    (folder / "0" / "0000.png").unlink()
    product.cli("data", "sync", cwd=folder)

    product.cli("data", "revert", reference, first["short"], "--yes", cwd=folder)

    newest = commits_of(product, reference, folder)[0]
    assert (newest["root"], newest["files"], newest["added"]) == (first["root"], 20, 1)


def test_a_viewer_reads_and_cannot_write(product, folder, tmp_path):
    write_digits(folder, per_class=1)
    reference = new_dataset(product, folder)
    project = reference.split("/")[0]
    viewer = f"v-{uuid.uuid4().hex[:8]}"
    product.api("POST", "/users", {"username": viewer, "password": "a long enough password"})
    product.api("PUT", f"/projects/{project}/members/{viewer}", {"role": "viewer"})
    token = token_of(product, viewer)

    product.cli("data", "clone", reference, "copy", cwd=tmp_path, NEARLINE_TOKEN=token)
    (tmp_path / "copy" / "mine.txt").write_text("mine")
    refused = product.cli("data", "sync", cwd=tmp_path / "copy", check=False, NEARLINE_TOKEN=token)

    assert refused.returncode == 4
    assert "does not allow you" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert len(commits_of(product, reference, folder)) == 1


def test_a_branch_is_merged_once_its_conflicts_are_decided(product, folder, tmp_path):
    write_digits(folder, per_class=2)
    reference = new_dataset(product, folder)
    product.cli("data", "branch", "relabel", cwd=folder)
    (folder / "3" / "0001.png").write_bytes(b"theirs")
    (folder / "new.png").write_bytes(b"new")
    product.cli("data", "sync", "-m", "relabelled", cwd=folder)
    product.cli("data", "mv", f"{reference}@main", "3/0000.png", "moved/0000.png", cwd=folder)
    (tmp_path / "0001.png").write_bytes(b"ours")
    product.cli("data", "put", f"{reference}@main", "0001.png", "--dir", "3", cwd=tmp_path)

    refused = product.cli("data", "merge", "relabel", "--dataset", f"{reference}@main", cwd=folder, check=False)
    plan = product.cli_json(
        "data", "merge", "relabel", "--into", "main", "--dataset", reference, "--dry-run", cwd=folder
    )
    merge = ("data", "merge", "relabel", "--into", "main", "--dataset", reference, "--both", "3/0001.png")
    merged = product.cli_json(*merge, cwd=folder)
    product.cli("data", "mv", f"{reference}@main", "3/0001.png.conflict", "3/theirs.png", cwd=folder)
    product.cli("data", "clone", f"{reference}@main", "copy", cwd=tmp_path)

    assert (refused.returncode, "3/0001.png" in refused.stderr) == (5, True)
    assert (plan["added"], [item["path"] for item in plan["items"]]) == (1, ["3/0001.png"])
    assert (merged["source"], merged["merged"]) == ("merge", plan["theirs"])
    copy = contents(tmp_path / "copy")
    assert (copy["3/0001.png"], copy["3/theirs.png"], copy["new.png"]) == (b"ours", b"theirs", b"new")
    assert "moved/0000.png" in copy
    assert "3/0000.png" not in copy


def test_any_two_states_and_the_folder_are_compared(product, folder, tmp_path):
    write_digits(folder, per_class=2)
    reference = new_dataset(product, folder)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "only.txt").write_bytes(b"other")
    other = new_dataset(product, tmp_path / "other")
    product.cli("data", "tag", "v1", cwd=folder)
    (folder / "0" / "0000.png").unlink()
    (folder / "new.txt").write_bytes(b"new")

    there = product.cli("data", "diff", "v1", ".", cwd=folder).stdout.splitlines()
    back = product.cli("data", "diff", ".", "main", cwd=folder).stdout.splitlines()
    apart = product.cli_json("data", "diff", f"{other}@main", f"{reference}@v1", cwd=folder)

    assert there == ["+ new.txt", "- 0/0000.png"]
    assert back == ["+ 0/0000.png", "- new.txt"]
    assert (apart["added"], apart["removed"], apart["changed"]) == (20, 1, 0)
