"""The console's first sentence while real processes are frozen, a tenant floods or a target is down.

It names the cause, and says when that is over.
"""

import re
import signal
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from http.cookiejar import CookieJar

import pytest

from stage.processes import family, signalled
from stage.waiting import wait_until
from tests.cluster.conftest import Servers
from tests.cluster.crew import Crew
from tests.cluster.receiver import Receiver
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster
#: An operator must be told within this time; a busy machine gets more.
TOLD_WITHIN_SECONDS = 10
OVER_WITHIN_SECONDS = 30
#: The freeze before is over; its cost is told of for an hour.
CALM = "^(?!Not well)"
#: More than one slot does in a minute.
FLOOD = 1_000
PASSWORD = "a password of the watcher's".replace(" ", "-")
MAKE_OPERATOR = f"""
from django.contrib.auth.models import User
User.objects.create_superuser("watcher", password="{PASSWORD}")
"""


class Watcher:
    """An operator who looks at the overview."""

    def __init__(self, stage: Stage) -> None:
        stage.manage("shell", "-c", MAKE_OPERATOR)
        self._url = stage.url
        self._cookies = CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._cookies))
        self._ask("/admin/login/")
        [token] = [cookie.value for cookie in self._cookies if cookie.name == "csrftoken"]
        form = {"username": "watcher", "password": PASSWORD, "csrfmiddlewaretoken": token, "next": "/livez"}
        self._ask("/admin/login/", data=urllib.parse.urlencode(form).encode())

    def reads(self) -> str:
        """The sentence, and the trouble that is over, as text."""
        page = self._ask("/admin/overview/figures/")
        told = re.findall(r'id="(?:sentence|over)">(.*?)</(?:h2|p)>', page, re.DOTALL)
        return re.sub("<[^>]+>", "", " ".join(told))

    def waits_for(self, pattern: str, *, within: float) -> None:
        wait_until(
            lambda: re.search(pattern, self.reads()),
            timeout=within,
            what=f"{pattern!r} to be told",
            every_seconds=0.5,
        )

    def tells(self, verb: str, worker: str) -> None:
        """Press the worker's button, and confirm."""
        path = f"/admin/workers/{verb}/?{urllib.parse.urlencode({'worker': worker})}"
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', self._ask(path))
        assert found is not None
        self._ask(path, data=urllib.parse.urlencode({"csrfmiddlewaretoken": found[1]}).encode())

    def _ask(self, path: str, data: bytes | None = None) -> str:
        request = urllib.request.Request(f"{self._url}{path}", data=data, headers={"Referer": self._url})
        return self._opener.open(request, timeout=20).read().decode()


@pytest.fixture(scope="module")
def stage(servers: Servers) -> Iterator[Stage]:
    breakers = {"CARILLON_BREAKER_FAILURES": "3", "CARILLON_BREAKER_WAIT_SECONDS": "1"}
    with Stage(beats=0, workers=0, **servers.urls(), CARILLON_LOG_LEVEL="WARNING", **breakers) as stage:
        yield stage


@pytest.fixture(scope="module")
def crew(stage: Stage) -> Iterator[Crew]:
    key = stage.create_tenant()
    for number in range(4):
        body = {"name": f"job-{number}", "job_type": "noop", "payload": {}}
        stage.call(
            "POST", "/jobs", key=key, body=body | {"schedule": {"type": "interval", "every_seconds": 1}}
        )
    with Crew(stage, beats=1, workers=1) as crew:
        yield crew


@pytest.fixture(scope="module")
def watcher(stage: Stage, crew: Crew) -> Watcher:
    watcher = Watcher(stage)
    watcher.waits_for("^All is well: .* leads", within=60)
    return watcher


class TestTheSentence:
    @pytest.mark.parametrize(
        ("frozen", "cause"),
        [
            ("worker1", "starts nothing of noop|slots of noop are taken|has not been heard of"),
            ("beat1", "has not renewed its lease|no beat leads"),
            ("redis", "the broker does not answer"),
        ],
    )
    def test_names_what_is_frozen_and_says_when_it_is_over(
        self, frozen: str, cause: str, stage: Stage, servers: Servers, crew: Crew, watcher: Watcher
    ) -> None:
        def send(number: signal.Signals) -> None:
            if frozen == "redis":
                signalled(family(servers.redis.pid or 0), number)
            elif number is signal.SIGSTOP:
                crew.freeze(frozen)
            else:
                crew.thaw(frozen)

        send(signal.SIGSTOP)
        try:
            watcher.waits_for(f"^(Not well|Needs a look): .*({cause})", within=TOLD_WITHIN_SECONDS)
        finally:
            send(signal.SIGCONT)
        over: Callable[[str], str] = lambda told: f"^(?!Not well).*Over since .*({told})|^All is well"  # noqa: E731
        watcher.waits_for(over(cause), within=OVER_WITHIN_SECONDS)

    def test_names_the_tenant_that_floods(self, stage: Stage, crew: Crew, watcher: Watcher) -> None:
        """Its work is so short that most looks find its slots free."""
        key = stage.create_tenant("umbrella", "--max-in-flight", "1")
        watcher.waits_for(CALM, within=OVER_WITHIN_SECONDS)
        job = {"job_type": "noop", "schedule": {"type": "immediate"}, "payload": {"sleep_ms": 50}}
        stage.call("POST", "/jobs/bulk", key=key, body={"jobs": [job] * FLOOD})
        cause = "tenant umbrella waits for its own limit, its cap of 1 in flight is full"
        watcher.waits_for(f"^Needs a look: {cause}", within=TOLD_WITHIN_SECONDS)
        others = "job_type = 'noop' AND tenant_id = (SELECT id FROM tenants_tenant WHERE slug = 'acme')"
        late = f"{others} AND state = 'pending' AND due_at < clock_timestamp() - interval '5 seconds'"
        assert stage.query(f"SELECT id FROM jobs_trigger WHERE {late}") == []
        stage.call("POST", "/operations", key=key, body={"verb": "cancel_triggers", "filter": {}})
        watcher.waits_for(f"^(?!Needs a look: {cause}).*Over since .*{cause}", within=OVER_WITHIN_SECONDS)

    def test_names_the_target_that_is_down(self, stage: Stage, crew: Crew, watcher: Watcher) -> None:
        receiver = Receiver()
        target = urllib.parse.urlsplit(receiver.url).netloc
        receiver.close()
        key = stage.create_tenant("globex")
        stage.manage("update_tenant", "globex", "--circuit-breaker")
        watcher.waits_for(CALM, within=OVER_WITHIN_SECONDS)
        for number in range(4):
            body = {"name": f"hook-{number}", "job_type": "webhook", "payload": {"url": receiver.url}}
            body |= {
                "retry_policy": {"max_attempts": 1},
                "schedule": {"type": "interval", "every_seconds": 1},
            }
            stage.call("POST", "/jobs", key=key, body=body)
        cause = f"calls of {re.escape(target)} by tenant globex fail"
        watcher.waits_for(f"^Needs a look: {cause}", within=TOLD_WITHIN_SECONDS)
        back = Receiver(port=int(target.rpartition(":")[2]))
        try:
            watcher.waits_for(f"^(?!Needs a look: {cause}).*Over since .*{cause}", within=OVER_WITHIN_SECONDS)
            wait_until(lambda: len(back.deliveries) > 1, what="what waited goes on")
        finally:
            back.close()
            stage.call("POST", "/operations", key=key, body={"verb": "pause", "filter": {}})


class TestAWorker:
    def test_that_is_told_so_takes_nothing_more_takes_work_again_and_stops(
        self, stage: Stage, crew: Crew, watcher: Watcher
    ) -> None:
        [(name,)] = stage.query("SELECT name FROM jobs_worker")
        watcher.tells("quiet", name)
        wait_until(
            lambda: stage.query("SELECT queues FROM jobs_worker") == [([],)],
            30,
            what="it says that it is quiet",
        )
        watcher.waits_for("^Not well: no worker serves noop", within=TOLD_WITHIN_SECONDS)
        watcher.tells("resume", name)
        watcher.waits_for("^(?!Not well).*Over since .*no worker serves noop", within=OVER_WITHIN_SECONDS)
        watcher.tells("stop", name)
        wait_until(lambda: crew.ended() == ["worker1"], 60, what="it has ended")
        kinds = stage.query(
            "SELECT object_id, actor, changes FROM jobs_change WHERE object_id LIKE 'worker%' ORDER BY id"
        )
        assert [(of, who, list(changes)) for of, who, changes in kinds] == [
            (f"worker {name}", "watcher", told) for told in (["queues"], ["queues"], ["process"])
        ]  # fmt: skip
