"""Who may run jobs where no sandbox keeps them from the platform's files: such a job could make itself site admin."""

from collections.abc import Iterable

from django.conf import settings

from accounts.actor import Actor
from accounts.selectors import is_site_admin
from compute.errors import ResourceUnconfined
from compute.models import Job, Resource, Template


def require_use(*, actor: Actor, resources: Iterable[Resource]) -> None:
    """Raise ResourceUnconfined unless the actor may run jobs on these resources."""
    for resource in resources:
        if not (actor.is_site_admin or _is_open(resource)):
            raise ResourceUnconfined(_refusal(resource), resource=resource.name)


def require_templates(*, actor: Actor, full_names: Iterable[str]) -> None:
    """Raise ResourceUnconfined unless the actor may run jobs of these templates; unknown ones are ignored.

    Raises ResourceUnconfined.
    """
    shapes = Template.objects.filter(resource__detached_at=None).select_related("resource").order_by("pk")
    names = set(full_names)
    shapes = shapes.filter(name__in={name.partition(".")[2] for name in names})
    require_use(actor=actor, resources=[shape.resource for shape in shapes if shape.full_name in names])


def require_launch(job: Job) -> None:
    """Let a job start if who submitted it may run jobs on its resource, as that is now. Raises ResourceUnconfined."""
    if not (_is_open(job.resource) or is_site_admin(job.submitted_by)):
        raise ResourceUnconfined(_refusal(job.resource), resource=job.resource.name)


def describe_unconfined() -> list[str]:
    """Return for each resource without a sandbox what that means, as a text for the terminal."""
    unconfined = Resource.objects.filter(detached_at=None).exclude(unconfined_reason="").order_by("name")
    who = "The setting NEARLINE_ALLOW_UNCONFINED_JOBS lets everybody" if is_open_to_all() else "Only site admins may"
    return [
        f"Jobs on {resource.name} are not confined: {resource.unconfined_reason}\n"
        f"They can read and change the platform's files. {who} run them."
        for resource in unconfined
    ]


def is_open_to_all() -> bool:
    """Whether this installation lets everybody run jobs that are not confined."""
    return bool(settings.NEARLINE.allow_unconfined_jobs)


def _is_open(resource: Resource) -> bool:
    return not resource.unconfined_reason or is_open_to_all()


def _refusal(resource: Resource) -> str:
    return f"Jobs on {resource.name} are not confined, so only site admins may run them: {resource.unconfined_reason}"
