"""Whatever a job has left in a folder, it can be removed, and what it links to stays."""

import os

from core.removals import remove_folder


def test_a_folder_goes_with_links_pipes_and_closed_folders_and_what_is_linked_to_stays(tmp_path):
    top, other = tmp_path / "top", tmp_path / "other"
    for folder in (top / "a" / "b", top / "closed" / "inner", other):
        folder.mkdir(parents=True)
    (other / "file").write_text("stays")
    (top / "closed" / "inner" / "file").touch()
    (top / "closed").chmod(0)
    (top / "to-folder").symlink_to(other)
    (top / "a" / "broken").symlink_to("nowhere")
    os.mkfifo(top / "a" / "b" / "pipe")

    remove_folder(top)

    assert not top.exists()
    assert (other / "file").read_text() == "stays"


def test_a_folder_goes_whatever_the_number_of_its_levels(tmp_path):
    top = tmp_path / "top"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(2500):  # more than a path can name, and than Python has frames
        os.mkdir("d", dir_fd=here)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)

    remove_folder(str(top))

    assert not top.exists()


def test_what_is_no_folder_or_not_there_stays_so(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.touch()
    (tmp_path / "folder").mkdir()
    link.symlink_to("folder")

    for path in (file, link, tmp_path / "missing"):
        remove_folder(path)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "link"]
