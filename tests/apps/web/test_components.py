"""The components that pages are made of, and the names that they take from the bundle."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.template import Context, Template

from compute.engine.states import JobState
from core import clock
from datasets.engine.cache_states import CacheState
from flows.engine.states import AttemptState, RunState, StepState
from web import looks

ROOT = Path(__file__).resolve().parents[3]
NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def render(source: str, **values: object) -> str:
    return Template(source).render(Context(values))


def test_every_icon_that_a_page_names_is_in_the_sprite():
    known = set(json.loads((ROOT / "platform/web/ui/icons.json").read_text()))
    named = {
        name
        for template in ROOT.glob("**/web/templates/**/*.html")
        if ".venv" not in template.parts
        for name in re.findall(r'{% (?:icon|placeholder) "([a-z0-9-]+)"', template.read_text())
    }
    entries = {"layout-dashboard", "database", "sitemap", "flask", "list-details", "bolt", "server-2", "settings"}

    assert (named | entries | {look.icon for look in looks._LOOKS.values()}) - known == set()


@pytest.mark.parametrize("state", sorted({*JobState, *CacheState, *RunState, *StepState, *AttemptState}))
def test_every_state_has_a_look_of_its_own(state):
    assert state in looks._LOOKS


def test_a_state_is_icon_and_word_never_colour_alone():
    shown = render("{% state 'failed' %}")

    assert 'class="pill failed"' in shown
    assert "#alert-circle" in shown
    assert "Failed" in shown


def test_a_moment_is_relative_and_exact_in_its_tooltip():
    with clock.frozen_at(NOON):
        shown = render("{{ moment|ago }}", moment=NOON - timedelta(hours=3))

    assert ">3 h ago</time>" in shown
    assert 'title="2026-11-21 09:00:00 UTC"' in shown


def test_what_runs_is_timed_up_to_now():
    with clock.frozen_at(NOON):
        assert render("{{ start|between:None }}", start=NOON - timedelta(seconds=200)) == "3 min 20 s"


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("{{ 250000000000|bytes }}", "250 GB"),
        ("{{ nothing|bytes }}", "\N{EN DASH}"),
        ("{{ 627615|count }}", "627,615"),
        ("{{ 500|gpus }}", "0.5"),
        ("{{ 1500|cpus }}", "1.5"),
        ("{{ 'c01d2aaf00'|short }}", "c01d2aaf"),
    ],
)
def test_quantities_are_written_one_way(source, shown):
    assert render(source, nothing=None) == shown


def test_a_command_is_escaped_in_text_and_attribute():
    shown = render("{% command text %}", text='echo "<b>"')

    assert "<b>" not in shown
    assert 'data-copies="echo &quot;&lt;b&gt;&quot;"' in shown


def test_a_name_in_a_dialog_is_escaped():
    shown = render("{% dialog 'gone' title %}{{ text }}{% enddialog %}", title="<i>", text="<script>")

    assert "<i>" not in shown
    assert "<script>" not in shown


def test_no_template_carries_script_or_style_that_the_policy_forbids():
    offenders = [
        str(template)
        for template in ROOT.glob("**/web/templates/**/*.html")
        if ".venv" not in template.parts and re.search(r"<style|<script>|\sstyle=|\son[a-z]+=", template.read_text())
    ]

    assert offenders == []
