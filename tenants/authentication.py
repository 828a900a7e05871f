"""The caller of the API, and the rights of its key.

``Authorization: Bearer ck_…`` names a tenant; everything a view reads or writes is that tenant's, found as
``request.auth.tenant``. A key of the installation names none, and serves only views whose ``scope`` is ``operator``.
Both are as they were less than a second ago (``tenants.keys``), except for views that say ``reads_tenant``: they show
or change columns of the tenant's row. Every fault of a key gets the same answer, 401; a missing scope gets 403.
"""

from typing import TYPE_CHECKING

from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from tenants.keys import authenticate, authenticate_recently
from tenants.models import ApiKey, Tenant

if TYPE_CHECKING:
    # At run time DRF's views import this module.
    from rest_framework.views import APIView


class ApiKeyAuthentication(BaseAuthentication):
    """``request.user`` becomes the tenant (None: the installation), ``request.auth`` the ``ApiKey``."""

    keyword = "Bearer"

    def authenticate(self, request: Request) -> tuple[Tenant | None, ApiKey] | None:
        """None without an ``Authorization`` header; raises ``AuthenticationFailed`` for any that is no live key."""
        header = get_authorization_header(request)
        if not header:
            return None
        keyword, _, token = header.decode("latin-1").partition(" ")
        view = (request.parser_context or {}).get("view")
        find = authenticate if getattr(view, "reads_tenant", False) else authenticate_recently
        key = find(token.strip()) if keyword.lower() == self.keyword.lower() else None
        if key is None:
            raise AuthenticationFailed("Send a valid API key as Authorization: Bearer ck_…")
        return key.tenant, key

    def authenticate_header(self, request: Request) -> str:
        return self.keyword


class HasScope(BasePermission):
    """``read`` for safe methods, ``write`` for the others, or the one ``scope`` its view names. A frozen tenant only
    reads, and finishes running attempts."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        key = request.auth
        if not isinstance(key, ApiKey):
            return False
        by_method = ApiKey.Scope.READ if request.method in SAFE_METHODS else ApiKey.Scope.WRITE
        scope = getattr(view, "scope", None) or by_method
        if scope not in key.scopes:
            raise PermissionDenied(f"This API key lacks the scope {scope}.")
        if scope == ApiKey.Scope.WRITE and key.tenant and key.tenant.status == Tenant.Status.FROZEN:
            raise PermissionDenied("This tenant is frozen: its keys can only read.")
        return True
