"""``GET /attempts``: a tenant's attempts, by how they ended, by their job and by time."""

from datetime import datetime
from typing import Any

import pytest

from jobs.api.pagination import IdCursorPagination
from jobs.core.pull import MARK
from jobs.models import Attempt
from jobs.models.fields import first_id_since
from tests.factories import HOUR, MINUTE, SECOND, make_attempt, make_job, make_trigger, now
from tests.interfaces.api.caller import Caller, faulty_fields


def found(caller: Caller, query: str = "") -> list[str]:
    answer = caller.get(f"/attempts{query}")
    assert answer.status_code == 200, answer.content
    return [row["id"] for row in answer.json()["results"]]


def text(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")


def failed(caller: Caller, **columns: Any) -> Attempt:
    """An attempt that failed, of a job with these columns."""
    trigger = make_trigger(make_job(caller.tenant, **columns), "dead")
    return make_attempt(trigger, "failed", error_code="exception")


class TestAttempts:
    def test_are_the_tenant_s_own_newest_first(self, owner: Caller, outsider: Caller) -> None:
        own = [failed(owner) for _ in range(3)]
        foreign = failed(outsider)
        make_attempt(make_trigger(make_job(owner.tenant), "succeeded"), "succeeded")
        assert found(owner) == [str(each.id) for each in reversed(own)]
        assert found(owner, "?ordering=created") == [str(each.id) for each in own]
        assert found(outsider) == [str(foreign.id)]
        assert found(owner, f"?job={foreign.job_id}") == []

    @pytest.fixture
    def two(self, owner: Caller) -> dict[str, Any]:
        """One attempt that timed out, and one that failed. Returns the query that finds only the first, by filter."""
        job, other = make_job(owner.tenant, job_type="webhook"), make_job(owner.tenant)
        columns = {"error_code": "timeout", "http_status": 504, "started_at": now() - MINUTE}
        wanted = make_attempt(make_trigger(job, "dead"), "timed_out", **columns)
        make_attempt(make_trigger(other, "dead"), "failed", error_code="http_503", http_status=503)
        return {
            "id": str(wanted.id),
            "state": "timed_out",
            "error_code": "timeout",
            "http_status": "504",
            "job_type": "webhook",
            "job": str(job.id),
            "started_before": text(wanted.started_at + SECOND),
        }

    @pytest.mark.parametrize(
        "name", ["state", "error_code", "http_status", "job_type", "job", "started_before"]
    )
    def test_are_found_by_each_filter(self, owner: Caller, two: dict[str, Any], name: str) -> None:
        assert found(owner, f"?{name}={two[name]}") == [two["id"]]

    def test_are_found_by_all_filters_at_once(self, owner: Caller, two: dict[str, Any]) -> None:
        query = "&".join(f"{name}={value}" for name, value in two.items() if name != "id")
        assert found(owner, f"?{query}") == [two["id"]]
        assert found(owner, f"?{query.replace('504', '503')}") == []
        assert found(owner, f"?{query.replace('=timeout', '=exception')}") == []

    def test_are_found_by_the_database_s_time_whatever_their_workers_clocks_say(self, owner: Caller) -> None:
        """A worker stamps the id of an attempt: here one worker's clock is three minutes ahead, and one's is behind."""
        job, moment = make_job(owner.tenant), now() - HOUR
        ahead, behind = (
            make_attempt(
                make_trigger(job, "running"),
                "failed",
                id=first_id_since(moment + offset),
                started_at=moment,
                error_code="exception",
            )
            for offset in (3 * MINUTE, -3 * MINUTE)
        )
        both = [str(ahead.id), str(behind.id)]
        assert found(owner, f"?started_after={text(moment)}") == both
        assert found(owner, f"?started_after={text(moment)}&started_before={text(moment + SECOND)}") == both
        assert found(owner, f"?started_before={text(moment)}") == []
        assert found(owner, f"?started_after={text(moment + SECOND)}") == []

    @pytest.mark.parametrize("state", ["succeeded", "started", "stale"])
    def test_without_an_error_are_found_by_their_job(self, owner: Caller, state: str) -> None:
        attempt = make_attempt(make_trigger(make_job(owner.tenant), "running"), state)
        assert found(owner, f"?job={attempt.job_id}&state={state}") == [str(attempt.id)]
        assert found(owner, f"?job={attempt.job_id}") == [str(attempt.id)]
        assert found(owner) == []
        refused = owner.get(f"/attempts?state={state}")
        assert faulty_fields(refused) == {"state"}
        assert "Name a job, too" in refused.json()["errors"][0]["message"]

    def test_of_a_tenant_s_own_type_are_found_by_the_name_it_knows(self, owner: Caller) -> None:
        attempt = failed(owner, job_type=f"invoice.render{MARK}{owner.tenant.id}")
        assert found(owner, "?job_type=invoice.render") == [str(attempt.id)]
        assert found(owner, "?job_type=invoice") == []

    @pytest.mark.parametrize(
        ("query", "field"),
        [
            ("state=broken", "state"),
            ("state=", "state"),
            ("error_code=", "error_code"),
            ("http_status=99", "http_status"),
            ("http_status=600", "http_status"),
            ("http_status=5e2", "http_status"),
            ("job=nightly", "job"),
            ("started_after=yesterday", "started_after"),
            ("started_before=2030-01-01", "started_before"),
            ("reason=exhausted", "reason"),
            ("ordering=name", "ordering"),
            ("page_size=0", "page_size"),
            ("cursor=cD1ub25l", "cursor"),
            ("fields=result", "fields"),
        ],
    )
    def test_that_cannot_be_asked_for_are_refused_by_name(
        self, owner: Caller, query: str, field: str
    ) -> None:
        assert faulty_fields(owner.get(f"/attempts?{query}")) == {field}

    def test_come_in_pages_that_look_at_few_rows(
        self, owner: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(IdCursorPagination, "most_rows", 3)
        job = make_job(owner.tenant)
        states = ["succeeded", "failed", "succeeded", "succeeded", "succeeded", "succeeded", "failed"]
        made = [make_attempt(make_trigger(job, "running"), state) for state in states]
        path, pages = f"/attempts?job={job.id}&state=failed", []
        while path:
            page = owner.get(path.removeprefix("http://testserver")).json()
            pages.append([row["id"] for row in page["results"]])
            path = page["next"]
        assert [each for page in pages for each in page] == [str(made[6].id), str(made[1].id)]
        assert len(pages) == 3


class TestOne:
    def test_has_its_output_and_lists_tell_how_much_there_is(self, owner: Caller) -> None:
        trigger = make_trigger(make_job(owner.tenant), "dead")
        silent = make_attempt(trigger, "failed", error_code="exception")
        spoke = make_attempt(trigger, "failed", number=2, error_code="exception", output="é\u202e\n")
        for path in ("/attempts", f"/triggers/{trigger.id}/attempts", f"/jobs/{trigger.job_id}/attempts"):
            rows = {row["id"]: row for row in owner.get(path).json()["results"]}
            sizes = {key: row["output_bytes"] for key, row in rows.items()}
            assert sizes == {str(silent.id): 0, str(spoke.id): 6}
            assert not any("output" in row for row in rows.values())
        shown = owner.get(f"/attempts/{spoke.id}").json()
        assert (shown.pop("output"), shown) == ("é\u202e\n", rows[str(spoke.id)])
        assert owner.get(f"/attempts/{silent.id}").json()["output"] == ""
        assert owner.get(f"/attempts/{spoke.id}?fields=output").json() == {"output": "é\u202e\n"}

    def test_is_not_to_be_had_in_a_list(self, owner: Caller) -> None:
        assert faulty_fields(owner.get("/attempts?fields=output")) == {"fields"}

    def test_that_there_is_not_is_not_found(self, owner: Caller, outsider: Caller) -> None:
        attempt = failed(owner)
        assert owner.get(f"/attempts/{attempt.id}").status_code == 200
        theirs = outsider.get(f"/attempts/{attempt.id}")
        assert theirs.status_code == 404
        assert str(attempt.job_id) not in theirs.content.decode()
