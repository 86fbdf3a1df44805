"""A form that was refused stands on its page, at the address of the page: the links there lead where they led before."""

import pytest

from tests.factories.browsers import browser_of
from tests.factories.datasets import make_dataset, make_store

pytestmark = pytest.mark.django_db

NAMES = "/datasets/team-a/xrays/names/"
IMPORTS = "/datasets/team-a/xrays/imports/"


@pytest.mark.parametrize(
    ("taken_at", "page"),
    [
        ("/settings/cache/new/", "/settings/cache/"),
        ("/settings/sources/set/", "/settings/sources/"),
        (f"{NAMES}create/", f"{NAMES}?q=main"),
        (f"{IMPORTS}start/", f"{IMPORTS}?cursor="),
    ],
)
def test_a_refused_form_stands_at_the_address_of_its_page(site_admin, project, tmp_path, taken_at, page):
    make_store(tmp_path)
    make_dataset(site_admin, project, "xrays")
    browser = browser_of(site_admin)

    answer = browser.post(taken_at, {}, headers={"Referer": f"http://testserver{page}"})

    assert answer.status_code == 422
    assert f'data-address="{page}"' in answer.content.decode()
