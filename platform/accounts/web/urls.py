"""Addresses of sign-in and of the settings pages."""

from django.urls import path

from accounts.web import members, sign_in, tokens

app_name = "accounts"
urlpatterns = [
    path("sign-in/<str:secret>/", sign_in.sign_in_by_link, name="sign_in_link"),
    path("settings/tokens/", tokens.tokens_page, name="tokens"),
    path("settings/tokens/<str:token_id>/revoke/", tokens.revoke, name="revoke_token"),
    path("settings/members/", members.members_page, name="members"),
    path("settings/projects/", members.create_project, name="create_project"),
    path("settings/projects/<str:name>/roles/", members.set_role, name="set_role"),
    path("settings/projects/<str:name>/remove/", members.remove, name="remove_member"),
]
