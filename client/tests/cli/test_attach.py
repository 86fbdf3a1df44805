"""Attaching a host by a file with its key: what is no key is refused before anything is sent."""

import pytest


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.mkdir(), "cannot be read: Is a directory."),
        (lambda path: None, "cannot be read: No such file or directory."),
        (lambda path: path.write_bytes(b"\xff\xfe"), "is no text file."),
        (lambda path: path.write_bytes(b"\n"), "is empty."),
        (lambda path: path.symlink_to("/dev/zero"), "is larger than 64 KiB, which no key or kubeconfig is."),
    ],
)
def test_a_file_that_is_no_key_is_named_with_its_fault(cli, server, tmp_path, make, words):
    path = tmp_path / "key"
    make(path)

    done = cli("compute", "attach", "gpu-7", "--ssh", "me@host", "--key", str(path))

    assert done.exit_code == 2
    assert f"'{path}' {words}" in done.stderr.replace("\n", " ")
    assert server.asked == []
