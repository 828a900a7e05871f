"""An operator's page for their own second factor: set it up, replace it, make new recovery codes, remove it.

Each step asks for the password again, so that access to an unattended browser is not enough. The offered secret goes
with the form, sealed for its operator, until a code proves that the app has it: a GET writes nothing. Recovery codes
are shown by the answer that made them, and are kept nowhere.
"""

from typing import Any

import segno
from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextInputWidget

from jobs.admin.shared.pages import ConsolePage
from scheduler_project.signin.gate import PASSED
from scheduler_project.web.sessions import end_others
from tenants import second_factor
from tenants.models import SecondFactor
from tenants.vault.sealing import Unreadable


class PasswordForm(forms.Form):
    """The password, for operators that have one: the others sign in by an identity provider."""

    password = forms.CharField(
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "current-password"}),
        label="Your password",
    )

    def __init__(self, *args: Any, operator: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.operator = operator
        if not operator.has_usable_password():
            del self.fields["password"]

    def clean_password(self) -> str:
        given: str = self.cleaned_data["password"]
        if not self.operator.check_password(given):
            raise ValidationError("This is not your password.")
        return given


class SetUpForm(PasswordForm):
    offer = forms.CharField(widget=forms.HiddenInput)
    code = forms.CharField(
        max_length=20,
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "one-time-code", "inputmode": "numeric"}),
        label="The code that the app shows now",
    )
    field_order = ("offer", "code", "password")

    def clean_offer(self) -> str:
        try:
            return second_factor.open_offer(self.operator, self.cleaned_data["offer"])
        except Unreadable:
            raise ValidationError("This page belongs to another sign-in: open it again.") from None


class OwnSecondFactor(ConsolePage):
    title = "Second factor"
    template_name = "admin/signin/own.html"

    def is_permitted(self, request: HttpRequest) -> bool:
        if settings.SECOND_FACTOR == "off":
            raise Http404
        return True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        factor = SecondFactor.objects.filter(pk=self.request.user.pk).first()
        shown: dict[str, Any] = {
            "factor": factor,
            "is_required": settings.SECOND_FACTOR == "required",
            "replaces": factor is not None and "replace" in self.request.GET,
        }
        if "codes" not in kwargs:
            shown["confirm_form"] = PasswordForm(operator=self.request.user)
            if factor is None or shown["replaces"]:
                shown |= self._offer(kwargs.get("set_up_form"))
        return super().get_context_data(**shown | kwargs)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        act = {"set_up": self._set_up, "codes": self._new_codes, "remove": self._remove}.get(
            request.POST.get("do", "")
        )
        return act() if act else HttpResponseRedirect(reverse("second_factor"))

    def _set_up(self) -> HttpResponse:
        form = SetUpForm(self.request.POST, operator=self.request.user)
        if form.is_valid():
            try:
                codes = second_factor.set_up(
                    operator=self.request.user,
                    secret=form.cleaned_data["offer"],
                    code=form.cleaned_data["code"],
                )
            except ValidationError as error:
                form.add_error(None, error)
            else:
                self.request.session[PASSED] = True
                end_others(self.request)
                return self._answer(codes=codes)
        return self._answer(set_up_form=form)

    def _new_codes(self) -> HttpResponseBase:
        form = PasswordForm(self.request.POST, operator=self.request.user)
        if not form.is_valid():
            return self._answer(confirm_form=form)
        codes = second_factor.new_recovery_codes(operator=self.request.user)
        return self._answer(codes=codes) if codes else HttpResponseRedirect(reverse("second_factor"))

    def _remove(self) -> HttpResponseBase:
        form = PasswordForm(self.request.POST, operator=self.request.user)
        if not form.is_valid():
            return self._answer(confirm_form=form)
        if settings.SECOND_FACTOR == "required":
            messages.error(self.request, "A second factor is required here: replace it instead.")
        elif second_factor.remove(operator=self.request.user):
            self.request.session.pop(PASSED, None)
            messages.success(self.request, "Removed: you sign in with the password only.")
        return HttpResponseRedirect(reverse("second_factor"))

    def _answer(self, **shown: Any) -> HttpResponse:
        return self.render_to_response(self.get_context_data(**shown))

    def _offer(self, sent: SetUpForm | None) -> dict[str, Any]:
        """The form with a secret, as a picture, a link and a text: the secret that it was sent with, or a new one."""
        operator: Any = self.request.user
        secret = sent.cleaned_data.get("offer") if sent else None
        offer = sent["offer"].value() if sent and secret else second_factor.offered(operator)
        secret = secret or second_factor.open_offer(operator, offer)
        link = second_factor.app_link(secret, operator=operator.get_username(), issuer=_issuer())
        form = (
            sent
            if sent and sent["offer"].value() == offer
            else SetUpForm(operator=operator, initial={"offer": offer})
        )
        spelled = " ".join(secret[at : at + 4] for at in range(0, len(secret), 4))
        return {"set_up_form": form, "link": link, "picture": _picture(link), "secret": spelled}


def _issuer() -> str:
    """How the app names this installation."""
    name = settings.PLATFORM.environment
    return f"Carillon {name}" if name else "Carillon"


def _picture(link: str) -> SafeString:
    """The QR code as SVG without a script, black on white in every theme: cameras need that."""
    svg = segno.make(link, error="m", micro=False).svg_inline(
        scale=5, border=4, light="#fff", title="QR code"
    )
    return mark_safe(svg)  # noqa: S308 - made by segno: paths, and a title of ours
