"""The pages of overview, jobs and compute, asked as a browser asks them."""

from datetime import timedelta

import pytest
from django.test import Client

from accounts.models import Project
from accounts.services import secrets
from compute.engine.ports import UsageSample
from compute.models import Job, Resource, Template
from compute.selectors import run_times, usage
from compute.workers import observe
from core import clock
from scheduler.models import Node
from scheduler.workers import cycle
from tests.factories import compute as make
from tests.factories.api import call
from tests.factories.browsers import browser_of
from tests.factories.scheduler import enqueue, report, report_nodes
from tests.markup import flat

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser(site_admin) -> Client:
    return browser_of(site_admin)


def shown(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def positions(page: str, *texts: str) -> list[int]:
    return [page.index(f'href="/jobs/{text}/"') for text in texts]


def test_jobs_are_listed_newest_first_and_by_any_heading_either_way(browser, project, template):
    make.submit(project, template, "b", "c", "a")

    newest, by_name = shown(browser, "/jobs/"), shown(browser, "/jobs/?sort=name")
    backwards = shown(browser, "/jobs/?sort=-name")

    assert positions(newest, "a", "c", "b") == sorted(positions(newest, "a", "c", "b"))
    assert positions(by_name, "a", "b", "c") == sorted(positions(by_name, "a", "b", "c"))
    assert positions(backwards, "c", "b", "a") == sorted(positions(backwards, "c", "b", "a"))
    assert 'aria-sort="ascending"' in by_name


def test_an_order_that_does_not_exist_is_the_callers_fault(browser):
    assert browser.get("/jobs/?sort=colour").status_code == 400


def test_jobs_are_found_by_name_person_and_state(browser, project, template):
    make.submit(project, template, "train-1", "test-1")
    Job.objects.filter(name="test-1").update(submitted_by="mia", state="failed")

    assert "train-1" not in shown(browser, "/jobs/?q=test")
    assert "train-1" not in shown(browser, "/jobs/?person=mi")
    assert "train-1" not in shown(browser, "/jobs/?state=failed")
    assert "1 of 1 job" in shown(browser, "/jobs/?person=mi")


def test_every_job_of_many_is_on_exactly_one_page_of_a_sorted_list(browser, project, template):
    make.submit(project, template, *[f"job-{number:03}" for number in range(120)])
    Job.objects.filter(name__endswith="7").update(gpu_milli=1000)
    seen, address = [], "/jobs/?sort=-gpus"

    while address:
        page = browser.get(address).context["page"]
        seen += [job.name for job in page.items]
        address = f"/jobs/?sort=-gpus&cursor={page.next_cursor}" if page.next_cursor else None

    assert len(seen) == 120
    assert len(set(seen)) == 120
    assert all(name.endswith("7") for name in seen[:12])


def test_a_job_with_history_says_how_far_it_is(browser, project, template, driver, resource):
    [earlier] = make.submit(project, template, "earlier", command="python train.py --lr 1")
    now = clock.now()
    Job.objects.filter(pk=earlier.pk).update(
        state="succeeded", started_at=now - timedelta(seconds=200), finished_at=now - timedelta(seconds=100)
    )
    Resource.objects.filter(pk=resource.pk).update(kind="local", is_simulated=False)
    [job] = make.submit(project, template, "now", command="python train.py --lr 2")
    make.start([job])
    Job.objects.filter(pk=job.pk).update(started_at=now)

    with clock.frozen_at(now + timedelta(seconds=25)):
        page = shown(browser, "/jobs/now/")

    assert "25 %" in page
    assert "about 1 min 15 s left" in page
    assert "from 1 earlier like it" in page


def test_a_job_without_a_command_says_that_its_image_decides(browser, project, template):
    make.submit(project, template, "train", command="", image="python")

    page = shown(browser, "/jobs/train/")

    assert "What its image starts by itself." in page
    assert '<pre class="code" tabindex="0"></pre>' not in page


def test_a_job_without_history_says_so(browser, project, template, resource):
    Resource.objects.filter(pk=resource.pk).update(kind="local", is_simulated=False)
    [job] = make.submit(project, template, "first")
    make.start([job])

    assert "no history yet" in shown(browser, "/jobs/first/")


def test_a_waiting_job_without_a_known_holder_says_why_and_no_time_that_others_waited(browser, project, template):
    [earlier] = make.submit(project, template, "earlier")
    Job.objects.filter(pk=earlier.pk).update(started_at=earlier.created_at + timedelta(seconds=0.1))
    [job] = make.submit(project, template, "waits")
    job.workload.reason = "needs 4 GPUs on lab"
    job.workload.save()

    page = shown(browser, "/jobs/waits/")

    assert "needs 4 GPUs on lab" in page
    assert "No forecast: no history yet." in page
    assert "0.1 s" not in page.partition("How long?")[2].partition("It has waited")[0]


def test_a_waiting_job_says_what_would_help_and_shows_what_each_node_lacks(browser, site_admin, project, template):
    make.start(make.submit(project, template, "first"))
    Template.objects.filter(pk=template.pk).update(cpu_millicores=8000)
    make.submit(project, template, "waits")
    cycle.run_once()

    page = flat(shown(browser, "/jobs/waits/"))
    answer = call(site_admin, "GET", "/compute/jobs/waits").body

    assert "What would help: wait for 1 CPU more on node-1." in page
    assert flat('node-1 <span class="sub small">in use</span>') in page
    amounts = '<div>8 CPU</div></td><td class="num"><div>7 CPU</div></td><td class="num strong"><div>1 CPU</div></td>'
    assert amounts in page
    assert answer["advice"] == "wait for 1 CPU more on node-1"


def test_a_job_that_has_its_room_shows_no_proof(browser, site_admin, project, template):
    make.start(make.submit(project, template, "first"))

    assert "What is missing" not in shown(browser, "/jobs/first/")
    assert call(site_admin, "GET", "/compute/jobs/first").body["advice"] == ""


def test_the_platforms_folder_is_not_shown(browser, project, template, home):
    make.submit(project, template, "job", command=f"cat {home}/code/x")

    assert str(home) not in shown(browser, "/jobs/job/")


def test_forecasts_of_many_jobs_take_one_query(project, template, django_assert_num_queries):
    jobs = make.submit(project, template, *[f"job-{number}" for number in range(20)])

    with django_assert_num_queries(1):
        run_times.forecast_durations(jobs)


def test_what_stands_still_is_counted_as_idle(project, template, resource, driver):
    Resource.objects.filter(pk=resource.pk).update(kind="local", is_simulated=False)
    template.gpu_milli = 2000
    template.save()
    jobs = make.submit(project, template, "busy", "still")
    make.start(jobs)
    now = clock.now()
    for seconds in range(40, -1, -10):
        for name, millicores in (("busy", 900), ("still", 10)):
            driver.use(name, UsageSample(now - timedelta(seconds=seconds), millicores, 2**20))
    running = list(Job.objects.filter(state="running").select_related("resource"))

    with clock.frozen_at(now):
        found = usage.measure_utilisation(running)

    assert (found.percent, found.idle_gpu_milli) == (46, 2000)
    assert (found.gpu_percent, found.measured_gpu_milli) == (None, 0)


def test_the_overview_tells_how_much_measured_gpus_are_used_or_that_none_is(
    browser, project, template, resource, driver
):
    Resource.objects.filter(pk=resource.pk).update(kind="local", is_simulated=False)
    template.gpu_milli = 1000
    template.save()
    make.start(make.submit(project, template, "busy", "half", "dark"))
    assert "<span>GPU use not measured</span>" in flat(shown(browser, "/"))
    now = clock.now()
    for name, percent in (("busy", 90), ("half", 45), ("dark", None)):
        driver.use(name, UsageSample(now - timedelta(seconds=10), 500, 2**20, percent))

    with clock.frozen_at(now):
        page = flat(shown(browser, "/"))

    assert "68 %" in page
    assert "2 of 3 measured" in page
    assert "GPU use, 1 min · CPU" in page


@pytest.mark.parametrize("used", [(0, 0), (None, None)], ids=["idle", "not measured"])
def test_a_job_page_shows_measured_gpus_and_says_where_they_are_not(browser, project, template, driver, used):
    template.gpu_milli = 1000
    template.save()
    make.start(make.submit(project, template, "first"))
    driver.use("first", UsageSample(clock.now(), 900, 2**20, *used))

    page = shown(browser, "/jobs/first/")

    is_measured = used != (None, None)
    assert ("GPU utilisation" in page, "GPU memory" in page) == (is_measured, is_measured)
    assert ("The use of its GPUs is not measured." in page) is not is_measured


@pytest.mark.parametrize(("said", "priority"), [({"priority": "100"}, 100), ({}, 50)])
def test_the_form_sets_the_priority(browser, project, template, said, priority):
    fields = {"project": "team-a", "template": "scripted.small", "command": "true", "name": "first"}

    browser.post("/jobs/new/", {**fields, **said})

    assert Job.objects.get().priority == priority
    assert f"{priority} (" in flat(shown(browser, "/jobs/first/"))


def test_the_form_sets_a_time_limit_and_refuses_what_is_none(browser, project, template):
    fields = {"project": "team-a", "template": "scripted.small", "command": "true"}

    refused = browser.post("/jobs/new/", {**fields, "timeout": "long"}).content.decode()
    browser.post("/jobs/new/", {**fields, "name": "limited", "timeout": "90m"})

    assert "is not a duration. Write it like 30s, 5m, 2h or 1d." in refused
    assert Job.objects.get().spec["timeout_s"] == 5400
    assert "<td>1 h 30 min</td>" in flat(shown(browser, "/jobs/limited/"))


def test_the_form_says_which_port_of_replicas_is_usual_and_what_none_means(browser, project, template):
    page = flat(shown(browser, "/jobs/new/"))

    assert 'name="worker_port" placeholder="22"' in page
    assert "left empty, 22; 0: once their names are known." in page


def test_the_form_takes_variables_secrets_ports_jupyter_and_a_grace_period(browser, site_admin, project, template):
    secrets.set_secret(actor=site_admin, project=project, name="HF_TOKEN", value="hidden")
    fields = {"project": "team-a", "template": "scripted.small", "name": "lab", "jupyter": "on", "grace_period": "1m"}
    fields |= {"env": "EPOCHS=20\r\n\r\nARGS=--lr=0.1 -v", "secrets": "HF_TOKEN", "ports": "8888, 6006"}

    tried = browser.post("/jobs/new/", {**fields, "try": "1"}).content.decode()

    assert "Tried: nothing is submitted" in tried
    assert "ARGS=--lr=0.1 -v</textarea>" in tried
    assert '<details class="quiet" open>' in tried.partition("Variables, secrets, volumes, ports and Jupyter")[0][-300:]
    assert not Job.objects.exists()

    browser.post("/jobs/new/", fields)

    job = Job.objects.get()
    assert job.spec["env"] == {"EPOCHS": "20", "ARGS": "--lr=0.1 -v"}
    assert (job.spec["secret_names"], job.spec["ports"], job.spec["jupyter"]) == (["HF_TOKEN"], [8888, 6006], True)
    assert job.grace_period_s == 60
    assert "jupyter lab" in job.spec["command"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"env": "EPOCHS"}, "Write it like EPOCHS=20."),
        ({"env": "=20"}, "Write it like EPOCHS=20."),
        ({"ports": "http"}, "&#x27;http&#x27; is no port"),
        ({"ports": "70000"}, "&#x27;70000&#x27; is no port"),
        ({"secrets": "NONE"}, "NONE"),
        ({"command": ""}, "Say what shall run."),
    ],
)
def test_the_form_says_what_is_wrong_with_them_and_keeps_what_was_typed(browser, project, template, said, why):
    fields = {"project": "team-a", "template": "scripted.small", "command": "true", "env": "LR=0.1"}

    page = browser.post("/jobs/new/", {**fields, **said}).content.decode()

    assert why in page
    assert said.get("env", "LR=0.1") in page
    assert not Job.objects.exists()


def test_a_job_that_has_ended_is_run_again_from_its_page(browser, viewer, project, template):
    fields = {"project": "team-a", "template": "scripted.small", "command": "echo hello", "priority": "75"}
    browser.post("/jobs/new/", {**fields, "name": "first"})
    assert "Run again" not in shown(browser, "/jobs/first/")
    browser.post("/jobs/first/cancel/")

    page = shown(browser, "/jobs/first/")
    answer = browser.post("/jobs/first/rerun/")

    assert 'action="/jobs/first/rerun/"' in page
    assert "Run again" not in shown(browser_of(viewer), "/jobs/first/")
    assert browser_of(viewer).post("/jobs/first/rerun/").status_code == 403
    again = Job.objects.exclude(name="first").get()
    assert answer["Location"] == f"/jobs/{again.name}/"
    assert (again.spec["command"], again.priority, again.state) == ("echo hello", 75, "pending")


def test_the_form_sets_an_idle_limit(browser, project, template):
    fields = {"project": "team-a", "template": "scripted.small", "command": "true"}

    refused = browser.post("/jobs/new/", {**fields, "idle_limit": "10s"}).content.decode()
    browser.post("/jobs/new/", {**fields, "name": "limited", "idle_limit": "90m"})

    assert "An idle limit has at least 60 seconds" in refused
    assert Job.objects.get().idle_limit_s == 5400
    assert "<td>1 h 30 min</td>" in flat(shown(browser, "/jobs/limited/"))


def test_a_submitted_form_becomes_a_job(browser, project, template):
    answer = browser.post(
        "/jobs/new/", {"project": "team-a", "template": "scripted.small", "command": "true", "name": "mine"}
    )

    assert answer["Location"] == "/jobs/mine/"
    assert Job.objects.get().submitted_by == "root"


def test_what_is_wrong_with_a_form_is_said_beside_it(browser, project, template):
    make.submit(project, template, "taken")

    page = browser.post(
        "/jobs/new/", {"project": "team-a", "template": "scripted.small", "command": "true", "name": "taken"}
    ).content.decode()

    assert "There is a job called &#x27;taken&#x27; already." in page
    assert Job.objects.count() == 1


def test_a_simulated_cluster_is_attached_with_the_nodes_that_were_asked_for(browser, home):
    fields = {"name": "dgx", "kind": "simulated", "nodes": "2", "cpu": "80", "memory": "512 GB", "gpus": "8",
              "gpu_model": "A100", "gpu_memory": "80 GB"}  # fmt: skip

    answer = browser.post("/compute/attach/", fields, follow=True)

    assert "dgx answers and is attached." in answer.content.decode()
    assert list(Node.objects.order_by("name").values_list("name", flat=True)) == ["dgx-1", "dgx-2"]


@pytest.mark.parametrize(
    ("change", "words"),
    [({"name": "No Name"}, "cannot be a name"), ({"memory": "much"}, "is not a size"), ({"kind": "local"}, "")],
)
def test_what_cannot_be_attached_is_said_in_words_and_nothing_is_kept(browser, home, change, words):
    fields = {
        "name": "dgx",
        "kind": "simulated",
        "nodes": "1",
        "cpu": "1",
        "memory": "1 GB",
        "gpus": "0",
        "gpu_memory": "0",
    }
    Resource.objects.create(name="this-machine", kind="local")

    answer = browser.post("/compute/attach/", {**fields, **change})

    assert answer.status_code == 200
    assert (words or "This machine is attached already, as") in answer.content.decode()
    assert Resource.objects.count() == 1


def test_a_drained_node_is_shown_as_such_and_can_be_opened(browser, resource):
    node = Node.objects.get()
    browser.post(f"/compute/nodes/{node.pk}/drain/", {"drained": "1"})
    assert "drained" in shown(browser, "/compute/")

    browser.post(f"/compute/nodes/{node.pk}/drain/", {"drained": "0"})

    assert not Node.objects.get().is_drained


def test_a_template_is_added_and_a_wrong_one_is_not(browser, resource):
    address = f"/compute/{resource.name}/templates/"

    browser.post(address, {"name": "gpu-2", "cpu": "4", "memory": "8 GB", "gpus": "2"})
    answer = browser.post(address, {"name": "wrong", "cpu": "0", "memory": "8 GB", "gpus": "2"})

    assert Template.objects.get().full_name == f"{resource.name}.gpu-2"
    assert answer.status_code == 422


def test_a_viewer_sees_no_way_to_change_anything(viewer, project, template):
    make.submit(project, template, "job")
    client = browser_of(viewer)

    assert "Run a flow" not in shown(client, "/")
    assert "Detach" not in shown(client, "/compute/")
    assert "cancel-job" not in shown(client, "/jobs/job/")


def test_the_overview_is_about_the_chosen_project(browser, project, template):
    other = Project.objects.create(name="team-b")
    make.submit(project, template, "job-of-a")
    make.submit(other, template, "job-of-b")
    observe.observe_all()

    page = shown(browser, "/?project=team-b")

    assert "job-of-b" in page
    assert "job-of-a" not in page


def test_the_overview_sums_what_a_project_holds_in_all_pools(browser, project):
    report_nodes(report("n1", 2))
    report_nodes(report("c1", 4), resource="res_cloud")
    enqueue(project, "here", gpus=1)
    enqueue(project, "there-1", "there-2", gpus=2, resource="res_cloud")
    cycle.run_once()

    (share,) = browser.get("/").context["shares"]

    assert (share.project, share.held, share.waiting) == ("team-a", 5000, 0)


def test_a_job_without_a_template_is_submitted_by_its_size(browser, project, resource):
    size = {"cpu": "1.5", "memory": "2 GiB", "resource": "scripted"}

    answer = browser.post("/jobs/new/", {"project": "team-a", "command": "true", "name": "mine", **size})

    assert answer["Location"] == "/jobs/mine/"
    job = Job.objects.get()
    assert (job.template, job.gpu_milli, job.cpu_millicores, job.memory_bytes) == (None, 0, 1500, 2 * 2**30)


def test_a_job_that_is_only_tried_says_what_would_become_of_it_and_is_not_submitted(browser, project, resource):
    form = {"project": "team-a", "command": "true", "name": "mine", "cpu": "2", "try": "1"}

    page = browser.post("/jobs/new/", form).content.decode()

    assert "Tried: nothing is submitted" in page
    assert "It would start now on node-1." in page
    assert 'value="mine"' in page
    assert not Job.objects.exists()


def test_a_size_that_no_resource_has_is_refused_beside_the_form(browser, project, resource):
    form = {"project": "team-a", "command": "true", "gpus": "2"}

    pages = [browser.post("/jobs/new/", {**form, **button}).content.decode() for button in ({}, {"try": "1"})]

    assert ["No resource of the pool default can run the job." in page for page in pages] == [True, True]
    assert not Job.objects.exists()


def test_an_ended_job_is_deleted_from_its_page(browser, project, template):
    make.submit(project, template, "mine")
    assert 'data-opens="delete-job"' not in browser.get("/jobs/mine/").content.decode()
    browser.post("/jobs/mine/cancel/")
    assert 'data-opens="delete-job"' in browser.get("/jobs/mine/").content.decode()

    assert browser.post("/jobs/mine/delete/")["Location"] == "/jobs/"

    assert browser.get("/jobs/mine/").status_code == 404
