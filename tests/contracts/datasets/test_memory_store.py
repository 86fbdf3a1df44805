"""The memory store keeps the contract, so tests that use it say something about the real ones."""

from urllib.parse import quote

import pytest

from core.errors import PlatformError
from datasets.adapters.memory import MemoryStore
from tests.contracts.blob_store import BlobStoreContract


class TestMemoryStore(BlobStoreContract):
    @pytest.fixture
    def store(self):
        return MemoryStore()

    @pytest.fixture
    def send(self, store):
        def perform(request, body):
            try:
                return True, store.perform(request.method, request.url, body)
            except PlatformError:
                return False, b""

        return perform

    def other_key(self, url):
        return url.replace(quote("packs/mine", safe=""), quote("packs/theirs", safe=""))
