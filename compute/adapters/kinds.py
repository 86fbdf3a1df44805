"""What a kind of compute resource consists of. Each kind is a package beside this module that offers one `KIND`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from django import forms

from compute.engine.job_spec import SourceKind
from compute.engine.ports import ComputeDriver
from compute.models import Resource

Config = Mapping[str, Any]
Credentials = Mapping[str, str]

MOST_CORES, MOST_GPUS = 100_000, 10_000
_MOST_SECRET = 100_000


class SecretField(forms.CharField):
    """A credential: it can be written and replaced, and no page shows it again, not even beside an error."""

    def __init__(self, *, rows: int = 1, **options: Any) -> None:
        """Take one line that is not shown while it is typed, or several `rows` of text."""
        attributes = {"autocomplete": "off", "spellcheck": "false"}
        # The frontend keeps nothing of what is marked so, where it keeps what was typed.
        area = {"rows": rows, "class": "form-control", "data-secret": "", **attributes}
        widget = _SecretArea(attrs=area) if rows > 1 else forms.PasswordInput(attributes)
        super().__init__(widget=widget, **{"max_length": _MOST_SECRET, **options})


class _SecretArea(forms.Textarea):
    render_value = False  # as that of a PasswordInput: a page then says that the value has to be given again

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:  # noqa: ARG002
        """Leave the value out."""
        return super().get_context(name, None, attrs)


class ConfigForm(forms.Form):
    """Asks an admin for what is special to a kind. One without fields: the kind finds everything by itself."""

    def read_config(self, name: str) -> Config:  # noqa: ARG002 (some kinds name nodes after the resource)
        """Return the config of a resource of that name, from valid fields."""
        return {}

    @staticmethod
    def write_fields(config: Config) -> Mapping[str, Any]:
        """Return a config as people write it into the fields."""
        return config

    def describe_faults(self) -> str:
        """Say what is wrong with which field, and where it is one of several values, which there are."""
        faults = []
        for name, errors in self.errors.items():
            faults.append(f"{name}: {' '.join(map(str, errors))}")
            field = self.fields.get(name)
            if isinstance(field, forms.ChoiceField):
                values = [str(value) for value, _ in field.choices if value]  # type: ignore[misc,union-attr]  # as lists
                faults.append(f"It is one of: {', '.join(values)}.")
        return " ".join(faults)

    def read_credentials(self) -> Credentials:
        """Return what is to be kept encrypted, from valid fields."""
        return {name: self.cleaned_data[name] for name in self.secrets() if self.cleaned_data.get(name)}

    @classmethod
    def secrets(cls) -> Mapping[str, forms.Field]:
        """Return the fields that hold credentials, by name."""
        return {name: field for name, field in cls.base_fields.items() if isinstance(field, SecretField)}

    @classmethod
    def of_secrets(cls) -> "type[ConfigForm]":
        """Return the form that asks for the credentials alone."""
        return cls.of_fields(cls.secrets())

    @classmethod
    def of_fields(cls, names: Iterable[str]) -> "type[ConfigForm]":
        """Return the form that asks for some of the fields, each by itself."""
        left_out = dict.fromkeys(cls.base_fields.keys() - set(names))
        return type("PartForm", (cls,), {**left_out, "clean": forms.Form.clean})


@dataclass(frozen=True)
class OwnSite:
    """The cache site that comes with a resource: its kind, and what that needs."""

    kind: str
    config: Config
    root: str = ""


@dataclass(frozen=True)
class ResourceKind:
    """A technology behind compute resources.

    - `label` is one line for people, `hint` what they should know when they choose it.
    - `form` asks for the config of a resource that is to be attached.
    - `check` validates config and credentials. Raises InvalidResource.
    - `open` returns the driver of a resource: with the home folder of this installation, and its credentials.
    - `mountable` are the sources that its drivers can mount into jobs.
    - `has_host` says whether a resource is one host's machine: it is attached once on each host, as two would give the
      same cores away twice, and that host's controller drives it. One of a kind that `may_be_elsewhere` and has none
      mounts no folders of a host.
    - `withdraw` removes what questions to a resource have left there that is not attached after all. Raises
      ResourceUnreachable.
    - `site_of` returns the cache site that comes with a resource; None: none does.
    - `keep_ended` is how long the files of an ended job stay on the resource, if nobody needs them.
    - Jobs of a kind that `ignores_images` run without the image that they name.
    - One that `runs_gangs` starts several replicas of a job, on as many nodes.
    - One that `keeps_checkpoints` gives jobs checkpoint folders, which outlive their runs. `checkpoint_field` is the
      field of its form that a resource needs for that; empty: none.
    - `address_field` is the field of its form for the address at which its jobs reach the platform; empty: the
      platform's own.
    - Ports of jobs can be reached on one that `opens_ports`.
    - Each question to one that `is_remote` is a call over a network, and counted there: jobs are started several at a
      time, so `start` of its drivers does not use the database, and logs of silent jobs are read less often.
    - `volumes_of` returns what an admin offers jobs of a resource as volumes (`NAME`, `NAME:ro`). `volumes_help` says
      where that is set; empty: jobs of this kind have no volumes.
    - `shares_gpus` says whether a resource with this config gives jobs parts of a GPU, or whole ones only.
    - One that `bursts_gpus` lets a job use more of its GPU than its share while nobody else does, to its limit or more.
    - On one that `runs_pods` a job is a pod, of which templates say more than its size (`PodOptions`).
    - On one that `shares_trees` jobs read trees of the store in folders of the host that all of them share.
    - One that `resizes_gangs` starts and stops single replicas of a job that runs (`ResizesJobs`).
    - `changeable` returns which fields of the form can be changed later: they count for what starts from then on.
    """

    name: str
    label: str
    check: Callable[[Config, Credentials], None]
    open: Callable[[Resource, Path, Credentials], ComputeDriver]
    form: type[ConfigForm] = ConfigForm
    mountable: frozenset[SourceKind] = frozenset()
    withdraw: Callable[[ComputeDriver], None] = lambda _: None
    site_of: Callable[[Resource], OwnSite | None] = lambda _: None
    hint: str = ""
    is_simulated: bool = False
    has_host: Callable[[Config], bool] = lambda _: False
    may_be_elsewhere: bool = False
    ignores_images: bool = False
    runs_gangs: bool = False
    keeps_checkpoints: bool = False
    checkpoint_field: str = ""
    address_field: str = ""
    opens_ports: bool = False
    is_remote: bool = False
    volumes_of: Callable[[Config], Sequence[str]] = lambda _: ()
    volumes_help: str = ""
    shares_gpus: Callable[[Config], bool] = lambda _: True
    bursts_gpus: bool = False
    runs_pods: bool = False
    shares_trees: bool = False
    resizes_gangs: bool = False
    changeable: Callable[[Config], Sequence[str]] = lambda _: ()
    keep_ended: timedelta = timedelta(days=14)

    def mountable_on(self, host: str) -> frozenset[SourceKind]:
        """Return the sources that jobs of a resource with that host can mount."""
        sees_folders = host or not self.may_be_elsewhere
        return self.mountable if sees_folders else self.mountable - {SourceKind.HOST_FOLDER}
