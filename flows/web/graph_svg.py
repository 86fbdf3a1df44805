"""The picture of a flow or a run as SVG, for pages without script and for the first moment of those with it.

Written here and not in a template, because a run may have hundreds of boxes and the page waits for them.
"""

from collections.abc import Callable

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from flows.web.graph_view import MOST_LETTERS_OF_NAME, GraphView, NodeBox, cut
from web.looks import asset_url, look_of

_BAR_TOP, _BAR_HEIGHT, _LEFT = 44, 5, 14


def draw_svg(graph: GraphView, link_of: Callable[[NodeBox], str], shown: str = "") -> SafeString:
    """Return the drawing; `shown` is the key of the box that is the current one."""
    sprite = asset_url("icons.svg")
    size = f'width="{graph.width}" height="{graph.height}" viewBox="0 0 {graph.width} {graph.height}"'
    arrows = "".join(f'<path class="edge" d="{path}"></path>' for path in graph.arrows)
    boxes = "".join(
        _box(graph, box, link_of(box), sprite, is_shown=bool(shown) and box.key == shown) for box in graph.boxes
    )
    return mark_safe(f'<svg class="graph" {size}>{arrows}{boxes}</svg>')  # noqa: S308 (every text is escaped below)


def _box(graph: GraphView, box: NodeBox, link: str, sprite: str, *, is_shown: bool) -> str:
    width, height = graph.box_width, graph.box_height
    look = look_of(box.state) if box.state else None
    note = f"<title>{escape(box.note)}</title>" if box.note else ""
    parts = [
        f'<a href="{escape(link)}" id="box-{escape(box.key)}" transform="translate({box.x} {box.y})"',
        f"{' aria-current=true' if is_shown else ''}>",
        f'<rect class="card" width="{width}" height="{height}" rx="7">{note}</rect>',
    ]
    if look:
        side = f"M7 0H3.5V{height}H7A7 7 0 0 1 0 {height - 7}V7A7 7 0 0 1 7 0Z"
        icon = f'<svg class="icon" role="img" aria-label="{look.word}"><use href="{sprite}#{look.icon}"></use></svg>'
        parts.append(f'<g class="{look.css}"><path class="side" d="{side}"></path>')
        parts.append(f'<svg x="{width - 25}" y="11" width="14" height="14">{icon}</svg></g>')
    # An inner drawing clips what is wider than its letters lead to expect.
    parts.append(f'<svg width="{width - 28}" height="{height}">')
    parts.append(_text("name", _LEFT, 21, cut(box.name, MOST_LETTERS_OF_NAME)))
    parts.append("</svg>")
    parts.append(f'<svg width="{width - 10}" height="{height}">')
    parts.append(_text("line", _LEFT, 37, box.first_line))
    if box.bar:
        parts += [
            f'<g class="{look_of(part.state).css}"><rect class="side" x="{_LEFT + part.start}" y="{_BAR_TOP}"'
            f' width="{part.width}" height="{_BAR_HEIGHT}"></rect></g>'
            for part in box.bar
        ]
    else:
        parts.append(_text("line", width - 12, 51, box.second_line, ' text-anchor="end"'))
    return "".join(parts) + "</svg></a>"


def _text(css: str, x: int, y: int, text: str, more: str = "") -> str:
    return f'<text class="{css}" x="{x}" y="{y}"{more}>{escape(text)}</text>' if text else ""
