"""What a kind of cache site consists of. Each kind has a module beside this one, or a package, with its one `KIND`."""

from collections.abc import Callable
from dataclasses import dataclass

from django import forms

from datasets.engine.cache_ports import CacheSiteDriver
from datasets.models import CacheSite


@dataclass(frozen=True)
class SiteKind:
    """A technology behind cache sites.

    - `label` is one line for people.
    - `form` asks for what is special to the kind. Its fields are `root`, or keys of the site's `config`.
    - `check` validates a site that is to be saved, with a usable `root` and `config`. Raises InvalidCacheSite.
    - `settings_of` returns the form of what can be changed of a site later. Its fields are keys of the `config`, and
      `check_settings` validates them without asking the site. Raises InvalidCacheSite.
    - `open` returns the driver of a site. Raises CacheSiteUnavailable.
    - `default_part` is the part of the free space that a site without a declared capacity takes.
    - A site that `works_alone` goes on between calls: `ensure` returns at once, and is called again to follow it.
    - What `is_read_early` can be read by other sites of the kind while it is being filled.
    - A site of a kind that `has_host` is filled by the workers of one host.
    - A site that `pauses` may be told to stop filling a copy, and goes on with it later where it stopped. It stops as
      soon as the row says so; one that works alone and `stops_by_call` fills it on until its driver is told by `stop`.
    - `parallel_copies` is how many copies a site fills at a time; None: any number.
    """

    name: str
    label: str
    form: type[forms.Form]
    check: Callable[[CacheSite], None]
    open: Callable[[CacheSite], CacheSiteDriver]
    default_part: float
    settings_of: Callable[[CacheSite], type[forms.Form]] = lambda _site: forms.Form
    check_settings: Callable[[CacheSite], None] = lambda _site: None
    works_alone: bool = False
    is_read_early: bool = False
    has_host: bool = False
    pauses: bool = False
    stops_by_call: bool = False
    parallel_copies: int | None = None
    is_simulated: bool = False
