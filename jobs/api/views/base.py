"""The parts that all endpoints share: the caller's tenant, refusal of unknown query parameters, and lists."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db.models import Model, QuerySet
from django.utils.functional import cached_property
from pydantic import BaseModel
from rest_framework.exceptions import APIException, MethodNotAllowed, ValidationError
from rest_framework.generics import GenericAPIView
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.calls import idempotency, rates
from jobs.api.schema import AS_OF, EndpointSchema
from jobs.core.errors import InvalidInput, unknown
from jobs.core.instants import instant_text
from jobs.selection.filters import ListFilter, refuse_empty
from jobs.shapes.base import Shown
from jobs.store import replica
from jobs.store.trail import Actor, ActorKind, identify
from tenants.models import Tenant

_MAX_NAME_SHOWN = 40


class LengthRequired(APIException):
    status_code = 411
    default_detail = "Send the body with a Content-Length, not in chunks."


class Endpoint(GenericAPIView[Any]):
    """One resource. ``query_parameters``: those it knows beside its filters. ``scope``: the scope that a key needs, if
    it does not follow from the method."""

    http_method_names = ["get", "head", "post", "put", "patch", "delete"]
    query_parameters: tuple[str, ...] = ()
    #: Fields of an answer that cannot be read again: null in the answer kept for an ``Idempotency-Key``.
    shown_once: tuple[str, ...] = ()
    scope: str | None = None
    #: Whether it shows or changes the tenant's own row, which other calls may see as it was a moment ago.
    reads_tenant = False
    #: Whether its list shows the past, and may be read from a replica. Describe it by ``schema.HISTORY``.
    of_history = False
    #: Whether a body may be as large as any: it holds many jobs, or tasks, or a handler's output.
    takes_much = False
    #: Whether writes take an ``Idempotency-Key``. If not, a key that is sent has no effect: the writes may be repeated.
    keyed = True
    #: The shape whose fields ``?fields=`` may select.
    shows: type[BaseModel] | None = None
    filterset_class: type[ListFilter] | None = None
    sift: Callable[[QuerySet[Any]], QuerySet[Any]] | None = None
    pagination_class: Any = None
    throttle_classes = (rates.KeyRate,)
    schema = EndpointSchema()

    @property
    def tenant(self) -> Tenant:
        """The tenant of the key: the one tenant whose objects this request can see."""
        return self.request.auth.tenant  # type: ignore[union-attr]

    @property
    def owner_id(self) -> int:
        """The owner of the answers kept for ``Idempotency-Key``s: the tenant's number, or 0 for the installation."""
        key: Any = self.request.auth
        return key.tenant_id or 0

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        key: Any = request.auth
        identify(Actor(ActorKind.API_KEY, f"ck_{key.prefix} {key.name}"))
        verb = str(request.method).lower()
        handler = getattr(self, verb, None) if verb in self.http_method_names else None
        if handler is None:
            raise MethodNotAllowed(str(request.method))
        # Over WSGI, Django takes a body of unknown length for an empty one. Refuse it instead of losing it.
        if "Transfer-Encoding" in request.headers and "Content-Length" not in request.headers:
            raise LengthRequired
        complaints = unknown(request.query_params, known=self.known_parameters(), what="query parameter")
        if complaints:
            raise InvalidInput(complaints)
        if "fields" in request.query_params:
            _ = self.wanted
        if self.keyed and request.method not in SAFE_METHODS and idempotency.HEADER in request.headers:
            # A view lives for one request, so its handler can be wrapped: DRF looks it up after this.
            setattr(self, verb, idempotency.once(self, handler))

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        answer = super().finalize_response(request, response, *args, **kwargs)
        rates.note(self.request, answer)
        # If a browser shows an answer as a page, the page runs no code, and no cache keeps it.
        answer.headers.setdefault("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
        answer.headers.setdefault("Cache-Control", "no-store")
        return answer

    def known_parameters(self) -> tuple[str, ...]:
        if self.request.method not in SAFE_METHODS:
            return self.query_parameters
        filters = tuple(self.filterset_class.base_filters) if self.filterset_class else ()
        pages = ("cursor", "page_size", "ordering") if self.pagination_class else ()
        return (*self.query_parameters, *filters, *pages, *(("fields",) if self.shows else ()))

    def page_of(self, queryset: QuerySet[Any]) -> Response:
        """The page of the filtered ``queryset`` that the request asks for."""
        # Building filters takes as long as reading the page, and most calls name none.
        if self.filterset_class is not None and not self.filterset_class.base_filters.keys().isdisjoint(
            self.request.query_params
        ):
            refuse_empty(self.request.query_params, known=self.filterset_class.base_filters)
            filters = self.filterset_class(self.request.query_params, queryset, request=self.request)
            filters.tenant_id = self.tenant.id
            if not filters.is_valid():
                raise ValidationError(filters.errors)
            queryset, self.sift = filters.walk(queryset), filters.sift()
        return self.from_history(lambda: self.page(queryset)) if self.of_history else self.page(queryset)

    def page(self, queryset: QuerySet[Any]) -> Response:
        """The page of a ``queryset`` that is filtered. It only reads, and may be called twice."""
        rows = self.paginate_queryset(queryset)
        assert rows is not None
        return self.get_paginated_response([self.of_interest(self.present(row)) for row in rows])

    def from_history(self, read: Callable[[], Response]) -> Response:
        """The answer that ``read`` makes, from a replica if that is allowed; a header then says how old it may be."""

        def answer(as_of: datetime | None) -> Response:
            found = read()
            if as_of is not None:
                found.headers[AS_OF.name] = instant_text(as_of)
            return found

        return replica.read(answer, fresh="no-cache" in self.request.headers.get("Cache-Control", "").lower())

    @cached_property
    def wanted(self) -> frozenset[str] | None:
        """The fields the caller wants to see; None: all. Raises ``InvalidInput`` for an unknown one."""
        given = self.request.query_params.get("fields")
        if given is None or self.shows is None:
            return None
        known, wanted = tuple(self.shows.model_fields), given.split(",")
        if any(name not in known for name in wanted):
            raise InvalidInput({"fields": f"Must be some of {','.join(known)}."})
        return frozenset(wanted)

    def of_interest(self, shown: dict[str, Any]) -> dict[str, Any]:
        """The fields of ``shown`` that the caller wants to see."""
        if self.wanted is None:
            return shown
        return {name: value for name, value in shown.items() if name in self.wanted}

    def present(self, row: Model) -> Any:
        """One row as JSON."""
        assert self.shows is not None
        assert issubclass(self.shows, Shown)
        return self.shows.of(row)

    def body(self) -> dict[str, Any]:
        """The request's JSON object; without a body an empty one. Raises ``InvalidInput``."""
        data = self.request.data
        if not isinstance(data, dict):
            raise InvalidInput({"": "Must be a JSON object."})
        return data

    def refuse_body(self) -> None:
        """For actions that take nothing: raises ``InvalidInput`` for each field that was sent."""
        if fields := self.body():
            raise InvalidInput({str(name)[:_MAX_NAME_SHOWN]: "This call takes no fields." for name in fields})
