"""The pages of experiments: what they show, and that they ask the database no more for many rows than for few."""

import csv
import io
import json
import math
import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from experiments.models import Artifact, Experiment, SavedView
from experiments.services import annotations
from flows.models import Run
from tests.factories.browsers import browser_of
from tests.factories.experiments import describe_training, keep_in_old_folder, make_experiments, make_run
from tests.markup import flat, read_form


@pytest.fixture
def client(member) -> Client:
    return browser_of(member)


def train(project, count: int, **options) -> list[Experiment]:
    return make_experiments(make_run(project), count, lambda index: describe_training(index, **options))


def queries(client: Client, path: str, **headers: str) -> int:
    client.get(path)  # what a process keeps from its first answer on
    with CaptureQueriesContext(connection) as captured:
        assert client.get(path, **{f"HTTP_{name}": value for name, value in headers.items()}).status_code == 200
    return len(captured)


@pytest.mark.parametrize(
    ("query", "exactly"),
    [
        ("project=team-a", 8),
        ("project=team-a&sort=-metrics.val_auc&q=params.lr+%3E+0&c=params.lr&c=metrics.val_auc", 8),
        ("project=team-a&group=params.lr", 7),
    ],
)
def test_the_table_costs_as_many_queries_for_many_rows_as_for_few(client, project, query, exactly):
    """Three of them ask who is there, one for the project; the page around the table has its own."""
    path = f"/experiments/?{query}"
    train(project, 2)
    few = queries(client, path)
    make_experiments(make_run(project, number=2), 60, lambda index: describe_training(index + 2))

    assert queries(client, path) == few
    assert queries(client, path, HX_REQUEST="true") == exactly


@pytest.mark.parametrize("path", ["/experiments/compare/?ids={ids}", "/experiments/points/?key=val_auc&ids={ids}",
                                  "/experiments/numbers/?key=val_auc&ids={ids}"])  # fmt: skip
def test_a_comparison_costs_as_many_queries_for_twenty_as_for_two(client, project, path):
    rows = train(project, 20, curve=10)

    counts = {queries(client, path.format(ids=",".join(row.pk for row in rows[:some]))) for some in (2, 20)}

    assert len(counts) == 1


def test_chosen_columns_stand_in_their_order_and_buttons_move_them(client, project):
    train(project, 2)

    page = client.get("/experiments/?c=metrics.val_auc&c=params.lr&project=team-a").content.decode()
    moved = client.get("/experiments/?c=metrics.val_auc&c=params.lr&project=team-a&up=params.lr")

    assert page.index('title="metrics.val_auc"') < page.index('title="params.lr"')
    assert moved["Location"] == "/experiments/?project=team-a&c=params.lr&c=metrics.val_auc"


def test_a_click_on_a_metric_shows_its_best_first_and_the_best_is_marked(client, project):
    train(project, 5)

    page = client.get("/experiments/?project=team-a&c=metrics.val_auc&c=metrics.val_loss").content.decode()

    assert "sort=-metrics.val_auc&amp;" in page
    assert "sort=metrics.val_loss&amp;" in page
    assert page.count('title="The best on this page"') == 2


def test_a_filter_that_cannot_be_read_is_shown_with_its_place(client, project):
    train(project, 1)

    answer = client.get("/experiments/", {"project": "team-a", "q": "params.lr > 0 and <b>"})

    page = answer.content.decode()
    assert answer.status_code == 200
    assert "At character 19" in page
    assert "params.lr &gt; 0 and <mark>&lt;b&gt;</mark>" in page
    assert "flows.invalid_filter" in page


@pytest.mark.parametrize("query", ["sort=nothing", "group=metrics.val_auc", "sort=-params."])
def test_an_address_that_cannot_be_read_says_so(client, project, query):
    answer = client.get(f"/experiments/?project=team-a&{query}")

    assert answer.status_code == 200
    assert "flows.invalid_column" in answer.content.decode()


def test_groups_lead_to_their_experiments(client, project):
    train(project, 12)

    page = client.get("/experiments/?project=team-a&group=params.optimizer&q=took+%3E+0").content.decode()

    assert "q=took+%3E+0+and+params.optimizer+%3D+%22adam%22" in page


def test_pages_follow_each_other(client, project):
    train(project, 60)

    first = client.get("/experiments/?project=team-a").content.decode()
    second = client.get("/experiments/?project=team-a&page=2").content.decode()

    assert "1 to 50 of 60" in first
    assert 'rel="next"' in first
    assert "51 to 60 of 60" in second
    assert second.count('name="ids"') == 10


def test_the_csv_holds_every_row_of_the_filter_and_no_formula(client, project):
    rows = train(project, 60)
    Experiment.objects.filter(pk=rows[0].pk).update(title="=1+1")

    answer = client.get("/experiments/csv/?project=team-a&sort=-metrics.val_auc&c=params.lr&c=metrics.val_auc")

    lines = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))
    assert len(lines) == 60
    measured = [float(line["metrics.val_auc"]) for line in lines if line["metrics.val_auc"]]
    assert measured == sorted(measured, reverse=True)
    assert [line["title"] for line in lines if line["id"] == rows[0].pk] == ["'=1+1"]
    assert {"state", "flow", "run", "took", "params.lr"} <= set(lines[0])


def test_a_view_is_saved_opened_renamed_and_deleted(client, project):
    answer = client.post(
        "/experiments/views/", {"project": "team-a", "name": "best", "query": "q=tags.best&c=params.lr"}
    )

    assert answer["Location"] == "/experiments/?project=team-a&q=tags.best&c=params.lr"
    page = client.get("/experiments/?project=team-a").content.decode()
    assert "/experiments/?project=team-a&amp;q=tags.best&amp;c=params.lr" in page
    view = SavedView.objects.get()
    assert f'data-opens="delete-view-{view.pk}"' in page
    assert "<b>best</b> is deleted for everybody in team-a." in page
    assert f'data-opens="rename-view-{view.pk}"' in page
    renamed = client.post(f"/experiments/views/{view.pk}/rename/", {"name": "the best"}, follow=True)
    assert "The view &#x27;best&#x27; is called &#x27;the best&#x27; now." in renamed.content.decode()
    client.post(f"/experiments/views/{SavedView.objects.get().pk}/delete/")
    assert not SavedView.objects.exists()


def test_a_refused_view_stands_in_its_dialog_with_the_reason(client, project):
    page, views = "http://testserver/experiments/?project=team-a&q=tags.best", "/experiments/views/"
    client.post(views, {"project": "team-a", "name": "best", "query": "q=tags.best"})
    client.post(views, {"project": "team-a", "name": "worst", "query": "q=tags.worst"})
    view, _ = SavedView.objects.order_by("name")
    rename = f"{views}{view.pk}/rename/"

    saved = client.post(views, {"project": "team-a", "name": " ", "query": "q=a"}, headers={"Referer": page})
    renamed = client.post(rename, {"name": "worst"}, headers={"Referer": page})

    assert (saved.status_code, renamed.status_code) == (422, 422)
    assert '<dialog id="save-view" data-opens-now' in saved.content.decode()
    assert f'<dialog id="rename-view-{view.pk}" data-opens-now' in renamed.content.decode()
    shown = {"query": "q=a", "project": "team-a", "name": " "}
    assert read_form(saved.content.decode(), views) == (shown, {"name": "This field is required."})
    shown, errors = read_form(renamed.content.decode(), rename)
    assert shown == {"name": "worst"}
    assert errors["name"].startswith("There is a view called 'worst' in team-a already.")
    assert 'value="tags.best"' in renamed.content.decode()


def test_a_viewer_is_offered_nothing_to_change(viewer, project):
    (row,) = train(project, 1)

    pages = [
        browser_of(viewer).get(path).content.decode()
        for path in ("/experiments/?project=team-a", f"/experiments/{row.pk}/")
    ]

    assert not any(word in page for page in pages for word in ("Save view", "New tag", "Save the note"))


def test_an_experiment_shows_what_it_is_made_of_and_how_to_have_it_again(client, member, project):
    (row,) = train(project, 1, curve=5)
    run = Run.objects.get(pk=row.run_id)
    run.code = {"version": "abcdef" * 8}
    run.parameters = {"epochs": 3, "name": "two words", "fast": True}
    run.datasets = {"chest/xrays@main": {"commit": "12ab" * 16, "dataset": "chest/xrays"}}
    run.save()
    annotations.write_note(actor=member, experiment=row, text="<b>Look</b>\nagain", seen_at=None)

    page = client.get(f"/experiments/{row.pk}/").content.decode()

    assert "python train.py" in page
    again = (
        "nearline flow run team-a/digits --version abcdefabcdef -P epochs=3 -P fast=true -P &#x27;name=two words&#x27;"
    )
    assert f"{again} --data chest/xrays@main=12ab12ab12ab" in page
    assert "&lt;b&gt;Look&lt;/b&gt;\nagain" in page
    assert "/datasets/chest/xrays/?ref=0000" in page
    assert 'data-key="val_auc"' in page


def test_yes_and_no_are_written_as_a_filter_takes_them(client, project):
    (row,) = make_experiments(make_run(project), 1, lambda _: {"parameters": {"amp": True}, "tags": {"best": False}})

    page = flat(client.get(f"/experiments/{row.pk}/").content.decode())
    rows = flat(client.get("/experiments/?project=team-a&q=params.amp+%3D+true&c=tags.best").content.decode())

    assert '<td class="mono">true</td>' in page
    assert "best = false" in page
    assert "false" in rows.partition("<tbody>")[2]


def test_the_note_of_the_form_is_kept_unless_another_was_written(client, project):
    (row,) = train(project, 1)

    client.post(f"/experiments/{row.pk}/note/", {"note": "First.", "seen_at": ""})
    late = client.post(f"/experiments/{row.pk}/note/", {"note": "Late.", "seen_at": ""})
    seen_at = Experiment.objects.get().note_at.isoformat()
    client.post(f"/experiments/{row.pk}/note/", {"note": "Second.", "seen_at": seen_at})

    assert late.status_code == 409
    assert Experiment.objects.get().note == "Second."


def test_points_are_sent_for_each_experiment_with_gaps_for_what_is_no_number(client, project):
    values = {"metrics": {"loss": [1.0, float("nan"), 0.5]}, "points": True}
    first, second = make_experiments(make_run(project), 2, lambda index: values if index == 0 else {})

    said = json.loads(client.get(f"/experiments/points/?key=loss&ids={first.pk},{second.pk}").content)

    assert [(each["id"], each["steps"], each["values"]) for each in said["series"]] == [
        (first.pk, [0, 1, 2], [1.0, None, 0.5]),
        (second.pk, [], []),
    ]


def test_the_numbers_of_a_chart_are_a_table(client, project):
    rows = make_experiments(
        make_run(project), 2, lambda index: {"metrics": {"loss": [0.25 + index, 0.125]}, "points": True}
    )

    page = flat(client.get(f"/experiments/numbers/?key=loss&ids={rows[0].pk},{rows[1].pk}").content.decode())

    assert all(f'<td class="num">{value}</td>' in page for value in ("0.25", "1.25", "0.125"))


def test_the_numbers_of_long_curves_stand_side_by_side(client, project):
    rows = make_experiments(
        make_run(project),
        2,
        lambda index: {"metrics": {"loss": [step * (7 + index) % 11 for step in range(6000)]}, "points": True},
    )

    page = flat(client.get(f"/experiments/numbers/?key=loss&ids={rows[0].pk},{rows[1].pk}").content.decode())

    assert "rows of up to 6,000 steps, each with the last value up to its step" in page
    table = page.partition("<tbody>")[2].partition("</tbody>")[0]
    assert 400 < table.count("<tr>") <= 500
    assert "\N{EN DASH}" not in table
    first, *_, last = table.split("<tr>")[1:]
    cells = '<td class="num sub">{}</td><td class="num">{}</td><td class="num">{}</td></tr>'
    assert first.strip() == cells.format(14, 14 * 7 % 11, 14 * 8 % 11)
    assert last.strip() == cells.format(5999, 5999 * 7 % 11, 5999 * 8 % 11)


def test_a_comparison_shows_what_differs_or_all(client, project):
    rows = make_experiments(
        make_run(project), 2, lambda index: {"parameters": {"lr": index, "same": 7}, "metrics": {"loss": 0.5}}
    )
    path = f"/experiments/compare/?ids={rows[0].pk},{rows[1].pk}"

    differing, everything = (flat(client.get(address).content.decode()) for address in (path, f"{path}&all=1"))

    assert '<th scope="row" class="mono">lr' in differing
    assert '<th scope="row" class="mono">same' not in differing
    assert '<th scope="row" class="mono">same' in everything
    assert client.get("/experiments/compare/?ids=" + ",".join(f"exp_{n}" for n in range(21))).status_code == 400


def test_an_axis_of_numbers_stays_one_where_some_diverged(client, project):
    losses = [0.5, math.nan, 0.25]
    rows = make_experiments(
        make_run(project), 3, lambda index: {"parameters": {"lr": index}, "metrics": {"loss": losses[index]}}
    )

    page = client.get(f"/experiments/compare/?ids={','.join(row.pk for row in rows)}").content.decode()

    axes = json.loads(re.search(r'<script id="parallel-axes"[^>]*>(.*?)</script>', page)[1])["axes"]
    assert {axis["label"]: axis["values"] for axis in axes} == {"lr": [0, 1, 2], "loss": [0.5, None, 0.25]}


@pytest.mark.parametrize(
    ("name", "content", "shown"),
    [
        ("a.txt", b"<script>x</script>", "&lt;script&gt;x"),
        ("a.csv", b"a,b\n1,2\n", "<td>2</td>"),
        ("a.bin", b"\0\1", "cannot be shown"),
    ],
)
def test_an_artifact_is_shown_as_what_it_is(client, project, name, content, shown):
    (row,) = train(project, 1)
    Artifact.objects.create(
        experiment=row, path=name, size_bytes=len(content), content_hash=keep_in_old_folder(content)
    )

    page = client.get(f"/experiments/{row.pk}/?artifact={name}").content.decode()

    assert shown in page
