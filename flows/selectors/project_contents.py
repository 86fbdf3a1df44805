"""What becomes of a project's flows and runs when it is deleted."""

from accounts.models import Project
from accounts.permissions import Actor
from accounts.project_contents import MOST_ITEMS, Effect, Item
from core.units import count_of
from flows.engine.states import RUN_ENDS
from flows.models import Flow, FlowDraft, Run


def describe(*, actor: Actor, project: Project) -> list[Effect]:  # noqa: ARG001 (they are the project's own)
    """Return what a deletion does to them."""
    runs = Run.objects.filter(project=project, deleted_at=None, flow__deleted_at=None)
    live = runs.exclude(state__in=sorted(RUN_ENDS)).select_related("flow").order_by("pk")
    flows = Flow.objects.filter(project=project, deleted_at=None).order_by("name")
    run_count, flow_count, draft_count = runs.count(), flows.count(), FlowDraft.objects.filter(project=project).count()
    return [
        Effect(
            "live_runs",
            live_count := live.count(),
            f"{count_of(live_count, 'run')} not finished: what runs of it is stopped, and nothing more starts.",
            items=[Item(f"{run.flow.name} #{run.number}", f"by {run.created_by}") for run in live[:MOST_ITEMS]],
        ),
        Effect(
            "flows",
            flow_count,
            f"{count_of(flow_count, 'flow')} with {count_of(run_count, 'run')}: their versions, code and records go.",
            items=[Item(name) for name in flows.values_list("name", flat=True)[:MOST_ITEMS]],
        ),
        Effect("drafts", draft_count, f"{count_of(draft_count, 'draft')} of flows."),
    ]
