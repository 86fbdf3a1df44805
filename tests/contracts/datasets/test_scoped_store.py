"""A part of a store keeps the contract of a whole one."""

import pytest

from core.errors import PlatformError
from datasets.adapters.memory import MemoryStore
from datasets.adapters.scoped import ScopedStore
from tests.contracts.datasets.test_memory_store import TestMemoryStore as MemoryStoreTests


class TestScopedStore(MemoryStoreTests):
    @pytest.fixture
    def whole(self):
        return MemoryStore()

    @pytest.fixture
    def store(self, whole):
        whole.put("datasets/theirs/packs/a", b"theirs")
        return ScopedStore(whole, "datasets/mine")

    @pytest.fixture
    def send(self, store, whole):
        def perform(request, body):
            try:
                return True, whole.perform(request.method, request.url, body)
            except PlatformError:
                return False, b""

        return perform

    def test_everything_lies_under_the_prefix(self, store, whole):
        store.put("packs/b", b"mine")

        assert whole.blobs == {"datasets/theirs/packs/a": b"theirs", "datasets/mine/packs/b": b"mine"}
        assert [blob.key for blob in store.list_blobs("")] == ["packs/b"]
