"""The product's addresses, and that of the page of components."""

from django.urls import path

from config.urls import handler404, handler500, urlpatterns
from tests.browser.components import views

__all__ = ["handler404", "handler500", "urlpatterns"]

urlpatterns = [
    *urlpatterns,
    path("components/", views.components_page),
    path("components/log/", views.read_log),
    path("components/away/", views.away_page),
]
