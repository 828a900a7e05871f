"""How an endpoint is described to OpenAPI: one decorator, so that none forgets its errors."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from drf_spectacular.extensions import OpenApiAuthenticationExtension, OpenApiSerializerExtension
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.serializers import Serializer

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
    "If-Match",
    {"type": "string", "pattern": '^("[0-9]{1,9}"|\\*)$'},
    OpenApiParameter.HEADER,
    description='Act only on this version, such as `"3"`.',
)
IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match", str, OpenApiParameter.HEADER, enum=["*"], description="Create it, or do nothing."
)
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "pattern": r'^("[!#-\[\]-~]{1,255}"|[!#-\[\]-~]{1,255})$'},
    OpenApiParameter.HEADER,
    description="Do this once: for 24 hours the same request under the same key gets the first answer, with "
    "`Idempotency-Replayed: true`. 1 to 255 printable ASCII characters.",
)


def fields_of(shape: type[Serializer[Any]]) -> OpenApiParameter:
    """``fields`` of a call that shows ``shape``."""
    one = "|".join(shape().fields)
    return OpenApiParameter(
        "fields",
        {"type": "string", "pattern": f"^({one})(,({one}))*$"},
        description="Only these fields, such as `id,name`: less to send, and less to compute.",
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


class VariantsScheme(OpenApiSerializerExtension):
    """How OpenAPI describes ``Variants``."""

    target_class = "jobs.api.serializers.shared.Variants"
    match_subclasses = True

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        shapes = [auto_schema.resolve_serializer(shape, direction).ref for shape in self.target.variants]
        return {self.target.keyword: shapes, "description": self.target.__doc__}


def finish(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """What drf-spectacular cannot be told of a single call; runs over the whole description."""
    components = result["components"]["schemas"]
    for name, component in components.items():
        # Requests are read by ``jobs.actions.fields.Fields``, which refuses what it does not know.
        if name.endswith("Request") and component.get("type") == "object":
            component.setdefault("additionalProperties", False)
    for operation in (found for path in result["paths"].values() for found in path.values()):
        if any(parameter["name"] == "fields" for parameter in operation.get("parameters", ())):
            _allow_some_fields(operation, components)
        for media in operation.get("requestBody", {}).get("content", {}).values():
            if {"oneOf", "anyOf"} & components[_name(media["schema"])].keys():
                operation["requestBody"]["required"] = True
    return result


def _allow_some_fields(operation: dict[str, Any], components: dict[str, Any]) -> None:
    """Of what the call shows all fields, or those that were asked for."""
    [media] = operation["responses"]["200"]["content"].values()
    place, key = media, "schema"
    page = components[_name(media["schema"])]
    if "results" in page.get("properties", {}):
        place, key = page["properties"]["results"], "items"
    whole = place[key]
    if "$ref" in whole:
        name = _name(whole)
        some = {part: content for part, content in components[name].items() if part != "required"}
        components[f"Some{name}Fields"] = some
        place[key] = {"anyOf": [whole, {"$ref": f"#/components/schemas/Some{name}Fields"}]}


def _name(reference: dict[str, Any]) -> str:
    return str(reference["$ref"]).rpartition("/")[2]


class ApiKeyScheme(OpenApiAuthenticationExtension):
    """How OpenAPI describes ``tenants.authentication``."""

    target_class = "tenants.authentication.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "ck_<prefix>_<secret>"}
