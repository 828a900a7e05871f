"""How an endpoint is described to OpenAPI: one decorator, so that none forgets its errors; and its view."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from threading import Lock
from typing import Any, ClassVar, TypeVar

from django.http import HttpRequest, HttpResponse
from django.utils.cache import get_conditional_response
from drf_spectacular.contrib.pydantic import PydanticExtension
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from drf_spectacular.views import SpectacularAPIView
from pydantic import BaseModel
from rest_framework.request import Request
from rest_framework.serializers import ListSerializer

from jobs.api.problems import MEDIA_TYPE
from jobs.shapes.base import Problem

F = TypeVar("F", bound=Callable[..., Any])
_ALWAYS = (400, 401, 403, 429, 503)
_OF_WRITES = (409, 422)
_KEPT_FOR_SECONDS = 300
_NULL = {"type": "null"}
_MEANING = {
    400: "Malformed: `errors` names each field.",
    401: "The key is missing or invalid.",
    403: "The key lacks the scope.",
    404: "Your tenant has no such object.",
    409: "Contradicts the present state.",
    412: "`If-Match` names another version.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "The `Idempotency-Key` was sent with another request.",
    428: "Your tenant requires `If-Match`, and the request has none.",
    429: "Too many calls with this key; try again after `Retry-After` seconds. `RateLimit` shows what is "
    "left.",
    503: "The database is away; try again after `Retry-After` seconds.",
}
ETAG = OpenApiParameter(
    "ETag", str, OpenApiParameter.HEADER, response=[200, 201], description="Version of the object, quoted."
)
IF_MATCH = OpenApiParameter(
    "If-Match",
    {"type": "string", "pattern": '^("[0-9]{1,9}"|\\*)$'},
    OpenApiParameter.HEADER,
    description='Act only on this version, such as `"3"`.',
)
IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match",
    str,
    OpenApiParameter.HEADER,
    enum=["*"],
    description="Create the object only if it does not exist; otherwise change nothing.",
)
AS_OF = OpenApiParameter(
    "Carillon-As-Of",
    {"type": "string", "format": "date-time"},
    OpenApiParameter.HEADER,
    response=[200],
    description="The answer was read from a replica of the database and includes all writes up to this time. "
    "Without the header it was read from the primary.",
)
#: Parameters of lists of the past.
HISTORY = (
    AS_OF,
    OpenApiParameter(
        "Cache-Control",
        str,
        OpenApiParameter.HEADER,
        description="`no-cache`: read from the primary, not from a replica.",
    ),
)
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "pattern": r'^("[!#-\[\]-~]{1,255}"|[!#-\[\]-~]{1,255})$'},
    OpenApiParameter.HEADER,
    description="Carry out the request once: for 24 hours the same request with the same key gets the first "
    "answer, with `Idempotency-Replayed: true`. 1 to 255 printable ASCII characters.",
)
#: Parameters of every write, though few writes make triggers: lines of the log name the trace, too.
TRACE = (
    OpenApiParameter(
        "traceparent",
        str,
        OpenApiParameter.HEADER,
        description="The trace that the call is part of (W3C Trace Context): triggers that it asks for are, too. A "
        "malformed one counts as absent.",
    ),
    OpenApiParameter(
        "tracestate",
        str,
        OpenApiParameter.HEADER,
        description="Belongs to `traceparent`; at most 512 characters.",
    ),
)


def fields_of(shape: type[BaseModel]) -> OpenApiParameter:
    """The parameter ``fields`` of a call that shows ``shape``."""
    one = "|".join(shape.model_fields)
    return OpenApiParameter(
        "fields",
        {"type": "string", "pattern": f"^({one})(,({one}))*$"},
        description="Return only these fields, such as `id,name`, to send and compute less.",
    )


def endpoint(
    summary: str,
    *,
    responses: dict[int, Any],
    request: Any = None,
    problems: Sequence[int] = (),
    parameters: Sequence[OpenApiParameter] = (),
    examples: Sequence[OpenApiExample] = (),
    keyed: bool = True,
    operation_id: str,
) -> Callable[[F], F]:
    """Describe a view's method; ``problems`` are its error statuses beside those that every endpoint has.

    ``keyed``: a write takes an ``Idempotency-Key``.
    """
    if request is not None:
        problems = (*problems, 413, 415)

    def describe(method: F) -> F:
        writes = keyed and method.__name__ != "get"
        return extend_schema(
            summary=summary,
            description=f"{summary}.",
            request=request,
            responses=_answers(responses, {*_ALWAYS, *problems, *(_OF_WRITES if writes else ())}),
            parameters=[*parameters, *((IDEMPOTENCY_KEY, *TRACE) if writes else ())],
            examples=list(examples),
            operation_id=operation_id,
        )(method)

    return describe


def _answers(shapes: dict[int, Any], problems: Iterable[int]) -> dict[Any, Any]:
    # Keyed like the problems: drf-spectacular takes the smallest key for the endpoint's real answer.
    described: dict[Any, Any] = {
        (status, "application/json") if shape else status: shape for status, shape in shapes.items()
    }
    for status in sorted(problems):
        described[(status, MEDIA_TYPE)] = OpenApiResponse(Problem, description=_MEANING[status])
    return described


class Many(ListSerializer[Any]):
    """A page of ``shape``, in the form that drf-spectacular understands."""

    def __init__(self, shape: type[BaseModel]) -> None:
        self.child: Any = shape


class EndpointSchema(AutoSchema):
    """Calls as drf-spectacular describes them, except for pages that hold more than rows. Those have a name of their
    own; otherwise the first page that is described would stand for all pages of its rows."""

    def get_paginated_name(self, serializer_name: str) -> str:
        own = getattr(getattr(self.view, "pagination_class", None), "component_name", None)
        return own or str(super().get_paginated_name(serializer_name))


class ShapeScheme(PydanticExtension):
    """How OpenAPI 3.0 describes ``jobs.shapes``, which pydantic describes in JSON Schema 2020-12."""

    priority = 1

    def get_name(self, auto_schema: Any, direction: Any) -> str:
        name = super().get_name(auto_schema, direction)
        return str(self.target.model_config.get("title") or name).removesuffix("Shape")

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        # As a reader takes it, for answers too: a field with a default may be missing.
        schema = self.target.model_json_schema(by_alias=False, mode="validation")
        translation = _Translation(schema.pop("$defs", {}), of_request=direction == "request")
        for name, part in translation.components():
            component = ResolvedComponent(name, ResolvedComponent.SCHEMA, part, object=name)
            auto_schema.registry.register_on_missing(component)
        return translation.of(schema)


class _Translation:
    """From JSON Schema to OpenAPI 3.0. ``parts``: the definitions that the schema refers to."""

    def __init__(self, parts: dict[str, Any], *, of_request: bool) -> None:
        self._parts, self._of_request = parts, of_request

    def components(self) -> Iterator[tuple[str, Any]]:
        """The parts that become components. Enumerations are written in place, and drf-spectacular names them."""
        for name, part in self._parts.items():
            if "enum" not in part:
                yield self._name(name), self.of(part)

    def of(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self.of(each) for each in node]
        if not isinstance(node, dict):
            return node
        told = {
            name: {field: self.of(value) for field, value in part.items()}
            if name == "properties"
            else self.of(part)
            for name, part in node.items()
            if name != "title" and not (name == "default" and part in (None, ""))
        }
        if "$ref" in told:
            to = str(told.pop("$ref"))
            told |= self._reference(to, alone=not told)
        if "const" in told:
            told["enum"] = [told.pop("const")]
        if told.get("type") == "number":
            told["format"] = "double"
        if "discriminator" in told:
            mapping = told["discriminator"]["mapping"]
            mapping |= {tag: self._reference(to, alone=True)["$ref"] for tag, to in mapping.items()}
        elif "oneOf" in told:
            told["anyOf"] = told.pop("oneOf")  # some documents fit more than one
        if not self._of_request and told.get("additionalProperties") is False:
            del told["additionalProperties"]  # a later release may answer more
        if _NULL in told.get("anyOf", ()):
            [whole] = [each for each in told.pop("anyOf") if each != _NULL]
            told = ({"allOf": [whole]} if "$ref" in whole else whole) | told | {"nullable": True}
        return told

    def _reference(self, to: str, *, alone: bool) -> dict[str, Any]:
        name = to.rpartition("/")[2]
        part = self._parts[name]
        if "enum" in part:
            return {"type": part["type"], "enum": part["enum"]}
        reference = {"$ref": f"#/components/schemas/{self._name(name)}"}
        return reference if alone else {"allOf": [reference]}

    def _name(self, part: str) -> str:
        return self._parts[part]["title"].removesuffix("Shape") + ("Request" if self._of_request else "")


#: A header of every answer (``scheduler_project.web.requests``).
_REQUEST_ID = {
    "description": "ID of this call in the server's log: the `X-Request-ID` that you sent, if it has 1 to "
    "128 letters, digits and `._:/+=@-`, and otherwise a new one.",
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9._:/+=@-]{1,128}$"},
    "required": True,
}


def finish(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Add the facts that drf-spectacular cannot get from a single call; runs over the whole description."""
    components = result["components"]["schemas"]
    result["components"]["headers"] = {"RequestId": _REQUEST_ID}
    for path, operations in result["paths"].items():
        for operation in operations.values():
            operation["tags"] = [_noun(path)]
    for operation in (found for path in result["paths"].values() for found in path.values()):
        if any(parameter["name"] == "fields" for parameter in operation.get("parameters", ())):
            _allow_some_fields(operation, components)
        for answer in operation["responses"].values():
            answer.setdefault("headers", {})["X-Request-ID"] = {"$ref": "#/components/headers/RequestId"}
        for media in operation.get("requestBody", {}).get("content", {}).values():
            if {"oneOf", "anyOf"} & components[_name(media["schema"])].keys():
                operation["requestBody"]["required"] = True
    return result


def _noun(path: str) -> str:
    """The subject of a path, and so the module of a generated client that holds its calls."""
    return path.removeprefix("/api/v1/").partition("/")[0].replace("-", "_")


def _allow_some_fields(operation: dict[str, Any], components: dict[str, Any]) -> None:
    """Describe that the call shows all fields, or only those that were asked for."""
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


class DescriptionView(SpectacularAPIView):
    """``/api/schema``, built once a process and kind: it is public, so asking for it must cost nothing.

    It is the same for all callers. Only the kind of document that is asked for changes it.
    """

    authentication_classes = ()
    #: Body and headers by media type.
    _built: ClassVar[dict[str, tuple[bytes, dict[str, str]]]] = {}
    _building: ClassVar[Lock] = Lock()

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        renderer: Any = request.accepted_renderer
        # Requests that come while it is built wait for it, instead of building it as well.
        with self._building:
            if renderer.media_type not in self._built:
                self._built[renderer.media_type] = self._build(request, renderer)
        body, headers = self._built[renderer.media_type]
        plain: HttpRequest = request._request
        unchanged = get_conditional_response(plain, etag=headers["ETag"])
        if unchanged is None:
            return HttpResponse(body, content_type=renderer.media_type, headers=headers)
        assert isinstance(unchanged, HttpResponse)
        for name, value in headers.items():
            unchanged.headers[name] = value
        return unchanged

    def _build(self, request: Request, renderer: Any) -> tuple[bytes, dict[str, str]]:
        generator = self.generator_class(urlconf=self.urlconf, api_version=None, patterns=self.patterns)
        body = renderer.render(generator.get_schema(request=None, public=True), renderer.media_type, {})
        return body, {
            "ETag": f'"{sha256(body).hexdigest()[:32]}"',
            "Cache-Control": f"public, max-age={_KEPT_FOR_SECONDS}",
            "Vary": "Accept",
            "Content-Disposition": f'inline; filename="{self._get_filename(request, None)}"',
        }
