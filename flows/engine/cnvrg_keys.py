"""Flow files written for cnvrg (`tasks` and `relations`), read as ours.

Every part of the translated document remembers the place it came from, so that problems keep their lines. What has
no meaning here is accepted with a note; what would silently do something else is refused with a sentence.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from flows.engine.problems import Finding, Path, suggest

_TOP = {"flow", "title", "tasks", "relations", "recurring", "description"}
_USED = {
    "title",
    "type",
    "input",
    "params",
    "computes",
    "compute",
    "image",
    "conditions",
    "commit",
    "dataset",
    "description",
}
_DATA = {"cached", "use_cached", "query"}
_SILENT = {"top", "left", "icon", "queue_slug", "algorithm"}
_NOTED = {"library", "git_branch", "git_commit", "mount_folders", "output_dir"}
_SIGNS = {"max": ">=", "min": "<="}
_MOST_HINTS = 100


@dataclass
class Translation:
    """Our document, where each of its parts was written, and what is to be said about the original."""

    data: dict[str, object]
    origins: dict[Path, Path] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def origin_of(self, path: Path) -> Path:
        """Return the place in the original of a place in the translation."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.origins:
                return self.origins[path[:length]]
        return ()


def slug(title: str) -> str:
    """Make a step's name of a title: `Train ResNet50` becomes `train-resnet50`."""
    name = re.sub(r"[^a-z0-9_]+", "-", title.lower()).strip("-_")
    return (name if name[:1].isalpha() else f"step-{name}".rstrip("-"))[:63]


def translate(data: Mapping[str, object], project: str) -> Translation:
    """Return cnvrg's document as ours. `project` completes dataset names that name none."""
    translation = Translation({"schema_version": 1})
    _Translator(data, project, translation).run()
    return translation


class _Translator:
    def __init__(self, data: Mapping[str, object], project: str, translation: Translation) -> None:
        self._data = data
        self._project = project
        self._out = translation
        self._datasets: dict[str, tuple[dict[str, object], Path]] = {}
        self._steps: dict[str, tuple[dict[str, object], int]] = {}
        self._refused: set[str] = set()

    def run(self) -> None:
        self._unknown((), self._data, _TOP, set())
        title = self._data.get("flow", self._data.get("title", "flow"))
        self._out.data["flow"] = slug(str(title))
        self._out.data["title"] = str(title)
        self._out.origins[("flow",)] = ("flow",)
        if "description" in self._data:
            self._out.data["description"] = self._data["description"]
            self._out.origins[("description",)] = ("description",)
        if "recurring" in self._data:
            self._note(("recurring",), "Schedules come later; this flow runs when somebody starts it.")
        steps: list[object] = []
        self._out.data["steps"] = steps
        self._out.origins[("steps",)] = ("tasks",)
        for index, task in _items(self._data.get("tasks")):
            if isinstance(task, dict):
                self._task(("tasks", index), task, steps)
            else:
                self._refuse(("tasks", index), "wrong_type", "A task is a mapping with a title, a type and an input.")
        self._relations()

    def _task(self, path: Path, task: Mapping[str, object], steps: list[object]) -> None:
        kind = task.get("type", "exec")
        title = str(task.get("title", ""))
        if kind not in {"exec", "data"}:
            self._refused.add(title)
        if kind == "deploy":
            self._refuse(
                (*path, "type"), "deploy", "Endpoints are not part of Nearline; remove the deploy task from the flow."
            )
            return
        if kind not in {"exec", "data"}:
            self._refuse((*path, "type"), "unknown_type", f"There is no task type '{kind}'; there are exec and data.")
            return
        self._unknown(path, task, _USED | (_DATA if kind == "data" else set()), _NOTED | _SILENT)
        if title in self._datasets or title in self._steps:
            self._refuse((*path, "title"), "duplicate_name", f"Two tasks have the title '{title}'.")
            return
        if kind == "data":
            self._datasets[title] = (self._dataset(path, task), path)
        else:
            step = self._step(path, task, len(steps))
            self._steps[title] = (step, len(steps))
            steps.append(step)

    def _dataset(self, path: Path, task: Mapping[str, object]) -> dict[str, object]:
        if "query" in task:
            self._refuse((*path, "query"), "query", "Queries are not supported; name a dataset and a commit.")
        name = str(task.get("dataset") or task.get("title", ""))
        reference = name if "/" in name else f"{self._project}/{name}"
        if task.get("commit") and "@" not in reference:
            reference += f"@{task['commit']}"
        return {"dataset": reference, "cached": task.get("cached", task.get("use_cached", True))}

    def _step(self, path: Path, task: Mapping[str, object], index: int) -> dict[str, object]:
        ours: Path = ("steps", index)
        title = task.get("title")
        step: dict[str, object] = {"append_parameters": True, "after": [], "data": []}
        self._out.origins[ours] = path
        if title is not None:
            step.update(name=slug(str(title)), title=str(title))
            self._out.origins[(*ours, "name")] = (*path, "title")
        for theirs, name in (("input", "command"), ("image", "image"), ("computes", "compute"), ("compute", "compute")):
            if theirs in task:
                step[name] = task[theirs]
                self._out.origins[(*ours, name)] = (*path, theirs)
        if task.get("library"):
            self._note((*path, "library"), "The library is not there yet; the task's own input is run.")
        for noted in sorted(_NOTED & set(task) - {"library"}):
            self._note(
                (*path, noted), f"'{noted}' has no effect: the code comes with the flow, and all outputs are kept."
            )
        if "commit" in task:
            self._note((*path, "commit"), "The commit of a task's code has no effect: the code comes with the flow.")
        self._parameters(path, ours, task, step)
        self._conditions(path, ours, task, step)
        return step

    def _parameters(self, path: Path, ours: Path, task: Mapping[str, object], step: dict[str, object]) -> None:
        single: dict[str, object] = {}
        grid: dict[str, object] = {}
        for number, item in _items(task.get("params")):
            place = (*path, "params", number)
            if not isinstance(item, dict) or "key" not in item:
                self._refuse(place, "wrong_type", "A parameter is a mapping with a key and values.")
                continue
            key = str(item["key"])
            if item.get("type") in {"integer", "float"} and "min" in item:
                known = ("type", "min", "max", "scale", "steps")
                grid[key] = {name: item[name] for name in known if name in item}
                self._out.origins[(*ours, "grid", key)] = place
                continue
            values = item.get("values", item.get("value"))
            if isinstance(values, list) and len(values) != 1:
                grid[key] = values
                self._out.origins[(*ours, "grid", key)] = place
            else:
                single[key] = values[0] if isinstance(values, list) else values
                self._out.origins[(*ours, "parameters", key)] = place
        step.update(parameters=single, grid=grid)

    def _conditions(self, path: Path, ours: Path, task: Mapping[str, object], step: dict[str, object]) -> None:
        parts = []
        for number, item in _items(task.get("conditions")):
            place = (*path, "conditions", number)
            target = item.get("value", item.get("target")) if isinstance(item, dict) else None
            if not isinstance(item, dict) or not {"task", "tag_key"} <= set(item):
                self._refuse(place, "wrong_type", "A condition names a task, a tag_key, an objective and a value.")
                continue
            if not isinstance(target, int | float) or isinstance(target, bool):
                self._refuse(place, "condition", "A condition needs a number as its value.")
                continue
            objective = str(item.get("objective", "max"))
            fold = objective if objective in _SIGNS else "max"
            parts.append(f"{fold}({slug(str(item['task']))}.{item['tag_key']}) {_SIGNS[fold]} {target}")
        if parts:
            step["when"] = " and ".join(parts)
            self._out.origins[(*ours, "when")] = (*path, "conditions")

    def _relations(self) -> None:
        titles = [*self._steps, *self._datasets]
        known = {*titles, *self._refused}
        for number, item in _items(self._data.get("relations")):
            place: Path = ("relations", number)
            if not isinstance(item, dict) or not {"from", "to"} <= set(item):
                self._refuse(place, "wrong_type", "A relation has a from and a to.")
                continue
            source, target = str(item["from"]), str(item["to"])
            for end, name in (("from", source), ("to", target)):
                if name not in known:
                    self._refuse(
                        (*place, end), "unknown_parent", f"There is no task '{name}'.{self._hint(name, titles)}"
                    )
            if target in self._datasets:
                self._refuse((*place, "to"), "relation", f"'{target}' is a dataset; nothing can lead to it.")
            if target not in self._steps:
                continue
            step, index = self._steps[target]
            if source in self._datasets:
                mounted, origin = self._datasets[source]
                self._append(step, "data", dict(mounted), ("steps", index), origin)
            elif source in self._steps:
                self._append(step, "after", slug(source), ("steps", index), place)

    def _append(self, step: dict[str, object], key: str, value: object, ours: Path, origin: Path) -> None:
        items = step[key]
        if isinstance(items, list):
            self._out.origins[(*ours, key, len(items))] = origin
            items.append(value)

    def _unknown(self, path: Path, mapping: Mapping[str, object], known: set[str], ignored: set[str]) -> None:
        for key in mapping:
            if key not in known | ignored:
                text = f"There is no key '{key}' here.{self._hint(key, sorted(known))}"
                self._refuse((*path, key), "unknown_key", text)

    def _hint(self, word: str, known: list[str]) -> str:
        return suggest(word, known) if len(self._out.findings) < _MOST_HINTS else ""

    def _refuse(self, path: Path, code: str, message: str) -> None:
        self._out.findings.append(Finding(path, code, message))

    def _note(self, path: Path, message: str) -> None:
        self._out.findings.append(Finding(path, "note", message, is_note=True))


def _items(value: object) -> Iterator[tuple[int, object]]:
    return enumerate(value) if isinstance(value, list) else enumerate(())
