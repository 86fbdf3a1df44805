"""Reads about people and projects, limited to what the actor may see."""

from django.db.models import Count, QuerySet

from accounts import permissions
from accounts.actor import Actor
from accounts.errors import ProjectNotFound, SecretNotFound, UserNotFound
from accounts.models import ApiToken, AuditEntry, Membership, Project, Secret, User
from accounts.permissions import Role, require


def actor_of(user: User) -> Actor:
    """Return the actor that a signed-in person is."""
    roles = Membership.objects.filter(user=user).values_list("project_id", "role")
    return Actor(
        user_id=user.pk,
        name=user.username,
        is_site_admin=user.is_superuser,
        levels={project_id: Role(role).level for project_id, role in roles},
    )


def find_actor(user_id: int) -> Actor | None:
    """Return the actor that a person is, with the levels of now; None where there is no active one."""
    user = User.objects.filter(pk=user_id, is_active=True).first()
    return None if user is None else actor_of(user)


def is_site_admin(name: str) -> bool:
    """Whether the actor of that name is a site admin, or the platform itself."""
    is_platform = name.startswith(Actor.system("").name)  # no person can be called so
    return is_platform or User.objects.filter(username=name, is_superuser=True, is_active=True).exists()


def list_projects(*, actor: Actor) -> QuerySet[Project]:
    """Return the projects that the actor is a member of; all of them to a site admin."""
    projects = Project.objects.order_by("name")
    return projects if actor.sees_everything else projects.filter(pk__in=actor.project_ids)


def get_project(*, actor: Actor, name: str) -> Project:
    """Return a project by name. Raises ProjectNotFound, also to those who are not members."""
    project = list_projects(actor=actor).filter(name=name).first()
    if project is None:
        raise ProjectNotFound(f"There is no project called '{name}', or you are not a member of it.")
    return project


def list_members(*, actor: Actor, project: Project) -> QuerySet[Membership]:
    """Return the members of a project by name."""
    require(actor, permissions.VIEW_PROJECT, project.id)
    return Membership.objects.filter(project=project).select_related("user").order_by("user__username")


def get_member(*, actor: Actor, project: Project, username: str) -> Membership:
    """Return one member of a project. Raises UserNotFound."""
    member = list_members(actor=actor, project=project).filter(user__username=username).first()
    if member is None:
        raise UserNotFound(f"'{username}' is not a member of {project.name}.")
    return member


def list_tokens(*, actor: Actor) -> QuerySet[ApiToken]:
    """Return the actor's own tokens that are not revoked, newest first."""
    return ApiToken.objects.filter(user_id=actor.user_id or 0, revoked_at=None).order_by("-pk")


def list_secrets(*, actor: Actor, project: Project) -> QuerySet[Secret]:
    """Return the names of a project's secrets; the values are never shown."""
    require(actor, permissions.MANAGE_SECRETS, project.id)
    return Secret.objects.filter(project=project).defer("ciphertext").order_by("name")


def get_secret(*, actor: Actor, project: Project, name: str) -> Secret:
    """Return a project's secret without its value. Raises SecretNotFound."""
    secret = list_secrets(actor=actor, project=project).filter(name=name).first()
    if secret is None:
        raise SecretNotFound(f"{project.name} has no secret called '{name}'.")
    return secret


def list_audit_entries(
    *, actor: Actor, project: Project | None = None, area: str = "", person: str = ""
) -> QuerySet[AuditEntry]:
    """Return who did what, newest first: in one project, or wherever the actor is an admin.

    A site admin also sees what belongs to no project. `area` is the part of an action before its dot; `person` a part
    of who did it.
    """
    entries = AuditEntry.objects.order_by("-pk")
    if project is not None:
        require(actor, permissions.VIEW_AUDIT_LOG, project.id)
        entries = entries.filter(project_id=project.id)
    elif not actor.sees_everything:
        own = [project_id for project_id, level in actor.levels.items() if level >= permissions.VIEW_AUDIT_LOG.level]
        entries = entries.filter(project_id__in=own)
    if area:
        entries = entries.filter(action__startswith=f"{area}.")
    return entries.filter(actor_name__icontains=person) if person else entries


def list_people(*, actor: Actor) -> QuerySet[User]:
    """Return everybody by name, with the number of their projects (`project_count`). For site admins."""
    permissions.require_site_admin(actor, "list people")
    return User.objects.annotate(project_count=Count("memberships")).order_by("username")


def get_person(*, actor: Actor, username: str) -> User:
    """Return a person; oneself, or for site admins anybody. Raises UserNotFound."""
    people = User.objects.all() if actor.is_site_admin else User.objects.filter(pk=actor.user_id or 0)
    person = people.filter(username=username).first()
    if person is None:
        raise UserNotFound(f"There is nobody called '{username}'.")
    return person
