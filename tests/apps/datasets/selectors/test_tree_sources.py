"""Trees that jobs read are written to folders, also while the store comes and goes."""

from pathlib import Path

from datasets.selectors import tree_sources, trees
from tests.factories.datasets import commit_files


def test_a_tree_waits_for_a_store_that_is_away_from_the_beginning(store_row, dataset, member, tmp_path):
    commit = commit_files(member, dataset, {"train.py": b"print(1)"})
    trees._roots.clear()
    trees._ranges.clear()
    source = tree_sources.open_tree(dataset.pk, commit.root)
    folder = Path(store_row.location)
    away = folder.rename(tmp_path / "away")
    reasons = []

    def come_back(reason: str) -> None:
        reasons.append(reason)
        away.rename(folder)

    source.write(tmp_path / "code", on_wait=come_back)

    assert (tmp_path / "code" / "train.py").read_bytes() == b"print(1)"
    assert [reason.partition(" is not there")[0] for reason in reasons] == [
        f"The folder of the store '{store_row.name}'"
    ]
