"""Hosts are known by the leases of their controllers: who is there, under what name, and who is away."""

from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from compute.models import Resource
from core import clock, hosts
from core.errors import InvalidInput
from core.hosts import Host
from core.models import Lease
from datasets.models.cached_commit import CacheSite


@pytest.fixture
def on_host(settings):
    @contextmanager
    def become(host: str):
        before = settings.NEARLINE
        settings.NEARLINE = replace(before, host_id=host, broker_url="redis://127.0.0.1:1")
        yield
        settings.NEARLINE = before

    return become


@pytest.fixture(autouse=True)
def _two_hosts(db, on_host):
    for host, name in (("a", "ant"), ("b", "bee")):
        with on_host(host):
            hosts.take(holder=f"{name}:1")


def test_a_host_has_the_name_of_its_controllers_machine(on_host):
    with on_host("a"):
        assert list(hosts.list_hosts().values()) == [Host("a", "ant", False), Host("b", "bee", False)]
        assert (hosts.name_of("b"), hosts.name_of(hosts.ANY), hosts.name_of("c")) == ("bee", "", "c")


def test_a_host_is_away_half_a_minute_after_its_lease_ran_out_and_there_again_with_the_next(on_host):
    now = clock.now()
    with on_host("a"):
        with clock.frozen_at(now + timedelta(seconds=30)):
            soon = hosts.list_hosts()["b"].is_away
        with clock.frozen_at(now + timedelta(seconds=60)):
            hosts.take(holder="ant:1")
            later = [(host.id, host.is_away) for host in hosts.list_hosts().values()]

    assert (soon, later) == (False, [("a", False), ("b", True)])


def test_of_two_controllers_with_one_home_folder_one_works_for_the_host(on_host):
    with on_host("a"):
        assert (hosts.take(holder="ant:1"), hosts.take(holder="ant:2")) == (True, False)
        hosts.release(holder="ant:1")
        assert hosts.take(holder="ant:2")


def test_a_host_may_have_the_longest_id_that_the_setting_takes(on_host):
    longest = "n" * 64
    with on_host(longest):
        hosts.take(holder="nun:1")
        columns = [Resource._meta.get_field("host"), CacheSite._meta.get_field("host")]

        assert hosts.list_hosts()[longest] == Host(longest, "nun", False)
        assert [column.max_length for column in columns] == [len(longest)] * 2
        assert len(hosts.lease_name()) <= Lease._meta.get_field("name").max_length


def test_rows_of_this_host_and_of_any_are_worked_on_here(on_host):
    with on_host("a"):
        assert [hosts.is_here(host) for host in ("a", hosts.ANY, "b", hosts.UNBOUND)] == [True, True, False, False]


def test_a_host_is_chosen_by_name_or_id_and_must_be_named_where_there_are_several(on_host):
    with on_host("a"):
        assert (hosts.choose("bee"), hosts.choose("a")) == ("b", "a")
        with pytest.raises(InvalidInput, match="There are several hosts"):
            hosts.choose("")
        with pytest.raises(InvalidInput, match="no single host called 'cat'"):
            hosts.choose("cat")


def test_in_one_process_there_is_no_other_host(settings):
    assert (hosts.list_hosts(), hosts.choose(""), hosts.name_of("b")) == ({}, settings.NEARLINE.host_id, "")
