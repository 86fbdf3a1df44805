"""A person's access tokens: made and shown once, listed, revoked."""

from datetime import timedelta

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from accounts import selectors
from accounts.services import tokens
from accounts.web.requests import PageRequest
from core import clock
from core.bounds import line_fault


class TokenForm(forms.Form):
    """What a new token is for, and how long it lives."""

    name = forms.CharField(max_length=100, label="What is it for?")
    days = forms.TypedChoiceField(
        coerce=int,
        label="It ends after",
        choices=[(30, "30 days"), (90, "90 days"), (365, "a year"), (0, "never")],
        initial=90,
    )

    def clean_name(self) -> str:
        """Require one line, as the API does."""
        name: str = self.cleaned_data["name"]
        if fault := line_fault(name):
            raise forms.ValidationError(fault)
        return name


@never_cache
def tokens_page(request: PageRequest) -> HttpResponse:
    """List the person's tokens; a POST makes one and shows its secret this one time."""
    form = TokenForm(request.POST or None)
    context: dict[str, object] = {}
    if form.is_valid():
        days = form.cleaned_data["days"]
        expires_at = clock.now() + timedelta(days=days) if days else None
        token, secret = tokens.create_token(actor=request.actor, name=form.cleaned_data["name"], expires_at=expires_at)
        context = {"created": token, "secret": secret}
        form = TokenForm()
    return render(
        request,
        "accounts/tokens.html",
        {
            **context,
            "form": form,
            "tokens": selectors.list_tokens(actor=request.actor),
            "now": clock.now(),
            "address": request.build_absolute_uri("/").rstrip("/"),
        },
    )


@require_POST
def revoke(request: PageRequest, token_id: str) -> HttpResponse:
    """Make a token worthless."""
    tokens.revoke_token(actor=request.actor, token_id=token_id)
    messages.success(request, "The token is revoked. Whatever used it is signed out.")
    return redirect("accounts:tokens")
