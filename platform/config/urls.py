"""Every address of the product: pages, the API, the folder store, sign-in, health."""

from allauth.account.views import login, logout, password_change, password_set
from django.contrib.auth.decorators import login_not_required
from django.urls import include, path

from config import health
from config.api import api
from datasets.web import store_views
from web.live import live_page
from web.views import activity, projects_page, search_page

urlpatterns = [
    path("", include("compute.web.urls")),
    path("", include("datasets.web.urls")),
    path("", include("scheduler.web.urls")),
    path("", include("flows.web.urls")),
    path("", include("experiments.web.urls")),
    path("", include("accounts.web.urls")),
    path("settings/health/", health.health_page, name="health"),
    path("search/", search_page, name="search"),
    path("projects/", projects_page, name="projects"),
    path("activity/", activity, name="activity"),
    path("live/", live_page, name="live"),
    path("accounts/login/", login, name="account_login"),
    path("accounts/logout/", logout, name="account_logout"),
    path("accounts/password/change/", password_change, name="account_change_password"),
    path("accounts/password/set/", password_set, name="account_set_password"),
    path("api/v1/", api.urls),
    path("store/<str:signed>", store_views.store_object),
    path("healthz", login_not_required(health.healthz), name="healthz"),
    path("readyz", login_not_required(health.readyz), name="readyz"),
    path("metrics", login_not_required(health.metrics), name="metrics"),
]

handler400 = "web.error_pages.bad_request"
handler404 = "web.error_pages.not_found"
handler500 = "web.error_pages.server_error"
