"""Spans for a collector, by OpenTelemetry's SDK. Its variables (``OTEL_…``) name the collector and the sampler.

A span is recorded when it has ended, under an id that was known before. So its children, and the spans of callees that
were told of it, may be recorded first, by other processes. Keeps true: spans wait in a bounded queue, a thread of its
own sends them, and a collector that is away costs spans and nothing else.
"""

import atexit
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from opentelemetry import context as contexts
from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
)

from jobs.telemetry.outage import Outage
from jobs.telemetry.traces.w3c import TraceContext

#: A process records at most so many traces a second, under any load: all their spans take it some 12 ms.
MAX_A_SECOND = 50
#: At most so many of those are traces that one tenant's callers ask for: a tenant that marks all its calls as sampled
#: must not crowd out the spans of others.
MAX_ASKED_FOR = 20
#: The time that the end of a process may take for the spans that are left.
CLOSE_SECONDS = 2.0
KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT, "producer": SpanKind.PRODUCER}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NO_PARENT = Context()
_PARENTBASED = "parentbased_"
_UNSET = Status(StatusCode.UNSET)
_SCOPE = InstrumentationScope("carillon")


class Span(NamedTuple):
    """One span of a trace. Ids in hexadecimal digits. ``kind``: one of ``KINDS``. ``error``: why it failed; empty: it
    did not."""

    name: str
    span_id: str
    parent_id: str
    start: datetime
    end: datetime
    attributes: Mapping[str, Any]
    kind: str = "internal"
    error: str = ""


class Recorder:
    """Decides which traces are recorded, and takes their spans. ``exporter`` replaces the one to the collector."""

    def __init__(self, exporter: SpanExporter | None = None) -> None:
        self._provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        self._processor = BatchSpanProcessor(_Telling(OTLPSpanExporter()) if exporter is None else exporter)
        self._provider.add_span_processor(self._processor)
        if isinstance(otel.get_tracer_provider(), otel.ProxyTracerProvider):
            # Spans that handlers record by OpenTelemetry's own interface go the same way.
            otel.set_tracer_provider(self._provider)
        sampler = os.environ.get(OTEL_TRACES_SAMPLER, "").lower() or "parentbased_always_on"
        self._heeds_callers = sampler.startswith(_PARENTBASED)
        self._bound = _bound_of(sampler.removeprefix(_PARENTBASED))
        self._second = self._in_second = 0
        self._asked_for: Counter[str] = Counter()
        atexit.register(self.close)

    def samples(self, trace_id: str, *, caller: TraceContext | None, tenant: str) -> bool:
        """Whether spans of this trace are recorded. ``OTEL_TRACES_SAMPLER`` decides, alike in each process, while there
        is room. ``caller``: the caller that the trace belongs to, if it is not Carillon's own.

        It decides as the SDK's samplers do, in a tenth of their time: it is asked once for each attempt.
        """
        if caller is not None and self._heeds_callers:
            return caller.is_sampled and self._has_room(tenant)
        return int(trace_id[16:], 16) < self._bound and self._has_room("" if caller is None else tenant)

    def record(self, trace: TraceContext, spans: Iterable[Span]) -> None:
        """Take ended spans of a sampled trace."""
        context = _context_of(trace)
        for span in spans:
            parent = _with_id(context, span.parent_id) if span.parent_id else None
            self._processor.on_end(
                ReadableSpan(
                    span.name,
                    context=_with_id(context, span.span_id),
                    parent=parent,
                    resource=self._provider.resource,
                    attributes=span.attributes,
                    kind=KINDS[span.kind],
                    status=Status(StatusCode.ERROR, span.error) if span.error else _UNSET,
                    start_time=_nanoseconds(span.start),
                    end_time=_nanoseconds(max(span.start, span.end)),
                    instrumentation_scope=_SCOPE,
                )
            )

    def enter(self, trace: TraceContext | None) -> object:
        """From here on, spans that this thread or task records by OpenTelemetry's own interface are part of ``trace``.

        Returns the token for ``leave``.
        """
        if trace is None:
            return None
        return contexts.attach(otel.set_span_in_context(NonRecordingSpan(_context_of(trace)), _NO_PARENT))

    def leave(self, token: Any) -> None:
        if token is not None:
            contexts.detach(token)

    def flush(self) -> None:
        """Send all there is now. Waits for it."""
        self._processor.force_flush()

    def close(self) -> None:
        """Send the spans that are left, for ``CLOSE_SECONDS`` at most. Nothing is taken any more."""
        closing = threading.Thread(target=self._processor.shutdown, name="carillon-last-spans", daemon=True)
        try:
            closing.start()
        except RuntimeError:  # no thread can be had
            return
        closing.join(CLOSE_SECONDS)

    def _has_room(self, asked_for_by: str) -> bool:
        """Count one trace more of this second. ``asked_for_by``: the tenant whose caller wants it; empty: no tenant."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._in_second, self._asked_for = second, 0, Counter()
        if self._in_second >= MAX_A_SECOND or self._asked_for[asked_for_by] >= MAX_ASKED_FOR:
            return False
        self._in_second += 1
        if asked_for_by:
            self._asked_for[asked_for_by] += 1
        return True


class _Telling(SpanExporter):
    """Logs that the collector is away, as any outage: at its start, now and then, and at its end."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._outage = Outage("collector of traces away")
        self._why = ""
        # The exporter writes a line or two for each try.
        logging.getLogger(OTLPSpanExporter.__module__).addFilter(self._hear)

    def _hear(self, record: logging.LogRecord) -> bool:
        self._why = record.getMessage()
        return False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self._outage.over()
        else:
            self._outage.failed(ConnectionError(self._why or "It took no spans."), spans=len(spans))
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


def _bound_of(sampler: str) -> int:
    """The bound: traces are recorded if the lower half of their id is below it. The variables were checked at start."""
    if sampler == "always_on":
        return 1 << 64
    if sampler == "always_off":
        return 0
    return TraceIdRatioBased.get_bound_for_rate(float(os.environ[OTEL_TRACES_SAMPLER_ARG]))


def _resource() -> Resource:
    found = Resource.create()
    if str(found.attributes[SERVICE_NAME]).startswith("unknown_service"):
        found = found.merge(Resource({SERVICE_NAME: "carillon"}))
    return found


def _context_of(trace: TraceContext) -> SpanContext:
    state = TraceState.from_header([trace.tracestate]) if trace.tracestate else None
    return SpanContext(int(trace.trace_id, 16), int(trace.span_id, 16), True, TraceFlags(trace.flags), state)


def _with_id(context: SpanContext, span_id: str) -> SpanContext:
    return SpanContext(context.trace_id, int(span_id, 16), False, context.trace_flags, context.trace_state)


def _nanoseconds(instant: datetime) -> int:
    return (instant - _EPOCH) // _MICROSECOND * 1000
