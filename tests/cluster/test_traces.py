"""A trace from end to end: a caller's span, the web server, a beat, a worker, and the request to the target."""

from collections.abc import Iterator
from typing import Any

import pytest

from stage.waiting import wait_until
from tests.cluster.collector import Collector
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster
TRACE_ID, CALLERS_SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE_ID}-{CALLERS_SPAN}-01"
STEPS = {"materialize", "dispatch", "claim", "handler", "finish", "firing"}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def stage(collector: Collector) -> Iterator[Any]:
    tracing = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
    with Stage(beats=1, workers=1, **tracing) as stage:
        stage.key = stage.create_tenant()
        yield stage


def whole(collector: Collector, trace_id: str) -> dict[str, Any]:
    """The spans of a trace, once all are there."""
    return wait_until(
        lambda: (found := collector.spans_of(trace_id)).keys() == STEPS and found,
        timeout=30,
        what=f"the spans of {trace_id}, of which there are {sorted(collector.spans_of(trace_id))}",
    )


def told_of(collector: Collector, trigger: str) -> tuple[str, str]:
    """The trace and the span to which the webhook of a job's trigger says that it belongs."""
    wait_until(lambda: [hook for hook in collector.hooks if hook["x-carillon-job"] == trigger], timeout=30)
    [hook] = [hook for hook in collector.hooks if hook["x-carillon-job"] == trigger]
    _, trace_id, span_id, flags = hook["traceparent"].split("-")
    assert flags == "01"
    return trace_id, span_id


def create(stage: Any, collector: Collector, **headers: str) -> str:
    job = {"job_type": "webhook", "schedule": {"type": "immediate"}, "payload": {"url": collector.hook}}
    return str(stage.call("POST", "/jobs", key=stage.key, body=job, headers=headers)["id"])


class TestATrace:
    def test_goes_from_the_callers_span_to_the_targets_header(self, stage: Any, collector: Collector) -> None:
        job = create(stage, collector, traceparent=TRACEPARENT, tracestate="congo=t61")
        trace_id, span_id = told_of(collector, job)
        assert trace_id == TRACE_ID
        assert collector.hooks[-1]["tracestate"] == "congo=t61"
        found = whole(collector, TRACE_ID)
        assert found["firing"].parent_span_id.hex() == CALLERS_SPAN
        assert found["handler"].span_id.hex() == span_id
        assert {found[name].parent_span_id for name in STEPS - {"firing"}} == {found["firing"].span_id}

    def test_of_nobody_begins_with_the_firing(self, stage: Any, collector: Collector) -> None:
        trace_id, span_id = told_of(collector, create(stage, collector))
        found = whole(collector, trace_id)
        assert (found["firing"].parent_span_id, found["handler"].span_id.hex()) == (b"", span_id)

    def test_of_a_pull_worker_goes_through_the_web_server(self, stage: Any, collector: Collector) -> None:
        key = stage.create_tenant("puller", "--scopes", "read,write,worker")
        stage.call("PUT", "/job-types/render", key=key, body={})
        job = {"job_type": "render", "schedule": {"type": "immediate"}}
        trace_id = TRACE_ID[::-1]
        headers = {"traceparent": f"00-{trace_id}-{CALLERS_SPAN}-01"}
        stage.call("POST", "/jobs", key=key, body=job, headers=headers)
        ask = {"worker": "w", "job_types": ["render"], "wait_seconds": 20}
        [work] = stage.call("POST", "/worker/claim", key=key, body=ask)["triggers"]
        report = {"trigger_id": work["trigger_id"], "fence": work["fence"], "outcome": "succeeded"}
        stage.call("POST", "/worker/complete", key=key, body=report)
        found = whole(collector, trace_id)
        assert work["traceparent"] == f"00-{trace_id}-{found['handler'].span_id.hex()}-01"
        assert found["firing"].parent_span_id.hex() == CALLERS_SPAN
