"""The environment: OpenTelemetry's own variables."""

import os

import pytest
from django.core.exceptions import ImproperlyConfigured

from scheduler_project import environment, tracing
from tests.interfaces.settings.conftest import GOOD


class TestTraces:
    """OpenTelemetry's own variables: checked if a collector is named, and left alone if none is."""

    COLLECTOR = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}

    @pytest.fixture(autouse=True)
    def _nothing_of_it(self, monkeypatch):
        for name in [name for name in os.environ if name.startswith("OTEL_")]:
            monkeypatch.delenv(name)

    @pytest.mark.parametrize(
        "more",
        [
            {},
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
            {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"},
            {"OTEL_TRACES_SAMPLER": "always_on", "OTEL_TRACES_SAMPLER_ARG": "whatever"},
            {"OTEL_TRACES_SAMPLER": "", "OTEL_EXPORTER_OTLP_PROTOCOL": ""},
        ],
    )
    def test_are_on_where_a_collector_is_named(self, environ, more):
        environ(**GOOD, **self.COLLECTOR, **more)
        environment.load()
        assert tracing.is_on(os.environ)

    @pytest.mark.parametrize(
        "given", [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, COLLECTOR | {"OTEL_SDK_DISABLED": "TRUE"}]
    )
    def test_are_off_otherwise_whatever_else_is_set(self, environ, given):
        environ(**GOOD, **given, OTEL_TRACES_SAMPLER="other", OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
        environment.load()
        assert not tracing.is_on(os.environ)

    @pytest.mark.parametrize(
        ("bad", "right"),
        [
            ({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}, "http://collector:4318"),
            ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:x"}, "http://collector:4318"),
            ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "must be http/protobuf"),
            ({"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, "must be http/protobuf"),
            ({"OTEL_TRACES_SAMPLER": "sometimes"}, "parentbased_traceidratio"),
            ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "10"}, "from 0 to 1"),
            ({"OTEL_TRACES_SAMPLER": "parentbased_traceidratio"}, "from 0 to 1"),
        ],
    )
    def test_refuse_what_would_be_ignored(self, environ, bad, right):
        environ(**GOOD, **self.COLLECTOR | bad)
        name = "OTEL_TRACES_SAMPLER" if "SAMPLER" in str(bad) else next(iter(bad))
        with pytest.raises(ImproperlyConfigured, match=f"{name}.*{right}"):
            environment.load()

    def test_say_what_to_install(self, environ, monkeypatch):
        monkeypatch.setattr(tracing, "find_spec", lambda name: None)
        environ(**GOOD, **self.COLLECTOR)
        with pytest.raises(ImproperlyConfigured, match=r"pip install -r requirements/otel\.txt"):
            environment.load()
