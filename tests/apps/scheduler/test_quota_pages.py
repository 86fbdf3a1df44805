"""The page of quotas: what is held, what a change would mean, and the change itself."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.errors import InvalidName
from accounts.models import Project
from accounts.permissions import Actor
from accounts.services import projects
from accounts.services.projects import NAME_PATTERN
from compute.services import resources, templates
from compute.services.templates import Shape
from core import clock, units
from scheduler.engine.sharing import STEADY
from scheduler.models import DEFAULT_POOL_ID, Pool, Queue
from scheduler.selectors.snapshots import view_rules
from scheduler.services import pool_members, queues
from scheduler.workers import cycle, standing
from tests.factories.browsers import browser_of
from tests.factories.scheduler import enqueue, report, report_nodes
from tests.markup import flat, read_form

pytestmark = pytest.mark.django_db


SIMULATED_NODE = {
    "name": "m1",
    "cpu_millicores": 8000,
    "memory_bytes": 1024**3,
    "gpus": 0,
    "gpu_model": "",
    "gpu_memory_bytes": 0,
}


@pytest.fixture
def browser(site_admin) -> Client:
    return browser_of(site_admin)


@pytest.fixture
def two_projects(site_admin) -> None:
    """Two projects with one GPU each of four; both ask for four."""
    report_nodes(report("n1", 4))
    for name in ("team-b", "team-c"):
        project = projects.create_project(actor=site_admin, name=name)
        queues.set_quota(actor=site_admin, queue=Queue.objects.get(project=project), gpu_quota_milli=1000)
        enqueue(project, *[f"{name}-{number}" for number in range(4)], gpus=1, cpu_millicores=100)


def rows_of(browser: Client, address: str) -> dict[str, tuple]:
    context = browser.get(address).context
    return {row.queue.project.name: (row.fair_milli, row.then_milli) for row in context["rows"]}


def test_fair_shares_are_those_of_the_next_cycle(browser, two_projects):
    assert rows_of(browser, "/quotas/") == {"team-b": (2000, None), "team-c": (2000, None)}


def test_a_new_project_is_offered_to_those_who_may_create_one(browser, viewer):
    assert "New project" in browser.get("/quotas/").content.decode()
    assert "New project" not in browser_of(viewer).get("/quotas/").content.decode()


def test_a_change_is_tried_without_being_made(browser, two_projects):
    tried = rows_of(browser, "/quotas/?try=team-b&gpus=3")

    assert tried == {"team-b": (2000, 3000), "team-c": (2000, 1000)}
    assert set(Queue.objects.values_list("gpu_quota_milli", flat=True)) == {1000}


def test_what_is_tried_stays_in_the_form_and_is_saved_from_there(browser, two_projects):
    changes = {"try": "team-b", "gpus": "3", "weight": "2.5", "limit": "4", "run_training": "12", "claim_delay": "7"}

    page = browser.get("/quotas/", {"pool": "default", "csrfmiddlewaretoken": "secret", **changes})

    text, tried = page.content.decode(), next(row for row in page.context["rows"] if row.queue.label == "team-b")
    asked = browser.get("/quotas/", {**changes, "change": tried.queue.pk}, headers={"HX-Request": "true"})
    assert asked.templates[0].name == "scheduler/quota_dialog.html"
    shown, _ = read_form(asked.content.decode(), "/quotas/team-b/")
    assert changes.items() <= shown.items()
    saving = page.context["saving"]
    assert dict(saving.fields) == {"pool": "default", **changes}
    assert f'action="{saving.address}"' in text

    browser.post(saving.address, dict(saving.fields))

    queue = Queue.objects.get(project__name="team-b")
    assert (queue.gpu_quota_milli, queue.over_quota_weight, queue.claim_delay_s) == (3000, 2.5, 420)


def test_only_the_form_that_is_asked_for_is_sent(browser, two_projects):
    page = browser.get("/quotas/").content.decode()

    assert "claim_delay" not in re.sub('<dialog id="sharing.*?</dialog>', "", flat(page))
    assert page.count(f"?change={Queue.objects.get(project__name='team-b').pk}") == 1


def test_an_address_of_a_tried_change_has_no_token_of_the_form(browser, two_projects):
    fields = {"pool": "default", "try": "team-b", "gpus": "3"}

    answer = browser.post("/quotas/changes/try/", {"csrfmiddlewaretoken": "secret", **fields})

    assert answer.url == "/quotas/?pool=default&try=team-b&gpus=3"
    assert rows_of(browser, answer.url)["team-b"] == (2000, 3000)
    page = browser.get("/quotas/?edit=1").content.decode()
    assert 'formaction="/quotas/changes/try/"' in page
    assert 'formmethod="get"' not in page


def test_what_is_tried_of_several_quotas_a_department_and_the_rules_is_saved(browser, two_projects):
    browser.post("/quotas/departments/new/", {"name": "research"})
    for fields, address in (
        (fields_of(team_b=2, team_c=0), "/quotas/changes/save/"),
        ({"try": "research", "is_department": "1", "gpus": "2"}, "/quotas/departments/research/save/"),
        ({"preset": "steady"}, "/quotas/sharing/save/"),
    ):
        saving = browser.get("/quotas/", fields).context["saving"]
        assert saving.address == address
        browser.post(saving.address, dict(saving.fields))

    assert {queue.label: queue.gpu_quota_milli for queue in Queue.objects.select_related("project")} == {
        "team-b": 2000,
        "team-c": 0,
        "research": 2000,
    }
    assert view_rules(Pool.objects.get()) == STEADY


def test_a_change_is_made_and_holds(browser, two_projects):
    browser.post("/quotas/team-b/", {"gpus": "3", "memory": "64 GB", "weight": "2"})

    queue = Queue.objects.get(project__name="team-b")
    assert (queue.gpu_quota_milli, queue.memory_quota_bytes, queue.over_quota_weight) == (3000, 64 * 10**9, 2.0)
    assert queue.cpu_quota_millicores is None


def test_the_place_of_a_pool_in_a_projects_order_is_set_and_stays_where_nothing_is_said_of_it(browser, two_projects):
    browser.post("/quotas/team-b/", {"gpus": "1", "rank": "2"})
    browser.post("/quotas/team-b/", {"gpus": "3"})

    queue = Queue.objects.get(project__name="team-b")
    assert (queue.gpu_quota_milli, queue.pool_rank) == (3000, 2)
    browser.post("/quotas/team-b/", {"gpus": "3", "rank": ""})
    assert Queue.objects.get(project__name="team-b").pool_rank is None


@pytest.mark.usefixtures("two_projects")
@pytest.mark.parametrize("address", ["/quotas/team-b/", "/quotas/changes/try/"])
@pytest.mark.parametrize(
    ("field", "typed", "words"),
    [
        ("gpus", "-1", "Ensure this value is greater than or equal to 0."),
        ("memory", "much", "'much' is not a size. Write it like 512Mi, 4GB or 1000000."),
        ("claim_delay", "soon", "Enter a number."),
    ],
)
def test_a_senseless_quota_stands_in_its_dialog_with_the_reason_and_the_old_one_stays(
    browser, address, field, typed, words
):
    sent = {"try": "team-b", "pool": "default", "gpus": "3", "memory": "1 GiB", "nodes_training": "type=a100"}

    answer = browser.post(address, sent | {field: typed})

    page = answer.content.decode()
    assert (answer.status_code, page.count("data-opens-now")) == (422, 1)
    typed_before, errors = read_form(page, "/quotas/team-b/")
    assert (sent | {field: typed}).items() <= typed_before.items()
    assert errors == {field: words}
    assert Queue.objects.get(project__name="team-b").gpu_quota_milli == 1000


@pytest.mark.parametrize(
    ("name", "words"),
    [("lab", "The pool 'default' has a department called 'lab' already."), ("Lab 1", "'Lab 1' cannot be a name.")],
)
def test_a_refused_department_stands_in_its_dialog_with_the_reason(browser, two_projects, name, words):
    browser.post("/quotas/departments/new/", {"name": "lab"})

    answer = browser.post("/quotas/departments/new/", {"name": name})

    page = answer.content.decode()
    assert answer.status_code == 422
    assert '<dialog id="new-department" data-opens-now' in page
    typed, errors = read_form(page, "/quotas/departments/new/")
    assert typed == {"pool": "default", "name": name}
    assert errors["name"].startswith(words)


def test_what_only_the_scheduler_knows_to_be_wrong_is_said_at_its_field_too(browser, two_projects):
    browser.post("/quotas/departments/new/", {"name": "lab"})

    quota = browser.post("/quotas/team-b/", {"gpus": "3", "idle_training": "0.01", "limit": "4"})
    department = browser.post("/quotas/departments/lab/save/", {"gpus": "2", "nodes_training": "a100"})

    typed, errors = read_form(quota.content.decode(), "/quotas/team-b/")
    assert {"gpus": "3", "idle_training": "0.01", "limit": "4"}.items() <= typed.items()
    assert errors == {"idle_training": "An idle limit has at least 60 seconds, and at most 100 years."}
    typed, errors = read_form(department.content.decode(), "/quotas/departments/lab/save/")
    assert {"gpus": "2", "nodes_training": "a100"}.items() <= typed.items()
    assert errors == {"nodes_training": "A label of nodes is written key=value."}


@pytest.mark.parametrize("address", ["/quotas/sharing/save/", "/quotas/changes/try/"])
def test_senseless_rules_stand_in_their_dialog_with_the_reason(browser, two_projects, address):
    page = browser.get("/quotas/").content.decode().partition('id="sharing-rules"')[2]
    rules, _ = read_form(page, "/quotas/sharing/save/")

    answer = browser.post(address, rules | {"stops": "few", "half_life": "3"})

    page = answer.content.decode()
    assert answer.status_code == 422
    assert '<dialog id="sharing-rules" data-opens-now' in page
    typed = read_form(page.partition('id="sharing-rules"')[2], "/quotas/sharing/save/")
    assert typed == (rules | {"stops": "few", "half_life": "3"}, {"stops": "Enter a whole number."})


def test_what_is_held_beyond_the_quota_is_borrowed(browser, two_projects):
    cycle.run_once()

    page = browser.get("/quotas/").content.decode()

    assert page.count("borrows 1") == 2


def test_a_member_sees_their_own_projects_and_no_way_to_change_them(member, project, two_projects):
    client = browser_of(member)
    pool_members.ensure_queue(project_id=project.pk)

    page = client.get("/quotas/").content.decode()

    assert "team-a" in page
    assert "team-b" not in page
    assert "Change the quota" not in page


def test_a_thousand_waiting_workloads_give_the_shares_that_the_next_cycle_counts_on(two_projects):
    few = cycle.fair_shares(DEFAULT_POOL_ID)
    enqueue(Queue.objects.get(project__name="team-b").project, *[f"more-{n}" for n in range(1000)], gpus=1)

    assert len(cycle._demand(DEFAULT_POOL_ID)) < 100
    assert cycle.fair_shares(DEFAULT_POOL_ID) == few


def test_what_was_held_in_the_last_two_hours_is_drawn_with_its_numbers(browser, two_projects):
    assert browser.get("/quotas/").context["chart"] is None

    cycle.run_once()

    chart = browser.get("/quotas/").context["chart"]
    assert [(line.label, line.values[0], line.values[-1]) for line in chart.series] == [
        ("team-b", 0, 2),
        ("team-c", 0, 2),
    ]
    assert (chart.x[0], chart.x[-1]) == (-120, 0)
    assert [line.label for line in browser.get("/quotas/?project=team-b").context["chart"].series] == ["team-b"]


@pytest.mark.parametrize(
    ("gpus", "cores", "memory_gib", "stand_ins"),
    [
        (0.5, 40, 256, 4),  # two GPUs hold four halves, though cores and memory hold only two of these
        (0, 10, 256, 8),  # 80 cores hold eight of ten
        (0, 40, 4, 128),  # 512 GiB hold 128 of four
    ],
)
def test_the_preview_counts_with_as_many_stand_ins_as_fill_everything(project, gpus, cores, memory_gib, stand_ins):
    report_nodes(*(report(name, gpus=1, cpu=40, memory_gib=256) for name in ("n1", "n2")))
    names = [f"job-{n}" for n in range(200)]
    enqueue(project, *names, gpus=gpus, cpu_millicores=cores * 1000, memory_bytes=memory_gib * 2**30)

    assert len(cycle._demand(DEFAULT_POOL_ID)) == stand_ins


def fields_of(**gpus: float) -> dict[str, str]:
    """Return the fields that change the quotas of projects, by the names of these."""
    ids = dict(Queue.objects.values_list("project__name", "pk"))
    return {f"gpus:{ids[name.replace('_', '-')]}": f"{amount:g}" for name, amount in gpus.items()}


def test_several_quotas_are_tried_with_the_sum_and_who_would_stop_and_then_saved(browser, two_projects):
    cycle.run_once()
    changes = fields_of(team_b=3, team_c=3)
    before = list(Queue.objects.order_by("pk").values())

    page = browser.get("/quotas/", {"edit": "1", **fields_of(team_b=4, team_c=0)})

    trial = page.context["trial"]
    assert trial.sum_text == "The quotas add up to 4 of 4 GPUs."
    assert [job.queue for job in trial.stops] == ["team-c", "team-c"]
    assert "Tried, not saved:" in page.content.decode()
    assert browser.get("/quotas/", changes).context["trial"].sum_text == (
        "The quotas add up to 6 of 4 GPUs: over by 2."
    )
    assert list(Queue.objects.order_by("pk").values()) == before

    browser.post("/quotas/changes/save/", changes)

    assert set(Queue.objects.values_list("gpu_quota_milli", flat=True)) == {3000}


def test_the_one_filled_button_is_the_next_thing_to_do(browser, two_projects):
    def filled(**fields: str) -> list[str]:
        page = re.sub("<dialog.*?</dialog>", "", flat(browser.get("/quotas/", fields).content.decode()))
        return re.findall(r'class="btn btn-primary"[^>]*>(?:<svg.*?</svg>)?(.*?)<', page)

    assert filled() == ["New project"]
    assert filled(edit="1") == ["Save"]
    assert filled(edit="1", **fields_of(team_b=4)) == ["Save"]
    assert filled(**{"try": "team-b"}, gpus="3") == ["Save"]


@pytest.mark.parametrize("field", ['name="name"', 'name="new_pool"'])
def test_a_browser_that_refuses_a_name_says_which_names_there_are(browser, two_projects, field):
    page = flat(browser.get("/quotas/").content.decode())

    tag = re.search(f"<input [^>]*{field}[^>]*>", page)
    assert tag is not None
    assert f'pattern="{NAME_PATTERN}" title="{InvalidName.hint}"' in tag[0]


def test_of_several_quotas_none_is_saved_where_one_makes_no_sense(browser, two_projects):
    browser.post("/quotas/changes/save/", fields_of(team_b=3, team_c=-1))

    assert set(Queue.objects.values_list("gpu_quota_milli", flat=True)) == {1000}


def test_a_quota_that_is_edited_is_not_overwritten_by_news(browser, two_projects):
    assert "hx-get" in browser.get("/quotas/").content.decode()
    edited = browser.get("/quotas/?edit=1").content.decode()

    assert 'aria-label="Quota of team-b in GPUs"' in edited
    assert "hx-get" not in edited.partition('id="quotas"')[2].partition(">")[0]


def test_departments_and_the_projects_below_them_are_a_tree(browser, two_projects):
    browser.post("/quotas/departments/new/", {"name": "research"})
    browser.post(
        "/quotas/team-c/",
        {"gpus": "1", "department": "research", "limit": "2", "run_training": "12", "idle_interactive": "0.5"},
    )

    rows = browser.get("/quotas/").context["rows"]

    assert [(row.queue.label, row.depth) for row in rows] == [("research", 0), ("team-c", 1), ("team-b", 0)]
    queue = Queue.objects.get(project__name="team-c")
    assert (queue.gpu_limit_milli, queue.training_run_at_most_s) == (2000, 43200)
    assert (queue.training_idle_at_most_s, queue.interactive_idle_at_most_s) == (None, 1800)


def test_pools_are_tabs_only_where_there_are_several(browser, two_projects):
    assert 'aria-label="Pool"' not in browser.get("/quotas/").content.decode()
    report_nodes(report("c1", 8), resource="res_cloud")

    page = browser.get("/quotas/?pool=cloud")

    assert [view.pool.name for view in page.context["pools"]] == ["default", "cloud"]
    assert (page.context["total_milli"], page.context["quota_milli"]) == (8000, 0)
    assert 'aria-label="Pool"' in page.content.decode()


def test_a_resource_is_moved_after_the_page_has_said_what_happens_to_its_work(browser, two_projects):
    cycle.run_once()

    said = browser.get("/quotas/").content.decode()
    browser.post("/quotas/pools/move/", {"resource": "lab", "new_pool": "mine"})

    assert "4 jobs run on, with 4 GPUs" in said
    assert browser.get("/quotas/?pool=mine").context["total_milli"] == 4000


def test_nodes_with_a_label_get_a_pool_of_their_own_and_are_taken_out_of_it(browser, two_projects):
    report_nodes(report("n1", 4), replace(report("h1", 2), labels={"gpu": "h100"}))

    browser.post("/quotas/pools/move/", {"resource": "lab", "label": "gpu=h100", "new_pool": "h100"})
    page = browser.get("/quotas/?pool=h100")

    assert page.context["total_milli"] == 2000
    assert "1 node of lab with gpu=h100" in flat(page.content.decode())
    assert 'name="place" value="lab:gpu=h100"' in flat(page.content.decode())
    assert [move.words for move in page.context["moves"]] == ["lab, its nodes with gpu=h100"]
    assert [move.words for move in browser.get("/quotas/").context["moves"]] == ["lab"]

    browser.post("/quotas/pools/move/", {"resource": "lab:gpu=h100", "new_pool": "fast"})
    assert browser.get("/quotas/?pool=fast").context["total_milli"] == 2000

    taken = browser.post("/quotas/pools/take-out/", {"pool": "fast", "place": "lab:gpu=h100"}, follow=True)
    assert "The nodes of lab with gpu=h100 are where its other nodes are now." in flat(taken.content.decode())
    assert browser.get("/quotas/").context["total_milli"] == 6000


def test_the_labels_of_a_pool_cost_the_page_no_statement_more_each(browser, two_projects):
    report_nodes(report("n1", 4))

    def count_statements() -> int:
        browser.get("/quotas/?pool=rare")  # which says what has been moved
        with CaptureQueriesContext(connection) as statements:
            browser.get("/quotas/?pool=rare")
        return len(statements)

    browser.post("/quotas/pools/move/", {"resource": "lab", "label": "gpu=b200", "new_pool": "rare"})
    browser.post("/quotas/pools/move/", {"resource": "lab", "label": "gpu=b300", "pool": "rare"})
    of_two = count_statements()
    for model in ("b400", "b500"):
        browser.post("/quotas/pools/move/", {"resource": "lab", "label": f"gpu={model}", "pool": "rare"})

    assert count_statements() == of_two


def test_a_label_that_no_node_has_is_taken_with_a_note(browser, two_projects):
    body = {"resource": "lab", "label": "gpu=b200", "new_pool": "rare"}

    page = flat(browser.post("/quotas/pools/move/", body, follow=True).content.decode())

    assert "No node of lab has the label gpu=b200 now. Those that get it join the pool rare." in page
    assert "0 nodes of lab with gpu=b200" in page


def test_who_lends_to_whom_is_told_in_pairs(browser, two_projects):
    lend_two_gpus(browser)

    text = " ".join(browser.get("/quotas/").content.decode().split())

    assert "<li>team-d lends 1 GPU to team-b, until claimed.</li>" in text
    assert "<li>team-d lends 1 GPU to team-c, until claimed.</li>" in text


def test_what_no_quota_covers_is_lent_by_nobody(browser, two_projects):
    cycle.run_once()

    assert "<li>team-b holds 1 GPU that no quota covers.</li>" in browser.get("/quotas/").content.decode()


def test_a_member_is_told_of_loans_without_the_names_of_strangers(browser, viewer, project, two_projects):
    own = Queue.objects.get(pk=pool_members.ensure_queue(project_id=project.pk))
    queues.set_quota(actor=_root(), queue=own, gpu_quota_milli=2000)
    cycle.run_once()

    text = browser_of(viewer).get("/quotas/").content.decode()

    assert f"{project.name} lends 2 GPUs to other projects, until claimed." in text
    assert ("team-b" in text, "team-c" in text) == (False, False)


def test_who_waits_below_its_share_is_named_with_numbers_and_time(browser, two_projects, move):
    lend_two_gpus(browser)
    team_d = Queue.objects.get(project__name="team-d").project
    enqueue(team_d, "team-d-1", "team-d-2", gpus=1, cpu_millicores=100)

    early = browser.get("/quotas/").context["below"]
    move(clock.now() + timedelta(minutes=15))
    late = browser.get("/quotas/").context["below"]

    assert [(each.text, each.is_starved) for each in early] == [
        ("team-d is below its share: it holds 0 of 2 GPUs", False)
    ]
    assert [each.is_starved for each in late] == [True]
    assert late[0].enqueued_at == early[0].enqueued_at


def test_only_pools_with_simulated_nodes_have_the_badge_on_their_tabs(browser):
    report_nodes(report("n1", 1))
    report_nodes(report("n2", 1), resource="res_real", simulated=False)
    browser.post("/quotas/pools/move/", {"resource": "real", "new_pool": "real"})

    text = " ".join(browser.get("/quotas/?pool=real").content.decode().split())

    badge = '<span class="tag simulated">simulated</span>'
    assert text.partition('aria-label="Pool"')[2].partition("</nav>")[0].count(badge) == 1
    assert badge not in text.partition('aria-label="Pool"')[0]


def test_a_quota_that_does_not_cover_a_job_is_warned_of(browser, two_projects):
    project = projects.create_project(actor=_root(), name="team-d")
    queues.set_quota(actor=_root(), queue=Queue.objects.get(project=project), gpu_quota_milli=1000)
    enqueue(project, "team-d-1", gpus=2, cpu_millicores=100)

    context = browser.get("/quotas/").context

    assert [(each.project, each.gpu_needed_milli, each.needed_by) for each in context["small_quotas"]] == [
        ("team-d", 2000, "its largest job")
    ]


def test_a_department_with_less_than_its_projects_is_warned_of_and_only_site_admins_are_told(
    browser, two_projects, member
):
    pool = Pool.objects.get(name="default")
    department = queues.create_department(actor=_root(), pool=pool, name="research", gpu_quota_milli=1000)
    Queue.objects.filter(project__name__in=["team-b", "team-c"]).update(parent=department, gpu_quota_milli=2000)

    text = flat(browser.get("/quotas/").content.decode())
    of_a_member = standing.read_standing(actor=member, pool="default").small_quotas

    assert "research: its quota of 1 does not cover the quotas below it with 4 GPUs together" in text
    assert not [each for each in of_a_member if each.is_department]
    department.gpu_quota_milli = 4000
    department.save()
    assert "research: its quota" not in browser.get("/quotas/").content.decode()


def test_a_quota_that_covers_no_template_of_its_pool_is_warned_of(browser, two_projects, site_admin):
    resource = resources.attach_resource(
        actor=site_admin, name="more", kind="simulated", config={"nodes": [SIMULATED_NODE]}
    )
    templates.create_template(
        actor=site_admin, resource=resource, name="pair", shape=Shape(1000, 1024**3, 2 * units.ONE_GPU)
    )

    text = browser.get("/quotas/").content.decode()

    assert "team-b: its quota of 1 does not cover even the smallest template of the pool, more.pair with 2 GPUs" in text


def lend_two_gpus(browser: Client) -> None:
    """Let team-d have a quota of two GPUs, which team-b and team-c hold."""
    browser.post("/quotas/changes/save/", fields_of(team_b=1, team_c=1))
    projects.create_project(actor=_root(), name="team-d")
    queues.set_quota(actor=_root(), queue=Queue.objects.get(project__name="team-d"), gpu_quota_milli=2000)
    cycle.run_once()


def _root() -> Actor:
    return Actor.system("tests")


def test_the_rules_of_a_pool_are_tried_and_taken_with_one_click(browser, two_projects):
    page = browser.get("/quotas/?preset=steady")

    assert page.context["tried"] == ["other sharing rules"]
    assert Pool.objects.get().claim_delay_s == 0
    browser.post("/quotas/sharing/save/", {"preset": "steady"})
    assert view_rules(Pool.objects.get()) == STEADY


def test_the_dial_of_past_use_shows_both_shares_before_it_is_saved(browser, two_projects):
    Queue.objects.filter(project__name="team-b").update(used_gpu_s=3000.0)
    fields = browser.get("/quotas/").context["sharing"]["form"].initial

    page = browser.get("/quotas/", fields | {"sharing": "1", "past_use": "1"})

    assert [
        (row.queue.label, use.percent, use.plain_milli, use.pulled_milli)
        for row, use in page.context["sharing"]["past_use"]
    ] == [("team-b", 100, 2000, 1000), ("team-c", 0, 2000, 3000)]
    assert Pool.objects.get().usage_pull == 0


def test_a_department_has_rules_of_its_own_and_its_projects_say_from_where_theirs_are(browser, two_projects):
    browser.post("/quotas/departments/new/", {"name": "lab"})
    browser.post("/quotas/departments/lab/save/", {"gpus": "2", "reclaim_after": "15"})
    browser.post("/quotas/team-b/", {"gpus": "1", "department": "lab", "claim_delay": "2", "stops": "3"})

    rows = {row.queue.label: row for row in browser.get("/quotas/").context["rows"]}
    assert [(value.text, value.inherited) for value in rows["team-b"].rules] == [
        ("2", "0 min, from the pool"),
        ("", "15 min, from lab"),
        ("", "0 h, from the pool"),
        ("3", "5, from the pool"),
        ("", "2, from the pool"),
    ]


def test_what_is_tried_is_named_and_rules_that_are_not_are_not(browser, two_projects):
    quota = browser.get("/quotas/", {"try": "team-b", "gpus": "3"})
    weight = browser.get("/quotas/", {"try": "team-b", "gpus": "1", "weight": "2.5"})

    assert quota.context["tried"] == ["team-b: 1 to 3 GPUs"]
    assert weight.context["tried"] == ["team-b: other limits, weights or rules"]
    assert "the values below are tried" not in quota.content.decode() + weight.content.decode()


@pytest.fixture
def many_projects(browser, two_projects) -> None:
    rows = [Project(id=f"prj_{number}", name=f"many-{number:03}") for number in range(500)]
    Project.objects.bulk_create(rows)
    pool = Pool.objects.get(name="default")
    Queue.objects.bulk_create(Queue(id=f"que_{row.pk}", pool=pool, project=row, gpu_quota_milli=1000) for row in rows)


def test_beyond_five_hundred_rows_the_page_says_how_many_are_not_shown_and_counts_all(browser, many_projects):
    answer = browser.get("/quotas/")
    shown = flat(answer.content.decode())

    assert [row.queue.label for row in answer.context["rows"]] == [f"many-{number:03}" for number in range(500)]
    assert "2 more are not shown. Find one by its name above." in shown
    assert "quotas add up to 502" in shown


def test_a_project_is_found_by_a_part_of_its_name_and_can_be_changed_then(browser, many_projects):
    rows = browser.get("/quotas/?q=EAM-c").context["rows"]
    queue = Queue.objects.get(project__name="team-c")
    dialog = browser.get(f"/quotas/?change={queue.pk}", headers={"HX-Request": "true"}).content.decode()

    assert [row.queue.label for row in rows] == ["team-c"]
    assert "team-c" in dialog
    assert "Nothing here has “zebra” in its name." in browser.get("/quotas/?q=zebra").content.decode()
