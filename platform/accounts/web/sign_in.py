"""The one-time link that signs a person in. A preview of the link by a chat or mail program must not spend it."""

from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from accounts.errors import NotSignedIn
from accounts.services import tokens

_BACKEND = "allauth.account.auth_backends.AuthenticationBackend"


@login_not_required
@never_cache
@require_http_methods(["GET", "POST"])
def sign_in_by_link(request: HttpRequest, secret: str) -> HttpResponse:
    """Show the button that spends the link; sign in when it is pressed."""
    if request.method == "GET":
        return render(request, "accounts/sign_in_link.html", {"secret": secret})
    try:
        user = tokens.redeem_sign_in_link(secret)
    except NotSignedIn as error:
        return render(request, "accounts/sign_in_link.html", {"error": error}, status=401)
    login(request, user, backend=_BACKEND)
    return redirect("/")
