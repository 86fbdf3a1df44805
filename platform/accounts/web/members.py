"""Projects and their members, on one page with their secrets."""

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from accounts import running_work, selectors
from accounts.errors import InvalidName, ProjectExists, UserNotFound
from accounts.permissions import Level, Role
from accounts.services import projects
from accounts.web.requests import PageRequest, text, to_members
from core.pagination import paginate_by

_ROWS = 50
_ROLES = [(role.value, role.value) for role in Role]


class MemberForm(forms.Form):
    """Who gets which role."""

    username = forms.CharField(max_length=63, label="Name")
    role = forms.ChoiceField(choices=_ROLES, initial=Role.MEMBER)


class ProjectForm(forms.Form):
    """A new project."""

    name = forms.CharField(max_length=63, label="Name", help_text="Lower-case letters, digits and dashes.")
    description = forms.CharField(max_length=500, required=False, label="What is it about?")


class SecretForm(forms.Form):
    """A secret, new or with another value."""

    name = forms.CharField(max_length=100, label="Name", help_text="Of the environment variable, as HF_TOKEN.")
    value = forms.CharField(
        max_length=65536,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        label="Value",
        help_text="Of several lines: nearline secret set NAME < FILE",
    )


class SecretUsersForm(forms.Form):
    """Who may use the secrets."""

    secret_users = forms.ChoiceField(
        label="May start what uses them",
        choices=[(Role.MEMBER.value, "members and admins"), (Role.ADMIN.value, "admins only")],
    )


def members_page(request: PageRequest) -> HttpResponse:
    """Show the members of one project, and the projects to choose from."""
    return show_page(request)


def show_page(
    request: PageRequest,
    *,
    of: str | None = None,
    form: MemberForm | None = None,
    project_form: ProjectForm | None = None,
    secret_form: SecretForm | None = None,
) -> HttpResponse:
    """Show the page, of a project or of the one that the address names. The forms are those that were refused."""
    visible = list(selectors.list_projects(actor=request.actor))
    names = [project.name for project in visible]
    chosen = request.session.get("project")
    name = of or text(request, "project") or (chosen if chosen in names else next(iter(names), None))
    context: dict[str, object] = {
        "projects": visible,
        "roles": _ROLES,
        "has_deleted": selectors.list_deleted(actor=request.actor).exists(),
    }
    if projects.may_create_projects(request.actor):
        context["project_form"] = project_form or ProjectForm()
    if name is not None:
        project = selectors.get_project(actor=request.actor, name=name)
        person = text(request, "person") or ""
        members = selectors.list_members(actor=request.actor, project=project, person=person)
        cursor = text(request, "cursor")
        page = paginate_by(members, field="user__username", descending=False, cursor=cursor, limit=_ROWS)
        admins = selectors.list_members(actor=request.actor, project=project).filter(role=Role.ADMIN)[:2]
        is_admin = request.actor.level_in(project.id) == Level.ADMIN
        work = running_work.list_work([member.user.username for member in page.items]) if is_admin else []
        here = [item for item in work if item.project == project.name]
        context |= {
            "rows": [
                (member, [item for item in here if item.username == member.user.username]) for member in page.items
            ],
            "project": project,
            "project_name": project.name,
            "person": person,
            "page": page,
            "last_admin": admins[0] if len(admins) == 1 else None,
        }
        if is_admin:
            secrets = selectors.list_secrets(actor=request.actor, project=project)
            cursor = text(request, "secrets")
            context |= {
                "may_manage": True,
                "form": form or MemberForm(),
                "secrets": paginate_by(secrets, field="name", descending=False, cursor=cursor, limit=_ROWS),
                "secret_form": secret_form or SecretForm(auto_id="secret-%s"),
                "secret_users_form": SecretUsersForm(initial={"secret_users": project.secret_users}),
            }
    is_refused = form or project_form or secret_form
    return render(request, "accounts/members.html", context, status=422 if is_refused else 200)


@require_POST
def create_project(request: PageRequest) -> HttpResponse:
    """Create a project and go to its members."""
    form = ProjectForm(request.POST)
    if not form.is_valid():
        return show_page(request, project_form=form)
    try:
        project = projects.create_project(actor=request.actor, **form.cleaned_data)
    except (InvalidName, ProjectExists) as error:
        form.add_error("name", f"{error.message} {error.hint}")
        return show_page(request, project_form=form)
    messages.success(request, f"The project {project.name} exists, and you are its admin.")
    return to_members(request, project.name)


@require_POST
def set_role(request: PageRequest, name: str) -> HttpResponse:
    """Add a member, or change the role of one."""
    form = MemberForm(request.POST)
    if form.is_valid():
        project = selectors.get_project(actor=request.actor, name=name)
        username, role = form.cleaned_data["username"], Role(form.cleaned_data["role"])
        try:
            projects.set_role(actor=request.actor, project=project, username=username, role=role)
        except UserNotFound as error:
            form.add_error("username", f"{error.message} {error.hint}")
            return show_page(request, of=name, form=form)
        messages.success(request, f"{username} is now {role} of {name}.")
        return to_members(request, name)
    return show_page(request, of=name, form=form)


@require_POST
def remove(request: PageRequest, name: str) -> HttpResponse:
    """End a membership."""
    project = selectors.get_project(actor=request.actor, name=name)
    username = request.POST.get("username", "")
    projects.remove_member(actor=request.actor, project=project, username=username)
    messages.success(request, f"{username} is no longer a member of {name}.")
    return to_members(request, name)
