"""The flow editor: what only a browser can show."""

import itertools
import json
import re
import uuid

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

FLOW = """\
# Why this flow exists.
flow: {name}
steps:
  - name: look
    command: ls   # shows what is there
    compute: [this-machine.small]
"""


@pytest.fixture
def flow(product, sample) -> str:
    """A flow of one step, under a name of its own."""
    name = f"edit-{uuid.uuid4().hex[:8]}"
    product.api("POST", "/flows", {"project": "demo", "text": FLOW.format(name=name)})
    return name


def test_a_flow_of_three_steps_is_built_and_run_by_keyboard_alone(open_page, admin_state, sample):
    page = open_page(admin_state).page
    name = f"keys-{uuid.uuid4().hex[:8]}"
    page.goto("/flows/new/?project=demo")

    def press(*keys: str) -> None:
        for key in keys:
            page.keyboard.press(key)

    def go_to(locator) -> None:
        """Move the keyboard there by Tab, as a person would."""
        for _ in range(120):
            if locator.evaluate("node => node === node.getRootNode().activeElement"):
                return
            press("Tab")
        raise AssertionError(f"Tab never reaches {locator}")

    def type_into(label: str, text: str) -> None:
        go_to(page.get_by_label(label, exact=True))
        press("Control+a")
        page.keyboard.type(text)

    go_to(page.get_by_role("link", name=re.compile("Canvas")))
    press("Enter")
    type_into("Name", name)
    press("Enter")
    for step, command in (
        ("first", 'echo 1 > "$NEARLINE_OUTPUT/n"'),
        ("second", 'cp "$NEARLINE_INPUT/first/n" "$NEARLINE_OUTPUT/n"'),
        ("third", 'cat "$NEARLINE_INPUT/second/n"'),
    ):
        page.keyboard.press("Shift+Tab")
        go_to_palette(page, press)
        press("Enter")
        expect(page.get_by_label("Name", exact=True)).to_be_focused()
        page.keyboard.type(step)
        press("Enter")
        type_into("Command", command)
    expect(page.get_by_role("group", name=re.compile("^step third"))).to_be_visible()
    expect(page.get_by_text("No problem found")).to_be_visible()
    for _ in range(60):
        press("Shift+Tab")
        if page.evaluate("document.activeElement.textContent") == "Run":
            break
    press("Enter")

    page.wait_for_url("**/runs/run_*/**")
    expect(page.locator(".head .pill")).to_contain_text("Succeeded")


def go_to_palette(page, press) -> None:
    """Move the keyboard backwards to the palette's command."""
    for _ in range(80):
        if page.evaluate("document.activeElement.textContent") == "Command":
            return
        press("Shift+Tab")
    raise AssertionError("Shift+Tab never reaches the palette")


def test_what_is_drawn_is_written_beside_and_can_be_undone(open_page, admin_state, flow):
    page = open_page(admin_state).page
    page.goto(f"/flows/demo/{flow}/edit/")
    canvas, text = page.locator(".react-flow__pane"), page.locator(".cm-content")
    look = page.get_by_role("group", name=re.compile("^step look"))
    expect(look).to_be_visible()

    page.locator(".palette-item", has_text="Dataset").drag_to(canvas, target_position={"x": 130, "y": 100})
    dataset = page.get_by_role("group", name=re.compile("^dataset digits"))
    dataset.locator(".source").drag_to(look.locator(".target"))
    page.get_by_role("button", name="YAML").click()
    expect(text).to_contain_text("data: [{dataset: demo/digits, cached: true}]")
    look.click()
    page.get_by_label("Command", exact=True).fill("ls -la")
    expect(text).to_contain_text("command: ls -la # shows what is there")
    expect(text).to_contain_text("# Why this flow exists.")

    look.locator(".source").drag_to(dataset.locator(".source"))
    expect(page.get_by_role("button", name="Undo")).to_be_enabled()
    page.get_by_role("button", name="Undo").click()
    expect(text).to_contain_text("command: ls # shows what is there")
    page.get_by_role("button", name="Undo").click()
    expect(text).not_to_contain_text("demo/digits")
    page.get_by_role("button", name="Redo").click()
    expect(text).to_contain_text("demo/digits")


def test_problems_of_the_text_are_told_and_lead_to_their_line(open_page, admin_state, flow):
    page = open_page(admin_state).page
    page.goto(f"/flows/demo/{flow}/edit/")
    page.get_by_role("button", name="YAML").click()
    text = page.locator(".cm-content")

    text.press("Control+End")
    page.keyboard.type("  - name: report\ncommand: cat\nafter: [lok]")
    expect(page.get_by_role("group", name=re.compile("^step report"))).to_be_visible()
    page.get_by_role("button", name=re.compile("There is no step 'lok'. Did you mean 'look'?")).click()

    expect(page.get_by_role("region", name="Properties").get_by_role("heading", name="report")).to_be_visible()
    expect(page.locator(".cm-lint-marker-error")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^Save"))).to_be_disabled()


def test_a_step_with_a_problem_is_drawn_within_its_box(open_page, admin_state, flow):
    page = open_page(admin_state).page
    page.goto(f"/flows/demo/{flow}/edit/")
    look = page.get_by_role("group", name=re.compile("^step look"))
    look.click()
    page.get_by_label("Name", exact=True).fill("not a name")
    page.get_by_label("Name", exact=True).press("Enter")
    broken = page.locator(".card-node.broken")
    expect(broken).to_be_visible()

    heights = broken.evaluate("box => [box.scrollHeight, box.clientHeight]")

    assert heights[0] == heights[1]


def test_while_the_server_is_away_the_editor_says_that_the_draft_is_in_this_browser_only(open_page, admin_state, flow):
    watched = open_page(admin_state)
    page = watched.page
    page.goto(f"/flows/demo/{flow}/edit/")
    page.get_by_role("group", name=re.compile("^step look")).click()

    page.context.set_offline(True)
    page.get_by_label("Command", exact=True).fill("away")
    expect(page.get_by_text("the server has not answered yet")).to_be_visible()
    page.context.set_offline(False)

    expect(page.get_by_text(re.compile("Draft saved (?!in this browser)"))).to_be_visible()
    watched.complaints.clear()  # the browser notes the failures in its console


def test_a_draft_survives_and_another_persons_version_is_told_and_kept_too(open_page, admin_state, product, flow):
    watched = open_page(admin_state)
    page = watched.page
    page.goto(f"/flows/demo/{flow}/edit/")
    page.get_by_role("group", name=re.compile("^step look")).click()
    page.get_by_label("Command", exact=True).fill("mine")
    page.reload()
    page.get_by_role("group", name=re.compile("^step look")).click()
    expect(page.get_by_label("Command", exact=True)).to_have_value("mine")
    expect(page.get_by_text("Draft saved")).to_be_visible()

    theirs = FLOW.format(name=flow).replace("command: ls", "command: theirs")
    product.api("POST", "/flows", {"project": "demo", "text": theirs})
    page.get_by_role("button", name="Save as version 2").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("was saved while you edited")
    expect(dialog).to_contain_text("command: theirs")
    expect(dialog).to_contain_text("command: mine")
    dialog.get_by_role("button", name="Go on with mine").click()
    page.get_by_role("button", name="Save as version 3").click()

    expect(page.get_by_role("button", name="Saved")).to_be_visible()
    page.get_by_role("link", name="Versions").click()
    expect(page.locator(".changes")).to_contain_text("~ look changed in command")
    expect(page.locator("text-diff .cm-mergeView")).to_be_visible()
    watched.complaints.clear()  # the browser notes the status 409 in its console


def chain(name: str, length: int) -> str:
    """A flow of steps one after the other."""
    steps = [f"  - name: step-{number}\n    command: 'true'\n" for number in range(length)]
    return f"flow: {name}\nsteps:\n" + "".join(
        step + (f"    after: [step-{number - 1}]\n" if number else "") for number, step in enumerate(steps)
    )


def test_the_titles_of_a_long_flow_can_be_read_when_the_editor_opens_and_after_tidy_up(
    open_page, admin_state, product, sample
):
    name = f"long-{uuid.uuid4().hex[:8]}"
    product.api("POST", "/flows", {"project": "demo", "text": chain(name, 20)})
    page = open_page(admin_state).page
    page.goto(f"/flows/demo/{name}/edit/")
    first = page.locator(".react-flow__node").first

    expect(first).to_be_visible()
    opened_px = title_px(first)
    page.get_by_role("button", name="Tidy up").click()
    page.wait_for_function("() => document.querySelector('.react-flow__node')")
    tidied_px = title_px(first)

    assert min(opened_px, tidied_px) >= 8


def title_px(node) -> float:
    """Return how high the letters of a node's title are on the screen."""
    size = node.locator(".title").evaluate("title => parseFloat(getComputedStyle(title).fontSize)")
    return size * node.bounding_box()["width"] / 208


def test_the_editor_opens_a_flow_of_six_steps_in_a_row_whole_at_1440_pixels(open_page, admin_state, product, sample):
    name = f"row-{uuid.uuid4().hex[:8]}"
    product.api("POST", "/flows", {"project": "demo", "text": chain(name, 6)})
    page = open_page(admin_state).page
    page.goto(f"/flows/demo/{name}/edit/")
    last = page.locator(".react-flow__node", has_text="step-5")

    expect(last.locator(".far")).to_be_visible()
    canvas, box = page.locator(".react-flow").bounding_box(), last.bounding_box()

    assert box["x"] + box["width"] <= canvas["x"] + canvas["width"]


def test_the_editor_shows_all_steps_of_a_short_flow_in_letters_that_can_be_read_at_each_width(
    open_page, admin_state, product, sample
):
    name = f"row-{uuid.uuid4().hex[:8]}"
    product.api("POST", "/flows", {"project": "demo", "text": chain(name, 4)})
    page = open_page(admin_state, width=420).page
    page.goto(f"/flows/demo/{name}/edit/")
    last = page.locator(".react-flow__node", has_text="step-3")
    expect(last).to_be_visible()

    for width in (420, 1440, 390):
        page.set_viewport_size({"width": width, "height": 1000})
        page.wait_for_function(IN_SIGHT)
        assert title_px(last) >= 8, width


# Whether each step is within the canvas, which has the width of the window by then.
IN_SIGHT = """() => {
  const canvas = document.querySelector(".react-flow").getBoundingClientRect();
  const steps = [...document.querySelectorAll(".react-flow__node")].map((step) => step.getBoundingClientRect());
  const isInside = ({ left, right, top, bottom }) =>
    left >= canvas.left && right <= canvas.right && top >= canvas.top && bottom <= canvas.bottom;
  return canvas.right <= innerWidth && steps.length === 4 && steps.every(isInside);
}"""


def test_a_view_that_somebody_has_chosen_stays_when_the_canvas_gets_another_width(open_page, admin_state, flow):
    page = open_page(admin_state).page
    page.goto(f"/flows/demo/{flow}/edit/")
    view, canvas = page.locator(".react-flow__viewport"), page.locator(".react-flow")
    expect(page.locator(".react-flow__node").first).to_be_visible()

    for choose in (page.get_by_role("button", name="Zoom in").click, lambda: drag(page, canvas.bounding_box())):
        choose()
        chosen = view.get_attribute("style")
        for width in (1000, 1440):
            before = canvas.bounding_box()["width"]
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_function("before => document.querySelector('.react-flow').clientWidth !== before", arg=before)
            page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert view.get_attribute("style") == chosen


def drag(page, box):
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 60, box["y"] + 90, steps=4)
    page.mouse.up()


def test_a_flow_of_six_steps_in_a_row_is_seen_whole_at_1440_pixels(open_page, admin_state, product, sample):
    name = f"row-{uuid.uuid4().hex[:8]}"
    product.api("POST", "/flows", {"project": "demo", "text": chain(name, 6)})
    page = open_page(admin_state).page
    page.goto(f"/flows/demo/{name}/")

    canvas, last = page.locator(".canvas").bounding_box(), page.locator(".graph a").last.bounding_box()

    assert last["x"] + last["width"] <= canvas["x"] + canvas["width"]


def test_the_buttons_of_the_canvas_cover_no_step_on_a_phone(open_page, admin_state, product, sample):
    name = f"tall-{uuid.uuid4().hex[:8]}"
    steps = [f"  - {{name: s{number}, after: [first], command: ls}}\n" for number in range(6)]
    text = f"flow: {name}\nsteps:\n  - {{name: first, command: ls}}\n" + "".join(steps)
    product.api("POST", "/flows", {"project": "demo", "text": text})
    page = open_page(admin_state, width=390).page

    page.goto(f"/flows/demo/{name}/edit/")
    expect(page.get_by_role("group", name=re.compile("^step s5"))).to_be_visible()
    page.get_by_role("button", name="Show everything").click()

    page.wait_for_function(ABOVE_THE_BUTTONS)


# Whether all seven steps end above the buttons of the canvas.
ABOVE_THE_BUTTONS = """() => {
  const { top } = document.querySelector("[role=toolbar][aria-label=Canvas]").getBoundingClientRect();
  const steps = [...document.querySelectorAll(".react-flow__node")].map((step) => step.getBoundingClientRect());
  return steps.length === 7 && steps.every(({ bottom }) => bottom <= top);
}"""


def test_the_ends_of_a_new_arrow_stay_in_sight_when_the_graph_is_laid_out_anew(open_page, admin_state, product, sample):
    name = f"long-{uuid.uuid4().hex[:8]}"
    steps = [{"name": f"{row}{place}", "command": "true"} for row in "abcd" for place in range(7)]
    for before, after in itertools.pairwise(steps):
        if before["name"][0] == after["name"][0]:
            after["after"] = [before["name"]]
    product.api("POST", "/flows", {"project": "demo", "text": json.dumps({"flow": name, "steps": steps})})
    page = open_page(admin_state).page
    page.goto(f"/flows/demo/{name}/edit/")
    canvas = page.locator(".react-flow")
    first = page.get_by_role("group", name=re.compile("^step a1"))
    last = page.get_by_role("group", name=re.compile("^step d6"))
    expect(first).to_be_visible()

    first.click()
    page.get_by_role("tab", name="Inputs").click()
    page.get_by_label("Wait for", exact=True).select_option("d6")

    expect(page.locator(".react-flow__edge[data-id='d6>a1']")).to_be_attached()
    page.wait_for_function(
        """() => {
          const place = (step) => document.querySelector(`.react-flow__node[data-id='${step}']`).getBoundingClientRect();
          return place("a1").left > place("d6").right;
        }"""
    )
    frame = canvas.bounding_box()
    for step in (first, last):
        box = step.bounding_box()
        assert frame["x"] <= box["x"]
        assert box["x"] + box["width"] <= frame["x"] + frame["width"]
        assert frame["y"] <= box["y"]
        assert box["y"] + box["height"] <= frame["y"] + frame["height"]


def test_the_type_of_a_new_parameter_of_the_flow_is_that_of_its_default(open_page, admin_state, flow):
    page = open_page(admin_state).page
    page.goto(f"/flows/demo/{flow}/edit/")
    page.get_by_role("button", name="YAML").click()

    for name, default in (("epochs", "3"), ("rate", "0.1"), ("optimizer", "adam")):
        page.get_by_label("Add a parameter of the flow").focus()
        page.keyboard.type(name)
        page.keyboard.press("Enter")
        expect(page.get_by_label(f"Default of {name}")).to_be_focused()
        page.keyboard.type(default)
        page.keyboard.press("Enter")

    for words in ("type: int default: 3", "type: float default: 0.1", "type: str default: adam"):
        expect(page.locator(".cm-content")).to_contain_text(re.compile(words.replace(" default", r"\s+default")))


def test_parameters_and_templates_are_added_by_keys_without_losing_the_keyboard(open_page, admin_state, flow):
    page = open_page(admin_state).page
    page.goto(f"/flows/demo/{flow}/edit/")
    page.get_by_role("group", name=re.compile("^step look")).click()

    page.get_by_label("Add a parameter").focus()
    page.keyboard.type("rate")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Value of rate")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_label("Kind of rate")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_label("Values of rate")).to_be_focused()
    page.keyboard.type("1, 2")
    page.keyboard.press("Enter")
    expect(page.get_by_text("2 runs")).to_be_visible()
    add = page.get_by_label("Add a template")
    add.focus()
    page.keyboard.type("this-machine.medium")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Template 2")).to_have_value("this-machine.medium")
    expect(add).to_be_focused()
    expect(add).to_have_value("")


@pytest.fixture
def failed_editor(open_page, admin_state, flow):
    """A page whose editor failed while the flow was changed; it complained of that alone."""
    watched = open_page(admin_state)
    page = watched.page
    page.goto(f"/flows/demo/{flow}/edit/")
    page.get_by_role("button", name="YAML").click()
    expect(page.locator(".cm-content")).to_contain_text("command: ls")
    page.evaluate("void (Number.isFinite = () => { throw new Error('a fault in the editor') })")
    page.locator(".cm-content").press("Control+End")
    page.keyboard.insert_text("title: typed last")  # at once: the editor fails a moment after the first letter
    expect(page.locator("main").get_by_role("alert")).to_contain_text("Error: a fault in the editor")
    assert watched.complaints == ["error: a fault in the editor"]
    watched.complaints.clear()
    return page


def test_an_editor_that_fails_leaves_the_text_which_can_be_saved(failed_editor, product, flow):
    expect(failed_editor.locator("#text")).to_have_value(re.compile("\ntitle: typed last$"))
    failed_editor.get_by_role("button", name="Save as a version").click()

    expect(failed_editor.locator(".head .tag")).to_have_text("version 2")
    text = product.api("GET", f"/flows/demo/{flow}")["version"]["text"]
    assert text == f"{FLOW.format(name=flow)}title: typed last"


def test_an_editor_that_failed_opens_again_with_what_was_written(failed_editor):
    failed_editor.get_by_role("button", name="Reload").click()

    expect(failed_editor.get_by_role("group", name=re.compile("^step look"))).to_be_visible()
    failed_editor.get_by_role("button", name="YAML").click()
    expect(failed_editor.locator(".cm-content")).to_contain_text("title: typed last")
