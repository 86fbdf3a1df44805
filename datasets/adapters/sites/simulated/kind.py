"""Cache sites of kind `simulated`: they do not exist. For locality, warm-up and finish times without a cluster."""

from django import forms

from core import bounds, units
from core.errors import InvalidInput
from datasets.adapters.sites.kinds import SiteKind
from datasets.adapters.sites.simulated.driver import SimulatedSite
from datasets.errors import InvalidCacheSite
from datasets.models import CacheSite


class SimulatedForm(forms.Form):
    """What the site pretends to be."""

    size_bytes = forms.CharField(max_length=30, required=False, label="Size", help_text="As 2 TB; not for folders.")
    rate_bytes_s = forms.CharField(
        max_length=30, required=False, label="Bytes a second", help_text="As 500 MB; simulated only."
    )

    def clean_size_bytes(self) -> int | None:
        """Read a size as people write it."""
        return _parse(self.cleaned_data["size_bytes"])

    def clean_rate_bytes_s(self) -> int | None:
        """Read a rate as people write it."""
        return _parse(self.cleaned_data["rate_bytes_s"])


def check(site: CacheSite) -> None:
    """Require a size and a rate. Raises InvalidCacheSite."""
    for key in ("size_bytes", "rate_bytes_s"):
        value = site.config.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= bounds.MAX_QUANTITY:
            raise InvalidCacheSite(f"A simulated site needs '{key}': a whole number of bytes above 0.")
    unknown = sorted(set(site.config) - {"size_bytes", "rate_bytes_s"})
    if unknown:
        raise InvalidCacheSite(f"A simulated site has no setting '{unknown[0]}'.")
    if site.root:
        raise InvalidCacheSite("A simulated site has no folder.")
    site.root = f"simulated://{site.name}"


def _parse(text: str) -> int | None:
    try:
        return units.parse_bytes(text) if text else None
    except InvalidInput as error:
        raise forms.ValidationError(error.message) from error


KIND = SiteKind(
    name="simulated",
    label="simulated: it does not exist; its copies take as long as its rate says",
    form=SimulatedForm,
    check=check,
    open=SimulatedSite,
    default_part=1.0,
    works_alone=True,
    parallel_copies=1,  # so that its rate is never exceeded
    is_simulated=True,
)
