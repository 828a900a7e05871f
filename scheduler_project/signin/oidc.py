"""Signing in by an identity provider: OpenID Connect's code flow with PKCE, state and nonce, by Authlib.

The settings alone name the provider: no data from a tenant or a caller chooses an address that is called. The
provider's answer must be a token that one of its keys signed, for Carillon, by the issuer in the settings;
``tenants.identities`` says whose token it is. Where the provider is away, or its answer is not valid, a page says so,
the log says why, and passwords work as before.

The provider then asks for second factors: Carillon's own is not asked for as well.
"""

from functools import lru_cache
from typing import Any

import requests
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.django_client import OAuth
from django.conf import settings
from django.contrib import admin
from django.contrib.auth import login
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET
from joserfc.errors import JoseError

from jobs.store.trail.actor import Actor, ActorKind, acting_as
from jobs.telemetry import get_logger
from scheduler_project.environment import Oidc
from scheduler_project.signin.gate import PASSED
from scheduler_project.signin.held import let_go
from scheduler_project.web.logins import note_stranger
from tenants.identities import MAX_SUBJECT, operator_of

log = get_logger()
BY = "single sign-on"
#: The name, in Django's session, of the address that the sign-in leads to.
THEN = "oidc_then"
TIMEOUT_SECONDS = 10
#: Signatures by the provider's private key. Tokens that are signed with a shared secret, or not at all, are refused.
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"]
#: The errors that the library raises for an answer that is not valid, or missing.
_UNSOUND = (
    AuthlibBaseError,
    JoseError,
    requests.RequestException,
    ValueError,
    RuntimeError,
    KeyError,
    TypeError,
)
BACKEND = "tenants.console.reach.BoundBackend"


class WrongIssuer(RuntimeError):
    """The provider calls itself by another name than the settings do."""


@never_cache
@require_GET
def sign_in_oidc(request: HttpRequest) -> HttpResponse:
    """Redirect to the provider."""
    oidc = _provider()
    then = request.GET.get("next", "")
    request.session[THEN] = then if _is_ours(request, then) else ""
    try:
        answer: HttpResponse = _client(oidc).authorize_redirect(request, _way_back(request))
    except _UNSOUND as error:
        return _away(request, oidc, error)
    return answer


@never_cache
@require_GET
def sign_in_oidc_back(request: HttpRequest) -> HttpResponse:
    """The return from the provider, with a code."""
    oidc = _provider()
    if request.GET.get("error"):
        why = f"{oidc.name} refused the sign-in."
        return _refused(request, why, "Try again, or ask its administrators.", status=403)
    try:
        claims = _claims(_client(oidc), oidc, request)
    except JoseError as error:
        _made.cache_clear()  # the provider's keys may have changed
        return _away(request, oidc, error)
    except _UNSOUND as error:
        return _away(request, oidc, error)
    # The operator that the token means links the identity by signing in: the trail names that operator.
    with acting_as(Actor(ActorKind.OPERATOR, BY)):
        operator = operator_of(issuer=oidc.issuer, claims=claims)
    if operator is None:
        subject = str(claims.get("sub", "")).replace("\0", "")[:MAX_SUBJECT]
        note_stranger(request, by=BY, subject=subject)
        return _refused(
            request,
            "No operator of this console is linked to you.",
            f"Ask an access administrator to link your operator to the subject {subject}.",
            status=403,
        )
    then = request.session.pop(THEN, "") or reverse("admin:index")
    let_go(request)
    request.signed_in_by = BY  # type: ignore[attr-defined]
    login(request, operator, backend=BACKEND)
    request.session[PASSED] = True
    return HttpResponseRedirect(then)


def _is_ours(request: HttpRequest, url: str) -> bool:
    return url_has_allowed_host_and_scheme(url, {request.get_host()}, require_https=request.is_secure())


def _provider() -> Oidc:
    if settings.OIDC is None:
        raise Http404
    return settings.OIDC


def _way_back(request: HttpRequest) -> str:
    return request.build_absolute_uri(reverse("sign_in_oidc_back"))


@lru_cache(maxsize=4)
def _made(oidc: Oidc) -> Any:
    return OAuth().register(
        "oidc",
        client_id=oidc.client_id,
        client_secret=oidc.client_secret,
        server_metadata_url=f"{oidc.issuer}/.well-known/openid-configuration",
        client_kwargs={
            "scope": "openid email",
            "code_challenge_method": "S256",
            "default_timeout": TIMEOUT_SECONDS,
        },
    )


def _client(oidc: Oidc) -> Any:
    """The provider's client, which has asked the provider for its addresses once."""
    client = _made(oidc)
    told = client.load_server_metadata()
    if str(told.get("issuer", "")).rstrip("/") != oidc.issuer:
        _made.cache_clear()
        raise WrongIssuer(f"it calls itself {told.get('issuer')!r}")
    told["id_token_signing_alg_values_supported"] = ALGORITHMS
    ways = told.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
    way = "client_secret_basic" if "client_secret_basic" in ways else "client_secret_post"
    client.client_kwargs["token_endpoint_auth_method"] = way
    return client


def _claims(client: Any, oidc: Oidc, request: HttpRequest) -> dict[str, Any]:
    """The verified claims of the token that the code was exchanged for."""
    issuer = client.server_metadata["issuer"]
    wanted = {
        "iss": {"essential": True, "value": issuer},
        "sub": {"essential": True},
        "aud": {"essential": True, "value": oidc.client_id},
        "exp": {"essential": True},
    }
    token = client.authorize_access_token(request, claims_options=wanted)
    return dict(token["userinfo"])


def _away(request: HttpRequest, oidc: Oidc, error: Exception) -> HttpResponse:
    address = request.META.get("REMOTE_ADDR", "")
    log.warning("single sign-on failed", why=f"{type(error).__name__}: {error}"[:500], address=address)
    return _refused(
        request,
        f"The sign-in with {oidc.name} was not completed.",
        "It may have taken too long, or the identity provider is away. Try again; the log has the cause.",
        status=502,
    )


def _refused(request: HttpRequest, title: str, next_step: str, *, status: int) -> HttpResponse:
    shown = admin.site.each_context(request) | {"title": title, "next_step": next_step}
    return render(request, "admin/signin/refused.html", shown, status=status)
