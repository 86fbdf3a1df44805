"""Addresses of quotas, and of forecasts."""

from django.urls import path

from scheduler.web import forecasts, quotas

app_name = "scheduler"
urlpatterns = [
    path("forecasts/", forecasts.forecasts_page, name="forecasts"),
    path("quotas/", quotas.quotas_page, name="quotas"),
    path("quotas/changes/save/", quotas.set_quotas, name="set_quotas"),
    path("quotas/departments/new/", quotas.create_department, name="create_department"),
    path("quotas/pools/move/", quotas.move_resource, name="move_resource"),
    path("quotas/<str:project>/", quotas.set_quota, name="set_quota"),
]
