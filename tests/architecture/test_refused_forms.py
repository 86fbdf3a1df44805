"""No form leads away from what was typed: a refused one stays, or its page shows it again."""

import re
from pathlib import Path

from django.conf import settings

FORM = re.compile(r'<form\b([^>]*method="post".*?)</form>', re.DOTALL)
BY_HAND = re.compile(r'<(?:textarea|select|input)\b(?![^>]*type="hidden")|{% confirm ')
SHOWN_AGAIN_BY_THEIR_PAGES = {
    "account/login.html",
    "compute/attach.html",
    "datasets/cache_policy.html",
    "datasets/merge.html",
    "datasets/name_form.html",
    "flows/edit.html",
}


def test_a_form_whose_fields_are_written_by_hand_is_sent_by_htmx_and_stays():
    folders = [Path(folder) for folder in settings.TEMPLATES[0]["DIRS"]]
    leading_away = {
        str(template.relative_to(folder))
        for folder in folders
        for template in folder.rglob("*.html")
        for form in FORM.findall(template.read_text())
        if BY_HAND.search(form) and "hx-boost" not in form and "hx-post" not in form
    }

    assert leading_away == SHOWN_AGAIN_BY_THEIR_PAGES
