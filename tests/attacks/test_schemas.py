"""A tenant's JSON Schema as a weapon: against the network, files, the interpreter lock, memory and the log.

The open door beside each is the usual library (``jsonschema``), used as for a schema that one trusts. ``SCHEMAS=10000``
generates as many; ``make fuzz`` does.
"""

import json
import logging
import os
import random
import socket
import time
import tracemalloc
from collections.abc import Iterator
from threading import Thread
from typing import Any

import jsonschema
import pytest
import referencing.exceptions
from django.test import Client

from chaos.load.schemas import BOMBS, PAYLOADS, hostile, smuggling
from jobs.actions.pull.json_schema import Allowance, Check, check_schema
from jobs.core.errors import InvalidInput
from jobs.models import Job, PullType
from tests.attacks.schemas import watched
from tests.factories import make_tenant
from tests.interfaces.admin.conftest import operator  # noqa: F401
from tests.interfaces.admin.world import inputs
from tests.interfaces.api.caller import Caller, noop_job

pytestmark = pytest.mark.django_db
COUNT = int(os.environ.get("SCHEMAS", "300"))
TYPE = "attack.type"
#: CPU seconds that one request may take.
MAX_SECONDS = 1.0


class Listener:
    """Accepts connections, and answers with a head and one byte: a caller that waits for the rest waits for long."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.connections: list[socket.socket] = []
        Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return  # closed: the test is over
            self.connections.append(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")

    def close(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)  # ends the wait of its thread, which closing alone would not
        self.socket.close()
        for connection in self.connections:
            connection.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    listening = Listener()
    yield listening
    listening.close()


@pytest.fixture
def tenant(db: None, job_types: None) -> Any:
    return make_tenant()


@pytest.fixture
def caller(tenant: Any) -> Caller:
    calling = Caller(tenant)
    # Imports and connections that happen once are not the attack's doing.
    calling.put(f"/job-types/{TYPE}", {"payload_schema": {"type": "object", "$defs": {"a": {}}}})
    calling.post("/jobs", job({"a": 1}))
    calling.post("/jobs", job([]))
    return calling


def job(payload: Any) -> dict[str, Any]:
    once = {"type": "once", "run_at": "2040-01-01T00:00:00Z"}
    return noop_job(name=f"n{time.perf_counter_ns()}", job_type=TYPE, payload=payload, schedule=once)


def tried(caller: Caller, schema: Any, payload: Any) -> tuple[int, int, Any]:
    """Statuses of declaring it, and of a job of a type that somehow had it already; and the slowest times."""
    with watched() as watch:
        declared = caller.put(f"/job-types/{TYPE}", {"payload_schema": schema})
    assert watch.events == [], schema
    assert watch.cpu_seconds < MAX_SECONDS, schema
    PullType.objects.filter(name=TYPE).update(payload_schema=schema)
    with watched() as writing:
        written = caller.post("/jobs", job(payload))
    assert writing.events == [], schema
    assert writing.cpu_seconds < MAX_SECONDS, schema
    slowest = max(watch.cpu_seconds, writing.cpu_seconds), max(watch.seconds, writing.seconds)
    return declared.status_code, written.status_code, slowest


class TestARequestOfTheServers:
    @pytest.mark.parametrize("holder", ["const", "default", "enum", "examples"])
    @pytest.mark.parametrize("scheme", ["http", "ftp"])
    def test_is_not_made_for_a_reference_into_data(
        self, caller: Caller, listener: Listener, holder: str, scheme: str
    ) -> None:
        schema = smuggling(holder, {"$ref": f"{scheme}://{listener.address}/ssrf"})
        assert tried(caller, schema, {"a": 1})[:2] == (400, 400)
        assert listener.connections == []

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_is_made_through_the_open_door(self, listener: Listener) -> None:
        schema = smuggling("const", {"$ref": f"http://{listener.address}/ssrf"})

        def ask() -> None:
            with pytest.raises(referencing.exceptions.Unresolvable):
                jsonschema.Draft202012Validator(schema).is_valid({"a": 1})

        asking = Thread(target=ask, daemon=True)
        with watched() as watch:
            asking.start()
            deadline = time.monotonic() + 10
            while not listener.connections and time.monotonic() < deadline:
                asking.join(0.05)
        assert any(event.startswith("socket.connect") for event in watch.events)
        assert asking.is_alive(), "it waits for each byte of a server that trickles"

    def test_opens_no_file_nor_reads_one_back(self, caller: Caller, tmp_path: Any) -> None:
        canary = tmp_path / "secret.json"
        canary.write_text('{"required": ["SECRET-FROM-FILE"]}')
        schema = smuggling("const", {"$ref": f"file://{canary}"})
        assert tried(caller, schema, {"a": 1})[:2] == (400, 400)
        assert "SECRET-FROM-FILE" not in caller.post("/jobs", job({"a": 1})).content.decode()
        with watched() as watch, pytest.warns(DeprecationWarning, match="retriev"):
            found = next(iter(jsonschema.Draft202012Validator(schema).iter_errors({"a": 1})))
        assert "SECRET-FROM-FILE" in found.message
        assert any("secret.json" in event for event in watch.events)

    @pytest.mark.parametrize(
        "name", ["x/const", "x~1const", "x%2Fconst", "a/b", "a~1b", "a%25", "a%2Fb", "", "ä"]
    )
    def test_and_no_500_comes_of_a_name_that_a_pointer_reads_otherwise(
        self, caller: Caller, listener: Listener, name: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        schema = smuggling("const", {"$ref": f"http://{listener.address}/"}, name)
        assert tried(caller, schema, {"a": 1})[:2] == (400, 400)
        assert listener.connections == []
        assert sum(len(record.getMessage()) for record in caplog.records if record.exc_info) == 0

    @pytest.mark.parametrize(
        "reference", [[], {}, None, 5, 1.5, True, ["#"], {"$ref": "#"}, "", "#/", "#a", "x"]
    )
    def test_and_no_500_comes_of_what_is_no_reference(self, caller: Caller, reference: Any) -> None:
        for schema in (
            {"$ref": reference},
            {"items": {"$ref": reference}},
            {"$defs": {"a": {"$ref": reference}}},
        ):
            assert tried(caller, schema, {"a": 1})[:2] == (400, 400)

    def test_is_not_made_by_the_console_either(
        self,
        caller: Caller,
        listener: Listener,
        operator: Client,  # noqa: F811
    ) -> None:
        schema = smuggling("const", {"$ref": f"http://{listener.address}/ssrf"})
        PullType.objects.filter(name=TYPE).update(payload_schema=schema)
        form = inputs(tenant=str(caller.tenant.id), job_type=TYPE, payload='{"a": 1}')  # type: ignore[union-attr]
        before = Job.objects.count()
        refused = operator.post("/admin/jobs/job/add/", form)
        assert list(refused.context["adminform"].form.errors) == ["job_type"]
        assert "declare the type again" in str(refused.context["adminform"].form.errors)
        assert (Job.objects.count(), listener.connections) == (before, [])
        PullType.objects.filter(name=TYPE).update(payload_schema={"required": ["b"]})
        refused = operator.post("/admin/jobs/job/add/", form)
        assert list(refused.context["adminform"].form.errors) == ["payload"]


class TestTheProcessorsTime:
    @pytest.mark.parametrize("bomb", BOMBS)
    def test_of_one_request_stays_below_a_second(self, caller: Caller, bomb: str) -> None:
        schema, payload = BOMBS[bomb]
        declared, written, _ = tried(caller, schema, payload)
        assert {declared, written} <= {201, 200, 400}

    def test_grows_with_each_character_through_the_open_door(self) -> None:
        door = jsonschema.Draft202012Validator(BOMBS["patternProperties"][0])

        def seconds(length: int) -> float:
            with watched() as watch:
                door.is_valid({"a" * length + "!": 1})
            return watch.cpu_seconds

        assert seconds(22) > 20 * seconds(14)

    def test_of_declaring_stays_below_a_second(self, caller: Caller) -> None:
        for schema in ({"allOf": [{}] * 7_000}, {"allOf": [{"not": {"$comment": ""}}] * 1_200}):
            with watched() as watch:
                assert caller.put(f"/job-types/{TYPE}", {"payload_schema": schema}).status_code == 200
            assert watch.cpu_seconds < MAX_SECONDS


class TestMemory:
    @pytest.mark.parametrize(
        "schema",
        [
            {"anyOf": [{"type": "string"}] * 1_400},
            {
                "oneOf": [{"allOf": [{"additionalProperties": True}] * 20}] * 40,
                "unevaluatedProperties": False,
            },
        ],
    )
    def test_of_a_check_is_a_small_multiple_of_the_payload(self, schema: dict[str, Any]) -> None:
        payload = {"a": "x" * 60_000} | {f"k{number}": number for number in range(1_000)}

        def peak(ask: Any) -> int:
            tracemalloc.start()
            ask()
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return most

        def ours() -> None:
            check_schema(schema, field="payload_schema")
            with pytest.raises(InvalidInput):
                Check(schema, Allowance())(payload, field="payload")

        assert peak(ours) < 5_000_000
        if "anyOf" in schema:
            assert (
                peak(lambda: list(jsonschema.Draft202012Validator(schema).iter_errors(payload))) > 50_000_000
            )


class TestGenerated:
    def test_schemas_connect_to_nothing_open_nothing_and_are_soon_done(
        self, caller: Caller, listener: Listener, capsys: pytest.CaptureFixture[str]
    ) -> None:
        # The log of ten thousand refusals is not under test.
        logging.getLogger("django.request").setLevel(logging.ERROR)
        rng = random.Random(int(os.environ.get("SEED", "13")))
        statuses: dict[str, int] = {}
        slowest = (0.0, 0.0)
        for number in range(COUNT):
            schema = hostile(rng, listener=listener.address)
            declared, written, took = tried(caller, schema, PAYLOADS[number % len(PAYLOADS)])
            assert {declared, written} <= {200, 201, 400}, json.dumps(schema)
            statuses[f"{declared} {written}"] = statuses.get(f"{declared} {written}", 0) + 1
            slowest = max(slowest[0], took[0]), max(slowest[1], took[1])
        assert listener.connections == []
        with capsys.disabled():
            print(
                f"\n{COUNT} schemas (declared, job written): {statuses}; 0 connections, 0 files opened; slowest "
                f"request {slowest[0]:.3f} s of a processor, {slowest[1]:.3f} s in all"
            )
        taken = sum(count for answers, count in statuses.items() if answers.startswith("20"))
        assert taken > COUNT // 10, "a generator of schemas that are refused at once tries nothing"
