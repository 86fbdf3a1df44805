"""The page from which a request was sent, as the browser tells it."""

from urllib.parse import SplitResult, urlsplit

from django.http import HttpRequest


def page_of(request: HttpRequest) -> SplitResult:
    """Return the address of the page of this site on which a form or a part stands; empty: it is not told."""
    try:
        page = urlsplit(request.headers.get("Referer", ""))
    except ValueError:  # whoever writes a header may write anything
        page = urlsplit("")
    return page if page.netloc == request.get_host() else urlsplit("")
