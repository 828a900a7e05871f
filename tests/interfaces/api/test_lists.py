"""Lists: filters, labels, orderings, chosen fields, and pages that look at no more rows than they may."""

from typing import Any

import pytest

from jobs.api.pagination import IdCursorPagination
from jobs.api.views import jobs as views
from jobs.models import Job, JobLabel
from tests.factories import HOUR, make_job, make_trigger, now
from tests.interfaces.api.caller import Caller, faulty_fields, noop_job

PROD = {"env": "prod", "team": "billing"}


def names(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return [row["name"] for row in response.json()["results"]]


def walk(caller: Caller, path: str, direction: str = "next") -> list[list[Any]]:
    """The results of every page from ``path`` on."""
    pages: list[list[Any]] = []
    while path:
        page = caller.get(path.removeprefix("http://testserver")).json()
        pages.append(page["results"])
        path = page[direction]
    return pages


class TestLabels:
    def test_are_written_read_merged_and_taken_away(self, owner: Caller) -> None:
        job = owner.post("/jobs", noop_job(labels=PROD)).json()
        path = f"/jobs/{job['id']}"
        assert job["labels"] == PROD
        assert owner.patch(path, {"labels": {"env": None, "tier": "1"}}).json()["labels"] == {
            "team": "billing",
            "tier": "1",
        }
        assert owner.patch(path, {"labels": {}})["ETag"] == '"2"'
        assert owner.patch(path, {"labels": None}).json()["labels"] == {}

    def test_change_no_firing(self, owner: Caller) -> None:
        job = Job.objects.get(id=owner.post("/jobs", noop_job()).json()["id"])
        ahead = make_trigger(job, scheduled_for=now() + HOUR)
        assert owner.patch(f"/jobs/{job.id}", {"labels": PROD})["ETag"] == '"2"'
        ahead.refresh_from_db()

    @pytest.mark.parametrize(
        ("labels", "fields"),
        [
            ([], {"labels"}),
            ("env=prod", {"labels"}),
            ({"": "x"}, {"labels"}),
            ({"a b": "x"}, {"labels.a b"}),
            ({"ä": "x"}, {"labels.\\xe4"}),
            ({"a=b": "x", "ok": ""}, {"labels.a=b", "labels.ok"}),
            ({"a": 1, "b": None, "c": {}, "d": "x" * 64}, {f"labels.{key}" for key in "abcd"}),
            ({"a": "x,y"}, {"labels.a"}),
            ({"a": "x\n"}, {"labels.a"}),
            ({f"k{n}": "x" for n in range(33)}, {"labels"}),
        ],
    )
    def test_that_are_none_are_refused_by_key(self, owner: Caller, labels: Any, fields: set[str]) -> None:
        assert faulty_fields(owner.post("/jobs", noop_job(labels=labels))) == fields
        assert not Job.objects.exists()

    def test_find_jobs(self, owner: Caller, outsider: Caller) -> None:
        for name, labels in (("a", PROD), ("b", {"env": "prod"}), ("c", {"env": "test"}), ("d", {})):
            make_job(owner.tenant, name=name, labels=labels)
        make_job(outsider.tenant, name="foreign", labels=PROD)
        assert names(owner.get("/jobs?labels=env=prod")) == ["b", "a"]
        assert names(owner.get("/jobs?labels=team=billing,env=prod")) == ["a"]
        assert names(owner.get("/jobs?labels=env=none")) == []
        assert names(owner.get("/jobs?labels=env=prod&ordering=name")) == ["a", "b"]
        assert names(owner.get("/jobs?labels=env=prod&name_prefix=b")) == ["b"]

    @pytest.mark.parametrize("given", ["env", "env=", "=x", "env=prod,", "env=pr od", "%00=x"])
    def test_that_cannot_be_asked_for_are_refused(self, owner: Caller, given: str) -> None:
        assert faulty_fields(owner.get(f"/jobs?labels={given}")) == {"labels"}

    def test_are_found_by_what_they_are_now_however_they_were_written(self, owner: Caller) -> None:
        """The table of labels says the same as the jobs, after edits, deletions and statements past the API."""
        one, two = (make_job(owner.tenant, labels=PROD) for _ in range(2))
        Job.objects.filter(id=one.id).update(labels={"env": "test"})
        assert self.found() == {
            (one.id, "env", "test"),
            (two.id, "env", "prod"),
            (two.id, "team", "billing"),
        }
        owner.delete(f"/jobs/{two.id}")
        assert self.found() == {(one.id, "env", "test")}
        Job.objects.update(deleted_at=None)
        assert len(self.found()) == 3
        Job.objects.filter(id=one.id).delete()
        assert {job_id for job_id, _, _ in self.found()} == {two.id}

    @staticmethod
    def found() -> set[tuple[Any, str, str]]:
        return set(JobLabel.objects.values_list("job_id", "key", "value"))


class TestJobs:
    def test_are_found_by_how_their_names_begin_in_the_order_of_names(self, owner: Caller) -> None:
        for name in ("b%1", "b_2", "b2", "B1", "a", "b", "bä", "c"):
            make_job(owner.tenant, name=name)
        make_job(owner.tenant, name="b-gone", deleted_at=now())
        assert names(owner.get("/jobs?name_prefix=b")) == ["b", "b%1", "b2", "b_2", "bä"]
        assert names(owner.get("/jobs?name_prefix=b%25")) == ["b%1"]
        assert names(owner.get("/jobs?name_prefix=b&ordering=-name"))[0] == "bä"
        assert faulty_fields(owner.get("/jobs?name_prefix=b&ordering=created")) == {"ordering"}

    @pytest.mark.parametrize("ordering", ["created", "-created", "name", "-name"])
    def test_are_walked_in_any_order_both_ways(self, owner: Caller, ordering: str) -> None:
        jobs = [make_job(owner.tenant, name=name) for name in ("b", "ä", "A", "c", "a b")]
        key = (lambda job: job.name) if ordering.endswith("name") else (lambda job: job.id)
        expected = [job.name for job in sorted(jobs, key=key, reverse=ordering.startswith("-"))]
        pages = walk(owner, f"/jobs?page_size=2&ordering={ordering}")
        assert [row["name"] for page in pages for row in page] == expected
        last = owner.get(f"/jobs?page_size=3&ordering={ordering}").json()["next"]
        back = walk(owner, last, "previous")
        assert [row["name"] for page in reversed(back) for row in page] == expected

    def test_are_found_by_when_they_were_created_and_edited(self, owner: Caller) -> None:
        make_job(owner.tenant, name="old", created_at=now() - 5 * HOUR)
        make_job(owner.tenant, name="new", created_at=now() - HOUR, updated_at=now())
        middle = f"{now() - 2 * HOUR:%Y-%m-%dT%H:%M:%SZ}"
        for query, found in (
            ("created_after", "new"),
            ("created_before", "old"),
            ("updated_after", "new"),
            ("updated_before", "old"),
        ):
            assert names(owner.get(f"/jobs?{query}={middle}")) == [found]

    @pytest.mark.parametrize("query", ["ordering=id", "ordering=", "ordering=-payload", "created_after=x"])
    def test_are_asked_for_in_words_that_are_known(self, owner: Caller, query: str) -> None:
        assert faulty_fields(owner.get(f"/jobs?{query}")) == {query.partition("=")[0]}

    @pytest.mark.parametrize("cursor", ["cD1hJTAwYg==", "cD0" + "YWFh" * 100])
    def test_refuse_a_cursor_that_names_no_name(self, owner: Caller, cursor: str) -> None:
        assert faulty_fields(owner.get(f"/jobs?ordering=name&cursor={cursor}")) == {"cursor"}


class TestFields:
    def test_are_those_asked_for_in_lists_and_alone(self, owner: Caller) -> None:
        trigger = make_trigger(make_job(owner.tenant, name="n"), "dead")
        for path, known in (
            ("/jobs", "name,version"),
            ("/triggers", "state,fence"),
            ("/dead-letters", "state,fence"),
            (f"/jobs/{trigger.job_id}/triggers", "state,fence"),
        ):
            [row] = owner.get(f"{path}?fields={known}").json()["results"]
            assert ",".join(sorted(row, key=known.index)) == known
        for path in (f"/jobs/{trigger.job_id}", "/jobs/by-name/n"):
            answer = owner.get(f"{path}?fields=name,next_fire_at")
            assert (answer.json().keys(), answer["ETag"]) == ({"name", "next_fire_at"}, '"1"')
        assert owner.get(f"/triggers/{trigger.id}?fields=reason").json() == {"reason": "exhausted"}

    def test_that_are_not_asked_for_are_not_computed(
        self, owner: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_job(owner.tenant)
        monkeypatch.setitem(views._COMPUTED, "clock_change", None)
        assert owner.get("/jobs?fields=id,next_fire_at").status_code == 200

    @pytest.mark.parametrize("given", ["", "bogus", "id,", "id, name", "id,id,payload.url"])
    def test_that_there_are_not_are_refused(self, owner: Caller, given: str) -> None:
        assert faulty_fields(owner.get(f"/jobs?fields={given}")) == {"fields"}
        assert faulty_fields(owner.get(f"/jobs/{make_job(owner.tenant).id}?fields={given}")) == {"fields"}

    def test_are_no_matter_of_a_write(self, owner: Caller) -> None:
        assert faulty_fields(owner.post("/jobs?fields=id", noop_job())) == {"fields"}


class TestAPage:
    """Filters without an index look at a bounded number of rows."""

    @pytest.fixture(autouse=True)
    def near_reach(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(IdCursorPagination, "most_rows", 5)

    @pytest.fixture
    def jobs(self, owner: Caller) -> list[Job]:
        """Twenty-two, of which the 1st, 12th, 13th and 21st are webhooks."""
        kinds = ["webhook" if n in (0, 11, 12, 20) else "noop" for n in range(22)]
        return [make_job(owner.tenant, job_type=kind, name=f"j{n:02}") for n, kind in enumerate(kinds)]

    @pytest.mark.parametrize("ordering", ["created", "-created", "name", "-name"])
    @pytest.mark.parametrize("size", [1, 2, 3])
    def test_may_be_empty_and_leads_on_so_that_all_are_found_once(
        self, owner: Caller, jobs: list[Job], ordering: str, size: int
    ) -> None:
        pages = walk(owner, f"/jobs?job_type=webhook&ordering={ordering}&page_size={size}")
        found = [row["name"] for page in pages for row in page]
        assert found == sorted(("j00", "j11", "j12", "j20"), reverse=ordering.startswith("-"))
        assert [] in pages

    def test_leads_back_as_well(self, owner: Caller, jobs: list[Job]) -> None:
        path = "/jobs?job_type=webhook&page_size=2"
        while following := owner.get(path).json()["next"]:
            path = following.removeprefix("http://testserver")
        back = walk(owner, path, "previous")
        assert [row["name"] for page in reversed(back) for row in page] == ["j20", "j12", "j11", "j00"]

    def test_of_a_filter_that_an_index_leads_to_is_found_at_once(
        self, owner: Caller, jobs: list[Job]
    ) -> None:
        Job.objects.filter(name__in=("j00", "j01")).update(status="paused", labels=PROD)
        for query in ("status=paused", "labels=env=prod", "name=j00", "name_prefix=j00"):
            page = owner.get(f"/jobs?{query}").json()
            assert page["results"][-1]["name"] == "j00"
            assert page["next"] is None

    def test_of_triggers_is_bounded_too(self, owner: Caller) -> None:
        job = make_job(owner.tenant)
        for n in range(12):
            make_trigger(job, "dead" if n % 6 == 0 else "succeeded")
        pages = walk(owner, "/triggers?state=dead")
        assert [len(page) for page in pages] == [0, 1, 1]

    def test_without_filters_asks_no_more_than_before(
        self, owner: Caller, jobs: list[Job], django_assert_max_num_queries: Any
    ) -> None:
        owner.get("/jobs")
        with django_assert_max_num_queries(3):
            assert len(owner.get("/jobs").json()["results"]) == 22
