"""Resources of kind `kubernetes`: a namespace of a cluster, reached with a kubeconfig."""

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from django import forms
from django.conf import settings as django_settings

from compute.adapters.job_tokens import sign_attempt
from compute.adapters.kinds import Config, ConfigForm, Credentials, OwnSite, ResourceKind, SecretField
from compute.adapters.kubernetes import checks
from compute.adapters.kubernetes.driver import KubernetesDriver, unreachable_as_ours
from compute.adapters.kubernetes.manifests import KEEP_ENDED, MOUNTABLE, NVIDIA_GPU, PodSettings
from compute.adapters.stored_outputs import StoredTreeOutputs
from compute.errors import InvalidResource, ResourceUnreachable
from compute.models import Resource
from core.form_fields import SizeField
from core.kubernetes.errors import InvalidKubeconfig
from core.kubernetes.gateway import Gateway
from core.kubernetes.kubeconfig import MAX_BYTES, Kubeconfig, own_account, read_kubeconfig
from core.taints import parse_toleration, read_toleration

T = TypeVar("T")

_NAME = r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?"
_LABEL = re.compile(r"([A-Za-z0-9._/-]{1,317})=([A-Za-z0-9._-]{0,63})")
_DEFAULT_CACHE_BYTES = 10**12
_MOST_GRACE_MINUTES = 24 * 60
# The others say which cluster it is, whose its files are, what its cache site is, and what its jobs hold of GPUs.
_CHANGEABLE = (
    "agent_image",
    "default_image",
    "pull_policy",
    "image_pull_secrets",
    "platform_url",
    "output_minutes",
    "priority_class",
    "runtime_class",
    "node_selector",
    "tolerations",
    "checkpoint_bytes",
    "job_claims",
)


def _name(label: str, **options: Any) -> forms.RegexField:
    invalid = "Lower-case letters, digits, dashes and dots, with a letter or a digit at both ends."
    return forms.RegexField(
        rf"^{_NAME}$", max_length=63, required=False, label=label, error_messages={"invalid": invalid}, **options
    )


class KubernetesForm(ConfigForm):
    """Which cluster, as whom, and what is to be in all pods."""

    kubeconfig = SecretField(
        rows=6,
        max_length=MAX_BYTES,
        required=False,
        label="Kubeconfig",
        help_text="With everything inside: no commands, no file names. It is kept encrypted and never shown again.",
    )
    own_account = forms.BooleanField(
        required=False,
        label="Own account",
        help_text="Nearline runs in this cluster, and uses the account of its own pods in place of a kubeconfig.",
    )
    context = forms.CharField(max_length=253, required=False, help_text="Empty: the current one of the kubeconfig.")
    namespace = _name("Namespace", help_text="Where the pods of jobs are. Empty: that of the context.")
    agent_image = forms.CharField(
        max_length=500, label="Image of Nearline", help_text="Brings code and inputs into pods and keeps their outputs."
    )
    default_image = forms.CharField(
        max_length=500, required=False, label="Image of jobs", help_text="For jobs that name none."
    )
    pull_policy = forms.ChoiceField(
        choices=[(name, name) for name in ("IfNotPresent", "Always", "Never")], required=False, label="Pull images"
    )
    image_pull_secrets = forms.CharField(
        max_length=500, required=False, help_text="Names of Secrets of the namespace, with commas between them."
    )
    platform_url = forms.URLField(
        max_length=500,
        required=False,
        assume_scheme="https",
        label="Address of Nearline for pods",
        help_text="Empty: NEARLINE_PUBLIC_URL.",
    )
    gpu_resource = forms.RegexField(
        r"^[a-z0-9.-]+/[a-zA-Z0-9._-]+$", max_length=317, required=False, label="Name of GPUs", initial=NVIDIA_GPU
    )
    user_id = forms.IntegerField(
        min_value=1, max_value=2**31 - 1, required=False, label="User of pods", help_text="Empty: 65532."
    )
    output_minutes = forms.IntegerField(
        min_value=1,
        max_value=_MOST_GRACE_MINUTES,
        required=False,
        label="Minutes for outputs",
        help_text="So long may a pod send its output after its command. Empty: 10.",
    )
    priority_class = _name("Priority class")
    runtime_class = _name("Runtime class of GPUs")
    node_selector = forms.CharField(max_length=2000, required=False, help_text="Like pool=train, zone=a.")
    tolerations = forms.CharField(max_length=2000, required=False, help_text="Like gpu=only:NoSchedule, spot.")
    storage_class = _name(
        "Storage class", help_text="For cached commits and checkpoints: its volumes can be mounted by many nodes."
    )
    cache_bytes = SizeField(
        fault_at_zero="A cache of no size holds nothing. Leave the storage class out for none.",
        required=False,
        label="Size of the cache",
        help_text="Of all volumes together. Empty: 1 TB.",
    )
    cache_sharing = forms.ChoiceField(
        choices=[("volume", "a volume for each commit"), ("pool", "one volume, a folder for each commit")],
        required=False,
        label="Cached commits",
        help_text="One volume suits thousands of small commits.",
    )
    checkpoint_bytes = SizeField(
        fault_at_zero="A folder of no size holds nothing.",
        required=False,
        label="Size of a checkpoint folder",
        help_text="Each job that keeps checkpoints has a volume of this size. Empty: 20 GB.",
    )
    job_claims = forms.CharField(
        max_length=2000,
        required=False,
        label="Claims for jobs",
        help_text="Claims of the namespace that jobs of all projects may mount. Like scans:ro (only read), scratch.",
    )
    skip_storage_probe = forms.BooleanField(
        required=False,
        label="Do not try the storage class",
        help_text="Else a claim of 1 GiB is bound, written, cloned, read and deleted first: seconds to two minutes.",
    )

    def clean(self) -> dict[str, Any]:
        """Require one of the two ways to the cluster."""
        if bool(self.cleaned_data.get("kubeconfig")) == self.cleaned_data["own_account"]:
            self.add_error("kubeconfig", "Give a kubeconfig, or choose the own account of Nearline's pods.")
        return self.cleaned_data

    def clean_node_selector(self) -> dict[str, str]:
        """Return labels and their values."""
        return {match[1]: match[2] for match in self._read_items("node_selector", _LABEL.fullmatch, "pool=train")}

    def clean_tolerations(self) -> list[dict[str, str]]:
        """Return tolerations as a pod has them."""
        return [
            toleration.to_json()
            for toleration in self._read_items("tolerations", parse_toleration, "gpu=only:NoSchedule")
        ]

    def clean_image_pull_secrets(self) -> list[str]:
        """Return the names of Secrets."""
        return _items(self.cleaned_data["image_pull_secrets"])

    def clean_job_claims(self) -> list[str]:
        """Return names of claims, each with `:ro` where jobs only read it. Those of Nearline itself are not offered."""
        claims = self._read_items("job_claims", re.compile(rf"{_NAME}(:ro)?").fullmatch, "scans:ro, scratch")
        if own := [claim[0] for claim in claims if claim[0].startswith("nl-")]:
            raise forms.ValidationError(f"{own[0]} is a claim of Nearline itself, which jobs do not mount by name.")
        return [claim[0] for claim in claims]

    def read_config(self, name: str) -> Config:  # noqa: ARG002
        """Return what is given, without what is secret."""
        return {key: value for key, value in self.cleaned_data.items() if key != "kubeconfig" and value}

    @staticmethod
    def write_fields(config: Config) -> Mapping[str, Any]:
        """Return a config with its lists and labels as text."""
        written = {name: ", ".join(config.get(name, ())) for name in ("image_pull_secrets", "job_claims")}
        written["node_selector"] = ", ".join(f"{key}={value}" for key, value in config.get("node_selector", {}).items())
        written["tolerations"] = ", ".join(str(read_toleration(each)) for each in config.get("tolerations", ()))
        return {**config, **written}

    def _read_items(self, field: str, read: Callable[[str], T | None], example: str) -> list[T]:
        items = []
        for item in _items(self.cleaned_data[field]):
            value = read(item)
            if value is None:
                raise forms.ValidationError(f"'{item}' cannot be read. Write it like {example}.")
            items.append(value)
        return items


def check(config: Config, credentials: Credentials) -> None:
    """Check what can be read, then ask the cluster. Raises InvalidResource and ResourceUnreachable."""
    kubeconfig = _kubeconfig_of(config, credentials)
    settings = _settings(config, kubeconfig.namespace, "check")
    _check_platform_url(settings.platform_url)
    with unreachable_as_ours():
        problems = checks.find_problems(Gateway(kubeconfig), settings, with_volumes=bool(config.get("storage_class")))
    if problems:
        raise InvalidResource(" ".join(problems))


def site_of(resource: Resource) -> OwnSite | None:
    """Return the cache site on volumes of a cluster; None where no storage class was chosen."""
    storage_class = resource.config.get("storage_class")
    if not storage_class:
        return None
    size_bytes = resource.config.get("cache_bytes") or _DEFAULT_CACHE_BYTES
    sharing = {"sharing": resource.config["cache_sharing"]} if resource.config.get("cache_sharing") else {}
    config = {"resource": resource.pk, "storage_class": storage_class, "size_bytes": size_bytes, **sharing}
    return OwnSite("volume", config)


def open_driver(resource: Resource, home: Path, credentials: Credentials) -> KubernetesDriver:
    """Return the driver. Raises ResourceUnreachable where the pod has no account any more."""
    try:
        kubeconfig = _kubeconfig_of(resource.config, credentials)
    except InvalidResource as error:
        raise ResourceUnreachable(error.message) from error
    return KubernetesDriver(
        Gateway(kubeconfig, is_attended=True),
        _settings(resource.config, kubeconfig.namespace, resource.pk),
        folder=home / "kubernetes" / resource.pk,
        outputs=StoredTreeOutputs(),
        sign_attempt=sign_attempt,
    )


def _list_changeable(config: Config) -> Sequence[str]:
    """Return what is in pods; nothing where Nearline's chart says it, anew at each start."""
    return () if config.get("own_account") else _CHANGEABLE


def _kubeconfig_of(config: Config, credentials: Credentials) -> Kubeconfig:
    """Return how the cluster is reached. Raises InvalidResource."""
    if config.get("own_account") and credentials:
        raise InvalidResource("This resource uses the account of Nearline's own pods, and takes no kubeconfig.")
    try:
        if config.get("own_account"):
            return own_account()
        return read_kubeconfig(credentials.get("kubeconfig", ""), str(config.get("context", "")))
    except InvalidKubeconfig as error:
        raise InvalidResource(error.message) from error


def _settings(config: Mapping[str, Any], namespace: str, resource: str) -> PodSettings:
    """Return what is in all pods, from what was written down; what is left out has its default."""
    names = ["agent_image", "pull_policy", "gpu_resource", "default_image", "user_id", "priority_class"]
    names += ["runtime_class", "node_selector", "storage_class", "checkpoint_bytes"]
    given = {name: config[name] for name in names if config.get(name)}
    if config.get("output_minutes"):
        given["grace_s"] = 60 * config["output_minutes"]
    return PodSettings(
        namespace=config.get("namespace") or namespace or "default",
        resource=resource,
        platform_url=str(config.get("platform_url") or django_settings.NEARLINE.url).rstrip("/"),
        image_pull_secrets=tuple(config.get("image_pull_secrets", ())),
        tolerations=tuple(config.get("tolerations", ())),
        job_claims=tuple(config.get("job_claims", ())),
        **given,
    )


def _check_platform_url(url: str) -> None:
    host = urlsplit(url).hostname or ""
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    if is_loopback:
        raise InvalidResource(
            f"Pods of a cluster cannot reach Nearline at {url}. Set NEARLINE_PUBLIC_URL to an address that they can "
            "reach, or give that address here."
        )


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


KIND = ResourceKind(
    name="kubernetes",
    label="kubernetes: pods in a namespace of a cluster",
    hint="A cluster is asked for its nodes and GPUs; deploy/rbac holds the account that it needs.",
    form=KubernetesForm,
    check=check,
    open=open_driver,
    mountable=MOUNTABLE,
    site_of=site_of,
    keep_ended=KEEP_ENDED,
    runs_gangs=True,
    resizes_gangs=True,
    bursts_gpus=True,
    keeps_checkpoints=True,
    checkpoint_field="storage_class",
    address_field="platform_url",
    opens_ports=True,
    runs_pods=True,
    is_remote=True,
    volumes_of=lambda config: config.get("job_claims", ()),
    changeable=_list_changeable,
    volumes_help="the claims for jobs in the settings of the cluster",
    shares_gpus=lambda config: config.get("gpu_resource", NVIDIA_GPU) == NVIDIA_GPU,
)
