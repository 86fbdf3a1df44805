"""Addresses of quotas."""

from django.urls import path

from scheduler.web import quotas

app_name = "scheduler"
urlpatterns = [
    path("quotas/", quotas.quotas_page, name="quotas"),
    path("quotas/<str:project>/", quotas.set_quota, name="set_quota"),
]
