"""Cache sites of kind `simulated`: they do not exist. For locality, warm-up and finish times without a cluster."""

from django import forms

from core import bounds
from core.form_fields import SizeField
from datasets.adapters.sites.kinds import SiteKind
from datasets.adapters.sites.simulated.driver import SimulatedSite
from datasets.errors import InvalidCacheSite
from datasets.models import CacheSite


class SimulatedForm(forms.Form):
    """What the site pretends to be."""

    size_bytes = SizeField(required=False, label="Size", help_text="As 2 TB.")
    rate_bytes_s = SizeField(required=False, label="Bytes a second", help_text="As 500 MB.")


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


KIND = SiteKind(
    name="simulated",
    label="simulated: it does not exist; its copies take as long as its rate says",
    form=SimulatedForm,
    check=check,
    open=SimulatedSite,
    default_part=1.0,
    works_alone=True,
    pauses=True,
    parallel_copies=1,  # so that its rate is never exceeded
    is_simulated=True,
)
