"""Evidence is taken of whatever a job has left, also of what cannot be opened by its path."""

import os

from core.sealed_folder import SealedFolder


def test_a_folder_too_deep_for_a_path_is_sealed_as_far_as_it_can_be_looked_at(tmp_path):
    top = tmp_path / "top"
    top.mkdir()
    (top / "file").write_text("one")
    here = os.open(top, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=here)
        os.close(os.open("f" * 200, os.O_CREAT | os.O_WRONLY, dir_fd=here))
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    sealed = SealedFolder(top, tmp_path / "record.json")

    sealed.seal()

    assert sealed.compare().paths == ()
    (top / "file").write_text("other")
    assert sealed.compare().changed == ("file",)
