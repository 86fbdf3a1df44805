"""Commits, what differs between two of them, going back, and names that move."""

import re

import pytest

from datasets.models import Branch, Commit, Tag
from datasets.services import branches
from tests.apps.datasets.web.test_files_page import picture
from tests.factories.datasets import commit_files
from tests.markup import flat

pytestmark = pytest.mark.django_db

PAGE = "/datasets/team-a/xrays/"
MINUS = "\N{MINUS SIGN}"


@pytest.fixture
def history(member, dataset) -> list[Commit]:
    """Three commits: everything new; one of each kind of change; a change of a mode."""
    one = {"a.txt": b"1\n2\n3\n", "b.txt": b"b", "p.png": picture(), "same": b"same", "big": b"x" * 70_000}
    two = {"a.txt": b"1\ntwo\n3\n", "c.txt": b"c", "p.png": picture("RGB"), "same": b"same", "big": b"y" * 70_000}
    three = {**two, "same": (b"same", 0o755)}
    made = [(one, "One"), (two, "Two"), (three, "Three")]
    return [commit_files(member, dataset, files, message=message) for files, message in made]


def compare(browser, query: str) -> str:
    answer = browser.get(f"{PAGE}compare/?{query}")
    assert answer.status_code == 200, answer.content.decode()
    return flat(answer.content.decode())


def changes(page: str) -> list[tuple[str, str]]:
    rows = re.findall(r'<span class="(?:plus|minus|tilde)">(.) (?:added|removed|changed).*?&amp;file=([^&#"]+)', page)
    return [(sign, name) for sign, name in rows]


def test_two_commits_differ_by_kind(browser, history):
    pair = f"base={history[0].short}&ref={history[1].short}"

    assert changes(compare(browser, pair)) == [
        ("~", "a.txt"), (MINUS, "b.txt"), ("~", "big"), ("+", "c.txt"), ("~", "p.png"),
    ]  # fmt: skip
    assert changes(compare(browser, f"{pair}&kind=added")) == [("+", "c.txt")]
    assert changes(compare(browser, f"{pair}&kind=removed")) == [(MINUS, "b.txt")]


def test_the_first_commit_is_compared_with_nothing(browser, history):
    page = compare(browser, f"ref={history[0].short}")

    assert [sign for sign, _ in changes(page)] == ["+"] * 5


def test_two_marked_commits_are_compared_the_older_first(browser, history):
    page = compare(browser, f"pick={history[2].id}&pick={history[0].id}")

    assert f'<option value="{history[0].id}" selected>' in page
    assert ("~", "same") in changes(page)


def test_the_lines_of_a_text_and_both_sides_of_a_picture_are_shown(browser, history):
    pair = f"base={history[0].short}&ref={history[1].short}"

    lines = compare(browser, f"{pair}&file=a.txt")
    sides = compare(browser, f"{pair}&file=p.png")

    assert '<tr class="removed"><td class="no">2</td><td class="no"></td>' in lines
    assert '<td class="text">two</td>' in lines
    assert sides.count("&amp;large") == 2


def test_a_picture_that_was_added_or_removed_is_shown_on_its_one_side(browser, member, dataset):
    with_picture = commit_files(member, dataset, {"p.png": picture()})
    without = commit_files(member, dataset, {"a.txt": b"a"})

    added = compare(browser, f"ref={with_picture.id}&file=p.png")
    removed = compare(browser, f"ref={without.id}&file=p.png")

    assert re.findall(r'<figure><(img|span).*?<figcaption class="sub small">(\w+)( ·)?', added) == [
        ("span", "Before", ""),
        ("img", "After", " ·"),
    ]
    assert re.findall(r'<figure><(img|span).*?<figcaption class="sub small">(\w+)( ·)?', removed) == [
        ("img", "Before", " ·"),
        ("span", "After", ""),
    ]


@pytest.mark.parametrize(("file", "words"), [("big", "longer than 64 KiB"), ("same", "only its permissions changed")])
def test_what_cannot_be_shown_line_by_line_says_why(browser, history, file, words):
    assert words in compare(browser, f"base={history[0].short}&ref={history[2].short}&file={file}")


def test_pages_of_a_comparison_follow_each_other(browser, history, monkeypatch):
    from datasets.web import compare as module

    monkeypatch.setattr(module, "_ROWS", 2)
    query, seen = f"base={history[0].id}&ref={history[1].id}", []
    while query:
        page = compare(browser, query)
        seen += [name for _, name in changes(page)]
        found = re.search(r'rel="next" href="\?([^"]+)"', page)
        query = found[1].replace("&amp;", "&") if found else ""

    assert seen == ["a.txt", "b.txt", "big", "c.txt", "p.png"]


def test_a_kind_that_is_none_is_refused(browser, history):
    assert browser.get(f"{PAGE}compare/?kind=moved").status_code == 400


def test_more_commits_cost_no_more_queries(browser, member, dataset, history, count_queries):
    few = count_queries(browser, f"{PAGE}commits/")
    for number in range(10):
        commit_files(member, dataset, {"a": str(number).encode()})

    assert count_queries(browser, f"{PAGE}commits/") == few


def test_the_dialog_says_what_going_back_does_and_does_it(browser, dataset, history):
    dialog = flat(browser.get(f"{PAGE}commits/{history[0].id}/?what=revert").content.decode())
    browser.post(f"{PAGE}commits/{history[0].id}/revert/", {"branch": "main", "message": "Back to one"})

    # Against what is there now: b.txt comes back, c.txt goes, four files change.
    assert f'<span class="plus">+1</span><span class="minus">{MINUS}1</span><span class="tilde">~4</span>' in dialog
    head = Branch.objects.get(dataset=dataset).head
    assert (head.root, head.message, head.parent_id) == (history[0].root, "Back to one", history[2].id)


def test_the_newest_commit_has_nothing_to_go_back_to(browser, history):
    dialog = browser.get(f"{PAGE}commits/{history[2].id}/?what=revert").content.decode()

    assert "there is nothing to revert" in dialog


def test_a_commit_gets_a_tag_by_the_dialog(browser, history):
    browser.post(f"{PAGE}names/create/", {"kind": "tag", "label": "v1", "at": history[0].id})

    assert list(Tag.objects.values_list("name", "commit_id")) == [("v1", history[0].id)]


def test_a_branch_moves_to_a_commit_and_an_old_page_moves_nothing(browser, member, dataset, history):
    branches.create_branch(actor=member, dataset=dataset, name="side", at=history[0].id)
    form = {"label": "side", "expected": history[0].id, "at": history[1].short}

    first, second = (browser.post(f"{PAGE}names/move/", form) for _ in range(2))

    assert (first.status_code, second.status_code) == (302, 409)
    assert Branch.objects.get(dataset=dataset, name="side").head_id == history[1].id


def test_the_default_branch_is_chosen_in_the_settings(browser, member, dataset, history):
    branches.create_branch(actor=member, dataset=dataset, name="side", at=history[0].id)

    browser.post(f"{PAGE}settings/", {"description": "", "kind": "images", "default_branch": "side"})

    dataset.refresh_from_db()
    assert dataset.default_branch == "side"


def test_a_merge_shows_both_versions_and_takes_the_choices_of_the_page(browser, member, dataset):
    base = {"a.txt": b"1\n2\n", "p.png": picture(), "odd\n\udcff": b"1"}
    first = commit_files(member, dataset, base)
    branches.create_branch(actor=member, dataset=dataset, name="side", at=first.pk)
    theirs = commit_files(member, dataset, dict.fromkeys(base, b"theirs"), branch="side")
    ours = commit_files(member, dataset, base | {"a.txt": b"1\nours\n", "p.png": picture("RGB")})

    page = flat(browser.get(f"{PAGE}merge/?source=side&file=a.txt").content.decode())
    sides = flat(browser.get(f"{PAGE}merge/?source=side&file=p.png").content.decode())
    fields = {"source": "side", "into": "main", "expected_source": theirs.pk, "expected_head": ours.pk}
    undecided = browser.post(f"{PAGE}merge/now/", fields)
    half = browser.post(f"{PAGE}merge/now/", fields | {f"keep-{b'a.txt'.hex()}": "both", "message": "Both sides"})
    made = browser.post(
        f"{PAGE}merge/now/", fields | {f"keep-{b'a.txt'.hex()}": "both", f"keep-{b'p.png'.hex()}": "theirs"}
    )
    late = browser.post(f"{PAGE}merge/now/", fields | {"otherwise": "ours"})

    assert '<td class="text">ours</td><td class="no">1</td><td class="text">theirs</td>' not in page
    assert '<td class="text">ours</td>' in page
    assert '<td class="text">theirs</td>' in page
    assert f"?ref={ours.pk}&amp;path=p.png&amp;large" in sides
    assert flat(undecided.content.decode()).count("Choose one") == 2
    assert "2 files changed on both sides have no choice yet." in flat(undecided.content.decode())
    refused = flat(half.content.decode())
    assert "1 file changed on both sides has no choice yet." in refused
    assert refused.count("Choose one") == 1
    assert '<option value="both" selected>both</option>' in refused
    assert 'value="Both sides"' in refused
    assert "--resolve" not in refused
    assert (undecided.status_code, made.status_code, late.status_code) == (409, 302, 409)
    head = Branch.objects.get(dataset=dataset, name="main").head
    assert (head.parent, head.merged, head.files) == (ours, theirs, 4)


def test_a_merge_of_a_branch_that_has_moved_is_shown_as_it_is_now_with_what_was_chosen(browser, member, dataset):
    first = commit_files(member, dataset, {"a.txt": b"1", "b.txt": b"1"})
    branches.create_branch(actor=member, dataset=dataset, name="side", at=first.pk)
    seen = commit_files(member, dataset, {"a.txt": b"theirs", "b.txt": b"1"}, branch="side")
    ours = commit_files(member, dataset, {"a.txt": b"ours", "b.txt": b"ours"})
    newest = commit_files(member, dataset, {"a.txt": b"theirs", "b.txt": b"theirs"}, branch="side")

    answer = browser.post(
        f"{PAGE}merge/now/",
        {
            "source": "side",
            "into": "main",
            "expected_source": seen.pk,
            "expected_head": ours.pk,
            "message": "Both sides",
        }
        | {f"keep-{b'a.txt'.hex()}": "both", "otherwise": "theirs"},
    )

    page = flat(answer.content.decode())
    assert answer.status_code == 409
    assert "There is a newer commit on one of both since you looked." in page
    assert f'name="expected_source" value="{newest.pk}"' in page
    assert "2 files changed on both sides" in page
    assert '<option value="both" selected>both</option>' in page
    assert '<option value="theirs" selected>the version of side</option>' in page
    assert 'value="Both sides"' in page
    assert "Choose one" not in page
    assert Branch.objects.get(dataset=dataset, name="main").head == ours


def test_a_merge_page_says_what_is_in_the_way_of_a_file_and_gives_a_command_for_any_folder(browser, member, dataset):
    first = commit_files(member, dataset, {"a.txt": b"1"})
    branches.create_branch(actor=member, dataset=dataset, name="side", at=first.pk)
    commit_files(member, dataset, {"a.txt": b"1", "extra/new.txt": b"theirs"}, branch="side")
    commit_files(member, dataset, {"a.txt": b"1", "extra": b"ours"})

    page = flat(browser.get(f"{PAGE}merge/?source=side").content.decode())

    assert "main has a file or folder in its place, which goes if side is kept" in page
    assert f"nearline data merge side --into main --dataset {dataset.project.name}/{dataset.name}" in page
