"""The components that every page is made of. Quantities are written by `core.units` only."""

import json
from datetime import datetime, timedelta

from django import forms, template
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from accounts.errors import InvalidName
from accounts.services.projects import NAME_PATTERN, may_create_projects
from core import clock, units
from core.pagination import Sort
from core.times import Times
from web import live as live_topics
from web import navigation
from web.looks import asset_url, look_of, style_url
from web.series import Chart

register = template.Library()
register.simple_tag(asset_url, name="asset")
register.simple_tag(style_url, name="style")

_NOTHING = "\N{EN DASH}"
_FOLD_BEYOND = 30
_SOON = timedelta(seconds=5)
_MEANT = (
    "waited: something was queued and nothing ran; ran: at least one job ran; total: from when it was first asked for "
    "to its last end, with the time before a retry, and the time in which it was suspended"
)


@register.simple_tag
def icon(name: str, css: str = "") -> SafeString:
    """Draw an icon from the sprite. It is decoration: words beside it say what it means."""
    return format_html(
        '<svg class="icon {}" aria-hidden="true"><use href="{}#{}"></use></svg>', css, asset_url("icons.svg"), name
    )


@register.simple_tag
def state(value: str, word: str = "") -> SafeString:
    """Show a state as icon, word and colour; `word` replaces the usual one."""
    look = look_of(value)
    return format_html('<span class="pill {}">{}{}</span>', look.css, icon(look.icon), word or look.word)


@register.filter
def css_of(value: str) -> str:
    """Return the colour class of a state."""
    return look_of(value).css


@register.filter
def icon_of(value: str) -> str:
    """Return the icon's name of a state."""
    return look_of(value).icon


@register.filter
def word_of(value: str) -> str:
    """Return the word of a state."""
    return look_of(value).word


@register.filter(name="bytes")
def bytes_(size_bytes: int | None) -> str:
    """Write a size."""
    return _NOTHING if size_bytes is None else units.format_bytes(size_bytes)


@register.filter
def memory(size_bytes: int | None) -> str:
    """Write an amount of memory."""
    return _NOTHING if size_bytes is None else units.format_memory(size_bytes)


@register.filter
def duration(seconds: float | str | None) -> str:
    """Write a duration; nothing also for the empty text that a template makes of a missing variable."""
    return _NOTHING if seconds is None or isinstance(seconds, str) else units.format_duration(max(0.0, seconds))


@register.filter
def count(number: int | None) -> str:
    """Write a whole number with separators for thousands."""
    return _NOTHING if number is None else f"{number:,}"


@register.filter
def gpus(milli_gpus: int | None) -> str:
    """Write an amount of GPU that is given in thousandths."""
    return _NOTHING if milli_gpus is None else units.format_gpus(milli_gpus)


@register.filter
def gpu_time(gpu_seconds: float) -> str:
    """Write seconds of one GPU."""
    return units.format_gpu_time(gpu_seconds)


@register.filter
def cpus(millicores: int | None) -> str:
    """Write an amount of CPU that is given in thousandths."""
    return _NOTHING if millicores is None else units.format_cpu(millicores)


@register.filter
def number(value: object) -> str:
    """Write a measured value with at most five significant digits; anything else as it is."""
    return f"{value:.5g}" if isinstance(value, float) else literal(value)


@register.filter
def literal(value: object) -> str:
    """Write a parameter or a tag as a filter and a flow file take it: `true`, not `True`, and `null`."""
    return (
        json.dumps(value, ensure_ascii=False) if value is None or isinstance(value, bool | list | dict) else str(value)
    )


@register.filter
def ago(moment: datetime | None) -> str:
    """Write a moment relative to now, with the full time as its tooltip."""
    if moment is None:
        return _NOTHING
    exact = moment.astimezone(clock.now().tzinfo)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        exact.isoformat(),
        exact.strftime("%Y-%m-%d %H:%M:%S UTC"),
        units.format_ago(moment, now=clock.now()),
    )


@register.filter
def due(moment: datetime | None) -> str:
    """Write when something is expected that has not happened yet; `now` where its moment is over."""
    return "now" if moment is not None and moment < clock.now() + _SOON else ago(moment)


@register.filter
def between(start: datetime | None, end: datetime | None) -> str:
    """Write how long something took; up to now when it has not ended."""
    if start is None:
        return _NOTHING
    return units.format_duration(max(0.0, ((end or clock.now()) - start).total_seconds()))


@register.simple_tag
def times(measured: Times | None) -> SafeString:
    """Write how long something waited, ran and took in all, each named."""
    if measured is None:
        return SafeString("")
    words = [f"waited {units.format_duration(measured.waited_s)}"]
    if measured.ran_s is not None:
        words.append(f"ran {units.format_duration(measured.ran_s)}")
    if measured.suspended_s:
        words.append(f"suspended {units.format_duration(measured.suspended_s)}")
    words.append(f"total {units.format_duration(measured.total_s)}")
    return format_html('<span title="{}">{}</span>', _MEANT, " · ".join(words))


@register.filter
def short(commit_id: str) -> str:
    """Shorten a commit's id as everywhere."""
    return commit_id[:8]


@register.filter
def fold(name: str) -> str:
    """Shorten a long name in its middle, as both ends tell names apart; the whole is its tooltip."""
    if len(name) <= _FOLD_BEYOND:
        return name
    return format_html('<span title="{}">{}\N{HORIZONTAL ELLIPSIS}{}</span>', name, name[:8], name[8 - _FOLD_BEYOND :])


@register.simple_tag
def progress(value: float, top: float = 100, label: str = "Progress", css: str = "") -> SafeString:
    """Draw a bar that assistive technology can read."""
    return format_html(
        '<progress class="{}" value="{}" max="{}" aria-label="{}"></progress>', css, value, top or 1, label
    )


@register.simple_tag
def command(text: str) -> SafeString:
    """Show a command with a button that copies it."""
    return format_html(
        '<span class="command"><code tabindex="0">{}</code><button type="button" class="icon-button" data-copies="{}"'
        ' title="Copy" aria-label="Copy the command">{}</button></span>',
        text,
        text,
        icon("copy"),
    )


@register.simple_tag
def name_rules() -> SafeString:
    """Write the attributes by which a browser refuses what cannot be a name, and says why."""
    return format_html('pattern="{}" title="{}"', NAME_PATTERN, InvalidName.hint)


@register.simple_tag(takes_context=True)
def project_command(context: template.Context) -> SafeString:
    """Show how a reader comes to a project in which they may write: who makes them a member, who creates projects."""
    actor = context["request"].actor
    if actor.is_site_admin:
        return command("nearline project create NAME")
    ask = "Ask an admin of a project for the role of a member"
    if may_create_projects(actor):
        return format_html("<p>{}, or create one:</p>{}", ask, command("nearline project create NAME"))
    return format_html("<p>{}. Site admins create projects.</p>", ask)


@register.simple_tag(takes_context=True)
def write_command(context: template.Context, text: str) -> SafeString:
    """Show a command that adds to a project, or to a reader who may write in none how to come to one."""
    return command(text) if context["request"].actor.may_write_somewhere else project_command(context)


@register.simple_tag
def simulated(is_simulated: object) -> SafeString:
    """Badge what does not exist as such."""
    return format_html('<span class="tag simulated">{}</span>', "simulated") if is_simulated else SafeString("")


@register.simple_block_tag
def placeholder(content: str, icon_name: str, title: str) -> SafeString:
    """Say what will be listed here, and (in the block) the button and the command that make it so."""
    return format_html(
        '<div class="empty-state">{}<h2>{}</h2>{}</div>', icon(icon_name, "large"), title, SafeString(content)
    )


@register.simple_block_tag
def dialog(content: str, name: str, title: str, form: forms.Form | None = None) -> SafeString:
    """Hold a dialog that a button with `data-opens` opens. The block brings the text, the form and its buttons.

    It opens by itself where its `form` was refused.
    """
    return format_html(
        '<dialog id="{}"{} aria-labelledby="{}-title"><h2 id="{}-title">{}</h2>{}</dialog>',
        name,
        SafeString(" data-opens-now" if form is not None and form.is_bound else ""),
        name,
        name,
        title,
        SafeString(content),
    )


@register.inclusion_tag("web/parts/settings_tabs.html", takes_context=True)
def settings_tabs(context: template.Context) -> dict[str, object]:
    """Head a page of the settings with the way to all others."""
    request = context["request"]
    return {"tabs": [(tab, tab.is_current(request.path)) for tab in navigation.tabs(request.actor)]}


@register.inclusion_tag("web/parts/more.html", takes_context=True)
def more(
    context: template.Context, next_cursor: str | None, label: str = "Next page", name: str = "cursor"
) -> dict[str, object]:
    """Link to the rows after these, keeping every filter of the address. Each list of a page has its own `name`."""
    query = context["request"].GET.copy()
    is_later = bool(query.pop(name, None))
    first_url = f"?{query.urlencode()}" if is_later else ""
    if next_cursor:
        query[name] = next_cursor
    return {"label": label, "first_url": first_url, "next_url": f"?{query.urlencode()}" if next_cursor else ""}


@register.simple_tag(takes_context=True)
def sort_heading(context: template.Context, word: str, label: str, css: str = "") -> SafeString:
    """Write a table's heading that orders its rows. The view puts `sort` (`core.pagination.Sort`) into the context."""
    sort: Sort = context["sort"]
    is_current = sort.word == word
    query = context["request"].GET.copy()
    query.pop("cursor", None)
    query["sort"] = word if not is_current or sort.descending else f"-{word}"
    order = ("descending" if sort.descending else "ascending") if is_current else "none"
    arrow = icon("arrow-down" if sort.descending else "arrow-up") if is_current else ""
    return format_html(
        '<th class="{}" aria-sort="{}"><a href="?{}">{}{}</a></th>', css, order, query.urlencode(), label, arrow
    )


@register.inclusion_tag("web/parts/cancel_button.html")
def keep_button(label: str = "Keep it") -> dict[str, object]:
    """Offer the way out of a dialog."""
    return {"label": label}


@register.inclusion_tag("web/parts/confirm.html")
def confirm(label: str, keep: str = "Keep it") -> dict[str, object]:
    """End the form of a dialog that asks before something is lost; `label` says what is done, `keep` what is not."""
    return {"label": label, "keep": keep}


@register.inclusion_tag("web/parts/chart.html")
def chart(data: Chart, name: str) -> dict[str, object]:
    """Draw a chart, with its numbers as a table a click away; `name` is unique in the page."""
    return {"chart": data, "data": data.to_json(), "name": name}


@register.inclusion_tag("web/parts/log.html")
def log_view(source: str, file_url: str, name: str) -> dict[str, object]:
    """Follow a log that grows. `source` answers with JSON, `file_url` with the whole of it."""
    return {"source": source, "file_url": file_url, "name": name}


def _stamp_of(request: HttpRequest, topic: str) -> str:
    """Return which version of a topic a page shows: that of the first element that asks, so none that is too new."""
    stamps: dict[str, str] = request.__dict__.setdefault("shown_stamps", {})
    if topic not in stamps:
        stamps[topic] = live_topics.read_stamps([topic])[topic]
    return stamps[topic]


@register.simple_tag(takes_context=True)
def live(context: template.Context, topic: str, every: int = 15, source: str = "") -> SafeString:
    """Make the element, which needs an id, ask for itself again when the topic changes, and every so many seconds.

    It asks `source`, or the page's own address, which answers htmx with nothing but the element. A page that is
    rendered whole notes which version it shows; of a part that was asked for, the browser knows.
    """
    request = context["request"]
    is_part = getattr(request, "htmx", False)
    shown = "" if is_part else format_html(' data-stamp="{}"', _stamp_of(request, topic))
    return format_html(
        'data-live="{}"{} data-every="{}" hx-get="{}" hx-trigger="live" hx-swap="outerHTML"',
        topic,
        shown,
        every,
        source or request.get_full_path(),
    )
