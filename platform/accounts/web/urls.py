"""Addresses of sign-in and of the settings pages."""

from django.urls import path
from django.views.generic import RedirectView

from accounts.web import audit_log, deletions, members, people, profile, secrets, sign_in, tokens

app_name = "accounts"
urlpatterns = [
    path("sign-in/<str:secret>/", sign_in.sign_in_by_link, name="sign_in_link"),
    path("settings/", RedirectView.as_view(pattern_name="accounts:profile"), name="settings"),
    path("settings/profile/", profile.profile_page, name="profile"),
    path("settings/tokens/", tokens.tokens_page, name="tokens"),
    path("settings/tokens/<str:token_id>/revoke/", tokens.revoke, name="revoke_token"),
    path("settings/members/", members.members_page, name="members"),
    path("settings/projects/", members.create_project, name="create_project"),
    path("settings/projects/<str:name>/roles/", members.set_role, name="set_role"),
    path("settings/projects/<str:name>/remove/", members.remove, name="remove_member"),
    path("settings/projects/<str:name>/secrets/", secrets.set_secret_users, name="set_secret_users"),
    path("settings/projects/<str:name>/secrets/set/", secrets.set_secret, name="set_secret"),
    path("settings/projects/<str:name>/secrets/<str:secret>/delete/", secrets.delete_secret, name="delete_secret"),
    path("settings/projects/<str:name>/delete/", deletions.delete_page, name="delete_project"),
    path("settings/deleted-projects/", deletions.deleted_page, name="deleted_projects"),
    path("settings/deleted-projects/<str:name>/restore/", deletions.restore, name="restore_project"),
    path("settings/deleted-projects/<str:name>/for-good/", deletions.delete_for_good, name="delete_project_for_good"),
    path("settings/people/", people.people_page, name="people"),
    path("settings/people/new/", people.add_person, name="add_person"),
    path("settings/people/<str:username>/link/", people.make_link, name="make_link"),
    path("settings/people/<str:username>/disable/", people.disable, name="disable_person"),
    path("settings/people/<str:username>/enable/", people.enable, name="enable_person"),
    path("settings/people/<str:username>/sign-out/", people.sign_out, name="sign_out_everywhere"),
    path("settings/audit/", audit_log.audit_page, name="audit"),
]
