"""Commands that make one call or follow one list: their requests, their output and their exit codes."""

import json
from pathlib import Path

import pytest
import requests
import yaml

from jobs.core.states import TriggerState
from jobs.models import Change, Job, Trigger
from tenants.models import ApiKey, Secret
from tests import factories
from tests.cli.conftest import ApiAdapter, Command
from tests.interfaces.api.caller import Caller
from tests.interfaces.api.test_traces import TRACEPARENT

EVERY_MINUTE = ("-t", "noop", "--every", "60")


class TestCalls:
    def test_are_part_of_the_trace_that_the_environment_names(
        self, carillon: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run_now = ("jobs", "create", "-t", "noop", "--now")
        monkeypatch.setenv("TRACEPARENT", TRACEPARENT)
        monkeypatch.setenv("TRACESTATE", "congo=t61")
        assert carillon(*run_now).code == 0
        monkeypatch.setenv("TRACESTATE", "é\n")
        assert carillon(*run_now).code == 0
        monkeypatch.setenv("TRACEPARENT", "")
        assert carillon(*run_now).code == 0
        kept = Trigger.objects.order_by("id").values_list("trace", flat=True)
        assert list(kept) == [f"{TRACEPARENT} congo=t61", TRACEPARENT, None]


class TestJobs:
    def test_are_created_from_options_and_shown_in_each_format(self, carillon: Command) -> None:
        made = carillon(
            "jobs", "create", "nightly", "-t", "noop", "--cron", "0 2 * * *", "-l", "env=prod", "-o", "json"
        )
        assert made.code == 0, made.err
        assert made.json["labels"] == {"env": "prod"}
        assert yaml.safe_load(carillon("jobs", "get", "nightly", "-o", "yaml").out)["id"] == made.json["id"]
        assert "0 2 * * *" in carillon("jobs", "get", made.json["id"]).out

    def test_are_created_from_a_file_with_options_in_place_of_some_of_it(
        self, carillon: Command, tmp_path: Path
    ) -> None:
        file = tmp_path / "job.yaml"
        file.write_text(
            "name: a\njob_type: noop\nlabels: {x: y}\nschedule: {type: cron, cron: '5 4 * * *'}\n"
        )
        made = carillon(
            "jobs", "create", "b", "-f", str(file), "--priority", "high", "-l", "z=1", "-o", "json"
        )
        assert (made.json["name"], made.json["priority"]) == ("b", "high")
        assert made.json["labels"] == {"x": "y", "z": "1"}

    def test_are_listed_page_after_page_up_to_the_limit(
        self, carillon: Command, owner: Caller, api: ApiAdapter
    ) -> None:
        for _ in range(5):
            factories.make_job(owner.tenant)
        cut = carillon("jobs", "list", "--limit", "3", "-o", "json")
        assert len(cut.json) == 3
        assert "more than 3" in cut.err
        assert len(carillon("jobs", "list", "--limit", "5", "-o", "json").json) == 5

    def test_follow_cursors_to_the_end(
        self, carillon: Command, owner: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("carillon.client.MAX_PAGE_SIZE", 2)
        names = {factories.make_job(owner.tenant).name for _ in range(5)}
        assert {row["name"] for row in carillon("jobs", "list", "--all", "-o", "json").json} == names

    def test_have_whole_ids_on_a_narrow_terminal(
        self, carillon: Command, owner: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "80")
        job = factories.make_job(owner.tenant, name="a-long-name-of-a-job-that-takes-its-room" * 2)
        assert str(job.id) in carillon("jobs", "list").out

    def test_are_filtered(self, carillon: Command) -> None:
        carillon("jobs", "create", "a", *EVERY_MINUTE, "-l", "env=prod")
        carillon("jobs", "create", "b", *EVERY_MINUTE)
        assert [
            row["name"] for row in carillon("jobs", "list", "--labels", "env=prod", "-o", "json").json
        ] == ["a"]

    def test_are_edited_paused_resumed_run_cancelled_and_deleted(self, carillon: Command) -> None:
        carillon("jobs", "create", "a/b", *EVERY_MINUTE)
        assert carillon("jobs", "edit", "a/b", "--priority", "high", "-o", "json").json["version"] == 2
        for verb, status in (("pause", "paused"), ("resume", "active"), ("cancel", "cancelled")):
            assert carillon("jobs", verb, "a/b", "-o", "json").json["status"] == status
            if verb == "resume":
                assert (
                    carillon("jobs", "run", "a/b", "--payload", "{}", "-o", "json").json["origin"]
                    == "run_now"
                )
                beside = carillon("jobs", "run", "a/b", "--ignore-overlap", "-o", "json").json
                assert beside["origin"] == "run_beside"
        deleted = carillon("jobs", "delete", "a/b")
        assert (deleted.code, deleted.err) == (0, "a/b is deleted.\n")
        assert carillon("jobs", "get", "a/b").code == 3

    def test_are_left_alone_where_another_version_is_meant(self, carillon: Command) -> None:
        carillon("jobs", "create", "a", *EVERY_MINUTE)
        refused = carillon("jobs", "edit", "a", "--priority", "high", "--if-match", "7")
        assert refused.code == 1
        assert Job.objects.get(name="a").version == 1


class TestTriggersAndDeadLetters:
    def test_are_listed_read_cancelled_and_replayed(self, carillon: Command) -> None:
        carillon("jobs", "create", "a", *EVERY_MINUTE)
        trigger = carillon("jobs", "run", "a", "-o", "json").json["id"]
        assert [row["id"] for row in carillon("triggers", "list", "--job", "a", "-o", "json").json] == [
            trigger
        ]
        assert carillon("triggers", "cancel", trigger, "-o", "json").json["state"] == "cancelled"
        assert carillon("triggers", "get", trigger, "-o", "json").json["reason"] == "requested"
        assert carillon("triggers", "replay", trigger, "-o", "json").json["state"] == "pending"
        assert carillon("attempts", "--trigger", trigger, "-o", "json").json == []

    def test_dead_letters_are_replayed_by_job(self, carillon: Command, owner: Caller) -> None:
        job = factories.make_job(owner.tenant)
        dead = factories.make_trigger(job, state=TriggerState.DEAD, reason="exhausted")
        other = factories.make_trigger(
            factories.make_job(owner.tenant), state=TriggerState.DEAD, reason="exhausted"
        )
        assert len(carillon("dead-letters", "list", "-o", "json").json) == 2
        assert carillon("dead-letters", "replay", "--job", job.name).err == "1 replayed.\n"
        assert Trigger.objects.get(pk=dead.pk).state == "pending"
        assert Trigger.objects.get(pk=other.pk).state == "dead"

    def test_dead_letters_are_dismissed_with_a_note(self, carillon: Command, owner: Caller) -> None:
        dead = factories.make_trigger(factories.make_job(owner.tenant), "dead", reason="exhausted")
        assert carillon("dead-letters", "dismiss", str(dead.id)).code == 2
        assert carillon("dead-letters", "dismiss", "--note", "Mended since.").code == 2
        done = carillon("dead-letters", "dismiss", "--reason", "exhausted", "--note", "Mended since.")
        assert done.err == "1 dismissed.\n"
        assert Trigger.objects.get(pk=dead.pk).dismissed_note == "Mended since."
        assert carillon("dead-letters", "list", "-o", "json").json == []

    def test_what_is_done_is_on_the_trail_in_the_keys_name(self, carillon: Command, owner: Caller) -> None:
        job = factories.make_job(owner.tenant, name="nightly")
        dead = factories.make_trigger(job, "dead", reason="lost")
        Change.objects.all().delete()
        for command in (
            ("dead-letters", "replay", str(dead.id)),
            ("triggers", "cancel", str(dead.id)),
            ("triggers", "replay", str(dead.id)),
            ("jobs", "run", "nightly"),
        ):
            assert carillon(*command).code == 0
        key = f"ck_{ApiKey.objects.get(tenant=owner.tenant).prefix} tests"
        assert [(row.action, row.actor) for row in Change.objects.order_by("id")] == [
            (action, key) for action in ("replayed", "cancelled", "replayed", "run")
        ]

    def test_nothing_is_replayed_without_saying_what(self, carillon: Command, api: ApiAdapter) -> None:
        assert carillon("dead-letters", "replay").code == 2
        assert carillon("dead-letters", "replay", "--all", "--reason", "lost").code == 2
        assert api.sent == []


class TestWhatOneOnlyAsks:
    def test_previews_schedules_and_jobs(self, carillon: Command) -> None:
        shown = carillon(
            "preview", "--cron", "0 2 * * *", "--timezone", "Asia/Kolkata", "--after", "2030-01-01T00:00:00Z"
        )
        assert "2030-01-01T20:30:00Z" in shown.out
        carillon("jobs", "create", "a", *EVERY_MINUTE)
        assert len(carillon("preview", "a", "--count", "3", "-o", "json").json["firings"]) == 3

    def test_explains_jobs_and_triggers(self, carillon: Command) -> None:
        carillon("jobs", "create", "a", *EVERY_MINUTE)
        trigger = carillon("jobs", "run", "a", "-o", "json").json["id"]
        assert "summary" in carillon("explain", "job", "a").out
        assert "due" in carillon("explain", "trigger", trigger).out

    def test_shows_the_tenant_and_the_job_types(self, carillon: Command, owner: Caller) -> None:
        assert carillon("tenant", "-o", "json").json["slug"] == owner.tenant.slug  # type: ignore[union-attr]
        assert "webhook" in carillon("job-types").out


class TestSecrets:
    def test_come_from_standard_input_and_are_never_shown(self, carillon: Command, api: ApiAdapter) -> None:
        kept = carillon("secrets", "set", "token", "--host", "*", stdin="s3cr3t-value\n")
        assert kept.code == 0, kept.err
        assert json.loads(api.sent[-1].body or b"")["value"] == "s3cr3t-value"
        assert "s3cr3t-value" not in kept.out + kept.err + carillon("secrets", "list").out
        assert carillon("secrets", "delete", "token").code == 0
        assert not Secret.objects.exists()

    def test_are_not_taken_from_the_command_line_nor_empty(self, carillon: Command, api: ApiAdapter) -> None:
        assert carillon("secrets", "set", "token", "s3cr3t-value").code == 2
        assert carillon("secrets", "set", "token", stdin="\n").code == 2
        assert api.sent == []


class TestBadInput:
    def test_names_the_field_the_server_refuses(self, carillon: Command) -> None:
        refused = carillon("jobs", "create", "a", "-t", "noop", "--cron", "0 99 * * *")
        assert refused.code == 1
        assert "\nschedule.cron → " in refused.err
        assert refused.out == ""
        assert not Job.objects.exists()

    def test_names_an_unknown_field_of_a_file(self, carillon: Command, tmp_path: Path) -> None:
        file = tmp_path / "job.yaml"
        file.write_text("name: a\njob_type: noop\nshedule: {}\n")
        refused = carillon("jobs", "create", "-f", str(file))
        assert refused.code == 1
        assert "\nshedule → " in refused.err

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("name: a\nschedule: {type: cron, cron: * * * * *}\n", "job.yaml:2:"),
            ("name: a\nname: b\n", "job.yaml:2:1: not YAML: the key 'name' comes twice."),
            ("a: [1,\n", "job.yaml:2:"),
            ("- name: a\n", "must hold one definition"),
            ("name: a\0\n", "not YAML"),
            ("at: !!timestamp 2030-01-01\n", "job.yaml:1:5: not YAML: could not determine a constructor"),
            ("a: &a [*a]\n", "leads back to itself"),
            ("a: 1.0e+999\n", "no JSON"),
        ],
    )
    def test_names_the_line_of_bad_yaml(
        self, carillon: Command, api: ApiAdapter, tmp_path: Path, text: str, message: str
    ) -> None:
        file = tmp_path / "job.yaml"
        file.write_text(text)
        refused = carillon("jobs", "create", "-f", str(file))
        assert refused.code == 2
        assert message in refused.err
        assert api.sent == []

    @pytest.mark.parametrize(
        "arguments",
        [
            ("jobs", "create"),
            ("jobs", "create", "a", "--every", "60", "--cron", "* * * * *"),
            ("jobs", "create", "a", "-t", "noop", "--every", "60", "--payload", "{nonsense"),
            ("jobs", "create", "-f", "/nowhere/job.yaml"),
            ("jobs", "create", "a", "-l", "novalue"),
            ("jobs", "get", ".."),
            ("jobs", "frobnicate"),
            ("jobs", "list", "--limit", "0"),
            ("triggers", "get", "not-an-id"),
            ("attempts", "--trigger", "0198c1f2-6c3a-7d4e-8a51-0d6f3a1b2c3d", "--state", "failed"),
            ("preview",),
            ("secrets", "set", "../tenant"),
        ],
    )
    def test_sends_nothing_for_a_wrong_command_line(
        self, carillon: Command, api: ApiAdapter, arguments: tuple[str, ...]
    ) -> None:
        ended = carillon(*arguments)
        assert ended.code == 2
        assert ended.err
        assert api.sent == []

    def test_a_name_with_control_characters_does_not_reach_the_terminal(
        self, carillon: Command, owner: Caller
    ) -> None:
        factories.make_job(owner.tenant, name="a\x1b]0;owned\x07b")
        for arguments in (("jobs", "list"), ("jobs", "list", "-o", "json"), ("jobs", "list", "-o", "yaml")):
            assert "\x1b" not in carillon(*arguments).out


class TestTheConnection:
    def test_a_bad_key_is_exit_4(self, carillon: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CARILLON_API_KEY", "ck_00000000_nonsense")
        assert carillon("jobs", "list").code == 4
        monkeypatch.setenv("CARILLON_API_KEY", "ck_ä\n")
        assert carillon("jobs", "list").code == 2

    def test_a_key_without_the_scope_is_exit_4(
        self, carillon: Command, owner: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CARILLON_API_KEY", str(Caller(owner.tenant, scopes=("read",)).token))
        assert carillon("jobs", "create", "a", *EVERY_MINUTE).code == 4
        assert not Job.objects.exists()

    def test_an_environment_that_lacks_something_is_exit_2(
        self, carillon: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CARILLON_URL", "carillon.example:8000")
        assert carillon("jobs", "list").code == 2
        monkeypatch.delenv("CARILLON_URL")
        ended = carillon("jobs", "list")
        assert ended.code == 2
        assert "Set CARILLON_URL" in ended.err

    def test_a_server_that_is_away_is_exit_5(self, carillon: Command, api: ApiAdapter) -> None:
        api.faults = [("before", requests.ConnectionError("Connection refused"))] * 4
        ended = carillon("jobs", "list")
        assert ended.code == 5
        assert "No answer from http://carillon.test" in ended.err

    def test_another_tenants_job_is_exit_3(self, carillon: Command) -> None:
        stranger = factories.make_job()
        assert carillon("jobs", "pause", str(stranger.id)).code == 3
        assert carillon("jobs", "pause", stranger.name).code == 3

    def test_a_write_whose_answer_is_lost_is_done_once(self, carillon: Command, api: ApiAdapter) -> None:
        carillon("jobs", "create", "a", *EVERY_MINUTE)
        api.faults = [("after", requests.ConnectionError("reset"))]
        ran = carillon("jobs", "run", str(Job.objects.get().id), "-o", "json")
        assert ran.code == 0, ran.err
        assert [str(trigger.id) for trigger in Trigger.objects.all()] == [ran.json["id"]]
        assert len({request.headers["Idempotency-Key"] for request in api.sent[-2:]}) == 1

    def test_every_write_has_a_key_of_its_own(self, carillon: Command, api: ApiAdapter) -> None:
        carillon("jobs", "create", "a", *EVERY_MINUTE)
        carillon("jobs", "create", "b", *EVERY_MINUTE)
        carillon("jobs", "edit", "b", "--priority", "low")
        carillon("jobs", "delete", "b")
        keys = [request.headers["Idempotency-Key"] for request in api.sent if request.method != "GET"]
        assert len(keys) == len(set(keys)) == 4
