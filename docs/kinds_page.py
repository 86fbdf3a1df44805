"""Writes the page of kinds: what can be attached as a compute resource or a cache site, and what each kind asks for."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django import forms

Table = Callable[[tuple[str, ...], list[tuple[str, ...]]], str]


def render(table: Table) -> str:
    """Return the sections of the page; `table` writes a table from its head and rows."""
    from compute.adapters.drivers import KINDS as RESOURCES  # noqa: PLC0415 (Django must be set up first)
    from datasets.adapters.sites.registry import KINDS as SITES  # noqa: PLC0415

    parts = ["## Kinds of compute resources\n"]
    for kind in RESOURCES.values():
        facts = [*_facts(kind), _mounts(kind)]
        facts += ["It can be attached once."] * getattr(kind, "is_single", False)
        facts += ["Its jobs run without the image that they name."] * kind.ignores_images
        facts += ["Its jobs can have several replicas, on several nodes."] * kind.runs_gangs
        given = f", where `{kind.checkpoint_field}` is given" if kind.checkpoint_field else ""
        facts += [f"Its jobs can keep checkpoints{given}."] * kind.keeps_checkpoints
        parts += _section(kind.name, kind.label, facts, kind.form, table)
    parts.append("## Kinds of cache sites\n")
    for kind in SITES.values():
        facts = [*_facts(kind), f"Without a declared capacity it takes {kind.default_part:.0%} of the free space."]
        facts += [f"Copies filled at a time: {kind.parallel_copies}."] * (kind.parallel_copies is not None)
        parts += _section(kind.name, kind.label, facts, kind.form, table)
    return "\n".join(parts)


def _section(name: str, label: str, facts: list[str], form: type[forms.Form], table: Table) -> Iterator[str]:
    yield f"### `{name}`\n"
    what = label.partition(": ")[2]
    yield f"{what[:1].upper()}{what[1:]}.\n"
    yield "".join(f"- {fact}\n" for fact in facts)
    rows = [_row(field) for field in form()]
    yield table(("Field", "Name", "Default", "What it is"), rows) if rows else "It asks for nothing.\n"


def _facts(kind: Any) -> list[str]:
    check = " ".join((kind.check.__doc__ or "").partition("Raises")[0].split())
    return [f"Check: {check[:1].lower()}{check[1:]}"] + [
        "Nothing of it exists; the bookkeeping is real."
    ] * kind.is_simulated


def _mounts(kind: Any) -> str:
    from compute.engine.job_spec import describe_kinds  # noqa: PLC0415

    return f"Its jobs can mount {describe_kinds(kind.mountable)}."


def _row(shown: forms.BoundField) -> tuple[str, ...]:
    field = shown.field
    words: Mapping[bool, str] = {True: "", False: "may be empty"}
    default = "" if field.initial is None else f"`{field.initial}`"
    what = "; ".join(filter(None, [str(field.help_text).rstrip("."), words[field.required]]))
    return str(shown.label), f"`{shown.name}`", default, what
