"""Drafts: what somebody writes on a flow is kept until it becomes a version or is thrown away."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db import transaction

from accounts import audit
from accounts.models import Project
from accounts.permissions import Actor, require
from core import clock
from core.errors import InvalidInput
from flows import permissions
from flows.engine import checks
from flows.engine.flow_file import MAX_YAML_BYTES
from flows.errors import DraftMoved, DraftTooLarge, FlowMoved
from flows.models import Flow, FlowDraft, FlowVersion
from flows.services import bundles, flows

_MAX_PLACES = 20_000
_FARTHEST_PX = 1_000_000


@dataclass(frozen=True)
class Writing:
    """What somebody has written. The fields mean what those of `FlowDraft` mean."""

    text: str
    layout: Mapping[str, Sequence[float]] = field(default_factory=dict)
    base_version: int | None = None
    example: str = ""


@transaction.atomic
def keep_draft(*, actor: Actor, project: Project, key: str, writing: Writing, revision: int) -> FlowDraft:
    """Keep a draft over the one with that revision (0: there is none yet). The first one has revision 1.

    Raises DraftMoved when another window kept something in between, DraftTooLarge, and InvalidInput.
    """
    require(actor, permissions.PUSH_FLOW, project.pk)
    if actor.user_id is None:
        raise InvalidInput("Drafts belong to people; the platform writes none.")
    if len(writing.text.encode(errors="surrogatepass")) > MAX_YAML_BYTES:
        raise DraftTooLarge(f"The draft is larger than {MAX_YAML_BYTES // 2**10} KiB.")
    content = {
        "text": writing.text,
        "layout": _checked_layout(writing.layout),
        "base_version": writing.base_version,
        "example": writing.example,
        "updated_at": clock.now(),
    }
    own = FlowDraft.objects.filter(user_id=actor.user_id, project=project, key=key)
    is_kept = own.filter(revision=revision).update(**content, revision=revision + 1) == 1
    draft, is_new = own.get_or_create(user_id=actor.user_id, project=project, key=key, defaults=content)
    if not (is_kept or is_new) and (draft.text, draft.layout) != (content["text"], content["layout"]):
        raise DraftMoved(
            "This draft was changed in another window of yours.",
            text=draft.text,
            layout=draft.layout,
            revision=draft.revision,
            updated_at=draft.updated_at.isoformat(),
        )
    return draft


@transaction.atomic
def discard_draft(*, actor: Actor, project: Project, key: str) -> None:
    """Throw a draft away; none is fine too."""
    require(actor, permissions.PUSH_FLOW, project.pk)
    FlowDraft.objects.filter(user_id=actor.user_id or 0, project=project, key=key).delete()


def publish(*, actor: Actor, project: Project, key: str, writing: Writing) -> FlowVersion:
    """Keep what was written as a version of the flow that its text names, with the code of the version it began from.

    Content that is known is the version that has it; its text and its layout become those written. The draft goes.
    Raises InvalidFlow with all problems, and FlowMoved when the flow is no longer at `base_version`.
    """
    require(actor, permissions.PUSH_FLOW, project.pk)
    layout = _checked_layout(writing.layout)
    read = checks.check(writing.text, "yaml", project=project.name).read
    example = ""
    if writing.example and read:
        example = bundles.save_example_code(actor=actor, project=project, name=writing.example).sha256
    with transaction.atomic():
        began_from = _check_base(project, key, read.flow if read else key, writing.base_version)
        bundle = (began_from.bundle if began_from else "") or example
        version = flows.save_version(actor=actor, project=project, text=writing.text, bundle=bundle)
        if (version.text, version.layout) != (writing.text, layout):
            FlowVersion.objects.filter(pk=version.pk).update(text=writing.text, format="yaml", layout=layout)
            audit.record(actor, "flows.edit_version", version, project_id=project.pk, flow=version.flow.name)
        discard_draft(actor=actor, project=project, key=key)
    return FlowVersion.objects.select_related("flow__project").get(pk=version.pk)


def _check_base(project: Project, key: str, name: str, base_version: int | None) -> FlowVersion | None:
    """Return the version that the writing began from; its flow stays locked until the transaction ends."""
    flow = Flow.objects.select_for_update().filter(project=project, name=name, deleted_at=None).first()
    newest = FlowVersion.objects.filter(flow=flow).order_by("-number").first() if flow else None
    expected = base_version if name == key else None
    if newest is not None and newest.number != expected:
        raise FlowMoved(
            f"{newest.created_by} kept version {newest.number} of {name} while you wrote."
            if name == key
            else f"There is a flow called {name} already: version {newest.number} by {newest.created_by}.",
            flow=name,
            number=newest.number,
            created_by=newest.created_by,
            text=newest.text,
            layout=newest.layout,
        )
    if name == key:
        return newest
    # Under another name it becomes a flow of its own, and keeps the code of the one that it was made from.
    versions = FlowVersion.objects.filter(flow__project=project, flow__name=key, flow__deleted_at=None)
    return versions.filter(number=base_version or 0).first()


def _checked_layout(layout: Mapping[str, Sequence[float]]) -> dict[str, list[int]]:
    if len(layout) > _MAX_PLACES:
        raise InvalidInput(f"A layout has at most {_MAX_PLACES} places.")
    places = {key: [round(number) for number in place] for key, place in layout.items()}
    if any(abs(number) > _FARTHEST_PX for place in places.values() for number in place):
        raise InvalidInput("A place of the layout is too far away.")
    return places
