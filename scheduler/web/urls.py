"""Addresses of quotas, and of forecasts."""

from django.urls import path

from scheduler.web import forecasts, quotas

app_name = "scheduler"
urlpatterns = [
    path("forecasts/", forecasts.forecasts_page, name="forecasts"),
    path("forecasts/forecasts.csv", forecasts.download_forecasts, name="forecasts_file"),
    path("quotas/", quotas.quotas_page, name="quotas"),
    path("quotas/changes/try/", quotas.try_change, name="try_change"),
    path("quotas/changes/save/", quotas.set_quotas, name="set_quotas"),
    path("quotas/departments/new/", quotas.create_department, name="create_department"),
    path("quotas/departments/<str:department>/save/", quotas.set_department, name="set_department"),
    path("quotas/sharing/save/", quotas.set_sharing, name="set_sharing"),
    path("quotas/pools/move/", quotas.move_resource, name="move_resource"),
    path("quotas/pools/take-out/", quotas.take_out_label, name="take_out_label"),
    path("quotas/<str:project>/", quotas.set_quota, name="set_quota"),
]
