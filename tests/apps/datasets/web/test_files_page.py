"""The files page: folders, filters, previews, small pictures, and editing of paths."""

import io
import json
import re
import wave

import pytest
from PIL import Image

from core.units import format_bytes
from datasets.adapters.opening import open_dataset_store
from datasets.engine.layout import pack_key
from datasets.models import Branch, Commit
from datasets.services import packs
from tests.engine.datasets.test_parquet_footer import FILE as PARQUET
from tests.factories.browsers import browser_of
from tests.factories.datasets import commit_files
from tests.markup import flat

pytestmark = pytest.mark.django_db

PAGE = "/datasets/team-a/xrays/"


def picture(mode: str = "L", size: tuple[int, int] = (300, 200), kind: str = "PNG") -> bytes:
    made, out = Image.new(mode, size, 7), io.BytesIO()
    made.save(out, kind)
    return out.getvalue()


def sound() -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(b"\0\0" * 100)
    return out.getvalue()


FILES = {
    "README.md": b"# Digits\nsecond <b>line</b>\n",
    "labels.csv": b"file,label\n1.png,3\n",
    "meta.json": b'{"b":{"c":1},"a":2}',
    "broken.json": b"{",
    "deep.json": b"[" * 100_000,
    "scan.tif": picture("I;16", kind="TIFF"),
    "tone.wav": sound(),
    "weights.bin": b"\0\1\2",
    "broken.parquet": b"PAR1PAR1",
    "columns.parquet": PARQUET,
    "train/1.png": picture(),
    "train/2.png": picture(),
}


@pytest.fixture
def first(member, dataset) -> Commit:
    return commit_files(member, dataset, FILES, message="First import")


def page_of(browser, query: str = "") -> str:
    answer = browser.get(f"{PAGE}{query}")
    assert answer.status_code == 200, answer.content.decode()
    return answer.content.decode()


def test_a_row_says_which_commit_changed_it_last(browser, member, dataset, first):
    second = commit_files(member, dataset, {**FILES, "README.md": b"# Other"}, message="Edit the readme")

    page = page_of(browser)

    row = page[page.index(">README.md<") :][:900]
    assert second.short in row
    assert "Edit the readme" in row
    assert first.short in page[page.index(">labels.csv<") :]


def test_the_commit_that_is_shown_is_the_one_that_is_offered_to_be_cached(browser, member, dataset, first):
    newest = commit_files(member, dataset, {"a.txt": b"newer"})

    before = browser.get(f"/datasets/team-a/xrays/?ref={first.id}").content.decode()
    now = browser.get("/datasets/team-a/xrays/").content.decode()

    assert f"/commits/{first.id}/cache/" in before
    assert f"/commits/{newest.id}/cache/" not in before
    assert f"/commits/{newest.id}/cache/" in now


def test_the_heading_of_a_folder_says_how_much_is_in_it(browser, first):
    assert f"2 files · {format_bytes(2 * len(picture()))}" in page_of(browser, "?path=train")


def test_a_folder_of_pictures_is_shown_as_thumbnails_until_asked_otherwise(browser, first):
    assert 'class="thumbs"' in page_of(browser, "?path=train")
    assert 'class="thumbs"' not in page_of(browser, "?path=train&view=list")


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("README.md", '<span class="line">second &lt;b&gt;line&lt;/b&gt;</span>'),
        ("labels.csv", '<td class="small">1.png</td>'),
        ("meta.json", '<span class="line">  &quot;b&quot;: {</span>'),
        ("broken.json", '<span class="line">{</span>'),
        ("deep.json", "Only the beginning is shown."),
        ("scan.tif", "300 \N{MULTIPLICATION SIGN} 200, 16 bit grey"),
        ("tone.wav", "<audio controls"),
        ("weights.bin", "There is no preview"),
        ("broken.parquet", "There is no preview"),
        ("columns.parquet", '<td class="small break">box.x</td><td class="small">double</td>'),
        ("train/1.png", "300 \N{MULTIPLICATION SIGN} 200, 8 bit grey"),
    ],
)
def test_a_file_is_previewed_as_what_it_is(browser, first, file, expected):
    assert flat(expected) in flat(page_of(browser, f"?file={file}"))


def test_a_pattern_finds_files_in_every_folder(browser, first):
    page = page_of(browser, "?glob=*.png&view=list")

    assert re.findall(r"file=([^&]+)&amp;view=list", page) == ["train/1.png", "train/2.png"]


def test_pages_of_a_folder_cost_the_same_queries(browser, member, dataset, count_queries):
    commit_files(member, dataset, {"a.txt": b"a"})
    few = count_queries(browser, PAGE)
    commit_files(member, dataset, {f"{number:03}.txt": b"a" for number in range(300)})

    # One more, for each commit that is looked back at.
    assert count_queries(browser, PAGE) <= few + 1


@pytest.mark.parametrize(("file", "size"), [("train/1.png", (224, 149)), ("scan.tif", (224, 149))])
def test_a_thumbnail_is_a_small_picture_of_ours(browser, first, file, size):
    answer = browser.get(f"{PAGE}thumbnail/?ref={first.id}&path={file}")

    assert answer["Content-Type"] == "image/webp"
    assert "immutable" in answer["Cache-Control"]
    assert answer["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert Image.open(io.BytesIO(answer.content)).size == size


@pytest.mark.parametrize("file", ["README.md", "weights.bin"])
def test_what_is_no_picture_has_no_thumbnail(browser, first, file):
    answer = browser.get(f"{PAGE}thumbnail/?path={file}")

    assert (answer.status_code, answer.content) == (204, b"")


def test_a_picture_that_claims_to_be_huge_is_not_decoded(browser, member, dataset):
    small = picture("1", (9, 9), "BMP")
    huge = small[:18] + (60_000).to_bytes(4, "little") * 2 + small[26:]
    commit_files(member, dataset, {"bomb.bmp": huge})

    assert browser.get(f"{PAGE}thumbnail/?path=bomb.bmp").status_code == 204


def test_a_sound_plays_from_where_the_player_asks(browser, first):
    answer = browser.get(f"{PAGE}content/?path=tone.wav&show", headers={"Range": "bytes=4-7"})

    assert (answer.status_code, answer["Content-Type"]) == (206, "audio/wav")
    assert b"".join(answer.streaming_content) == FILES["tone.wav"][4:8]


def test_a_path_is_renamed_and_removed_by_a_commit_each(browser, member, dataset, first):
    renamed = browser.post(
        f"{PAGE}edit/rename/?path=train", {"branch": "main", "head": first.id, "to": "images", "message": ""}
    )
    head = Branch.objects.get(dataset=dataset).head
    removed = browser.post(f"{PAGE}edit/remove/?path=README.md", {"branch": "main", "head": head.id})

    assert renamed.headers["Location"] == f"{PAGE}?ref=main&path="
    assert removed.status_code == 302
    assert list(Commit.objects.order_by("created_at").values_list("message", "source")) == [
        ("First import", "cli"),
        ("Rename train to images", "web"),
        ("Remove README.md", "web"),
    ]
    assert "images" in page_of(browser)


def test_an_edit_on_an_old_page_changes_nothing_and_says_so(browser, member, dataset, first):
    commit_files(member, dataset, {"a": b"a"})

    answer = browser.post(f"{PAGE}edit/remove/?path=README.md", {"branch": "main", "head": first.id})

    assert (answer.status_code, Commit.objects.count()) == (409, 2)
    assert "has moved on" in answer.content.decode()


def test_a_viewer_is_offered_no_change(viewer, first):
    page = page_of(browser_of(viewer), "?file=README.md")

    assert "Rename or delete" not in page
    assert "upload-panel" not in page


def test_a_tag_shows_files_that_cannot_be_edited_and_uploads_go_to_the_default_branch(browser, first):
    page = page_of(browser, f"?ref={first.id}&file=README.md")

    assert "Rename or delete" not in page
    assert 'data-branch="main"' in page


def test_a_dataset_without_a_commit_says_how_to_bring_one(browser, dataset):
    page = page_of(browser)

    assert "No commit yet" in page
    assert "upload-panel" in page
    assert json.dumps("nearline data link team-a/xrays")[1:-1] in page


def test_a_dataset_that_is_damaged_in_the_store_says_which_files_and_what_heals_them(browser, dataset, first):
    assert "damaged in the store" not in page_of(browser)
    store = open_dataset_store(dataset)
    pack = dataset.packs.get()
    store.put(pack_key(pack.sha256), b"other bytes")
    packs.check_all_packs(dataset)

    page = flat(page_of(browser))

    assert "1 pack of this dataset is damaged in the store." in page
    assert f"{len(FILES)} files of the newest commit cannot be read" in page
    assert '<span class="mono">README.md</span>,<span class="mono">broken.json</span>' in page
    assert f"and {len(FILES) - 5} more" in page
    assert "nearline data damage team-a/xrays" in page
