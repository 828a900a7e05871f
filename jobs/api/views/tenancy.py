"""``/installation/tenants``: tenants, their quotas and their keys, for keys of the installation."""

import re
from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.actions import tenancy
from jobs.actions.jobs import EditedMeanwhile
from jobs.api.pagination import IdCursorPagination
from jobs.api.schema import Many, endpoint
from jobs.api.views.installation import OperatorEndpoint
from jobs.core.errors import InvalidInput
from jobs.shapes.installation import (
    CreatedKey,
    CreatedTenant,
    InstallationTenant,
    KeyShape,
    NewKey,
    NewTenant,
    TenantChanges,
)
from tenants.models import SLUG, ApiKey, Tenant

_SLUG = OpenApiParameter("slug", {"type": "string", "pattern": SLUG.regex.pattern}, OpenApiParameter.PATH)  # type: ignore[union-attr]
_PREFIX = OpenApiParameter(
    "prefix",
    {"type": "string", "pattern": "^[a-z0-9]{12}$"},
    OpenApiParameter.PATH,
    description="Prefix of the key: the text between ck_ and the next _.",
)
_STATUS = OpenApiParameter(
    "status", str, enum=Tenant.Status.values, description="Only tenants of this status."
)
_TAG = OpenApiParameter(
    "ETag",
    str,
    OpenApiParameter.HEADER,
    response=[200, 201],
    description="Tag of the tenant's present state.",
)
_IF_MATCH = OpenApiParameter(
    "If-Match",
    {"type": "string", "pattern": r'^("[0-9a-f]{16}"|\*)$'},
    OpenApiParameter.HEADER,
    description="Change the tenant only if this is its ETag.",
)
_NEW = OpenApiExample("A tenant", value={"slug": "acme", "max_in_flight": 200}, request_only=True)
_SUSPEND = OpenApiExample("Suspend it", value={"status": "suspended"}, request_only=True)
_NEW_KEY = OpenApiExample(
    "A service's key", value={"name": "billing", "scopes": ["read", "write"]}, request_only=True
)


class TenancyEndpoint(OperatorEndpoint):
    keyed = True

    def answer(self, tenant: Tenant, shown: dict[str, Any], *, status: int = 200) -> Response:
        return Response(shown, status=status, headers={"ETag": f'"{tenancy.tag_of(tenant)}"'})


class TenantsView(TenancyEndpoint):
    queryset = Tenant.objects.none()
    pagination_class = IdCursorPagination
    orderings = {"slug": "slug", "-slug": "-slug"}
    shown_once = ("signing_secret",)

    def known_parameters(self) -> tuple[str, ...]:
        return (*super().known_parameters(), *(("status",) if self.request.method != "POST" else ()))

    @endpoint(
        "List the tenants, by slug",
        responses={200: Many(InstallationTenant)},
        parameters=[_STATUS],
        operation_id="installation_tenants_list",
    )
    def get(self, request: Request) -> Response:
        tenants = Tenant.objects.all()
        if (status := request.query_params.get("status")) is not None:
            if status not in Tenant.Status.values:
                raise InvalidInput({"status": f"Must be one of {', '.join(Tenant.Status.values)}."})
            tenants = tenants.filter(status=status)
        return self.page_of(tenants)

    def present(self, row: Any) -> Any:
        return tenancy.representation(row)

    @endpoint(
        "Create a tenant; its signing secret is shown only here",
        request=NewTenant,
        responses={201: CreatedTenant},
        parameters=[_TAG],
        examples=[_NEW],
        operation_id="installation_tenants_create",
    )
    def post(self, request: Request) -> Response:
        shown = tenancy.create(definition=self.body())
        tenant = tenancy.find_tenant(shown["slug"])
        answer = self.answer(tenant, shown, status=201)
        answer["Location"] = f"{request.path}/{tenant.slug}"
        return answer


class TenantOfInstallationView(TenancyEndpoint):
    @endpoint(
        "Read a tenant: its status and its quotas",
        responses={200: InstallationTenant},
        parameters=[_SLUG, _TAG],
        problems=(404,),
        operation_id="installation_tenants_read",
    )
    def get(self, request: Request, slug: str) -> Response:
        tenant = tenancy.find_tenant(slug)
        return self.answer(tenant, tenancy.representation(tenant))

    @endpoint(
        "Change a tenant's quotas, suspend or freeze it, or make it active again",
        request=TenantChanges,
        responses={200: InstallationTenant},
        parameters=[_SLUG, _TAG, _IF_MATCH],
        problems=(404, 412),
        examples=[_SUSPEND],
        operation_id="installation_tenants_change",
    )
    def patch(self, request: Request, slug: str) -> Response:
        tenant = tenancy.change(slug, changes=self.body(), expected=_expected(request))
        return self.answer(tenant, tenancy.representation(tenant))


class KeysView(TenancyEndpoint):
    queryset = ApiKey.objects.none()
    pagination_class = IdCursorPagination
    orderings = {"-created": "-number", "created": "number"}
    shown_once = ("key",)

    @endpoint(
        "List a tenant's keys, including revoked ones, newest first",
        responses={200: Many(KeyShape)},
        parameters=[_SLUG],
        problems=(404,),
        operation_id="installation_keys_list",
    )
    def get(self, request: Request, slug: str) -> Response:
        return self.page_of(tenancy.keys_of(slug))

    def present(self, row: Any) -> Any:
        return tenancy.key_representation(row)

    @endpoint(
        "Create a key for a tenant; its text is shown only here",
        request=NewKey,
        responses={201: CreatedKey},
        parameters=[_SLUG],
        problems=(404,),
        examples=[_NEW_KEY],
        operation_id="installation_keys_create",
    )
    def post(self, request: Request, slug: str) -> Response:
        return Response(tenancy.create_key(slug, definition=self.body()), status=201)


class KeyView(TenancyEndpoint):
    @endpoint(
        "Read a key; its text is never shown",
        responses={200: KeyShape},
        parameters=[_SLUG, _PREFIX],
        problems=(404,),
        operation_id="installation_keys_read",
    )
    def get(self, request: Request, slug: str, prefix: str) -> Response:
        return Response(tenancy.key_representation(tenancy.find_key(slug, prefix)))

    @endpoint(
        "Revoke a key: it is refused within a second, everywhere, and for good",
        responses={204: None},
        parameters=[_SLUG, _PREFIX],
        problems=(404,),
        operation_id="installation_keys_revoke",
    )
    def delete(self, request: Request, slug: str, prefix: str) -> Response:
        self.refuse_body()
        tenancy.revoke_key(slug, prefix)
        return Response(status=204)


def _expected(request: Request) -> str | None:
    """The tag that ``If-Match`` names; None: any. Raises ``EditedMeanwhile`` for any other text."""
    given = request.headers.get("If-Match", "*").strip()
    if given == "*":
        return None
    match = re.fullmatch('"([0-9a-f]{16})"', given)
    if match is None:
        raise EditedMeanwhile("If-Match must be the ETag of the tenant as you read it.")
    return match[1]
