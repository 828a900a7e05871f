"""The login page: Django's own. For an operator with a second factor, a right password only leads to the code's page.

Where the settings name an identity provider, the page leads there, too; or only there, if passwords are switched off.
"""

from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.views.decorators.cache import never_cache

from scheduler_project.signin.held import hold
from tenants.models import SecondFactor


@never_cache
def sign_in(request: HttpRequest) -> HttpResponseBase:
    """``admin:login``."""
    if request.method == "POST" and not settings.PASSWORD_SIGN_IN:
        messages.error(request, "Passwords are switched off here.")
        return HttpResponseRedirect(request.get_full_path())
    if settings.SECOND_FACTOR == "off" or request.method != "POST":
        return admin.site.login(request, _of_provider(request))
    return _SignIn.as_view()(request)


def _of_provider(request: HttpRequest) -> dict[str, Any]:
    """The values that the page needs for an identity provider's button; empty where there is no provider."""
    if settings.OIDC is None:
        return {}
    query = QueryDict(mutable=True)
    if "next" in request.GET:
        query["next"] = request.GET["next"]
    url = f"{reverse('sign_in_oidc')}?{query.urlencode()}".rstrip("?")
    return {"oidc_name": settings.OIDC.name, "oidc_url": url, "only_oidc": not settings.PASSWORD_SIGN_IN}


class _SignIn(LoginView):
    """The view as ``AdminSite.login`` makes it."""

    template_name = "admin/login.html"

    def get_form_class(self) -> Any:
        return admin.site.login_form

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        page = {"title": "Log in", "subtitle": None, "app_path": self.request.get_full_path()}
        return super().get_context_data(
            **admin.site.each_context(self.request) | page | _of_provider(self.request) | kwargs
        )

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        operator = form.get_user()
        if not SecondFactor.objects.filter(pk=operator.pk).exists():
            return super().form_valid(form)
        hold(self.request, operator, self.get_success_url())
        return HttpResponseRedirect(reverse("sign_in_code"))
