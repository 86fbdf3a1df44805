"""The commands of `nearline data`."""

from nearline.cli.commands.data import (
    caches,
    deletion,
    files,
    folder,
    foreign,
    history,
    in_place,
    merging,
    names,
    presence,
    queries,
)
from nearline.cli.group import CommandGroup

app = CommandGroup(help="Versioned datasets: sync, clone, cache, history.")
app.add_typer(queries.app, name="query")

for name, function in {
    "init": folder.init,
    "link": folder.link,
    "sync": folder.sync,
    "upload": folder.upload,
    "download": folder.download,
    "status": folder.status,
    "verify": folder.verify,
    "put": files.put,
    "rm": files.remove,
    "clone": files.clone,
    "import": foreign.import_data,
    "export": foreign.export_data,
    "imports": in_place.list_imports,
    "promote": in_place.promote,
    "cancel-import": in_place.cancel,
    "list": files.list_datasets,
    "files": files.list_files,
    "commits": history.list_commits,
    "diff": history.diff,
    "damage": history.damage,
    "revert": history.revert,
    "branch": history.branch,
    "tag": history.tag,
    "merge": merging.merge,
    "mv": names.move,
    "rename": names.rename,
    "cache": caches.cache,
    "uncache": caches.uncache,
    "delete": deletion.delete,
    "deleted": deletion.list_deleted,
    "restore": deletion.restore,
}.items():
    app.command(name)(function)

# What cnvrg calls them.
for name, function in {
    "queries": queries.list_queries,
    "query_files": queries.list_query_files,
    "clone_query": files.clone_query,
    "scan": presence.scan,
    "block": presence.block,
    "set": folder.set_url,
}.items():
    app.command(name, hidden=True)(function)
