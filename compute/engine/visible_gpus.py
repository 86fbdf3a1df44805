"""Which GPUs the processes of a job can see when it starts. Pure, and of Python alone: the shims of hosts use it too.

What nobody could find out is None, and never a guess.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

UNKNOWN_UUID = ""
_UUID = re.compile(r"(GPU|MIG)-[0-9A-Za-z/-]{1,80}")
_MIB = 1 << 20
# What a container prints is its user's: no machine has more GPUs, or numbers of more digits.
_MOST_GPUS, _MOST_DIGITS, _LONGEST_VARIABLE = 256, 9, 500


@dataclass(frozen=True)
class SeenGpu:
    """A GPU, or a slice of one (MIG). `uuid` is empty, and `memory_bytes` None, where that is not known."""

    uuid: str = UNKNOWN_UUID
    memory_bytes: int | None = None


@dataclass(frozen=True)
class InstalledGpu:
    """A GPU of a machine, in the order of the PCI bus, as a program would see it. `minor`: its file is /dev/nvidiaN."""

    minor: int
    gpu: SeenGpu


@dataclass(frozen=True)
class VisibleGpus:
    """What the processes of one replica of a job can see.

    `gpus` are those that CUDA shows them. `openable` is of how many GPUs they can open the device files, whatever CUDA
    shows; None: not known. `variable` is the beginning of their CUDA_VISIBLE_DEVICES; None: they have none.
    """

    gpus: tuple[SeenGpu, ...]
    openable: int | None = None
    variable: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return it as JSON types."""
        return {**asdict(self), "gpus": [asdict(gpu) for gpu in self.gpus]}

    @classmethod
    def from_json(cls, value: object) -> "VisibleGpus | None":
        """Return what `to_json` was called of; None stays None."""
        if not isinstance(value, Mapping):
            return None
        gpus = tuple(SeenGpu(str(gpu["uuid"]), gpu["memory_bytes"]) for gpu in value["gpus"])
        return cls(gpus, value["openable"], value["variable"])


def find_visible(installed: Sequence[InstalledGpu], openable: Collection[int], variable: str | None) -> VisibleGpus:
    """Return what processes see of these GPUs that can open the files with these minor numbers.

    CUDA numbers those that it can open, and not the others.
    """
    usable = [each for each in installed if each.minor in openable]
    visible = tuple(usable[index].gpu for index in _visible(usable, variable))
    return VisibleGpus(visible, len(usable), _shorten(variable))


def _shorten(variable: str | None) -> str | None:
    """Return it as people can read it: cut where it is too long, and without characters that are not printed."""
    if variable is None:
        return None
    text = "".join(letter if letter.isprintable() else "�" for letter in variable[:_LONGEST_VARIABLE])
    return text if len(variable) <= _LONGEST_VARIABLE else f"{text}…"


def _visible(installed: Sequence[InstalledGpu], variable: str | None) -> list[int]:
    """Return the indexes that a value of CUDA_VISIBLE_DEVICES names; like CUDA, stop at the first that there is not."""
    if variable is None:
        return list(range(len(installed)))
    visible: list[int] = []
    for name in (part.strip() for part in variable.split(",")):
        if (index := _read_number(name)) is not None:
            matches = [index] if index < len(installed) else []
        else:
            matches = [i for i, each in enumerate(installed) if _UUID.match(name) and each.gpu.uuid.startswith(name)]
        if len(matches) != 1 or matches[0] in visible:
            break
        visible += matches
    return visible


def _read_number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def read_uuid(text: str) -> str:
    """Return a UUID as the driver tells it; one that it has not asked the device for yet is unknown."""
    return text if _UUID.fullmatch(text) else UNKNOWN_UUID


def read_information(text: str) -> InstalledGpu | None:
    """Read one of the files /proc/driver/nvidia/gpus/*/information; None where it does not tell which GPU it is."""
    fields = dict(_field(line) for line in text.splitlines())
    minor = _read_number(fields.get("Device Minor", ""))
    return None if minor is None else InstalledGpu(minor, SeenGpu(read_uuid(fields.get("GPU UUID", ""))))


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()


# For containers, whose images may hold little: what it needs besides a shell is `cat`, and for memory `nvidia-smi`.
SCRIPT = """exec 2>/dev/null
[ -z "${CUDA_VISIBLE_DEVICES+x}" ] || echo "variable $CUDA_VISIBLE_DEVICES"
[ -d /proc/driver/nvidia ] && echo driver
for file in /dev/nvidia[0-9]*; do [ -r "$file" ] && [ -w "$file" ] && echo "openable ${file#/dev/nvidia}"; done
for file in /dev/nvidia-caps/nvidia-cap*; do [ -e "$file" ] && echo slices; done
for file in /proc/driver/nvidia/gpus/*/information; do [ -r "$file" ] && echo information && cat "$file"; done
table=$(nvidia-smi --query-gpu=index,uuid,memory.total,mig.mode.current --format=csv,noheader,nounits) && echo table &&
echo "$table"
case $table in *Enabled*) echo list && nvidia-smi -L;; esac
echo end
"""
_HEADINGS = frozenset({"driver", "slices", "information", "table", "list", "end"})
_ROW_CELLS = 4


def read_answer(text: str) -> VisibleGpus | None:
    """Return what the commands of SCRIPT have printed in a container; None: it cannot be told from that."""
    variable, openable, sections = _split(text)
    if "end" not in sections:
        return None
    table = _read_table(sections)
    if table is None and ("driver" not in sections or "slices" in sections):
        return None
    files = [read_information("\n".join(lines)) for lines in sections.get("information", [])]
    installed = table or [each for each in files if each is not None and each.minor in openable]
    if len(installed) > _MOST_GPUS:
        return None
    # Only GPUs whose files a process can open are in the table, and nobody asks for their minor numbers.
    visible = find_visible(installed, {each.minor for each in installed}, variable)
    return replace(visible, openable=len(openable) or None) if table else visible


def _split(text: str) -> tuple[str | None, set[int], dict[str, list[list[str]]]]:
    variable, openable = None, set()
    sections: dict[str, list[list[str]]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        heading, _, rest = line.partition(" ")
        if heading == "variable":
            variable = rest
        elif heading == "openable" and (minor := _read_number(rest)) is not None:
            openable.add(minor)
        elif line in _HEADINGS:
            lines = []
            sections.setdefault(line, []).append(lines)
        else:
            lines.append(line)
    return variable, openable, sections


def _read_table(sections: Mapping[str, list[list[str]]]) -> list[InstalledGpu] | None:
    """Return what nvidia-smi lists, slices in the place of their GPUs; None where it does not run, or lists none."""
    slices = _read_slices([line for lines in sections.get("list", []) for line in lines])
    gpus: list[SeenGpu] = []
    for line in (line for lines in sections.get("table", []) for line in lines):
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == _ROW_CELLS and cells[0].isdecimal():
            _, uuid, mebibytes, mode = cells
            memory = _read_number(mebibytes)
            whole = SeenGpu(read_uuid(uuid), None if memory is None else memory * _MIB)
            gpus += slices.get(uuid, []) if mode == "Enabled" else [whole]
    return [InstalledGpu(index, gpu) for index, gpu in enumerate(gpus)] or None


def _read_slices(lines: Sequence[str]) -> dict[str, list[SeenGpu]]:
    """Return the slices that `nvidia-smi -L` lists, by the UUIDs of their GPUs."""
    slices: dict[str, list[SeenGpu]] = {}
    uuid = ""
    for line in lines:
        match = re.search(r"\(UUID: ([^)]*)\)", line)
        if match is not None and line.startswith("GPU "):
            uuid = match[1]
        elif match is not None and line.lstrip().startswith("MIG "):
            slices.setdefault(uuid, []).append(SeenGpu(read_uuid(match[1])))
    return slices
