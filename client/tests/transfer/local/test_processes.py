"""Tasks are done once each, in another process where it can be, and here where it ends or fails."""

import os

import pytest

from nearline.transfer.local.processes import count_useful, share

OS = "__import__('os')"


@pytest.fixture
def pipe(tmp_path):
    """A place where two processes wait for each other."""
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_another_process_takes_what_this_one_has_not_begun(pipe):
    here = []

    def wait_for_the_other(task):
        here.append(task)
        pipe.read_bytes()
        return os.getpid()

    code = f"[open({str(pipe)!r}, 'w').close(), {OS}.getpid()][1]"
    results = share([code, code], wait_for_the_other, eval, 2)

    assert here == [code]
    assert os.getpid() in results
    assert len(set(results)) == 2


@pytest.mark.parametrize("end", ["1 / 0", "exit()", f"{OS}._exit(0)", f"{OS}.kill({OS}.getpid(), 9)"])
def test_what_ends_another_process_is_done_here(pipe, end):
    here = []

    def wait_once(task):
        if not here:
            pipe.read_bytes()
        here.append(task)
        return task

    tasks = [f"[open({str(pipe)!r}, 'w').close(), {end}, {number}]" for number in range(2)]

    assert share(tasks, wait_once, eval, 2) == tasks
    assert sorted(here) == tasks


def test_an_error_here_is_raised_and_no_process_stays(pipe):
    others = []

    def wait_and_fail(_):
        others.append(int(pipe.read_text()))
        raise ValueError("here")

    code = f"__import__('pathlib').Path({str(pipe)!r}).write_text(str({OS}.getpid()))"
    with pytest.raises(ValueError, match="here"):
        share([code] * 2, wait_and_fail, eval, 2)

    [other] = others
    with pytest.raises(ProcessLookupError):
        os.kill(other, 0)


def test_little_work_is_not_shared():
    assert count_useful(99_999) == 1
