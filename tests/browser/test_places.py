"""Jobs, quotas and cache policy in a browser: what only a browser can show of them."""

import json
import re
import uuid

import pytest
from playwright.sync_api import expect

from tests.ports import reserve_port

pytestmark = pytest.mark.browser


def test_a_job_is_submitted_by_keyboard_followed_live_and_cancelled(open_page, admin_state, sample):
    name = f"by-hand-{uuid.uuid4().hex[:6]}"
    watched = open_page(admin_state)
    page = watched.page
    page.goto("/jobs/new/?project=demo&template=this-machine.small")

    page.get_by_label("Command", exact=True).focus()
    page.keyboard.type("echo hello from the form; sleep 600")
    page.get_by_label("Name", exact=True).focus()
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    expect(page.locator(".head .pill").first).to_contain_text("Running")
    expect(page.locator("log-view pre")).to_contain_text("hello from the form")
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()

    expect(page.locator(".head .pill").first).to_contain_text("Cancelled")
    expect(page.locator("#job-live")).to_contain_text("admin cancelled the job.")


def test_a_log_that_cannot_be_read_on_says_why_and_until_when_it_is_there(open_page, admin_state, product, sample):
    name = f"away-{uuid.uuid4().hex[:6]}"
    command = {"project": "demo", "template": "this-machine.small", "name": name, "command": "echo one; sleep 600"}
    product.api("POST", "/compute/jobs", command)
    watched = open_page(admin_state)
    page = watched.page
    page.goto(f"/jobs/{name}/")
    state = page.locator("log-view .log-state")
    expect(page.locator("log-view pre")).to_contain_text("one")
    expect(state).to_have_text("following, up to date")

    problem = json.dumps({"title": "The cluster does not answer.", "code": "compute.resource_unreachable"})
    page.route(
        "**/log/**", lambda route: route.fulfill(status=503, content_type="application/problem+json", body=problem)
    )

    expect(state).to_have_text(
        re.compile(r"The cluster does not answer\. Here is what the job wrote until 20\d\d-.* UTC\. Trying again\.")
    )
    page.unroute("**/log/**")
    expect(state).to_have_text("following, up to date")
    product.api("POST", f"/compute/jobs/{name}/cancel", {})
    watched.complaints.clear()  # the browser notes the status 503 in its console


SERVES = """python - <<'E'
import http.server

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>of a job</title><script>document.title += ' at ' + location.hostname</script>")

http.server.HTTPServer(("127.0.0.1", {port}), Page).serve_forever()
E"""


def test_what_a_job_serves_is_opened_from_its_page_at_a_host_name_of_its_own(open_page, admin_state, product, sample):
    name, port = f"serves-{uuid.uuid4().hex[:6]}", reserve_port()
    job = {"project": "demo", "template": "this-machine.small", "name": name, "ports": [port]}
    product.api("POST", "/compute/jobs", {**job, "command": SERVES.format(port=port)})
    watched = open_page(admin_state)
    watched.page.goto(f"/jobs/{name}/")

    with watched.page.context.expect_page() as opened:
        watched.page.get_by_role("link", name=f"Open port {port}").click()
    served = opened.value

    # Until its server has begun to listen the page looks again by itself.
    expect(served).to_have_title(re.compile(rf"of a job at {port}-0-[0-9a-z]{{20}}\.localhost"))
    product.api("POST", f"/compute/jobs/{name}/cancel", {})


def test_a_quota_is_tried_then_set(open_page, admin_state, product):
    if not any(item["name"] == "atelier" for item in product.api("GET", "/projects")["items"]):
        product.api("POST", "/projects", {"name": "atelier"})
    watched = open_page(admin_state)
    page = watched.page
    page.goto("/quotas/?project=atelier")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="atelier", exact=True))

    page.get_by_role("button", name="Change the quota of atelier").click()
    page.get_by_role("dialog").get_by_label("GPUs").fill("3")
    page.get_by_role("dialog").get_by_role("button", name="Try it").click()
    expect(page.get_by_role("status")).to_contain_text("Nothing is changed.")
    expect(row.get_by_role("cell").nth(1)).to_have_text("0 → 3")
    page.wait_for_load_state()  # before that no script runs, and its button does nothing
    page.get_by_role("button", name="Change the quota of atelier").click()
    expect(page.get_by_role("dialog").get_by_label("GPUs")).to_have_value("3")
    page.keyboard.press("Escape")
    page.get_by_role("status").get_by_role("button", name="Save").click()

    expect(row.get_by_role("cell").nth(1)).to_have_text("3")


def test_nodes_with_a_label_get_a_pool_of_their_own_by_keyboard_and_leave_it_again(open_page, admin_state, product):
    name = f"split-{uuid.uuid4().hex[:6]}"
    size = {"cpu_millicores": 8000, "memory_bytes": 2**36, "gpus": 4, "gpu_model": "A100", "gpu_memory_bytes": 2**35}
    nodes = [{"name": f"{name}-{rack}", "labels": {"rack": rack}, **size} for rack in ("r0", "r1")]
    product.api("POST", "/compute/resources", {"name": name, "kind": "simulated", "nodes": nodes})
    page = open_page(admin_state, theme="dark").page
    page.goto(f"/quotas/?pool={name}")
    dialog, pools = page.get_by_role("dialog"), page.get_by_role("button", name="Pools", exact=True)

    pools.focus()
    page.keyboard.press("Enter")
    dialog.get_by_role("radio", name=name, exact=True).focus()
    page.keyboard.press("Space")
    dialog.get_by_label("Only nodes with this label").focus()
    page.keyboard.type("rack=r1")
    dialog.get_by_label("new pool called").focus()
    page.keyboard.type(f"{name}-r1")
    page.keyboard.press("Enter")
    expect(page.get_by_text(f"1 node of {name} with rack=r1 counts in the pool {name}-r1 now.")).to_be_visible()
    expect(page.get_by_role("link", name=f"{name}-r1 4 GPUs")).to_have_attribute("aria-current", "page")

    page.wait_for_load_state()  # before that no script runs, and its button does nothing
    pools.focus()
    page.keyboard.press("Enter")
    dialog.get_by_role("radio", name=f"{name} with rack=r1: 1 node").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    expect(page.get_by_text(f"The nodes of {name} with rack=r1 are where its other nodes are now.")).to_be_visible()
    product.api("DELETE", f"/compute/resources/{name}")


def test_a_refused_template_is_open_again_with_what_was_typed_until_it_is_taken(open_page, admin_state, product):
    node = {"name": "n1", "cpu_millicores": 8000, "memory_bytes": 2**36}
    node |= {"gpus": 4, "gpu_model": "A100", "gpu_memory_bytes": 2**35}
    product.api("POST", "/compute/resources", {"name": "shapes", "kind": "simulated", "nodes": [node]})
    watched = open_page(admin_state)
    page, dialog = watched.page, watched.page.get_by_role("dialog", name="Add a template")
    page.goto("/compute/")
    page.locator("section").filter(has_text="shapes").get_by_role("button", name="Add a template").click()
    dialog.get_by_label("Name").fill("wide")
    dialog.get_by_label("Memory").fill("much")
    dialog.get_by_label("Memory").press("Enter")

    expect(dialog.get_by_role("alert")).to_have_text("'much' is not a size. Write it like 512Mi, 4GB or 1000000.")
    expect(dialog.get_by_label("Name")).to_have_value("wide")
    expect(dialog.get_by_label("Memory")).to_be_focused()
    expect(page).to_have_url("/compute/")
    dialog.get_by_label("Memory").fill("8 GiB")
    dialog.get_by_label("Memory").press("Enter")

    expect(page.get_by_text("Jobs can ask for shapes.wide from now on.")).to_be_visible()
    product.api("DELETE", "/compute/resources/shapes")
    watched.complaints.clear()  # the browser notes the status 422 in its console


def test_a_resource_is_attached_by_keyboard_with_its_sites_in_order(open_page, admin_state, product):
    name = f"by-hand-{uuid.uuid4().hex[:6]}"
    for site in ("attic", "shelf"):
        if not any(item["name"] == site for item in product.api("GET", "/cache/sites")["items"]):
            declared = {"size_bytes": 10**12, "rate_bytes_s": 10**9}
            product.api("POST", "/cache/sites", {"name": site, "kind": "simulated", "config": declared})
    watched = open_page(admin_state)
    page = watched.page
    page.goto("/compute/attach/")

    page.get_by_label("simulated: nodes").focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_label("local: this machine")).to_be_checked()
    expect(page.get_by_label("Memory of each", exact=True)).to_be_hidden()
    page.keyboard.press("ArrowUp")
    expect(page.get_by_label("Memory of each", exact=True)).to_be_visible()
    page.get_by_label("Memory of each", exact=True).fill("much")
    page.get_by_label("Cache site 1, the nearest").select_option("shelf")
    page.get_by_label("Cache site 2").select_option("attic")
    page.get_by_label("Name", exact=True).focus()
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    expect(page.locator("div.field", has=page.get_by_label("Memory of each", exact=True))).to_contain_text("not a size")
    expect(page.get_by_label("Cache site 1, the nearest")).to_have_value("shelf")
    page.get_by_label("Memory of each", exact=True).fill("512 GiB")
    page.keyboard.press("Enter")

    expect(page.get_by_text(f"{name} answers and is attached.")).to_be_visible()
    items = product.api("GET", "/compute/resources")["items"]
    assert next(item["sites"] for item in items if item["name"] == name) == ["shelf", "attic"]
    product.api("DELETE", f"/compute/resources/{name}")


def test_a_resource_that_never_comes_back_is_given_up_once_its_name_is_typed(open_page, admin_state, manage):
    name = f"gone-{uuid.uuid4().hex[:6]}"
    nowhere = {"docker_url": f"http://127.0.0.1:{reserve_port()}"}
    fields = f"name={name!r}, kind='docker', config={nowhere!r}, state='unreachable', error='No route to host.'"
    manage(f"from compute.models import Resource; print(Resource.objects.create({fields}))")
    page = open_page(admin_state).page
    page.goto(f"/compute/{name}/")

    page.get_by_role("link", name="give it up").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Give up {name}?")
    expect(page.locator("table")).to_contain_text("Nothing is lost")
    page.get_by_role("button", name="Give it up").click()
    expect(page.get_by_label(f"Type {name} to confirm")).to_be_focused()
    page.keyboard.type(name)
    page.keyboard.press("Enter")

    expect(page.get_by_text(f"{name} is given up. What it still runs goes on unseen.")).to_be_visible()


def test_a_node_is_drained_and_opened_again(open_page, admin_state, product):
    watched = open_page(admin_state)
    page = watched.page
    page.goto("/compute/")
    node = page.locator(".node-row", has_text="lab-2")

    node.get_by_role("button", name="Drain").click()
    expect(node).to_contain_text("drained")
    assert next(item for item in product.api("GET", "/scheduler/nodes")["items"] if item["name"] == "lab-2")[
        "is_drained"
    ]
    node.get_by_role("button", name="Open again").click()

    expect(node).not_to_contain_text("drained")
