"""Logs that are too long to be read from their start: the end of them, the parts before, and searching all of it."""

import pytest
from django.conf import settings
from django.test import Client

from accounts.errors import ProjectNotFound
from accounts.models import User
from accounts.permissions import Role
from compute.selectors import jobs, logs
from core.errors import InvalidInput
from tests.factories import compute as make
from tests.factories.browsers import browser_of

LINES = [f"line {number}: \N{LATIN SMALL LETTER U WITH DIAERESIS}ber\n" for number in range(1000)]
WHOLE = "".join(LINES).encode()


@pytest.fixture
def job(project, template, driver):
    [job] = make.submit(project, template, "train")
    make.start([job])
    job.refresh_from_db()
    driver.print("train", WHOLE.decode())
    return job


def before(viewer, job, place, limit=1000):
    return logs.read_before(actor=viewer, job=job, before=place, limit=limit)


def test_a_log_opens_at_its_last_whole_lines(viewer, job):
    part = before(viewer, job, None)

    assert part.text.text == WHOLE[part.offset :].decode()
    assert part.text.text.startswith("line ")
    assert (part.text.next_offset, part.text.size_bytes, part.text.is_complete) == (len(WHOLE), len(WHOLE), False)


def test_going_up_part_by_part_reads_the_whole_log_once(viewer, job):
    texts, place = [], None
    while place != 0:
        part = before(viewer, job, place)
        texts.insert(0, part.text.text)
        assert len(part.text.text.encode()) <= 1000
        place = part.offset

    assert "".join(texts).encode() == WHOLE


def test_going_down_part_by_part_reads_whole_lines_and_all_of_them_once(viewer, job):
    texts, place = [], 0
    while place < len(WHOLE):
        part = logs.read_part(actor=viewer, job=job, offset=place, limit=1000)
        texts.append(part.text.text)
        place = part.text.next_offset

    assert "".join(texts).encode() == WHOLE
    assert all(text.endswith("\n") for text in texts)


def test_a_line_longer_than_a_part_is_cut_between_characters(viewer, job, driver):
    driver.jobs.logs["train"] = "\N{EURO SIGN}".encode() * 1000

    texts, place = [], None
    while place != 0:
        part = before(viewer, job, place, limit=100)
        texts.insert(0, part.text.text)
        place = part.offset

    assert "".join(texts) == "\N{EURO SIGN}" * 1000


def test_a_text_is_found_wherever_it_is(viewer, job, monkeypatch):
    monkeypatch.setattr(jobs, "MAX_LOG_BYTES", 64)

    found = logs.find_in_log(actor=viewer, job=job, text="LINE 77")

    expected = [number for number in range(1000) if str(number).startswith("77")]
    assert found.count == len(expected)
    assert [WHOLE[place:].split(b":")[0].decode() for place in found.offsets] == [f"line {n}" for n in expected]


def test_only_the_last_places_are_told_and_all_are_counted(viewer, job, monkeypatch):
    monkeypatch.setattr(logs, "MOST_PLACES", 10)

    found = logs.find_in_log(actor=viewer, job=job, text="line")

    assert found.count == 1000
    assert [WHOLE[place:].split(b":")[0] for place in found.offsets] == [f"line {n}".encode() for n in range(990, 1000)]


@pytest.mark.parametrize("text", ["", "a" * 201])
def test_a_search_for_nothing_or_for_a_novel_is_refused(viewer, job, text):
    with pytest.raises(InvalidInput):
        logs.find_in_log(actor=viewer, job=job, text=text)


def test_strangers_can_neither_read_nor_search(job, make_actor):
    stranger = make_actor(None)

    with pytest.raises(ProjectNotFound):
        before(stranger, job, None)
    with pytest.raises(ProjectNotFound):
        logs.find_in_log(actor=stranger, job=job, text="line")


def test_the_page_reads_ends_beginnings_and_what_is_new(job, make_actor, driver):
    client = Client()
    reader = make_actor(Role.VIEWER, name="reader")
    client.force_login(User.objects.get(pk=reader.user_id), backend=settings.AUTHENTICATION_BACKENDS[0])

    last = client.get("/jobs/train/log/").json()
    driver.print("train", "news\n")
    news = client.get(f"/jobs/train/log/?offset={last['next_offset']}").json()
    first = client.get("/jobs/train/log/?before=20").json()

    assert last["text"].encode() == WHOLE
    assert (news["offset"], news["text"], news["size_bytes"]) == (len(WHOLE), "news\n", len(WHOLE) + 5)
    assert (first["offset"], first["text"]) == (0, WHOLE[:20].decode())
    assert client.get("/jobs/train/log/?before=-1").status_code == 400
    assert client.get("/jobs/train/log/places/?text=news").json() == {"count": 1, "offsets": [len(WHOLE)]}


OWN = '::nearline {"kind": "metric", "key": "secret-word", "value": 1}\n'


def test_the_platforms_own_lines_are_neither_shown_nor_found_but_are_in_the_download(viewer, job, driver):
    driver.print("train", OWN + "the end, secret-word\n" + OWN)
    log = WHOLE.decode() + OWN + "the end, secret-word\n" + OWN
    client = browser_of(viewer)

    def get(path: str):
        response = client.get(path)
        assert response.status_code == 200
        return response

    assert get("/jobs/train/log/").json()["text"].endswith("\nthe end, secret-word\n")
    assert "::nearline" not in get(f"/jobs/train/log/?offset={len(WHOLE)}").json()["text"]
    assert get(f"/jobs/train/log/?offset={len(WHOLE) + 20}").json()["text"] == "the end, secret-word\n"
    place = log.encode().index(b"secret-word\n")
    assert get("/jobs/train/log/places/?text=secret-word").json() == {"count": 1, "offsets": [place]}
    assert get(f"/api/v1/compute/jobs/train/log?offset={len(WHOLE)}").json()["text"] == "the end, secret-word\n"
    assert b"".join(get("/jobs/train/log.txt").streaming_content).decode() == log


def test_a_long_run_of_the_platforms_own_lines_does_not_end_the_log(viewer, job, driver):
    driver.print("train", OWN * 5000 + "after them\n")
    offset, texts = len(WHOLE), []

    while offset < len(WHOLE) + len(OWN) * 5000 + 11:
        part = logs.read_part(actor=viewer, job=job, offset=offset, limit=1000)
        assert part.text.next_offset > offset
        offset = part.text.next_offset
        texts.append(part.text.text)

    assert "".join(texts) == "after them\n"


def test_above_many_of_the_platforms_own_lines_what_was_printed_before_them_is_read_at_once(viewer, job, driver):
    hidden = b'::nearline {"kind": "metric", "key": "loss", "value": 0.5}\n' * 5000
    driver.jobs.logs["train"] = b"begun\n" + hidden

    part = before(viewer, job, None)

    assert (part.text.text, part.offset, part.text.next_offset) == ("begun\n", 0, len(hidden) + 6)
