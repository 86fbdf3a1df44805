"""A flow written in Python: it builds the same spec that the YAML form holds, key by key."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

from nearline.errors import InvalidRequest

Spec = dict[str, Any]

_TYPES = ("float", "int", "str", "bool")
_WORDS_WITH_A_MEANING = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


class Flow:
    """A pipeline under construction.

    `Flow("digits").step("prepare", command="python prepare.py").step("train", command="python train.py",
    after=["prepare"])` is a flow of two steps.
    """

    def __init__(self, name: str, *, title: str | None = None, description: str | None = None) -> None:
        self.name = name
        self._title = title
        self._description = description
        self._parameters: dict[str, Spec] = {}
        self._steps: dict[str, Spec] = {}

    def parameter(
        self,
        name: str,
        default: float | str | bool | None = None,  # noqa: FBT001 (a value, not a switch)
        *,
        type: str | None = None,  # noqa: A002 (the spec's own word)
        choices: Sequence[Any] | None = None,
        help: str | None = None,  # noqa: A002 (the spec's own word)
    ) -> Self:
        """Declare a parameter of the whole flow. Its type is that of the default unless it is given."""
        if name in self._parameters:
            raise InvalidRequest(f"The flow '{self.name}' has two parameters called '{name}'.")
        kind = type or ("str" if default is None else default.__class__.__name__)
        if kind not in _TYPES:
            raise InvalidRequest(
                f"The parameter '{name}' cannot be of type '{kind}'.", hint=f"Use one of {', '.join(_TYPES)}."
            )
        self._parameters[name] = _given(type=kind, default=default, choices=list(choices or ()), help=help)
        return self

    def step(
        self,
        name: str,
        *,
        command: str,
        image: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        datasets: Sequence[str | Mapping[str, Any]] = (),
        after: Sequence[str] = (),
        outputs: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        secrets: Sequence[str] = (),
        compute: Sequence[str | Mapping[str, Any]] = (),
        retries: int | Mapping[str, int] | None = None,
        timeout: str | float | None = None,
        grace_period: str | float | None = None,
        checkpoints: bool = False,
        priority: int | str | None = None,
        preemptible: bool = True,
        when: str | None = None,
        grid: Mapping[str, Sequence[Any] | Mapping[str, Any]] | None = None,
        title: str | None = None,
        append_parameters: bool = False,
        fallback: str | None = None,
        replicas: int | None = None,
        min_replicas: int | None = None,
        gpu_memory: str | int | None = None,
        mig: str | None = None,
        gpu_limit: float | None = None,
        node_labels: Sequence[str] = (),
        topology: Mapping[str, str] | None = None,
        simulated_duration: str | float | None = None,
    ) -> Self:
        """Add a step. `datasets` are references, or mappings with `dataset`, `name` and `cached`.

        `fallback` says how it chooses among the templates in `compute`: `order`, `soonest` or `cheapest`.
        `gpu_memory` or `mig` asks for a part of one GPU in place of the template's, `gpu_limit` for more of it while
        nobody else uses it. `min_replicas` makes it elastic; `topology` has `required` and `preferred`.
        `priority` is a number or a name, such as `build`. What is not preemptible starts only within the quota.
        """
        if name in self._steps:
            raise InvalidRequest(f"The flow '{self.name}' has two steps called '{name}'.")
        lists: dict[str, object] = {"after": after, "outputs": outputs, "secrets": secrets, "node_labels": node_labels}
        lists |= {"datasets": datasets, "compute": compute}
        lists |= {f"grid of {key}": values for key, values in (grid or {}).items()}
        for key, values in lists.items():
            if isinstance(values, str):
                raise InvalidRequest(f"{key} of the step '{name}' must be a list.", hint=f"Write [{values!r}].")
        self._steps[name] = _given(
            name=name,
            command=command,
            image=image,
            parameters=dict(parameters or {}),
            data=[{"dataset": item} if isinstance(item, str) else dict(item) for item in datasets],
            after=list(after),
            outputs=list(outputs),
            env=dict(env or {}),
            secrets=list(secrets),
            compute=[item if isinstance(item, str) else dict(item) for item in compute],
            retries=dict(retries) if isinstance(retries, Mapping) else retries,
            timeout=timeout,
            grace_period=grace_period,
            checkpoints=checkpoints or None,
            priority=priority,
            preemptible=None if preemptible else False,
            when=when,
            grid={
                key: dict(values) if isinstance(values, Mapping) else list(values)
                for key, values in (grid or {}).items()
            },
            title=title,
            append_parameters=append_parameters or None,
            fallback=fallback,
            replicas=replicas,
            min_replicas=min_replicas,
            gpu_memory=gpu_memory,
            mig=mig,
            gpu_limit=gpu_limit,
            node_labels=list(node_labels),
            topology=dict(topology or {}),
            simulated_duration=simulated_duration,
        )
        return self

    def to_spec(self) -> Spec:
        """Return the spec, as the YAML form would be read. Raises InvalidRequest when `after` names no step."""
        for name, step in self._steps.items():
            for parent in step.get("after", ()):
                if parent not in self._steps:
                    raise InvalidRequest(f"The step '{name}' comes after '{parent}', which is no step of this flow.")
        return _given(
            flow=self.name,
            title=self._title,
            description=self._description,
            parameters=self._parameters,
            steps=[dict(step) for step in self._steps.values()],
        )

    def to_yaml(self) -> str:
        """Return the spec as YAML text."""
        return "\n".join(_yaml_lines(self.to_spec())) + "\n"


def _given(**values: Any) -> Spec:
    return {key: value for key, value in values.items() if value is not None and value not in ([], {})}


def _yaml_lines(value: Mapping[str, Any]) -> list[str]:
    """Write a mapping as YAML: blocks for what is long; JSON, which YAML includes, for scalars and short lists."""
    lines: list[str] = []
    for key, item in value.items():
        name = _scalar(key)
        if isinstance(item, Mapping) and item:
            lines += [f"{name}:", *(f"  {line}" for line in _yaml_lines(item))]
        elif isinstance(item, list) and any(isinstance(part, Mapping) for part in item):
            lines.append(f"{name}:")
            for part in item:
                first, *rest = _yaml_lines(part) if isinstance(part, Mapping) else [_scalar(part)]
                lines += [f"  - {first}", *(f"    {line}" for line in rest)]
        else:
            lines.append(f"{name}: {_scalar(item)}")
    return lines


def _scalar(value: Any) -> str:
    is_word = isinstance(value, str) and value.isidentifier() and value.isascii()
    if is_word and value.lower() not in _WORDS_WITH_A_MEANING:
        return str(value)
    # YAML reads JSON, but for characters that it wants escaped and pairs of surrogates that it does not join.
    text = json.dumps(value, ensure_ascii=False, default=_plain)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in text)


def _plain(value: Any) -> Any:
    """Return the number or text of a value that JSON does not know, as those of NumPy."""
    if callable(item := getattr(value, "item", None)):
        return item()
    raise InvalidRequest(f"{value!r} cannot stand in a flow.", hint="Write a number, a text, true or false.")
