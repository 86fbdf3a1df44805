"""How much each cache site may hold and when idle commits leave: read by everybody, changed by site admins."""

from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from accounts.errors import InvalidName
from accounts.web.requests import PageRequest
from core import units
from core.errors import InvalidInput
from core.form_fields import SizeField, host_field
from datasets.errors import ArrayUnreadable, CacheSiteExists, CacheSiteUnavailable, InvalidCacheSite
from datasets.models import CacheSite
from datasets.selectors import caches
from datasets.selectors import caches as array_reads
from datasets.services import cache_sites
from web.refused_forms import add_error, show_again, shown


class PolicyForm(forms.Form):
    """What a site may hold (empty: the site decides), and after how many idle days a commit leaves; 0 means never."""

    capacity = SizeField(required=False)
    idle_days = forms.FloatField(min_value=0, max_value=10_000, initial=1, label="Idle days")


@dataclass(frozen=True)
class KindChoice:
    """A kind of site that can be chosen, and the form of what is its own."""

    label: str
    is_chosen: bool
    form: forms.Form


class SiteForm(PolicyForm):
    """A new site. What is special to a kind comes from the kind's own form, whose fields begin with the kind's name."""

    name = forms.CharField(max_length=63, help_text="Lower-case letters, digits and dashes.")
    kind = forms.ChoiceField(required=False)
    field_order = ("name", "kind")

    def __init__(self, data: QueryDict | None = None) -> None:
        """Offer every kind with its fields."""
        super().__init__(data)
        kinds = caches.list_kinds()
        self._forms = {kind.name: kind.form(data, prefix=kind.name) for kind in kinds}
        self.fields["kind"].choices = [(kind.name, kind.label) for kind in kinds]  # type: ignore[attr-defined]
        self.fields["kind"].initial = kinds[0].name
        self.fields.update(host_field())

    @property
    def kinds(self) -> dict[str, KindChoice]:
        """The kinds by name, with the fields of each."""
        chosen = self["kind"].value() or self.fields["kind"].initial
        return {
            name: KindChoice(label, name == chosen, self._forms[name])
            for name, label in self.fields["kind"].choices  # type: ignore[attr-defined]
        }

    @property
    def common_fields(self) -> list[forms.BoundField]:
        """The fields of every kind."""
        return [field for field in self if field.name != "kind"]

    def clean(self) -> dict[str, object]:
        """Keep, as `root` and `config`, what the chosen kind's form reads."""
        cleaned: dict[str, object] = super().clean() or self.cleaned_data
        if "kind" in cleaned:
            cleaned["kind"] = cleaned["kind"] or self.fields["kind"].initial
            form = self._forms[str(cleaned["kind"])]
            if not form.is_valid():
                raise forms.ValidationError("A field of this kind is wrong.")
            values = {name: value for name, value in form.cleaned_data.items() if value not in (None, "")}
            cleaned |= {"root": values.pop("root", ""), "config": values}
        return cleaned


class ArrayForm(forms.Form):
    """The storage array behind a site, and an account that may only read it."""

    url = forms.CharField(max_length=500, label="Address", help_text="Of its management interface: https://HOST.")
    svm = forms.CharField(max_length=100, label="SVM")
    volumes = forms.CharField(max_length=200, required=False, help_text="As trident_*; empty: all of the SVM.")
    user = forms.CharField(max_length=200, help_text="It needs the role readonly or vsadmin-readonly only.")
    password = forms.CharField(
        max_length=500,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="Kept encrypted and never shown again.",
    )
    certificate = forms.CharField(
        max_length=100_000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "class": "form-control", "spellcheck": "false"}),
        help_text="PEM, of the array or of who signed for it. Empty: one that this host trusts.",
    )


def _settings_form(site: CacheSite, data: QueryDict | None = None) -> forms.Form:
    """Return the form of what the kind of a site lets change. A part of it that was not sent stays as it is."""
    form = caches.get_kind(site).settings_of(site)(data, auto_id=f"{site.name}_%s")
    for name, field in list(form.fields.items()):
        if data is not None and name not in data:
            del form.fields[name]
        elif (value := site.config.get(name)) is not None:
            field.initial = units.format_exactly(value) if isinstance(field, SizeField) else value
        field.widget.attrs["class"] = "form-control short"
        field.show_hidden_initial = data is None or form.add_initial_prefix(name) in data
    return form


def _policy_form(site: CacheSite, data: QueryDict | None = None) -> PolicyForm:
    form = PolicyForm(data, auto_id=f"{site.name}_policy_%s")
    for field in form.fields.values():
        field.widget.attrs["class"] = "form-control short"
    form.fields["capacity"].widget.attrs["placeholder"] = units.format_bytes(site.capacity_bytes)
    idle_days = form.fields["idle_days"]
    # A text would never equal the number that was seen.
    idle_days.initial = int(site.idle_days) if site.idle_days.is_integer() else site.idle_days
    idle_days.show_hidden_initial = data is None or form.add_initial_prefix("idle_days") in data
    return form


def _changes_of(form: forms.Form) -> dict[str, Any]:
    """Return what a person changed of what the page showed. Raises InvalidCacheSite where another has changed it since.

    All else stays, so that two who change different things at once do not undo each other's.
    """
    for name in form.changed_data:
        field, seen = form[name], form.data.get(form.add_initial_prefix(name))
        if field.field.show_hidden_initial and field.field.has_changed(field.initial, seen):
            now = field.initial if field.initial not in (None, "") else "empty"
            message = f"Somebody else has changed '{field.label}' meanwhile: it is {now} now."
            raise InvalidCacheSite(message, field=name)
    return {name: form.cleaned_data[name] for name in form.changed_data}


def _as_of_now(form: forms.Form) -> forms.Form:
    """Return a form with what a person changed, and all else as it is now: sent again, it changes no more than that."""
    data = {name: form.data.get(name) for name in form.data}
    for field in (each for each in form if each.field.show_hidden_initial):
        now = field.initial if field.initial is not None else ""
        data[form.add_initial_prefix(field.name)] = now
        if field.name not in form.changed_data:
            data[field.name] = now
    form.data = data
    return form


def policy_page(request: PageRequest) -> HttpResponse:
    """Show the policy of every site."""
    sites = list(caches.list_sites(actor=request.actor))
    capacities = caches.measure_capacities(sites)
    arrays = {array.site_id: array for array in array_reads.list_arrays([site.name for site in sites])}
    context = {
        "sites": [
            (
                site,
                capacities[site.pk],
                shown(request, _policy_form(site)),
                shown(request, _settings_form(site)),
                arrays.get(site.pk),
                shown(request, _array_form(site)),
            )
            for site in sites
        ],
        "form": shown(request, SiteForm()),
    }
    return render(request, "datasets/cache_policy.html", context)


@require_POST
def add_site(request: PageRequest) -> HttpResponse:
    """Make a cache site."""
    cache_sites.require_manage(actor=request.actor)
    form = SiteForm(request.POST)
    if form.is_valid():
        fields = form.cleaned_data
        try:
            site = cache_sites.create_site(
                actor=request.actor,
                name=fields["name"],
                kind=fields["kind"],
                root=fields["root"],
                config=fields["config"],
                capacity_bytes=fields["capacity"],
                idle_days=fields["idle_days"],
                host=fields.get("host", ""),
            )
        except (CacheSiteExists, CacheSiteUnavailable, InvalidCacheSite, InvalidInput, InvalidName) as error:
            form.add_error(None, f"{error.message} {error.hint}".strip())
        else:
            messages.success(request, f"{site.name} can hold {units.format_bytes(site.capacity_bytes)} of commits.")
            return redirect("datasets:cache_policy")
    return show_again(request, "datasets:cache_policy", form)


@require_POST
def change_site(request: PageRequest, name: str) -> HttpResponse:
    """Change what a site may hold, and when idle commits leave it."""
    cache_sites.require_manage(actor=request.actor)
    site = caches.get_site(actor=request.actor, name=name)
    form, settings = _policy_form(site, request.POST), _settings_form(site, request.POST)
    if form.is_valid() and settings.is_valid():
        try:
            fields = _changes_of(form)
            cache_sites.update_site(
                actor=request.actor,
                site=site,
                capacity_bytes=fields.get("capacity"),
                idle_days=fields.get("idle_days"),
                config=_changes_of(settings),
            )
        except InvalidCacheSite as error:
            faulty_form = settings if error.details.get("field") in settings.fields else form
            add_error(faulty_form, error, {"capacity_bytes": "capacity"})
        else:
            messages.success(request, f"{name} works by its new policy.")
            return redirect("datasets:cache_policy")
    return show_again(request, "datasets:cache_policy", _as_of_now(form), _as_of_now(settings))


@require_POST
def set_array(request: PageRequest, name: str) -> HttpResponse:
    """Have the space of a storage array read from now on."""
    cache_sites.require_manage(actor=request.actor)
    site = caches.get_site(actor=request.actor, name=name)
    form = _array_form(site, request.POST)
    if form.is_valid():
        try:
            array = cache_sites.set_array(actor=request.actor, site=site, **form.cleaned_data)
        except (ArrayUnreadable, InvalidCacheSite) as error:
            add_error(form, error, {"": "url"})
        else:
            messages.success(request, f"{array.url} tells its space for {name}.")
            return redirect("datasets:cache_policy")
    return show_again(request, "datasets:cache_policy", form)


@require_POST
def remove_array(request: PageRequest, name: str) -> HttpResponse:
    """Read the array behind a site no more."""
    cache_sites.require_manage(actor=request.actor)
    cache_sites.remove_array(actor=request.actor, site=caches.get_site(actor=request.actor, name=name))
    messages.success(request, f"No array is read for {name} any more; its account is forgotten.")
    return redirect("datasets:cache_policy")


def _array_form(site: CacheSite, data: QueryDict | None = None) -> ArrayForm:
    return ArrayForm(data, auto_id=f"array_{site.name}_%s")
