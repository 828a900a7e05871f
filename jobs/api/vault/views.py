"""``/secrets`` and ``/signing-secret``: a value goes in by PUT and never comes out. A call may be repeated."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError
from drf_spectacular.utils import OpenApiExample, OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.pagination import IdCursorPagination
from jobs.api.schema import Many, endpoint
from jobs.api.views.base import Endpoint
from jobs.core.errors import InvalidInput, NotFound
from jobs.shapes.secret import NewSigningSecret, SecretShape, SecretValue, SigningSecret
from tenants.models import Secret, Tenant, is_secret_name
from tenants.vault.secrets import delete_secret, put_secret
from tenants.vault.signing import rotate_signing_secret

_NAME = OpenApiParameter(
    "name",
    {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"},
    OpenApiParameter.PATH,
    description="1 to 100 letters, digits, underscores, dots and hyphens, a letter or digit first.",
)


class SecretsView(Endpoint):
    queryset = Secret.objects.none()
    pagination_class = IdCursorPagination
    orderings = {"name": "name", "-name": "-name"}

    @endpoint(
        "List your secrets by name; their values are never shown",
        responses={200: Many(SecretShape)},
        operation_id="secrets_list",
    )
    def get(self, request: Request) -> Response:
        return self.page_of(Secret.objects.filter(tenant=self.tenant))

    def present(self, row: Any) -> Any:
        return SecretShape.of(row)


class SecretView(Endpoint):
    @endpoint(
        "Read a secret's version, hosts and times; its value is never shown",
        responses={200: SecretShape},
        parameters=[_NAME],
        problems=(404,),
        operation_id="secrets_read",
    )
    def get(self, request: Request, name: str) -> Response:
        return Response(SecretShape.of(_find(self.tenant, name)))

    @endpoint(
        "Store a secret, for `{{secret:name}}` in the URL and the headers of webhooks to its hosts; replaces "
        "the secret of this name",
        request=SecretValue,
        responses={200: SecretShape, 201: SecretShape},
        parameters=[_NAME],
        problems=(404,),
        examples=[
            OpenApiExample(
                "A token",
                value={"value": "xoxb-17653672481", "hosts": ["reports.example"]},
                request_only=True,
            )
        ],
        operation_id="secrets_put",
    )
    def put(self, request: Request, name: str) -> Response:
        sent = SecretValue.read(self.body())
        with _refused():
            secret, created = put_secret(tenant=self.tenant, name=name, value=sent.value, hosts=sent.hosts)
        return Response(SecretShape.of(secret), status=201 if created else 200)

    @endpoint(
        "Delete a secret; firings that need it are buried from then on",
        responses={204: None},
        parameters=[_NAME],
        problems=(404,),
        operation_id="secrets_delete",
    )
    def delete(self, request: Request, name: str) -> Response:
        self.refuse_body()
        _find(self.tenant, name)
        delete_secret(tenant=self.tenant, name=name)
        return Response(status=204)


class SigningSecretView(Endpoint):
    reads_tenant = True

    @endpoint(
        "Read whether your signing secret is being replaced; it is never shown",
        responses={200: SigningSecret},
        operation_id="signing_secret_read",
    )
    def get(self, request: Request) -> Response:
        return Response(_rotation(self.tenant))

    @endpoint(
        "Sign webhooks with a new secret, and for a while also with the previous one, so that receivers can "
        "change over",
        request=NewSigningSecret,
        responses={200: SigningSecret},
        operation_id="signing_secret_rotate",
    )
    def put(self, request: Request) -> Response:
        sent = NewSigningSecret.read(self.body())
        overlap = timedelta(seconds=sent.overlap_seconds)
        with _refused():
            rotate_signing_secret(tenant=self.tenant, secret=sent.secret, overlap=overlap)
        return Response(_rotation(self.tenant))


def _find(tenant: Tenant, name: str) -> Secret:
    """The tenant's secret of that name. Raises ``NotFound``, also for a text that can be no name."""
    found = Secret.objects.filter(tenant=tenant, name=name).first() if is_secret_name(name) else None
    if found is None:
        raise NotFound
    return found


def _rotation(tenant: Tenant) -> dict[str, Any]:
    rotating = len(tenant.webhook_secret.split()) > 1
    return SigningSecret.of({"rotating": rotating, "retires_at": tenant.webhook_secret_retires_at})


@contextmanager
def _refused() -> Iterator[None]:
    """``tenants`` knows nothing of this project's errors."""
    try:
        yield
    except ValidationError as error:
        raise InvalidInput(error.message_dict) from None
