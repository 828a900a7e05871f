"""The page after the password: it asks for the authenticator app's code, or for a recovery code."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.generic import FormView
from unfold.widgets import UnfoldAdminTextInputWidget

from jobs.store.trail.actor import Actor, ActorKind, acting_as
from scheduler_project.signin.gate import PASSED
from scheduler_project.signin.held import Held, held_sign_in, let_go
from scheduler_project.web.logins import note_wrong_code
from tenants import second_factor


class CodeForm(forms.Form):
    code = forms.CharField(
        max_length=40,
        widget=UnfoldAdminTextInputWidget(
            attrs={
                "autofocus": True,
                "autocomplete": "one-time-code",
                "autocapitalize": "none",
                "spellcheck": "false",
            }
        ),
        help_text="The six digits that your authenticator app shows, or one of your recovery codes.",
    )


@method_decorator(never_cache, name="dispatch")
class SignInCode(FormView):
    template_name = "admin/signin/code.html"
    form_class = CodeForm
    held: Held

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        held = held_sign_in(request)
        if held is None:
            return HttpResponseRedirect(reverse("admin:login"))
        self.held = held
        return super().dispatch(request, *args, **kwargs)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(
            **admin.site.each_context(self.request) | {"title": "Second factor"} | kwargs
        )

    def form_valid(self, form: CodeForm) -> HttpResponse:
        operator = self.held.operator
        with acting_as(Actor(ActorKind.OPERATOR, operator.get_username())):
            by = second_factor.passed_by(operator=operator, code=form.cleaned_data["code"])
        if not by:
            note_wrong_code(self.request, operator)
            form.add_error("code", "This code is wrong or was already used. The next code comes within 30 s.")
            return self.form_invalid(form)
        let_go(self.request)
        self.request.signed_in_by = by  # type: ignore[attr-defined]
        login(self.request, operator)
        self.request.session[PASSED] = True
        if by == second_factor.BY_RECOVERY_CODE:
            left = operator.second_factor
            messages.warning(self.request, f"{len(left.recovery)} recovery codes are left.")
        return HttpResponseRedirect(self.held.then)
