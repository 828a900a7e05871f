"""How an endpoint is described to OpenAPI: one decorator, so that none forgets its errors."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema

from jobs.api.problems import MEDIA_TYPE
from jobs.api.serializers import ProblemSerializer

F = TypeVar("F", bound=Callable[..., Any])
_ALWAYS = (400, 401, 403, 429, 503)
_OF_WRITES = (409, 422)
_MEANING = {
    400: "Malformed: `errors` names each field.",
    401: "No key, or none that is valid.",
    403: "The key lacks the scope.",
    404: "No such object among yours.",
    409: "Contradicts the present state.",
    412: "`If-Match` names another version.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "The `Idempotency-Key` was sent with another request.",
    428: "Your tenant asks for `If-Match`, and there was none.",
    429: "Too many calls with this key; try again after `Retry-After` seconds. `RateLimit` tells how you stand.",
    503: "The database is away; try again after `Retry-After` seconds.",
}
ETAG = OpenApiParameter(
    "ETag", str, OpenApiParameter.HEADER, response=[200, 201], description="The version, quoted."
)
IF_MATCH = OpenApiParameter(
    "If-Match", str, OpenApiParameter.HEADER, description='Act only on this version, such as `"3"`.'
)
FIELDS = OpenApiParameter(
    "fields", str, description="Only these fields, such as `id,name`: less to send, and less to compute."
)
IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match", str, OpenApiParameter.HEADER, enum=["*"], description="Create it, or do nothing."
)
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="Do this once: for 24 hours the same request under the same key gets the first answer, with "
    "`Idempotency-Replayed: true`. 1 to 255 printable ASCII characters.",
)


def endpoint(
    summary: str,
    *,
    responses: dict[int, Any],
    request: Any = None,
    problems: Sequence[int] = (),
    parameters: Sequence[OpenApiParameter] = (),
    examples: Sequence[OpenApiExample] = (),
    operation_id: str,
) -> Callable[[F], F]:
    """Describe a view's method; ``problems`` are its error statuses beside those every endpoint has."""
    if request is not None:
        problems = (*problems, 413, 415)

    def describe(method: F) -> F:
        writes = method.__name__ != "get"
        return extend_schema(
            summary=summary,
            description=f"{summary}.",
            tags=[operation_id.rpartition("_")[0]],
            request=request,
            responses=_answers(responses, {*_ALWAYS, *problems, *(_OF_WRITES if writes else ())}),
            parameters=[*parameters, *((IDEMPOTENCY_KEY,) if writes else ())],
            examples=list(examples),
            operation_id=operation_id,
        )(method)

    return describe


def _answers(shapes: dict[int, Any], problems: Iterable[int]) -> dict[Any, Any]:
    # Keyed like the problems: drf-spectacular takes the smallest key for what the endpoint really gives.
    described: dict[Any, Any] = {
        (status, "application/json") if shape else status: shape for status, shape in shapes.items()
    }
    for status in sorted(problems):
        described[(status, MEDIA_TYPE)] = OpenApiResponse(ProblemSerializer, description=_MEANING[status])
    return described


class ApiKeyScheme(OpenApiAuthenticationExtension):
    """How OpenAPI describes ``tenants.authentication``."""

    target_class = "tenants.authentication.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "ck_<prefix>_<secret>"}
