"""Addresses of flows, runs and experiments."""

from django.urls import path

from flows.web import (
    curves,
    editor,
    experiment_compare,
    experiment_table,
    experiments,
    flows,
    run_form,
    runs,
    saved_views,
    versions,
)

app_name = "flows"
_ONE = "flows/<str:project>/<str:name>/"
_EXPERIMENT = "experiments/<str:experiment_id>/"
urlpatterns = [
    path("flows/", flows.flows_page, name="flows"),
    path("flows/new/", editor.new_page, name="new"),
    path(_ONE, flows.flow_page, name="flow"),
    path(f"{_ONE}edit/", editor.edit_page, name="edit"),
    path(f"{_ONE}run/", run_form.run_form, name="start"),
    path(f"{_ONE}versions/", versions.versions_page, name="versions"),
    path("runs/<str:run_id>/", runs.run_page, name="run"),
    path("runs/<str:run_id>/cancel/", runs.cancel, name="cancel"),
    path("runs/<str:run_id>/retry/", runs.retry, name="retry"),
    path("experiments/", experiment_table.experiments_page, name="experiments"),
    path("experiments/csv/", experiment_table.experiments_csv, name="experiments_csv"),
    path("experiments/compare/", experiment_compare.compare_page, name="compare"),
    path("experiments/points/", curves.read_points, name="points"),
    path("experiments/numbers/", curves.numbers_page, name="numbers"),
    path("experiments/views/", saved_views.save, name="save_view"),
    path("experiments/views/<str:view_id>/delete/", saved_views.delete, name="delete_view"),
    path(_EXPERIMENT, experiments.experiment_page, name="experiment"),
    path(f"{_EXPERIMENT}note/", experiments.write_note, name="note"),
    path(f"{_EXPERIMENT}tags/", experiments.set_tag, name="set_tag"),
    path(f"{_EXPERIMENT}tags/remove/", experiments.remove_tag, name="remove_tag"),
    path(f"{_EXPERIMENT}artifacts/<path:path>", experiments.read_artifact, name="artifact"),
]
