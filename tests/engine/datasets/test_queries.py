"""What a saved query selects of a tree, and which conditions make a query."""

import pytest

from datasets.engine import browse
from datasets.engine.browse import SelectedSum, TreeView
from datasets.engine.file_tags import BadTagList, find_tagged
from datasets.engine.queries import BadQuery, CompiledQuery, Conditions, check
from datasets.engine.range_names import join_names
from nearline.content.manifest import read_range
from tests.engine.datasets.test_parquet_columns import PLAIN as PARQUET
from tests.factories.datasets import PackedTree

FILES = {
    "labels.csv": b"x" * 50,
    "test/a.png": b"x" * 10,
    "train/a.PNG": b"x" * 20,
    "train/b.jpg": b"x" * 30,
    "train/deep/Lung_01.png": b"x" * 40,
}


def view(files=FILES) -> TreeView:
    packed = PackedTree(files)

    def load(range_id):
        return read_range(packed.tree.objects[range_id]).entries

    return TreeView(packed.tree.ranges, load, lambda range_id: join_names(load(range_id).paths))


def selected(tagged=None, **conditions) -> list[str]:
    query = CompiledQuery(Conditions(**conditions), tagged)
    found = list(view().select(query))
    entries = [entry for row, paths in found for entry in view().load_entries(row, paths)]
    assert view().sum_selected(query) == SelectedSum(
        len(entries), sum(len(FILES[entry.path.decode()]) for entry in entries), is_complete=True
    )
    assert [[entry.path for entry in view().load_entries(row, paths)] for row, paths in found] == [p for _, p in found]
    return [path.decode() for _, paths in found for path in paths]


@pytest.mark.parametrize(
    ("conditions", "paths"),
    [
        ({"globs": ("train/*",)}, ["train/a.PNG", "train/b.jpg"]),
        ({"globs": ("test/**", "*.csv")}, ["labels.csv", "test/a.png"]),
        ({"contains": "LUNG"}, ["train/deep/Lung_01.png"]),
        ({"regex": r"^t\w+/[ab]\.(png|jpg)$"}, ["test/a.png", "train/b.jpg"]),
        ({"types": ("png",)}, ["test/a.png", "train/a.PNG", "train/deep/Lung_01.png"]),
        ({"types": (".jpg", "csv")}, ["labels.csv", "train/b.jpg"]),
        ({"min_size_bytes": 20, "max_size_bytes": 40}, ["train/a.PNG", "train/b.jpg", "train/deep/Lung_01.png"]),
        ({"types": ("png",), "globs": ("train/**",), "max_size_bytes": 20}, ["train/a.PNG"]),
        ({"globs": ("none/**",)}, []),
    ],
)
def test_a_file_is_selected_that_meets_every_condition(conditions, paths):
    assert selected(**conditions) == paths


def test_tags_name_a_file_by_its_path_or_by_its_name_alone():
    tagged = frozenset([b"a.png", b"train/b.jpg", b"deep/Lung_01.png"])

    assert selected(tagged, types=("png", "jpg")) == ["test/a.png", "train/b.jpg"]


def test_what_a_query_selects_of_a_large_tree_is_summed_up_as_far_as_is_cheap(monkeypatch):
    monkeypatch.setattr(browse, "_SUM_BUDGET", 0)

    assert view().sum_selected(CompiledQuery(Conditions(types=("png",)))) == SelectedSum(0, 0, is_complete=False)


def test_pages_together_are_the_selection():
    query = CompiledQuery(Conditions(types=("png", "csv")))
    paths, position = [], None
    while True:
        page = view().list_selected(query, resume_at=position, limit=1)
        paths += [item.path for item in page.items]
        position = page.resume_at
        if position is None:
            break

    assert paths == [b"labels.csv", b"test/a.png", b"train/a.PNG", b"train/deep/Lung_01.png"]


@pytest.mark.parametrize(
    "conditions",
    [
        {},
        {"tags_file": "tags.csv"},
        {"globs": ("",)},
        {"globs": ("a",) * 21},
        {"contains": "a" * 501},
        {"contains": "a\nb"},
        {"regex": "("},
        {"min_size_bytes": 2, "max_size_bytes": 1},
        {"min_size_bytes": -1},
    ],
)
def test_conditions_that_make_no_query_are_refused(conditions):
    with pytest.raises(BadQuery):
        check(Conditions(**conditions))


def test_conditions_survive_json_and_say_what_they_select():
    conditions = Conditions(globs=("a/**", "b/**"), max_size_bytes=5000, file_tags=("label=lung",), tags_file="t.csv")

    assert Conditions.from_json(conditions.to_json()) == conditions
    assert conditions.describe() == "a/** or b/**, at most 5.0 kB, tagged label=lung, by t.csv"


CSV = b"\xef\xbb\xbfImage Index,Finding Labels,view\na.png,Mass|Edema,PA\nb.png,Edema,\n"
YAML = b"a.png: [Mass, {x: y}]\n"


def test_a_csv_names_files_in_its_first_column_and_tags_by_the_others():
    assert find_tagged(b"labels.csv", CSV, ["Finding Labels=Edema"]) == {b"a.png", b"b.png"}
    assert find_tagged(b"labels.csv", CSV, ["Finding Labels=Edema", "view=PA"]) == {b"a.png"}


def test_the_column_of_paths_may_stand_anywhere():
    assert find_tagged(b"tags.csv", b"split,path\ntrain,x/a.png\n", ["split=train"]) == {b"x/a.png"}


def test_a_yaml_maps_files_to_a_text_a_list_or_a_mapping():
    text = b"a.png: reviewed\nb.png: [reviewed, blurred]\nc.png: {label: [Mass, Edema], reviewed: true}\n"

    assert find_tagged(b"tags.yaml", text, ["reviewed"]) == {b"a.png", b"b.png"}
    assert find_tagged(b"tags.yaml", text, ["label=Edema", "reviewed=true"]) == {b"c.png"}


@pytest.mark.parametrize(
    ("tags", "paths"),
    [
        (["label=Mass"], {b"x/a.png"}),
        (["view=PA"], {b"x/a.png", b"c.png"}),
        (["view=PA", "seen=true", "grade=1"], {b"x/a.png"}),
        (["label=None"], set()),
        (["nothing=PA"], set()),
    ],
)
def test_a_parquet_file_names_files_in_the_column_of_paths_and_tags_by_the_others(tags, paths):
    assert find_tagged(b"Tags.Parquet", PARQUET, tags) == paths


@pytest.mark.parametrize(
    ("path", "data"),
    [
        (b"tags.parquet", b""),
        (b"tags.parquet", PARQUET[:-1]),
        (b"tags.csv", b""),
        (b"tags.csv", b"path,a\n" + b"x" * 200_000),
        (b"tags.yaml", b"- a\n"),
        (b"tags.yaml", b"a: [\n"),
        (b"tags.yaml", YAML),
        (b"tags.yaml", b"a: " + b"[" * 100_000),
        (b"tags.yaml", b"a: &a [t]\nb: *a\n"),
        (b"tags.yaml", b"? [a]\n: b\n"),
        (b"tags.yaml", b"a: {[b]: c}\n"),
    ],
)
def test_what_is_no_list_of_tags_is_refused(path, data):
    with pytest.raises(BadTagList):
        find_tagged(path, data, ["t"])
