"""Addresses of flows and runs."""

from django.urls import path

from flows.web import deletions, editor, flows, keep_form, run_form, runs, versions

app_name = "flows"
_ONE = "flows/<str:project>/<str:name>/"
urlpatterns = [
    path("flows/", flows.flows_page, name="flows"),
    path("flows/new/", editor.new_page, name="new"),
    path(_ONE, flows.flow_page, name="flow"),
    path(f"{_ONE}edit/", editor.edit_page, name="edit"),
    path(f"{_ONE}run/", run_form.run_form, name="start"),
    path(f"{_ONE}delete/", deletions.delete_flow, name="delete"),
    path(f"{_ONE}versions/", versions.versions_page, name="versions"),
    path("runs/<str:run_id>/", runs.run_page, name="run"),
    path("runs/<str:run_id>/cancel/", runs.cancel, name="cancel"),
    path("runs/<str:run_id>/delete/", deletions.delete_run, name="delete_run"),
    path("runs/<str:run_id>/retry/", runs.retry, name="retry"),
    path("runs/<str:run_id>/steps/<str:key>/keep/", keep_form.keep_form, name="keep"),
]
