import os

from hypothesis import given
from hypothesis import strategies as st

from compute.adapters.local.shim import TAG_PREFIXES, BoundedLog

lines = st.one_of(
    st.binary(max_size=40).map(lambda text: text.replace(b"\n", b" ")),
    st.binary(max_size=40).map(lambda text: b"::nearline " + text.replace(b"\n", b" ")),
    st.just(b"cnvrg_tag_a: 1"),
)


def write(path, pieces, limit):
    path.unlink(missing_ok=True)
    log = BoundedLog(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), limit)
    for piece in pieces:
        log.write(piece)
    log.close()
    return path.read_bytes(), log.dropped_bytes


@given(printed=st.lists(lines, max_size=40), cuts=st.lists(st.integers(1, 60), min_size=1), limit=st.integers(1, 400))
def test_no_metric_is_lost_however_the_output_arrives(tmp_path_factory, printed, cuts, limit):
    path = tmp_path_factory.getbasetemp() / "log"
    data = b"".join(line + b"\n" for line in printed)
    pieces, rest, turn = [], data, 0
    while rest:
        size = cuts[turn % len(cuts)]
        pieces, rest, turn = [*pieces, rest[:size]], rest[size:], turn + 1

    kept, dropped = write(path, pieces, limit)

    assert [line for line in kept.split(b"\n") if line.startswith(TAG_PREFIXES)] == [
        line for line in printed if line.startswith(TAG_PREFIXES)
    ]
    if len(data) <= limit:
        assert (kept, dropped) == (data, 0)
    else:
        body = kept.rpartition(b"\n[nearline] ")[0] if dropped else kept
        assert len(body) + dropped == len(data)


def test_a_line_without_an_end_is_dropped_in_bounded_memory(tmp_path):
    kept, dropped = write(tmp_path / "log", [b"x" * 65536] * 64, 1000)

    assert dropped == 64 * 65536
    assert len(kept) < 200


def test_what_was_in_the_file_counts(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"[nearline] A note.\n")
    log = BoundedLog(os.open(path, os.O_WRONLY | os.O_APPEND), 25)

    log.write(b"one\ntwo\nthree\n")
    log.close()

    assert path.read_bytes().startswith(b"[nearline] A note.\none\n\n[nearline] 10 bytes of output are not kept")
