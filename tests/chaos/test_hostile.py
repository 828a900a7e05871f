"""The hostile tenant without a cluster: its program and the probe against a real web server, and the judge on both."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from chaos import history
from chaos.history import Attacked, Probed, Record
from chaos.load.hostile import ATTACKS, HOSTILE
from stage.waiting import wait_until
from tenants.actions import create_api_key
from tests.chaos.histories import (
    T0,
    a_fault,
    a_job,
    a_run,
    delivered_at,
    executed,
    firing,
    judged,
    kinds,
    without,
)
from tests.cluster.web import ROOT, Web, serving
from tests.factories import make_tenant

JOB = a_job()


def a_key(slug: str) -> str:
    tenant = make_tenant(slug=slug)
    return create_api_key(tenant=tenant, name="tests", scopes=("read", "write", "worker"))[1]


def beginning(web: Web, module: str, file: Path, key: str) -> "subprocess.Popen[bytes]":
    argv = [sys.executable, "-m", module, f"http://{web.address}/api/v1", str(file)]
    return subprocess.Popen(argv, cwd=ROOT, env=os.environ | {"API_KEY": key})


@pytest.mark.django_db(transaction=True)
class TestTheHostileTenant:
    def test_tries_everything_with_its_key_and_gets_no_500_while_another_is_timed(
        self, tmp_path: Path
    ) -> None:
        report, probes = tmp_path / "report", tmp_path / "probes"
        with serving(tmp_path / "web.log") as web:
            probing = beginning(web, "chaos.load.probe", probes, a_key("other"))
            wait_until(lambda: probes.exists() and probes.read_text(), timeout=30)
            attacking = beginning(web, "chaos.load.hostile", report, a_key(HOSTILE))
            wait_until(lambda: _inside(web.process.pid) > 400, timeout=60)
            with pytest.raises(subprocess.TimeoutExpired):
                attacking.wait(6)
            attacking.send_signal(signal.SIGTERM)
            assert attacking.wait(60) == 0
            probing.kill()
            probing.wait()
        answers = json.loads(report.read_text())["answers"]
        assert answers.keys() == set(ATTACKS)
        said = {answer for counts in answers.values() for answer in counts}
        assert not {answer for answer in said if answer.isdigit() and answer >= "500" and answer != "503"}
        assert answers["jobs"].keys() == {"200", "201"}
        for refused in ("others' queues", "complaints"):
            assert answers[refused]["400"]
            assert "201" not in answers[refused]
        assert "429" in answers["waiting claims"]
        calls = [line for line in history.read(probes) if isinstance(line, Probed)]
        assert {(call.path, call.status) for call in calls} >= {("/jobs", 200), ("/livez", 200)}


def _inside(pid: int) -> int:
    """How many connections a web server, by its pid, and its processes hold."""
    server = psutil.Process(pid)
    return sum(
        connection.status == psutil.CONN_ESTABLISHED
        for process in [server, *server.children(recursive=True)]
        for connection in process.net_connections("tcp")
    )


FAULT = {"affects": [HOSTILE], "name": "it"}


def attacked(
    *,
    answers: dict[str, Any] | None = None,
    limits: dict[str, Any] | None = None,
    count: int = 200,
    **probes: Any,
) -> list[Record]:
    """A history with fault 29 in it, and ``count`` probes of each path while it lasted."""
    answers = {"complaints": {"400": 7}} if answers is None else answers
    of_api = [probe(19.5 + 20 * n / count, **probes) for n in range(count)]
    return [*a_fault(29, 19, 45, **FAULT), Attacked(id="it", answers=answers, limits=limits or {}), *of_api]


def probe(at: float, *, seconds: float = 0.02, status: int = 200, path: str = "/jobs") -> Probed:
    return Probed(at=T0 + at, path=path, seconds=seconds, status=status)


class TestAnothersCalls:
    def test_are_answered_within_a_quarter_of_a_second(self) -> None:
        verdict = judged(a_run(JOB, more=[probe(1), *attacked(seconds=0.249)]))
        assert verdict.passed, verdict.breaches
        assert [round(each.api_p99_seconds, 3) for each in verdict.figures] == [0.02, 0.249]
        [breach] = judged(a_run(JOB, more=[probe(1), *attacked(seconds=0.251)])).breaches
        assert (breach.kind, breach.job) == ("slow api", "GET /jobs")
        assert "within 251 ms, 250 ms allowed" in breach.detail
        assert "20 ms before" in breach.detail

    def test_may_take_longer_once_in_a_hundred_times(self) -> None:
        assert judged(a_run(JOB, more=[*attacked(), probe(20, seconds=8)])).passed
        assert kinds(a_run(JOB, more=[*attacked(), *[probe(20, seconds=8)] * 3])) == {"slow api"}

    def test_that_failed_are_never_answered(self) -> None:
        [breach] = judged(a_run(JOB, more=[*attacked(), *[probe(20, status=503)] * 3])).breaches
        assert "3 failed" in breach.detail

    def test_that_fail_by_more_than_one_in_ten_show_that_the_api_is_away(self) -> None:
        assert kinds(a_run(JOB, more=[*attacked(), *[probe(20, status=0)] * 22])) == {"slow api"}
        assert kinds(a_run(JOB, more=[*attacked(), *[probe(20, status=0)] * 23])) == {"no api"}

    def test_are_judged_by_path(self) -> None:
        few = [probe(20, path="/livez", seconds=1)] * 2
        livez = [probe(20, path="/livez")] * 98
        [breach] = judged(a_run(JOB, more=[*attacked(count=1000), *few, *livez])).breaches
        assert breach.job == "GET /livez"

    def test_show_nothing_when_they_are_few_or_none(self) -> None:
        assert kinds(a_run(JOB, more=attacked(count=99))) == {"slow api"}
        assert kinds(a_run(JOB, more=attacked(count=0))) == {"slow api"}
        # Probes are timed beside no other fault.
        assert judged(a_run(JOB, more=a_fault(25, 19, 45, affects=["bad"]))).passed


class TestAHostileTenant:
    def test_is_told_of_by_what_it_was_answered(self) -> None:
        excused = judged(a_run(JOB, more=attacked(limits={"webhooks at once": [3, 5]}))).excused
        assert excused["of the hostile tenant's complaints: 400 7 times"] == 7
        assert excused["webhooks at once of the hostile tenant's, 5 allowed"] == 3

    @pytest.mark.parametrize(
        ("answer", "passes"), [("500", False), ("502", False), ("503", True), ("ClientError", True)]
    )
    def test_brings_about_no_error_of_ours(self, answer: str, passes: bool) -> None:
        found = kinds(a_run(JOB, more=attacked(answers={"schemas": {"200": 5, answer: 1}})))
        assert found == (set() if passes else {"answer"})

    def test_gets_nothing_beyond_its_limits(self) -> None:
        assert judged(a_run(JOB, more=attacked(limits={"webhooks at once": [5, 5]}))).passed
        assert kinds(a_run(JOB, more=attacked(limits={"webhooks at once": [6, 5]}))) == {"quota"}

    def test_makes_99_in_100_firings_of_others_late_by_no_more_than_two_seconds(self) -> None:
        def with_late(number: int) -> set[str]:
            jobs = [a_job(f"job{n}", every=5) for n in range(40)]
            records = a_run(*jobs, more=attacked())
            for job in jobs[:number]:
                records = without(
                    records,
                    lambda line, job=job: (
                        delivered_at(firing(5, every=5))(line) and line.job_id == job.job_id
                    ),  # type: ignore[union-attr]
                )
                records += executed(job, firing(5, every=5), late=2.5)
            return kinds(records)

        assert with_late(1) == set()
        assert with_late(8) == {"shared fate"}

    def test_excuses_nothing_of_others(self) -> None:
        assert kinds(without(a_run(JOB, more=attacked()), delivered_at(firing(3)))) == {"lost"}
        again = executed(JOB, firing(3), late=5, attempt=2, fence=2)
        assert kinds([*a_run(JOB, more=attacked()), *again]) == {"executed twice"}
