"""A tenant whose every secret is a canary, and all the places in which a value might leak."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from django.contrib.auth.models import User

from jobs.models import Trigger
from tenants.vault.secrets import put_secret
from tenants.vault.signing import rotate_signing_secret
from tests.attacks.canaries import Ears, Logs, ServersLog, broker, columns, in_redis
from tests.engine.conftest import Perform
from tests.factories import make_job, make_tenant, make_trigger
from tests.handlers.conftest import Receiver
from tests.interfaces.api.caller import Caller

PAYLOAD = "a payload's credential"


class World:
    """A tenant with canaries in each place that holds one by right, and the answers that it and others were given."""

    def __init__(self, *, receiver: Receiver, perform: Perform, logs: Logs) -> None:
        self.receiver, self.perform, self.logs = receiver, perform, logs
        self.redis, self.ears, self.server = broker(), Ears(broker()), ServersLog()
        self.tenant = make_tenant()
        self.caller = Caller(self.tenant, scopes=("read", "write"))
        self.worker = Caller(self.tenant, scopes=("worker",))
        self.outsider = Caller(make_tenant(), scopes=("read", "write", "worker"))
        self.stored: list[str] = []
        self.queued: list[str] = []
        self.pages: list[str] = []
        self.answers: list[str] = []
        self.others_answers: list[str] = []
        self.error_answers: list[str] = []
        self.canaries = {
            "a secret in a URL": 'UrL1%41b&c/mY+<n"L!',
            "a secret in a header": 'heAd3r%42&x/7Q+<d"R!',
            "a secret in a notice's URL": 'n0tIce%43&y/8W+<e"T!',
            PAYLOAD: "p4Yl0ad%44/9E+f!",
            "an operator's password": 'Op3rat0r%45&/1R+<g"P!',
            "an API key": str(self.caller.token).split("_", 2)[2],
            "a worker's key": str(self.worker.token).split("_", 2)[2],
            "a signing secret": rotate_signing_secret(tenant=self.tenant).removeprefix("whsec_"),
        }
        here = [f"127.0.0.1:{receiver.port}"]
        for name, kind in (("url", "a URL"), ("header", "a header"), ("notice", "a notice's URL")):
            put_secret(tenant=self.tenant, name=name, value=self.canaries[f"a secret in {kind}"], hosts=here)
        self.jobs = [make_job(self.tenant, name="plain")]
        User.objects.create_superuser("ops", password=self.canaries["an operator's password"])

    def do(self, deed: Callable[["World"], None]) -> None:
        """Do it, and read Redis at once: what counts rates there is gone before the last deed of a slow day ends."""
        deed(self)
        self.stored.append(in_redis(self.redis))

    def webhook(self, path: str, *, part: int = 0, **columns: Any) -> Trigger:
        """A queued firing of a webhook with a canary in each place of its payload that may have one."""
        credential = self.canaries[PAYLOAD]
        payload = {
            "url": self.receiver.url(
                f"/{path}/{{{{secret:url}}}}?part={part}&k={{{{secret:url}}}}&p={quote(credential)}"
            ),
            "headers": {"Authorization": "Bearer {{secret:header}}", "X-Own": credential},
            "body": {"password": credential},
        }
        notice = self.receiver.url("/echo/{{secret:notice}}")
        job = make_job(
            self.tenant,
            job_type="webhook",
            payload=payload,
            notify={"on": ["dead"], "url": notice},
            watched=True,
            retry_policy={"max_attempts": 1},
        )
        self.jobs.append(job)
        return make_trigger(job, "queued", **columns)

    def ask(self, caller: Caller, method: str, path: str, body: Any = None, **headers: str) -> Any:
        answer = caller.call(method, path, body, **headers)
        text = answer.content.decode() + str(answer.headers)
        (self.others_answers if caller is self.outsider else self.answers).append(text)
        if answer.status_code >= 400:
            self.error_answers.append(text)
        return answer

    def places(self) -> dict[str, str]:
        """All places to search, by name."""
        broadcast, shown = self.ears.texts()
        return {
            **dict(self.logs.texts()),
            **columns(),
            "Postgres' log": self.server.text(),
            "Redis": "\n".join([*self.stored, in_redis(self.redis)]),
            "Redis, queued": "\n".join(self.queued),
            "Redis, broadcast": broadcast,
            "Flower": "\n".join(shown),
            "console": "\n".join(self.pages),
            "answers": "\n".join(self.answers),
            "answers to another tenant": "\n".join(self.others_answers),
            "error answers": "\n".join(self.error_answers),
        }
