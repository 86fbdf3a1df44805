"""How much each cache site may hold and when idle commits leave: read by everybody, changed by site admins."""

from django import forms
from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from accounts.errors import InvalidName
from accounts.web.requests import PageRequest
from core import units
from core.errors import InvalidInput
from core.form_fields import SizeField
from datasets.errors import CacheSiteExists, CacheSiteUnavailable, InvalidCacheSite
from datasets.selectors import caches
from datasets.services import cache_sites
from web.host_choice import host_field


class PolicyForm(forms.Form):
    """What a site may hold (empty: the site decides), and after how many idle days a commit leaves; 0 means never."""

    capacity = SizeField(required=False)
    idle_days = forms.FloatField(min_value=0, max_value=10_000, initial=1, label="Idle days")


class SiteForm(PolicyForm):
    """A new site. What is special to a kind comes from the kind's own form."""

    name = forms.CharField(max_length=63, help_text="Lower-case letters, digits and dashes.")
    kind = forms.ChoiceField(required=False)
    field_order = ("name", "kind")

    def __init__(self, data: QueryDict | None = None) -> None:
        """Offer every kind, and the fields of all of them."""
        super().__init__(data)
        self._kinds = {kind.name: kind for kind in caches.list_kinds()}
        self.fields["kind"].choices = [(kind.name, kind.label) for kind in self._kinds.values()]  # type: ignore[attr-defined]
        self.fields["kind"].initial = next(iter(self._kinds))
        for kind in self._kinds.values():
            self.fields.update(kind.form().fields)
        self.fields.update(host_field())

    def clean(self) -> dict[str, object]:
        """Keep, as `root` and `config`, what the chosen kind's form reads."""
        cleaned: dict[str, object] = super().clean() or self.cleaned_data
        if "kind" in cleaned:
            cleaned["kind"] = cleaned["kind"] or self.fields["kind"].initial
            form = self._kinds[str(cleaned["kind"])].form(self.data)
            for field, errors in form.errors.items():
                self.add_error(field, errors)
            values = {name: value for name, value in form.cleaned_data.items() if value not in (None, "")}
            cleaned |= {"root": values.pop("root", ""), "config": values}
        return cleaned


def policy_page(request: PageRequest) -> HttpResponse:
    """Show the policy of every site."""
    return _show(request, SiteForm())


@require_POST
def add_site(request: PageRequest) -> HttpResponse:
    """Make a cache site."""
    cache_sites.require_manage(actor=request.actor)
    form = SiteForm(request.POST)
    if form.is_valid():
        said = form.cleaned_data
        try:
            site = cache_sites.create_site(
                actor=request.actor,
                name=said["name"],
                kind=said["kind"],
                root=said["root"],
                config=said["config"],
                capacity_bytes=said["capacity"],
                idle_days=said["idle_days"],
                host=said.get("host", ""),
            )
        except (CacheSiteExists, CacheSiteUnavailable, InvalidCacheSite, InvalidInput, InvalidName) as error:
            form.add_error(None, f"{error.message} {error.hint}".strip())
        else:
            messages.success(request, f"{site.name} can hold {units.format_bytes(site.capacity_bytes)} of commits.")
            return redirect("datasets:cache_policy")
    return _show(request, form)


@require_POST
def change_site(request: PageRequest, name: str) -> HttpResponse:
    """Change what a site may hold, and when idle commits leave it."""
    cache_sites.require_manage(actor=request.actor)
    site = caches.get_site(actor=request.actor, name=name)
    form = PolicyForm(request.POST)
    if form.is_valid():
        said = form.cleaned_data
        cache_sites.update_site(
            actor=request.actor, site=site, capacity_bytes=said["capacity"], idle_days=said["idle_days"]
        )
        messages.success(request, f"{name} works by its new policy.")
    else:
        wrong = "; ".join(f"{form[field].label}: {' '.join(map(str, errors))}" for field, errors in form.errors.items())
        messages.error(request, f"The policy of {name} stays. {wrong}")
    return redirect("datasets:cache_policy")


def _show(request: PageRequest, form: SiteForm) -> HttpResponse:
    sites = list(caches.list_sites(actor=request.actor))
    capacities = caches.measure_capacities(sites)
    context = {"sites": [(site, capacities[site.pk]) for site in sites], "form": form}
    return render(request, "datasets/cache_policy.html", context)
