"""Registering job types, finding them, and validating payloads against them."""

from datetime import timedelta

import pydantic
import pytest

from jobs.core.errors import InvalidInput
from jobs.handlers import Context, job_type, registry


class ClosePayload(pydantic.BaseModel):
    month: str
    lines: list[int] = []


class TestJobType:
    def test_registers_the_example_of_the_design_as_it_stands(self):
        @job_type("billing.close", timeout_seconds=600, batch_size=1, payload=ClosePayload)
        def close_books(ctx: Context, payload: ClosePayload) -> dict | None:
            """Close the books
            of a month.

            More for the reader of the code.
            """

        kind = registry.get("billing.close")
        assert (kind.queue, kind.timeout) == ("jobs.billing.close", timedelta(seconds=600))
        assert kind.description == "Close the books of a month."
        assert kind.handler is close_books
        assert not kind.is_async

    def test_knows_an_asynchronous_handler(self):
        @job_type("a.sync")
        async def handler(ctx, payload): ...

        assert registry.get("a.sync").is_async

    @pytest.mark.parametrize("name", ["", "Upper", "1st", "a-b", "a b", "x" * 64, "a\n", None])
    def test_refuses_a_name_that_no_queue_should_have(self, name):
        with pytest.raises(registry.RegistrationError, match="lower-case"):
            job_type(name)

    @pytest.mark.parametrize("wrong", [{"timeout_seconds": 0}, {"batch_size": 0}, {"max_in_flight": 0}])
    def test_refuses_bounds_that_would_stop_it(self, wrong):
        with pytest.raises(registry.RegistrationError, match="at least 1"):
            job_type("fine", **wrong)

    def test_refuses_one_name_for_two_functions(self):
        @job_type("twice")
        def first(ctx, payload): ...

        with pytest.raises(registry.RegistrationError, match=r"first and by .*second"):

            @job_type("twice")
            def second(ctx, payload): ...

    def test_takes_the_same_function_again_when_its_module_is_reloaded(self):
        for _ in range(2):

            @job_type("again")
            def handler(ctx, payload): ...

        assert registry.get("again").handler is handler


class TestGet:
    def test_names_the_known_types_and_the_closest(self):
        with pytest.raises(InvalidInput) as caught:
            registry.get("webhok")
        (message,) = caught.value.errors["job_type"]
        assert "Did you mean 'webhook'?" in message
        assert "celery_task, message, noop, webhook" in message

    @pytest.mark.parametrize("name", [None, [], {}, 5, "x" * 10_000])
    def test_survives_what_is_no_name(self, name):
        with pytest.raises(registry.UnknownJobType):
            registry.get(name)


class TestLoad:
    def test_brings_the_built_in_types_and_may_be_repeated(self):
        registry.load()
        registry.load()
        # Other tests may have brought handlers of their own into this process.
        ours = [
            kind.name for kind in registry.all_types() if kind.handler.__module__.startswith("jobs.handlers.")
        ]
        system = ["carillon.email", "carillon.notice", "carillon.run", "carillon.wait", "carillon.workflow"]
        assert ours == [*system, "celery_task", "message", "noop", "webhook"]

    def test_imports_a_teams_module(self, tmp_path, monkeypatch):
        source = "from jobs.handlers import job_type\n@job_type('team.own')\ndef own(ctx, payload): ...\n"
        (tmp_path / "team_handlers.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        registry.load(["team_handlers"])
        assert registry.get("team.own")

    @pytest.mark.parametrize("source", [None, "1/0", "from jobs.handlers import absent"])
    def test_names_the_module_and_the_setting_when_an_import_fails(self, tmp_path, monkeypatch, source):
        if source:
            (tmp_path / "broken_handlers.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(registry.RegistrationError, match=r"CARILLON_HANDLER_MODULES .*broken_handlers"):
            registry.load(["broken_handlers"])


class TestValidatePayload:
    def test_gives_the_path_of_every_fault_without_the_values(self):
        job_type("billing.close", payload=ClosePayload)(lambda ctx, payload: None)
        with pytest.raises(InvalidInput) as caught:
            registry.validate_payload("billing.close", {"lines": [1, "s3cret"]})
        assert set(caught.value.errors) == {"payload.month", "payload.lines[1]"}
        assert "s3cret" not in str(caught.value)

    def test_names_the_known_fields_when_one_is_not(self):
        with pytest.raises(InvalidInput) as caught:
            registry.validate_payload("noop", {"sleep": 3})
        assert caught.value.errors == {"payload.sleep": ["Unknown field; the fields are sleep_ms, fail."]}

    @pytest.mark.parametrize("payload", [None, [], "x", 5])
    def test_refuses_what_is_no_object(self, payload):
        with pytest.raises(InvalidInput) as caught:
            registry.validate_payload("noop", payload)
        assert set(caught.value.errors) == {"payload"}

    def test_takes_any_object_where_there_is_no_model(self):
        job_type("free")(lambda ctx, payload: None)
        registry.validate_payload("free", {"anything": [1, {"goes": None}]})

    @pytest.mark.parametrize(
        "payload", [{"sleep_ms": -1}, {"sleep_ms": 60_001}, {"sleep_ms": "5"}, {"sleep_ms": 1.5}, {"fail": 1}]
    )
    def test_guesses_nothing_in_a_built_in_payload(self, payload):
        with pytest.raises(InvalidInput):
            registry.validate_payload("noop", payload)
