"""Every kind of cache site passes the contract of its driver; test_ssh_site has that of hosts, tests/kubernetes that of volumes."""

import pytest

from accounts.permissions import Actor
from datasets.adapters.sites import registry
from datasets.models import CacheSiteKind
from datasets.services import cache_sites
from tests.contracts.cache_site import CacheSiteContract

SYSTEM = Actor.system("test")


class TestFolder(CacheSiteContract):
    @pytest.fixture
    def site(self, db, tmp_path):
        return cache_sites.create_site(actor=SYSTEM, name="near", root=tmp_path / "near")

    @pytest.fixture
    def other_site(self, db, tmp_path):
        return cache_sites.create_site(actor=SYSTEM, name="far", root=tmp_path / "far")


class TestSimulated(CacheSiteContract):
    @pytest.fixture
    def site(self, db):
        return make_simulated("near")

    @pytest.fixture
    def other_site(self, db):
        return make_simulated("far")


def make_simulated(name: str):
    config = {"size_bytes": 100_000, "rate_bytes_s": 5000}
    return cache_sites.create_site(actor=SYSTEM, name=name, kind="simulated", config=config)


def test_every_kind_that_a_row_can_have_is_in_the_registry_and_in_this_suite():
    assert set(registry.KINDS) == set(CacheSiteKind) == {"existing", "folder", "nfs", "simulated", "ssh", "volume"}
