"""Addresses of datasets and cache sites."""

from django.urls import path

from datasets.web import (
    cache_policy,
    cache_sites,
    caching,
    commits,
    compare,
    content,
    edits,
    files,
    hub,
    names,
    queries,
    storage,
    usage,
)

app_name = "datasets"
_ONE = "datasets/<str:project>/<str:name>/"
urlpatterns = [
    path("datasets/", hub.hub_page, name="hub"),
    path("datasets/new/", hub.create, name="create"),
    path(_ONE, files.files_page, name="files"),
    path(f"{_ONE}content/", content.read_content, name="content"),
    path(f"{_ONE}thumbnail/", content.read_thumbnail, name="thumbnail"),
    path(f"{_ONE}edit/", edits.edit_path, name="edit_path"),
    path(f"{_ONE}edit/rename/", edits.rename, name="rename_path"),
    path(f"{_ONE}edit/remove/", edits.remove, name="remove_path"),
    path(f"{_ONE}commits/", commits.commits_page, name="commits"),
    path(f"{_ONE}compare/", compare.compare_page, name="compare"),
    path(f"{_ONE}names/", names.names_page, name="names"),
    path(f"{_ONE}names/create/", names.create_name, name="create_name"),
    path(f"{_ONE}names/delete/", names.delete_name, name="delete_name"),
    path(f"{_ONE}names/move/", names.move_branch, name="move_branch"),
    path(f"{_ONE}queries/", queries.queries_page, name="queries"),
    path(f"{_ONE}queries/<str:query>/", queries.query_page, name="query"),
    path(f"{_ONE}queries/<str:query>/select/", queries.select, name="select"),
    path(f"{_ONE}queries/<str:query>/delete/", queries.delete_query, name="delete_query"),
    path(f"{_ONE}usage/", usage.usage_page, name="usage"),
    path(f"{_ONE}settings/", names.settings_page, name="settings"),
    path(f"{_ONE}delete/", names.delete, name="delete"),
    path(f"{_ONE}commits/<str:commit_id>/", commits.commit_dialog, name="commit_dialog"),
    path(f"{_ONE}commits/<str:commit_id>/revert/", commits.revert, name="revert"),
    path(f"{_ONE}commits/<str:commit_id>/cache/", caching.cache_dialog, name="cache_dialog"),
    path(f"{_ONE}commits/<str:commit_id>/cache/forecast/", caching.cache_forecast, name="cache_forecast"),
    path(f"{_ONE}commits/<str:commit_id>/cache/start/", caching.cache, name="cache"),
    path("cache/", cache_sites.caches_page, name="caches"),
    path("settings/cache/", cache_policy.policy_page, name="cache_policy"),
    path("settings/cache/new/", cache_policy.add_site, name="add_cache_site"),
    path("settings/cache/<str:name>/", cache_policy.change_site, name="change_cache_site"),
    path("settings/storage/", storage.storage_page, name="storage"),
    path("settings/storage/<str:project>/", storage.set_limit, name="set_storage_limit"),
    path("cache/<str:cached_commit_id>/clear/", caching.clear, name="clear_cache"),
    path("cache/<str:cached_commit_id>/pin/", caching.pin, name="pin_cache"),
    path("cache/<str:cached_commit_id>/scrub/", caching.scrub, name="scrub_cache"),
]
