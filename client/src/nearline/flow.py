"""A flow written in Python: it builds the same spec that the YAML form holds, key by key."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from nearline._yaml import write_yaml
from nearline.errors import InvalidRequest

Spec = dict[str, Any]

_TYPES = ("float", "int", "str", "bool")


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

    def __repr__(self) -> str:
        return f"<Flow {self.name!r}: {', '.join(self._steps) or 'no step'}>"

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
        gpus: float | None = None,
        cpu: float | None = None,
        memory: str | int | None = None,
        resource: str | None = None,
        pools: Sequence[str] = (),
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
        launcher: Mapping[str, Any] | None = None,
        completions: int | None = None,
        parallelism: int | None = None,
        ports: Sequence[int] = (),
        volumes: Sequence[str] = (),
        idle_limit: str | float | None = None,
        gpu_memory: str | int | None = None,
        mig: str | None = None,
        gpu_limit: float | None = None,
        node_labels: Sequence[str] = (),
        topology: Mapping[str, str] | None = None,
        simulated_duration: str | float | None = None,
    ) -> Self:
        """Add a step. `datasets` are references, or mappings with `dataset`, `name` and `cached`.

        In place of templates in `compute` it may say its size: `gpus`, `cpu` (cores) and `memory`, and where to look:
        a `resource`, or `pools`, the best first. `fallback` says how it chooses among its places: `order`, `soonest`
        or `cheapest`.
        `gpu_memory` or `mig` asks for a part of one GPU in place of the template's, `gpu_limit` for more of it while
        nobody else uses it. `min_replicas` makes it elastic; `topology` has `required` and `preferred`.
        A `launcher` is one more pod, without GPUs, that runs the command; the replicas run its `worker_command`. It has
        `cpu`, `memory` and `worker_port` too; `{}` is the usual one.
        With `completions` it runs as so many parts, at most `parallelism` at once, each with its `$NEARLINE_INDEX`.
        `ports` are those on which its programs listen; `idle_limit` is how long it may be idle.
        `volumes` are what it mounts of what an admin offers there, as `NAME:/path` or `NAME:/path:ro`.
        `priority` is a number or a name, such as `build`. What is not preemptible starts only within the quota.
        """
        if name in self._steps:
            raise InvalidRequest(f"The flow '{self.name}' has two steps called '{name}'.")
        lists: dict[str, object] = {"after": after, "outputs": outputs, "secrets": secrets, "node_labels": node_labels}
        lists |= {"datasets": datasets, "compute": compute, "pools": pools, "volumes": volumes}
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
            gpus=gpus,
            cpu=cpu,
            memory=memory,
            resource=resource,
            pools=list(pools),
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
            completions=completions,
            parallelism=parallelism,
            ports=list(ports),
            volumes=list(volumes),
            idle_limit=idle_limit,
            gpu_memory=gpu_memory,
            mig=mig,
            gpu_limit=gpu_limit,
            node_labels=list(node_labels),
            topology=dict(topology or {}),
            simulated_duration=simulated_duration,
        )
        if launcher is not None:
            self._steps[name]["launcher"] = dict(launcher)
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
        return write_yaml(self.to_spec())


def _given(**values: Any) -> Spec:
    return {key: value for key, value in values.items() if value is not None and value not in ([], {})}
