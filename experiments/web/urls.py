"""Addresses of experiments."""

from django.urls import path

from experiments.web import comparison, curves, experiments, saved_views, table

app_name = "experiments"
_ONE = "experiments/<str:experiment_id>/"
urlpatterns = [
    path("experiments/", table.experiments_page, name="experiments"),
    path("experiments/csv/", table.experiments_csv, name="experiments_csv"),
    path("experiments/compare/", comparison.compare_page, name="compare"),
    path("experiments/points/", curves.read_points, name="points"),
    path("experiments/numbers/", curves.numbers_page, name="numbers"),
    path("experiments/views/", saved_views.save, name="save_view"),
    path("experiments/views/<str:view_id>/rename/", saved_views.rename, name="rename_view"),
    path("experiments/views/<str:view_id>/delete/", saved_views.delete, name="delete_view"),
    path(_ONE, experiments.experiment_page, name="experiment"),
    path(f"{_ONE}delete/", experiments.delete, name="delete"),
    path(f"{_ONE}note/", experiments.write_note, name="note"),
    path(f"{_ONE}tags/", experiments.set_tag, name="set_tag"),
    path(f"{_ONE}tags/remove/", experiments.remove_tag, name="remove_tag"),
    path(f"{_ONE}artifacts/<file:path>", experiments.read_artifact, name="artifact"),
]
