"""A linked folder in the words of the tests."""

import os
from dataclasses import replace
from pathlib import Path

from nearline.content.retry import RetryPolicy
from nearline.transfer.local.workspace import Link, Workspace
from nearline.transfer.remote.retry import classify
from nearline.transfer.sync import status, sync
from nearline.transfer.sync.options import Options

LINK = Link("http://server", "team", "data", "main")
# Tries as often as in life, but without waiting.
OPTIONS = Options(threads=2, policy=RetryPolicy(classify, sleep=lambda _: None), pack_bytes=64 * 1024)
LONG_AGO_NS = 1_500_000_000_000_000_000


class Folder:
    def __init__(self, root, server):
        root.mkdir(exist_ok=True)
        self.root = root
        self.server = server
        self.workspace = Workspace.create(root, LINK)

    def write(self, files, *, mtime_ns=LONG_AGO_NS):
        """Write files long ago, so that their times can be trusted."""
        for name, content in files.items():
            path = self.path(name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
            os.utime(path, ns=(mtime_ns, mtime_ns))
        return self

    def remove(self, *names):
        for name in names:
            os.unlink(self.path(name))

    def path(self, name):
        return os.path.join(os.fsencode(self.root), os.fsencode(name))

    def sync(self, *, allow_collisions=False, **more):
        options = replace(OPTIONS, allow_collisions=allow_collisions)
        return sync.sync_folder(self.workspace, self.server, options=options, **more)

    def upload(self, *, allow_collisions=False, **more):
        options = replace(OPTIONS, allow_collisions=allow_collisions)
        return sync.upload_folder(self.workspace, self.server, options=options, **more)

    def download(self, ref=None):
        return sync.download_folder(self.workspace, self.server, ref=ref, options=OPTIONS)

    def status(self):
        return status.get_status(self.workspace, self.server, OPTIONS)

    def verify(self):
        return status.verify_folder(self.workspace, self.server, OPTIONS)

    def files(self):
        """All files and links below the folder, without its own folder."""
        found = {}
        root = os.fsencode(self.root)
        for place, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name != b".nearline"]
            for name in [*names, *(f for f in folders if os.path.islink(os.path.join(place, f)))]:
                path = os.path.join(place, name)
                content = os.readlink(path) if os.path.islink(path) else Path(os.fsdecode(path)).read_bytes()
                found[os.path.relpath(path, root)] = content
        return found
