"""Addresses of flows, runs and experiments."""

from django.urls import path

from flows.web import experiments, flows, runs

app_name = "flows"
_ONE = "flows/<str:project>/<str:name>/"
urlpatterns = [
    path("flows/", flows.flows_page, name="flows"),
    path("flows/new/", flows.edit_page, name="new"),
    path(_ONE, flows.flow_page, name="flow"),
    path(f"{_ONE}edit/", flows.edit_page, name="edit"),
    path(f"{_ONE}run/", flows.run, name="start"),
    path("runs/<str:run_id>/", runs.run_page, name="run"),
    path("runs/<str:run_id>/cancel/", runs.cancel, name="cancel"),
    path("runs/<str:run_id>/retry/", runs.retry, name="retry"),
    path("runs/<str:run_id>/again/", runs.run_again, name="again"),
    path("runs/<str:run_id>/steps/<str:key>/log/", runs.read_log, name="log"),
    path("experiments/", experiments.experiments_page, name="experiments"),
    path("experiments/compare/", experiments.compare_page, name="compare"),
    path("experiments/<str:experiment_id>/", experiments.experiment_page, name="experiment"),
    path("experiments/<str:experiment_id>/artifacts/<path:path>", experiments.read_artifact, name="artifact"),
]
