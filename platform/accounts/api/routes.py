"""Routes of people, projects and their members, tokens, secrets and the audit log."""

from django.urls import reverse
from ninja import Router, Status

from accounts import selectors
from accounts.api import schemas
from accounts.api.auth import ApiRequest, authenticate_or_check_password
from accounts.models import ApiToken, AuditEntry, Membership, Project, Secret, User
from accounts.permissions import Actor, Role
from accounts.services import access, deletions, projects, secrets, tokens
from accounts.services.deletions import DeletionForecast
from core import bounds
from core.pagination import Cursor, Limit, Page, paginate

router = Router()


@router.get("/me", response=schemas.MeOut, operation_id="accounts_get_me")
def get_me(request: ApiRequest) -> schemas.MeOut:
    """Say who the caller is, and the projects they are a member of."""
    actor = request.actor
    joined = selectors.list_joined(actor=actor)
    roles = [schemas.ProjectRoleOut(name=project.name, role=_role(actor, project)) for project in joined]
    return schemas.MeOut(name=actor.name, is_site_admin=actor.is_site_admin, projects=roles)


@router.patch("/me", response=schemas.MeOut, operation_id="accounts_set_own_name")
def set_own_name(request: ApiRequest, body: schemas.OwnNameIn) -> schemas.MeOut:
    """Change what you are called on pages."""
    access.set_own_name(actor=request.actor, **body.dict())
    return get_me(request)


@router.get("/projects", response=schemas.ProjectsOut, operation_id="accounts_list_projects")
def list_projects(request: ApiRequest, cursor: Cursor = None, limit: Limit = 100) -> Page[object]:
    """List your projects, oldest first; a site admin sees all."""
    visible = selectors.list_projects(actor=request.actor)
    page = paginate(visible, cursor=cursor, limit=limit, newest_first=False)
    return page.map(lambda project: _project_out(request.actor, project))


@router.post("/projects", response={201: schemas.ProjectOut}, operation_id="accounts_create_project")
def create_project(request: ApiRequest, body: schemas.ProjectIn) -> Status[schemas.ProjectOut]:
    """Create a project and become its first admin."""
    project = projects.create_project(actor=request.actor, name=body.name, description=body.description)
    return Status(201, _project_out(request.actor, project))


@router.patch("/projects/{project}", response=schemas.ProjectOut, operation_id="accounts_update_project")
def update_project(request: ApiRequest, project: str, body: schemas.ProjectPatch) -> schemas.ProjectOut:
    """Say which role may start what uses the project's secrets."""
    record = selectors.get_project(actor=request.actor, name=project)
    changed = secrets.set_secret_users(actor=request.actor, project=record, role=body.secret_users)
    return _project_out(request.actor, changed)


@router.get(
    "/projects/{project}/deletion", response=schemas.DeletionForecastOut, operation_id="accounts_foresee_deletion"
)
def foresee_deletion(request: ApiRequest, project: str) -> DeletionForecast:
    """Say what the deletion of a project would do to its work, its data and its members. Nothing changes."""
    record = selectors.get_project(actor=request.actor, name=project)
    return deletions.foresee_deletion(actor=request.actor, project=record)


@router.delete("/projects/{project}", response=schemas.DeletedProjectOut, operation_id="accounts_delete_project")
def delete_project(request: ApiRequest, project: str, *, for_good: bool = False) -> Project:
    """Delete a project: its work is stopped; the answer says until when it can be restored."""
    record = selectors.get_project(actor=request.actor, name=project)
    return deletions.delete_project(actor=request.actor, project=record, for_good=for_good)


@router.get("/deleted-projects", response=schemas.DeletedProjectsOut, operation_id="accounts_list_deleted_projects")
def list_deleted_projects(request: ApiRequest, cursor: Cursor = None, limit: Limit = 100) -> Page[Project]:
    """List the deleted projects that you may restore, and those whose removal goes on."""
    return paginate(selectors.list_deleted(actor=request.actor), cursor=cursor, limit=limit)


@router.post(
    "/deleted-projects/{project}/restore", response=schemas.ProjectOut, operation_id="accounts_restore_project"
)
def restore_project(request: ApiRequest, project: str) -> schemas.ProjectOut:
    """Bring back a deleted project with all that it had. What was stopped stays stopped."""
    deleted = selectors.get_deleted(actor=request.actor, name=project)
    return _project_out(request.actor, deletions.restore_project(actor=request.actor, project=deleted))


@router.delete("/deleted-projects/{project}", response={204: None}, operation_id="accounts_delete_project_for_good")
def delete_project_for_good(request: ApiRequest, project: str) -> Status[None]:
    """Delete a project for good that could still be restored."""
    deleted = selectors.get_deleted(actor=request.actor, name=project)
    deletions.delete_for_good(actor=request.actor, project=deleted)
    return Status(204, None)


@router.get("/projects/{project}/members", response=schemas.MembersOut, operation_id="accounts_list_members")
def list_members(request: ApiRequest, project: str, cursor: Cursor = None, limit: Limit = 100) -> Page[Membership]:
    """List the members of a project, oldest first."""
    record = selectors.get_project(actor=request.actor, name=project)
    members = selectors.list_members(actor=request.actor, project=record)
    return paginate(members, cursor=cursor, limit=limit, newest_first=False)


@router.get("/projects/{project}/members/{username}", response=schemas.MemberOut, operation_id="accounts_get_member")
def get_member(request: ApiRequest, project: str, username: str) -> Membership:
    """Return one member of a project."""
    record = selectors.get_project(actor=request.actor, name=project)
    return selectors.get_member(actor=request.actor, project=record, username=username)


@router.put("/projects/{project}/members/{username}", response=schemas.MemberOut, operation_id="accounts_set_role")
def set_role(request: ApiRequest, project: str, username: str, body: schemas.RoleIn) -> Membership:
    """Make a person a member of a project, or change a member's role."""
    record = selectors.get_project(actor=request.actor, name=project)
    return projects.set_role(actor=request.actor, project=record, username=username, role=body.role)


@router.delete("/projects/{project}/members/{username}", response={204: None}, operation_id="accounts_remove_member")
def remove_member(request: ApiRequest, project: str, username: str) -> Status[None]:
    """End a person's membership of a project."""
    record = selectors.get_project(actor=request.actor, name=project)
    projects.remove_member(actor=request.actor, project=record, username=username)
    return Status(204, None)


@router.get("/projects/{project}/secrets", response=schemas.SecretsOut, operation_id="accounts_list_secrets")
def list_secrets(request: ApiRequest, project: str, cursor: Cursor = None, limit: Limit = 100) -> Page[Secret]:
    """List the secrets of a project without their values, oldest first."""
    record = selectors.get_project(actor=request.actor, name=project)
    secrets = selectors.list_secrets(actor=request.actor, project=record)
    return paginate(secrets, cursor=cursor, limit=limit, newest_first=False)


@router.get("/projects/{project}/secrets/{name}", response=schemas.SecretOut, operation_id="accounts_get_secret")
def get_secret(request: ApiRequest, project: str, name: str) -> Secret:
    """Say whether a project has a secret, and since when. Its value is never shown."""
    record = selectors.get_project(actor=request.actor, name=project)
    return selectors.get_secret(actor=request.actor, project=record, name=name)


@router.put("/projects/{project}/secrets/{name}", response=schemas.SecretOut, operation_id="accounts_set_secret")
def set_secret(request: ApiRequest, project: str, name: str, body: schemas.SecretIn) -> Secret:
    """Store or replace a secret, which jobs of the project may ask for by name."""
    record = selectors.get_project(actor=request.actor, name=project)
    return secrets.set_secret(actor=request.actor, project=record, name=name, value=body.value)


@router.delete("/projects/{project}/secrets/{name}", response={204: None}, operation_id="accounts_delete_secret")
def delete_secret(request: ApiRequest, project: str, name: str) -> Status[None]:
    """Forget a secret."""
    record = selectors.get_project(actor=request.actor, name=project)
    secrets.delete_secret(actor=request.actor, project=record, name=name)
    return Status(204, None)


@router.get("/projects/{project}/audit", response=schemas.AuditOut, operation_id="accounts_list_audit_entries")
def list_audit_entries(
    request: ApiRequest, project: str, cursor: Cursor = None, limit: Limit = 100
) -> Page[AuditEntry]:
    """List who did what in a project, newest first."""
    record = selectors.get_project(actor=request.actor, name=project)
    entries = selectors.list_audit_entries(actor=request.actor, project=record)
    return paginate(entries, cursor=cursor, limit=limit)


@router.get("/tokens", response=schemas.TokensOut, operation_id="accounts_list_tokens")
def list_tokens(request: ApiRequest, cursor: Cursor = None, limit: Limit = 100) -> Page[ApiToken]:
    """List your tokens that are not revoked, newest first."""
    return paginate(selectors.list_tokens(actor=request.actor), cursor=cursor, limit=limit)


@router.post(
    "/tokens",
    response={201: schemas.NewTokenOut},
    operation_id="accounts_create_token",
    auth=authenticate_or_check_password,
    openapi_extra={"security": [{"token": []}, {"session": []}, {"password": []}]},
)
def create_token(request: ApiRequest, body: schemas.TokenIn) -> Status[schemas.NewTokenOut]:
    """Make a token of yours. Its secret is in this answer and nowhere else.

    Asked for by a token that ends, it ends no later than that one: `expires_at` of the answer says when.
    Who has no token yet can send name and password (Basic); wrong ones are limited as on the sign-in page.
    """
    token, secret = tokens.create_token(actor=request.actor, name=body.name, expires_at=body.expires_at)
    made = schemas.TokenOut.from_orm(token)
    return Status(201, schemas.NewTokenOut(**made.dict(), secret=secret))


@router.delete("/tokens/{token_id}", response={204: None}, operation_id="accounts_revoke_token")
def revoke_token(request: ApiRequest, token_id: str) -> Status[None]:
    """Make one of your tokens worthless."""
    tokens.revoke_token(actor=request.actor, token_id=token_id)
    return Status(204, None)


@router.post("/users", response={201: schemas.UserOut}, operation_id="accounts_create_user")
def create_user(request: ApiRequest, body: schemas.UserIn) -> Status[schemas.UserOut]:
    """Add a person. For site admins."""
    user = projects.create_user(actor=request.actor, **body.dict())
    return Status(201, _user_out(user))


@router.get("/users", response=schemas.UsersOut, operation_id="accounts_list_users")
def list_users(request: ApiRequest, cursor: Cursor = None, limit: Limit = 100) -> Page[object]:
    """List people, oldest first. For site admins."""
    page = paginate(selectors.list_people(actor=request.actor), cursor=cursor, limit=limit, newest_first=False)
    return page.map(_user_out)


@router.post("/users/{username}/disable", response=schemas.DisabledOut, operation_id="accounts_disable_person")
def disable_person(request: ApiRequest, username: str, body: schemas.DisableIn) -> schemas.DisabledOut:
    """Sign a person out everywhere for good, and list what runs for them. For site admins."""
    work = access.disable_person(actor=request.actor, username=username, stop_work=body.stop_work)
    user = selectors.get_person(actor=request.actor, username=username)
    items = [schemas.WorkItemOut.from_orm(item) for item in work]
    return schemas.DisabledOut(**_user_out(user).dict(), work=items)


@router.post("/users/{username}/enable", response=schemas.UserOut, operation_id="accounts_enable_person")
def enable_person(request: ApiRequest, username: str) -> schemas.UserOut:
    """Let a person sign in again. For site admins."""
    return _user_out(access.enable_person(actor=request.actor, username=username))


@router.post("/users/{username}/sign-out", response={204: None}, operation_id="accounts_sign_out_everywhere")
def sign_out_everywhere(request: ApiRequest, username: str, body: schemas.SignOutIn) -> Status[None]:
    """End every session of a person: your own, or for site admins anybody's."""
    access.sign_out_everywhere(actor=request.actor, username=username, revoke_tokens=body.revoke_tokens)
    return Status(204, None)


@router.post(
    "/users/{username}/sign-in-links", response={201: schemas.SignInLinkOut}, operation_id="accounts_make_sign_in_link"
)
def make_sign_in_link(request: ApiRequest, username: str) -> Status[schemas.SignInLinkOut]:
    """Make a link that signs a person in once within 30 minutes. For site admins."""
    secret = access.make_sign_in_link(actor=request.actor, username=username)
    url = request.build_absolute_uri(reverse("accounts:sign_in_link", args=[secret]))
    return Status(201, schemas.SignInLinkOut(url=url))


@router.get("/audit", response=schemas.AuditOut, operation_id="accounts_list_all_audit_entries")
def list_all_audit_entries(
    request: ApiRequest, area: str = "", person: bounds.Line = "", cursor: Cursor = None, limit: Limit = 100
) -> Page[AuditEntry]:
    """List who did what wherever you are an admin, newest first; a site admin sees all of it."""
    entries = selectors.list_audit_entries(actor=request.actor, area=area, person=person)
    return paginate(entries, cursor=cursor, limit=limit)


def _user_out(user: User) -> schemas.UserOut:
    return schemas.UserOut(username=user.username, is_site_admin=user.is_superuser, is_disabled=not user.is_active)


def _project_out(actor: Actor, project: Project) -> schemas.ProjectOut:
    return schemas.ProjectOut(
        id=project.pk,
        name=project.name,
        description=project.description,
        role=_role(actor, project),
        secret_users=Role(project.secret_users),
        created_at=project.created_at,
    )


def _role(actor: Actor, project: Project) -> Role:
    # A founder's own level is not in the actor, which was made before the project was.
    level = actor.level_in(project.pk)
    return Role.ADMIN if level is None else Role.of(level)
