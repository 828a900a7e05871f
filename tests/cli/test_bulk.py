"""``bulk``, ``operations``, backfills, pull types and signing secrets from the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from carillon import client
from jobs.actions.bulk import operations
from jobs.actions.bulk.runner import Runner
from jobs.models import Job, Operation, PullType
from jobs.selection.walks import select
from tests import factories
from tests.cli.conftest import ApiAdapter, Command
from tests.interfaces.api.caller import Caller

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def beat(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """While the command waits, a beat carries operations on, two jobs at a time. Returns the length of each wait."""
    runner, waits = Runner(select), []
    monkeypatch.setattr(operations, "SLICE", 2)

    def wait(seconds: float) -> None:
        waits.append(seconds)
        runner.turn()

    monkeypatch.setattr(client, "pause", wait)
    return waits


def definitions(tmp_path: Path, *names: str, **changes: Any) -> str:
    """A file with a job of each name, one a line after the first."""
    file = tmp_path / "jobs.yaml"
    rest = "".join(f", {name}: {json.dumps(value)}" for name, value in changes.items())
    schedule = "schedule: {type: interval, every_seconds: 60}"
    file.write_text(
        "jobs:\n" + "".join(f"- {{name: {name}, job_type: noop, {schedule}{rest}}}\n" for name in names)
    )
    return str(file)


class TestCreating:
    def test_creates_all_in_as_many_calls_as_it_takes(
        self, carillon: Command, api: ApiAdapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("carillon.commands.bulk.creating.MAX_JOBS", 2)
        made = carillon("bulk", "create", "-f", definitions(tmp_path, "a", "b", "c"), "-o", "json")
        assert (made.code, made.err) == (0, "3 created, 0 refused.\n")
        assert [result["name"] for result in made.json] == ["a", "b", "c"]
        assert len(api.sent) == 2

    @pytest.mark.parametrize(("most", "value"), [("MAX_BYTES", 300), ("MAX_VALUES", 6)])
    def test_sends_no_more_than_the_server_takes_at_once(
        self,
        carillon: Command,
        api: ApiAdapter,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        most: str,
        value: int,
    ) -> None:
        monkeypatch.setattr(f"carillon.commands.bulk.creating.{most}", value)
        file = definitions(tmp_path, "a", "b", "c", concurrency_key="k" * 100)
        assert carillon("bulk", "create", "-f", file).code == 0
        assert len(api.sent) == 3

    def test_says_where_those_stand_that_are_refused_and_creates_the_others(
        self, carillon: Command, owner: Caller, tmp_path: Path
    ) -> None:
        factories.make_job(owner.tenant, name="b")
        file = definitions(tmp_path, "a", "b", "c")
        refused = carillon("bulk", "create", "-f", file)
        assert refused.code == 1
        assert f"{file}:3: b: name → Another job is named 'b'" in refused.err
        assert "2 created, 1 refused." in refused.err
        assert Job.objects.filter(name__in=["a", "c"]).count() == 2

    def test_creates_none_where_all_or_nothing_is_wanted(self, carillon: Command, tmp_path: Path) -> None:
        file = definitions(tmp_path, "a", "b", priority="urgent")
        refused = carillon("bulk", "create", "-f", file, "--all-or-nothing")
        assert refused.code == 1
        assert f"{file}:3: b: priority → Must be one of" in refused.err
        assert not Job.objects.exists()

    @pytest.mark.parametrize("together", [[], ["--all-or-nothing"]])
    def test_only_looks_at_them_in_a_dry_run(
        self, carillon: Command, tmp_path: Path, together: list[str]
    ) -> None:
        shown = carillon(
            "bulk", "create", "-f", definitions(tmp_path, "a", "b"), "--dry-run", "-o", "json", *together
        )
        assert (shown.code, shown.err) == (
            0,
            "2 would be created, 0 refused.\n".replace("0 r", "0 would be r"),
        )
        assert [result["status"] for result in shown.json] == [201, 201]
        assert all("id" not in result for result in shown.json)
        assert not Job.objects.exists()

    def test_takes_no_more_together_than_one_call_does(
        self, carillon: Command, api: ApiAdapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("carillon.commands.bulk.creating.MAX_JOBS", 1)
        file = definitions(tmp_path, "a", "b")
        assert carillon("bulk", "create", "-f", file, "--all-or-nothing").code == 2
        assert api.sent == []


class TestOneVerbForMany:
    def test_counts_then_waits_for_the_end(self, carillon: Command, owner: Caller, beat: list[float]) -> None:
        jobs = [factories.make_job(owner.tenant, labels={"env": "test"}) for _ in range(3)]
        other = factories.make_job(owner.tenant)
        counted = carillon("bulk", "pause", "--labels", "env=test", "--dry-run")
        assert (counted.code, counted.err) == (0, "3 match; nothing was done.\n")
        assert not Operation.objects.exists()
        done = carillon("bulk", "pause", "--labels", "env=test")
        assert (done.code, done.err) == (0, "pause: 3 done, 0 refused: finished.\n")
        assert len(beat) == 2
        assert {Job.objects.get(id=job.id).status for job in jobs} == {"paused"}
        assert Job.objects.get(id=other.id).status == "active"

    def test_moves_a_bar_on_a_terminal(
        self, carillon: Command, owner: Caller, beat: list[float], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        factories.make_job(owner.tenant)
        assert "100%" in carillon("bulk", "pause", "--all").err

    def test_deletes_and_cancels_only_with_a_yes(
        self, carillon: Command, owner: Caller, beat: list[float]
    ) -> None:
        factories.make_job(owner.tenant)
        for verb in ("delete", "cancel", "replay"):
            assert carillon("bulk", verb, "--all").code == 2
        assert not Operation.objects.exists()
        assert carillon("bulk", "delete", "--all", "--yes").code == 0
        assert not Job.objects.filter(deleted_at=None).exists()

    def test_says_what_was_refused(self, carillon: Command, owner: Caller, beat: list[float]) -> None:
        job = factories.make_job(owner.tenant, status="cancelled")
        refused = carillon("bulk", "resume", "--all")
        assert refused.code == 1
        assert f"{job.id}: " in refused.err

    def test_replays_what_died(self, carillon: Command, owner: Caller, beat: list[float]) -> None:
        dead = factories.make_trigger(factories.make_job(owner.tenant), "dead")
        assert carillon("bulk", "replay", "--reason", dead.reason, "-y").code == 0
        dead.refresh_from_db()
        assert dead.state == "pending"

    @pytest.mark.parametrize("line", [(), ("--all", "--labels", "a=b")])
    def test_wants_filters_or_all(self, carillon: Command, api: ApiAdapter, line: tuple[str, ...]) -> None:
        assert carillon("bulk", "pause", *line).code == 2
        assert api.sent == []

    def test_names_a_filter_that_is_none(self, carillon: Command) -> None:
        refused = carillon("bulk", "pause", "--status", "asleep")
        assert (refused.code, "filter.status → " in refused.err) == (1, True), refused.err

    def test_can_be_left_alone_looked_up_watched_and_cancelled(
        self, carillon: Command, owner: Caller, beat: list[float]
    ) -> None:
        for _ in range(5):
            factories.make_job(owner.tenant)
        begun = carillon("bulk", "pause", "--all", "--no-wait", "-o", "json").json["id"]
        assert carillon("operations", "get", begun, "-o", "json").json["status"] == "running"
        assert [row["id"] for row in carillon("operations", "list", "-o", "json").json] == [begun]
        assert carillon("operations", "watch", begun).err == "pause: 5 done, 0 refused: finished.\n"
        second = carillon("bulk", "resume", "--all", "--no-wait", "-o", "json").json["id"]
        assert carillon("operations", "cancel", second, "-o", "json").json["status"] == "cancelled"
        assert carillon("operations", "get", "../jobs").code == 2


class TestEditingMany:
    EVERY = {"type": "interval", "every_seconds": 60}

    @pytest.fixture
    def jobs(self, owner: Caller) -> list[Job]:
        for name in ("a", "b", "c"):
            sent = {
                "name": name,
                "job_type": "noop",
                "schedule": self.EVERY,
                "labels": {"env": "test", "x": "y"},
            }
            assert owner.post("/jobs", sent).status_code == 201
        return list(Job.objects.order_by("name"))

    def test_shows_the_differences_and_does_nothing_in_a_dry_run(
        self, carillon: Command, owner: Caller, jobs: list[Job]
    ) -> None:
        ended = factories.make_job(owner.tenant, status="cancelled")
        line = ("bulk", "edit", "--all", "--set", "priority=critical", "--dry-run")
        shown = carillon(*line)
        assert shown.code == 0
        assert [row.split() for row in shown.out.splitlines()[1:]] == [
            [name, "priority", "medium", "critical"] for name in "abc"
        ]
        assert f"{ended.id}: " in shown.err
        assert "4 match; 3 would change and 1 would be refused; nothing was done." in shown.err
        told = carillon(*line, "-o", "json").json
        assert (told["changed"], len(told["differences"])) == (3, 3)
        assert set(Job.objects.values_list("version", flat=True)) == {1}

    def test_edits_after_a_yes_and_waits_for_the_end(
        self, carillon: Command, jobs: list[Job], beat: list[float]
    ) -> None:
        line = ("bulk", "edit", "--labels", "env=test", "--set", "schedule.every_seconds=90")
        line = (*line, "--set", "labels.x=null", "--set", "concurrency_key=k 1")
        refused = carillon(*line)
        assert (refused.code, "3 would change" in refused.err, "--yes" in refused.err) == (2, True, True)
        assert not Operation.objects.exists()
        assert carillon(*line, "--yes").err == "edit: 3 done, 0 refused: finished.\n"
        for job in Job.objects.all():
            assert job.interval is not None
            assert (job.interval.total_seconds(), job.labels) == (90, {"env": "test"})
            assert job.concurrency_key == "k 1"

    def test_takes_a_file_with_options_in_place_of_some_of_it(
        self, carillon: Command, jobs: list[Job], beat: list[float], tmp_path: Path
    ) -> None:
        file = tmp_path / "patch.yaml"
        file.write_text("priority: low\ntimeout_seconds: 7\n")
        line = ("bulk", "edit", "--all", "-f", str(file), "--set", "priority=high", "-y")
        assert carillon(*line).code == 0
        assert {(job.priority, job.timeout.total_seconds()) for job in Job.objects.all()} == {(1, 7)}

    def test_edits_none_where_one_refuses_if_it_is_told_so(
        self, carillon: Command, owner: Caller, jobs: list[Job], beat: list[float]
    ) -> None:
        ended = factories.make_job(owner.tenant, status="cancelled")
        line = ("bulk", "edit", "--all", "--set", "priority=high", "--all-or-nothing", "-y")
        refused = carillon(*line)
        assert (refused.code, f"{ended.id}: " in refused.err) == (1, True)
        assert "edit: 0 done, 1 refused: refused." in refused.err
        assert set(Job.objects.values_list("version", flat=True)) == {1}

    @pytest.mark.parametrize(
        ("line", "code", "words"),
        [
            ((), 2, "Give the changes"),
            (("--set", "priority"), 2, "FIELD=VALUE"),
            (("--set", "=3"), 2, "FIELD=VALUE"),
            (("--set", "schedule..cron=3"), 2, "FIELD=VALUE"),
            (("--set", "schedule=3", "--set", "schedule.cron=x"), 2, "set to something else"),
            (("--set", 'payload={"a": 1, "a": 2}'), 2, "comes twice"),
            (("--set", "payload=NaN"), 2, "Infinite numbers"),
            (("--set", "name=x"), 1, "changes.name → "),
            (("--set", "bogus=x"), 1, "changes.bogus → "),
            (("--set", "priority=urgent"), 1, "changes.priority → "),
        ],
    )
    def test_names_what_is_wrong(
        self, carillon: Command, jobs: list[Job], line: tuple[str, ...], code: int, words: str
    ) -> None:
        refused = carillon("bulk", "edit", "--all", *line, "-y")
        assert (refused.code, words in refused.err) == (code, True), refused.err
        assert not Operation.objects.exists()


class TestPacesAndCancels:
    def test_replays_and_resumes_at_a_pace(self, carillon: Command, owner: Caller) -> None:
        factories.make_trigger(factories.make_job(owner.tenant, status="paused"), "dead")
        for verb in ("replay", "resume"):
            line = ("bulk", verb, "--all", "--per-second", "2.5", "-y", "--no-wait", "-o", "json")
            assert carillon(*line).json["per_second"] == 2.5
            refused = carillon("bulk", verb, "--all", "--per-second", "0", "-y")
            assert (refused.code, "per_second → " in refused.err) == (1, True), refused.err

    def test_pauses_and_resumes_an_operation(
        self, carillon: Command, owner: Caller, beat: list[float]
    ) -> None:
        for _ in range(3):
            factories.make_job(owner.tenant)
        begun = carillon("bulk", "pause", "--all", "--no-wait", "-o", "json").json["id"]
        assert carillon("operations", "pause", begun, "-o", "json").json["status"] == "paused"
        Runner(select).turn()
        assert Job.objects.filter(status="paused").count() == 0
        assert carillon("operations", "resume", begun, "-o", "json").json["status"] == "running"
        assert carillon("operations", "watch", begun).err == "pause: 3 done, 0 refused: finished.\n"
        assert carillon("operations", "pause", begun).code == 1

    def test_cancels_triggers_that_match(self, carillon: Command, owner: Caller, beat: list[float]) -> None:
        job = factories.make_job(owner.tenant, name="nightly")
        waiting, other = factories.make_trigger(job), factories.make_trigger(factories.make_job(owner.tenant))
        line = ("bulk", "cancel-triggers", "--job", "nightly")
        assert carillon(*line).code == 2
        assert carillon(*line, "--dry-run").err == "1 match; nothing was done.\n"
        assert carillon(*line, "--yes").err == "cancel_triggers: 1 done, 0 refused: finished.\n"
        assert factories.states([waiting, other]) == ["cancelled", "pending"]
        refused = carillon("bulk", "cancel-triggers", "--state", "dead", "-y")
        assert (refused.code, "filter.state → " in refused.err) == (1, True), refused.err


class TestBackfills:
    def test_are_counted_begun_and_listed(self, carillon: Command, owner: Caller) -> None:
        hour = {"type": "cron", "cron": "0 * * * *"}
        assert owner.post("/jobs", {"name": "a", "job_type": "noop", "schedule": hour}).status_code == 201
        line = ("jobs", "backfill", "a", "--start", "2026-01-01T00:00:00Z", "--end", "2026-01-01T05:00:00Z")
        assert carillon(*line, "--dry-run", "-o", "json").json["count"] == 6
        begun = carillon(*line, "-o", "json").json
        assert begun["count"] == 6
        assert [row["id"] for row in carillon("jobs", "backfills", "a", "-o", "json").json] == [begun["id"]]

    def test_that_make_no_sense_name_the_field(self, carillon: Command, owner: Caller) -> None:
        factories.make_job(owner.tenant, name="a")
        refused = carillon("jobs", "backfill", "a", "--start", "yesterday", "--end", "2026-01-01T05:00:00Z")
        assert (refused.code, "start → " in refused.err) == (1, True)


class TestPullTypes:
    def test_are_declared_shown_listed_and_deleted(self, carillon: Command, tmp_path: Path) -> None:
        schema = tmp_path / "schema.yaml"
        schema.write_text("type: object\nproperties: {invoice: {type: integer}}\n")
        options = (
            "--description",
            "Renders.",
            "--schema",
            str(schema),
            "--timeout",
            "300",
            "--max-in-flight",
            "4",
        )
        made = carillon("job-types", "declare", "invoice.render", *options, "-o", "json")
        assert made.code == 0, made.err
        assert made.json["payload_schema"]["properties"] == {"invoice": {"type": "integer"}}
        shown = carillon("job-types", "get", "invoice.render", "-o", "json").json
        assert (shown["timeout_seconds"], shown["max_in_flight"]) == (300, 4)
        assert "invoice.render" in carillon("job-types").out
        assert carillon("job-types", "delete", "invoice.render").code == 0
        assert not PullType.objects.exists()

    def test_are_declared_from_a_file_with_options_in_place_of_some_of_it(
        self, carillon: Command, tmp_path: Path
    ) -> None:
        file = tmp_path / "type.yaml"
        file.write_text("description: Counts.\ntimeout_seconds: 5\n")
        made = carillon("job-types", "declare", "count", "-f", str(file), "--timeout", "7", "-o", "json").json
        assert (made["description"], made["timeout_seconds"]) == ("Counts.", 7)

    @pytest.mark.parametrize(
        ("line", "code", "words"),
        [
            (("declare", "Count"), 1, "name → "),
            (("declare", "count", "--timeout", "0"), 1, "timeout_seconds → "),
            (("declare", "noop"), 1, "choose another name"),
            (("declare", "../jobs"), 2, "not the name of a job type"),
            (("delete", "count"), 3, "There is no such object."),
        ],
    )
    def test_are_refused_by_field(
        self, carillon: Command, line: tuple[str, ...], code: int, words: str
    ) -> None:
        refused = carillon("job-types", *line)
        assert (refused.code, words in refused.err) == (code, True), refused.err
        assert not PullType.objects.exists()


class TestTheSigningSecret:
    def test_is_rotated_from_standard_input_and_never_shown(self, carillon: Command, owner: Caller) -> None:
        assert carillon("signing-secret", "rotate", stdin="whsec_" + "QUJD" * 8).code == 0
        rotated = carillon("signing-secret", "rotate", "--overlap", "60", stdin=f"{SECRET}\n")
        assert rotated.code == 0, rotated.err
        shown = carillon("signing-secret", "show", "-o", "json")
        assert shown.json["rotating"] is True
        assert SECRET not in rotated.out + rotated.err + shown.out
        owner.tenant.refresh_from_db()
        assert len(owner.tenant.webhook_secret.split()) == 2

    def test_is_refused_by_field_and_never_taken_from_the_command_line(
        self, carillon: Command, api: ApiAdapter
    ) -> None:
        assert carillon("signing-secret", "rotate", SECRET).code == 2
        assert carillon("signing-secret", "rotate", stdin="\n").code == 2
        assert api.sent == []
        refused = carillon("signing-secret", "rotate", stdin="whsec_short\n")
        assert (refused.code, "secret → " in refused.err) == (1, True)
        assert "whsec_short" not in refused.err
