"""Quotas: what projects and departments are guaranteed in a pool, what they hold and ask for; tried, then changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_POST

from accounts.errors import InvalidName
from accounts.services.projects import may_create_projects
from accounts.web.requests import PageRequest, text
from core import clock, units
from core.errors import InvalidInput
from core.units import ONE_GPU
from scheduler.engine.sharing import PRESETS, PROMPT, Rules, SharingRules, name_of, with_changes
from scheduler.errors import DepartmentExists, InvalidQuota, QueueNotFound
from scheduler.models import Pool, Queue
from scheduler.selectors import pools, queues, usage
from scheduler.selectors.snapshots import find_packing, view_rules
from scheduler.selectors.usage import find_past_use
from scheduler.services import pools as pool_services
from scheduler.services import queues as services
from scheduler.services.queues import QueueSettings
from scheduler.web.quota_form import SETTINGS, DepartmentForm, QuotaForm
from scheduler.web.sharing_form import RuleValue, SharingForm, of_queue, write_rules
from scheduler.workers import cycle, packing, trials
from scheduler.workers.standing import read_standing
from scheduler.workers.trials import QuotaTrial
from web import refused_forms
from web.refused_forms import explain_errors
from web.series import Chart, Series

_MOST_ROWS, _FEW_ROWS = 500, 10
_HUES = 7
_PAST, _POINTS = timedelta(hours=2), 121
_GPUS = "gpus:"
"""Begins the names of the fields that change several quotas at once; the id of the queue follows."""
_PROTECTION = "csrfmiddlewaretoken"


@dataclass(frozen=True)
class Row:
    """One project or department; GPUs in thousandths.

    `then_milli`: its fair share after the change that is tried. `tried`: the queue after it; None: it stays as it is.
    """

    queue: Queue
    tried: Queue | None
    depth: int
    hue: int
    held_milli: int
    asked_milli: int
    waiting: int
    fair_milli: int
    then_milli: int | None
    field: str
    written: str
    rules: Sequence[RuleValue]

    @property
    def shown(self) -> Queue:
        """What the form shows: what is tried, else what is stored."""
        return self.tried or self.queue

    @property
    def indents(self) -> range:
        """One step for each department above it."""
        return range(self.depth)

    @property
    def is_department(self) -> bool:
        """Whether it is a department."""
        return self.queue.project_id is None

    @property
    def borrowed_milli(self) -> int:
        """What it holds beyond its quota."""
        return max(0, self.held_milli - self.queue.gpu_quota_milli)

    @property
    def top_milli(self) -> int:
        """Where its bar ends."""
        return max(self.held_milli, self.queue.gpu_quota_milli, 1)


@dataclass(frozen=True)
class Saving:
    """The form that saves what is tried: where it is sent, and its fields."""

    address: str
    fields: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Move:
    """What may move to another pool, and what would happen to its work: a resource, or its nodes with a label.

    Without a label these are the nodes of the resource that no label puts into another pool.
    """

    resource: str
    label: str
    text: str

    @property
    def place(self) -> str:
        """The value of its field."""
        return f"{self.resource}:{self.label}" if self.label else self.resource

    @property
    def words(self) -> str:
        """What it is called."""
        return f"{self.resource}, its nodes with {self.label}" if self.label else self.resource


@dataclass(frozen=True)
class Removal:
    """A label that may be taken out of a pool, and what would happen to the work on its nodes."""

    label: pools.PoolLabel
    text: str


def quotas_page(request: PageRequest) -> HttpResponse:
    """Show a pool: what the person may see of its projects. A change that the fields name is tried, not made.

    `try` names one project, or with `is_department` one department, whose settings would be as the other fields say;
    `preset`, or `sharing` with the fields of all rules, tries other rules of the pool; fields that begin with `gpus:`
    change the quotas of several. `change` names the queue whose form htmx asks for; `q` is a part of the names to show.
    """
    only, name = text(request, "project"), text(request, "pool") or pools.DEFAULT
    pools.require_pool(actor=request.actor, name=name)
    everywhere = pools.view_pools(list(pools.list_pools(actor=request.actor)))
    here = next((view for view in everywhere if view.pool.name == name), None)
    projects: list[Any] = list(queues.list_queues(actor=request.actor, pool=name).order_by("project__name"))
    departments = queues.list_departments(actor=request.actor, pool=name)
    changes = _read_changes(request.GET, [*projects, *departments])
    tried_rules = _read_rules(request.GET)
    trial = None
    if (changes or tried_rules) and here is not None:
        trial = trials.try_quotas(actor=request.actor, pool=here.pool, changes=changes, sharing=tried_rules)
    rules = view_rules(here.pool) if here is not None else PROMPT
    changed = services.with_changes(actor=request.actor, changes=changes) if trial is not None else []
    quota_form = refused_forms.shown(request, QuotaForm())
    asked = quota_form.queue.pk if quota_form.queue else text(request, "change") if request.htmx else None
    dialog: dict[str, Any] = {}
    if asked:
        rows = _tree(projects, departments, {}, trial, request.GET, changed=changed, rules=rules)
        dialog = {"row": next((row for row in rows if row.queue.pk == asked), None), "form": quota_form, "pool": name}
        if (row := dialog["row"]) is not None:
            quota_form.show(row.shown, departments, row.rules, has_pools=len(everywhere) > 1)
        if request.htmx:
            return render(request, "scheduler/quota_dialog.html", dialog)
    fair = cycle.fair_shares(here.pool.pk) if here is not None else {}
    standing = read_standing(actor=request.actor, pool=name, fair=fair)
    rows = _tree(projects, departments, fair, trial, request.GET, changed=changed, rules=rules)
    part = text(request, "q") or ""
    named = [row for row in rows if only in {None, row.queue.label} and part.casefold() in row.queue.label.casefold()]
    shown = named[:_MOST_ROWS]
    leaves = [row for row in rows if not row.is_department]
    context: dict[str, Any] = {
        "rows": shown,
        "part": part,
        "not_shown": len(named) - len(shown),
        "is_searched": part or len(rows) > _FEW_ROWS,
        "projects": [row for row in shown if not row.is_department],
        "project_name": only,
        "pool": name,
        "pools": everywhere,
        "labels": here.labels if here is not None else (),
        "has_simulated": here is not None and here.has_simulated,
        "total_milli": here.gpu_milli if here is not None else 0,
        "quota_milli": sum(row.queue.gpu_quota_milli for row in leaves),
        "loans": [loan for loan in standing.loans if only in {None, loan.lender, loan.borrower}],
        "small_quotas": [each for each in standing.small_quotas if only in {None, each.project}],
        "below": [each for each in standing.below if only in {None, each.project}],
        "has_limits": any(row.queue.gpu_limit_milli is not None for row in rows),
        "departments": departments,
        "trial": trial,
        "tried": [
            *(_describe_change(queue, settings) for queue, settings in changes),
            *(["other sharing rules"] if tried_rules else []),
        ],
        "saving": _saving_of(request.GET, changes, tried_rules),
        "is_edited": bool(text(request, "edit")),
        "packing": find_packing(),
        "enough_to_pack": packing.ENOUGH,
    }
    if request.htmx:
        return render(request, "scheduler/quotas_live.html", context)
    context["dialog"] = dialog
    context["department_form"] = refused_forms.shown(request, DepartmentForm())
    context["moves"] = _moves(request, here) if here is not None and request.actor.is_site_admin else []
    context["has_whole"] = here is not None and bool(here.whole)
    context["removals"] = _removals(request, here) if here is not None and request.actor.is_site_admin else []
    context["may_create_projects"] = may_create_projects(request.actor)
    context["chart"] = _chart_of(leaves, only)
    if here is not None:
        then = with_changes(rules, tried_rules)
        past_use = find_past_use(here.pool, then, here.gpu_milli)
        context["sharing"] = {
            "name": name_of(rules),
            "others": sorted(PRESETS.keys() - {name_of(rules)}),
            "rules": then,
            "are_tried": then != rules,
            "form": refused_forms.shown(request, SharingForm(initial=write_rules(then))),
            "past_use": [(row, past_use[row.queue.pk]) for row in shown if row.queue.pk in past_use],
        }
    return render(request, "scheduler/quotas.html", context)


@require_POST
def try_change(request: PageRequest) -> HttpResponse:
    """Lead to the page that shows what the change in the fields would do.

    The forms hold a token against forgery, which an address would leave in histories, logs and bookmarks.
    """
    pool = request.POST.get("pool") or pools.DEFAULT
    if (refused := _find_refused(request, pool)) is not None:
        return refused_forms.show_again(request, "scheduler:quotas", refused, pool=pool)
    _read_changes(request.POST, _rows_of(request, pool))  # refuses here, where its form still stands
    fields = request.POST.copy()
    fields.pop(_PROTECTION, None)
    return redirect(f"{reverse('scheduler:quotas')}?{fields.urlencode()}")


@require_POST
def set_quota(request: PageRequest, project: str) -> HttpResponse:
    """Change what a project is guaranteed in a pool, and the rules for its work."""
    pool = request.POST.get("pool") or pools.DEFAULT
    queue = queues.get_queue(actor=request.actor, project=project, pool=pool)
    services.require_set_quota(actor=request.actor)
    return _set(request, queue, "quota")


def _set(request: PageRequest, queue: Queue, what: str) -> HttpResponse:
    form = QuotaForm(queue, request.POST)
    if form.is_valid():
        try:
            services.set_quota(actor=request.actor, queue=queue, **form.read())
        except (InvalidQuota, QueueNotFound) as error:
            refused_forms.add_error(form, error, {column: name for name, column in SETTINGS.items()})
        else:
            words = f"The scheduler works with the new {what} of {queue.label} from the next second on."
            messages.success(request, words)
            return _back(queue.pool.name)
    return refused_forms.show_again(request, "scheduler:quotas", form, pool=queue.pool.name)


def _find_refused(request: PageRequest, pool: str) -> QuotaForm | SharingForm | None:
    """Return the form of a dialog with what cannot be tried of it; None: all can, or it is of no dialog."""
    form: QuotaForm | SharingForm | None = None
    if "sharing" in request.POST:
        form = SharingForm(request.POST)
    elif "gpus" in request.POST:
        label, actor = request.POST.get("try", ""), request.actor
        is_department = "is_department" in request.POST
        queue = (
            queues.get_department(actor=actor, name=label, pool=pool)
            if is_department
            else queues.get_queue(actor=actor, project=label, pool=pool)
        )
        form = QuotaForm(queue, request.POST)
    return None if form is None or form.is_valid() else form


@require_POST
def set_department(request: PageRequest, department: str) -> HttpResponse:
    """Change what a department of a pool is guaranteed, and the rules for the work below it."""
    services.require_set_quota(actor=request.actor)
    pool = request.POST.get("pool") or pools.DEFAULT
    queue = queues.get_department(actor=request.actor, name=department, pool=pool)
    return _set(request, queue, "settings")


@require_POST
def set_sharing(request: PageRequest) -> HttpResponse:
    """Change the rules by which the queues of a pool share: to a named set, or each."""
    services.require_set_quota(actor=request.actor)
    pool = pools.get_pool(actor=request.actor, name=request.POST.get("pool") or pools.DEFAULT)
    if "sharing" in request.POST and not (form := SharingForm(request.POST)).is_valid():
        return refused_forms.show_again(request, "scheduler:quotas", form, pool=pool.name)
    pool_services.set_sharing_rules(actor=request.actor, pool=pool, **_read_rules(request.POST))
    messages.success(request, f"The queues of the pool {pool.name} share by the new rules from the next second on.")
    return _back(pool.name)


@require_POST
def set_quotas(request: PageRequest) -> HttpResponse:
    """Change the GPU quotas of several projects and departments at once, all of them or none."""
    services.require_set_quota(actor=request.actor)
    pool = request.POST.get("pool") or pools.DEFAULT
    pools.require_pool(actor=request.actor, name=pool)
    changes = _read_changes(request.POST, _rows_of(request, pool))
    services.set_quotas(actor=request.actor, changes=changes)
    count = len(changes)
    messages.success(request, f"{count} {'quota is' if count == 1 else 'quotas are'} changed in the pool {pool}.")
    return _back(pool)


@require_POST
def create_department(request: PageRequest) -> HttpResponse:
    """Create a department in a pool."""
    services.require_set_quota(actor=request.actor)
    pool = pools.get_pool(actor=request.actor, name=request.POST.get("pool") or pools.DEFAULT)
    form = DepartmentForm(request.POST)
    if form.is_valid():
        name = form.cleaned_data["name"]
        try:
            services.create_department(actor=request.actor, pool=pool, name=name, gpu_quota_milli=0)
        except (DepartmentExists, InvalidName) as error:
            refused_forms.add_error(form, error)
        else:
            messages.success(request, f"The department {name} is made. Put projects below it with their settings.")
            return _back(pool.name)
    return refused_forms.show_again(request, "scheduler:quotas", form, pool=pool.name)


@require_POST
def move_resource(request: PageRequest) -> HttpResponse:
    """Move a resource, or its nodes with a label, into another pool with its work: one that is there, or a new one."""
    pool_services.require_manage_pools(actor=request.actor)
    resource, _, own_label = request.POST.get("resource", "").partition(":")
    ids = pools.find_resource_ids(actor=request.actor, names=[resource])
    target, new = request.POST.get("pool", ""), request.POST.get("new_pool", "").strip()
    label = own_label or request.POST.get("label", "").strip()
    if new:
        pool = pool_services.create_pool(actor=request.actor, name=new, resource_ids=ids, label=label, moves_work=True)
    else:
        pool = pools.get_pool(actor=request.actor, name=target)
        pool_services.move_resources(actor=request.actor, pool=pool, resource_ids=ids, label=label, moves_work=True)
    messages.success(request, _describe_move(pool, resource, label))
    return _back(pool.name)


@require_POST
def take_out_label(request: PageRequest) -> HttpResponse:
    """Take the nodes of a resource with a label out of a pool, with their work: they join the rest of the resource."""
    pool_services.require_manage_pools(actor=request.actor)
    resource, _, label = request.POST.get("place", "").partition(":")
    ids = pools.find_resource_ids(actor=request.actor, names=[resource])
    pool = pools.get_pool(actor=request.actor, name=request.POST.get("pool") or pools.DEFAULT)
    pool_services.take_out_label(actor=request.actor, pool=pool, resource_ids=ids, label=label, moves_work=True)
    messages.success(request, f"The nodes of {resource} with {label} are where its other nodes are now.")
    return _back(pool.name)


def _describe_move(pool: Pool, resource: str, label: str) -> str:
    if not label:
        return f"{resource} is in the pool {pool.name} now."
    (view,) = pools.view_pools([pool])
    nodes = sum(each.nodes for each in view.labels if (each.resource, each.label) == (resource, label))
    if not nodes:
        return f"No node of {resource} has the label {label} now. Those that get it join the pool {pool.name}."
    noun, verb = ("node", "counts") if nodes == 1 else ("nodes", "count")
    return f"{nodes} {noun} of {resource} with {label} {verb} in the pool {pool.name} now."


def _back(pool: str) -> HttpResponse:
    query = "" if pool == pools.DEFAULT else f"?{urlencode({'pool': pool})}"
    return redirect(reverse("scheduler:quotas") + query)


def _read_rules(query: QueryDict) -> Rules:
    """Return the rules of a pool that fields name: a set of them by `preset`, else all. Raises InvalidInput."""
    if preset := query.get("preset"):
        return Rules(preset=preset)
    if "sharing" not in query:
        return Rules()
    form = SharingForm(query)
    if not form.is_valid():
        raise InvalidInput(f"These rules cannot be taken. {explain_errors(form)}")
    return form.read()


def _rows_of(request: PageRequest, pool: str) -> list[Queue]:
    actor = request.actor
    return [*queues.list_queues(actor=actor, pool=pool), *queues.list_departments(actor=actor, pool=pool)]


def _read_changes(query: QueryDict, rows: Sequence[Queue]) -> list[tuple[Queue, QueueSettings]]:
    """Return the changes that fields name: of one project by `try`, of several by their quotas. Raises InvalidInput."""
    tried, is_department = query.get("try"), "is_department" in query
    one = next((row for row in rows if row.label == tried and (row.project_id is None) is is_department), None)
    if one is not None and "gpus" in query:
        form = QuotaForm(data=query)
        if not form.is_valid():
            raise InvalidInput(f"This quota cannot be tried. {explain_errors(form)}")
        return [(one, form.read())]
    changes: list[tuple[Queue, QueueSettings]] = []
    for row in rows:
        if (amount := query.get(_GPUS + row.pk)) is not None:
            milli = _read_gpus(amount, row)
            if milli != row.gpu_quota_milli:
                changes.append((row, QueueSettings(gpu_quota_milli=milli)))
    return changes


def _read_gpus(amount: str, row: Queue) -> int:
    field = forms.FloatField(min_value=0, max_value=10**6)
    try:
        return round(ONE_GPU * float(field.clean(amount) or 0))
    except forms.ValidationError as error:
        message = f"The quota of {row.label} cannot be taken. {' '.join(error.messages)}"
        raise InvalidInput(message, field=_GPUS + row.pk) from error


def _describe_change(queue: Queue, settings: QueueSettings) -> str:
    after = settings.get("gpu_quota_milli", queue.gpu_quota_milli)
    if after == queue.gpu_quota_milli:
        return f"{queue.label}: other limits, weights or rules"
    return f"{queue.label}: {units.format_gpus(queue.gpu_quota_milli)} to {units.count_of_gpus(after)}"


def _saving_of(query: QueryDict, changes: Sequence[tuple[Queue, QueueSettings]], rules: Rules) -> Saving | None:
    """Return the form that makes the change that fields name; None where two forms would have to."""
    if bool(changes) is bool(rules):
        return None
    address = reverse("scheduler:set_sharing" if rules else "scheduler:set_quotas")
    if "try" in query and changes:
        (queue, _), *_ = changes
        name = "scheduler:set_department" if queue.project_id is None else "scheduler:set_quota"
        address = reverse(name, args=[queue.label])
    return Saving(address, [(field, str(value)) for field, value in query.items() if field != _PROTECTION])


def _tree(
    projects: Sequence[Any],
    departments: Sequence[Queue],
    fair: Mapping[str, int],
    trial: QuotaTrial | None,
    form: QueryDict,
    *,
    changed: Sequence[Queue],
    rules: SharingRules,
) -> list[Row]:
    """Return projects and departments as a tree, each department before what is below it."""
    tried = {queue.pk: queue for queue in changed}
    then = {queue.id: queue.fair_after_milli for queue in trial.queues} if trial is not None else {}
    hues = {queue.pk: number % _HUES for number, queue in enumerate(projects)}
    below: dict[str | None, list[Any]] = {}
    known = {department.pk: department for department in departments}

    def line_of(queue: Queue) -> list[Queue]:
        line = [queue]
        while (parent := known.get(line[-1].parent_id or "")) is not None:
            line.append(parent)
        return line

    for queue in (*departments, *projects):
        below.setdefault(queue.parent_id if queue.parent_id in known else None, []).append(queue)

    def rows_below(parent_id: str | None, depth: int) -> list[Row]:
        rows: list[Row] = []
        for queue in below.get(parent_id, []):
            inner = rows_below(queue.pk, depth + 1) if queue.project_id is None else []
            leaves = [row for row in inner if not row.is_department]
            is_leaf = queue.project_id is not None
            rows.append(
                Row(
                    queue=queue,
                    tried=tried.get(queue.pk),
                    depth=depth,
                    hue=hues.get(queue.pk, _HUES),
                    held_milli=queue.gpu_held_milli if is_leaf else sum(row.held_milli for row in leaves),
                    asked_milli=queue.gpu_held_milli + queue.gpu_waiting_milli
                    if is_leaf
                    else sum(row.asked_milli for row in leaves),
                    waiting=queue.waiting_workloads if is_leaf else sum(row.waiting for row in leaves),
                    fair_milli=fair.get(queue.pk, 0),
                    then_milli=then.get(queue.pk) if trial is not None else None,
                    field=_GPUS + queue.pk,
                    rules=of_queue(line_of(tried.get(queue.pk, queue)), rules),
                    written=form.get(_GPUS + queue.pk, f"{queue.gpu_quota_milli / ONE_GPU:g}"),
                )
            )
            rows += inner
        return rows

    return rows_below(None, 0)


def _moves(request: PageRequest, here: pools.PoolView) -> list[Move]:
    """Return the resources of a pool, and the labels by which it has nodes, with what a move would do to the work."""
    ids = pools.resource_ids_by_name()
    shown = [(name, "") for name in here.whole] + [(each.resource, each.label) for each in here.labels]
    places = {(ids[name], label): name for name, label in shown if name in ids}
    works = pool_services.work_on_moves(actor=request.actor, places=places)
    return [Move(name, label, works[resource_id, label].text) for (resource_id, label), name in places.items()]


def _removals(request: PageRequest, here: pools.PoolView) -> list[Removal]:
    """Return the labels of a pool, each with what taking it out would do to the work on its nodes."""
    ids = pools.resource_ids_by_name() if here.labels else {}
    places = {(ids[each.resource], each.label): each for each in here.labels if each.resource in ids}
    works = pool_services.work_on_removals(actor=request.actor, places=places)
    return [Removal(each, works[place].text) for place, each in places.items()]


def _chart_of(rows: Sequence[Row], only: str | None) -> Chart | None:
    """Return the GPUs of each project in the last two hours; None if nobody held any."""
    shown = [row for row in rows if only in {None, row.queue.label}]
    now = clock.now()
    held = usage.gpus_over_time([row.queue for row in shown], until=now, span=_PAST, points=_POINTS)
    lines = [
        Series(row.queue.label, row.hue, [milli / ONE_GPU for milli in held[row.queue.pk]])
        for row in shown
        if row.queue.pk in held
    ]
    minutes = [place - _POINTS + 1 for place in range(_POINTS)]
    return Chart("GPUs per project", minutes, "minutes from now", "", lines) if lines else None
