"""``/livez`` and ``/readyz``, for tools that restart processes and route calls. No key, no particulars of a failure.

Ready means that the database answers and has this release's schema or a newer one. The API works without the broker,
which is then named as away. Each question waits two seconds at most. The database is asked for the time, which tells
how far off this process's clock is, and for its migrations.
"""

from typing import NamedTuple

import psycopg
from django.db import connection
from django.http import HttpRequest, JsonResponse

from jobs import limits
from jobs.api.problems import without_line
from jobs.broker import broker_answers, carriers, differences
from jobs.explain.wellbeing import limits_exist
from jobs.own_session import parameters
from jobs.store import db, replica
from jobs.store.insight import schema
from jobs.store.insight.clocks import Asking, Reading
from jobs.telemetry.release import version

_PATIENCE_SECONDS = 2
_OLDER = "The database's schema is older than this release: run manage.py migrate."


class Answer(NamedTuple):
    """The database's answer: how our clock stands, and how old the schema is beside this release."""

    clock: Reading
    age: schema.Age


def livez(_: HttpRequest) -> JsonResponse:
    """This process answers."""
    return JsonResponse({"status": "ok"})


def readyz(_: HttpRequest) -> JsonResponse:
    """200 ``ok``, 200 ``degraded`` or 503 ``unavailable``, with a report.

    ``degraded``: broker away, rates with no Redis, or a replica that is not used. ``unavailable``: database away or
    too old. ``version``: of the code. ``schema``: ``ok``, ``older`` than the code, or ``newer``, as it is during an
    upgrade. ``rates``: away when there are limits and Redis (or Postgres, where there is none) does not count them.
    ``reason`` explains such a state. With RabbitMQ as the broker, ``carriers`` says where messages, rates and wake-ups
    go, and ``differences`` which settings have no effect. ``clock_offset_seconds``: how far this process's clock is
    ahead of the database's; null while the database is away. ``replica``, where one is set: ``ok``, ``behind``,
    ``away``, ``refused`` or, when a process has just begun, ``unknown``. ``replica_reason`` says why it is not used.
    """
    answer, broker = database_answers(), broker_answers()
    older = answer is not None and answer.age is schema.Age.OLDER
    able = answer is not None and not older
    rates = not able or not limits_exist() or limits.counted_together(patience_seconds=_PATIENCE_SECONDS)
    report: dict[str, object] = {
        "status": "unavailable" if not able else "ok" if broker and rates else "degraded",
        "version": version(),
        "database": _word(answer is not None),
        "schema": answer.age if answer else None,
        "broker": _word(broker),
        "rates": _word(rates),
        "clock_offset_seconds": round(answer.clock.offset_seconds, 3) if answer else None,
    }
    if older or not rates:
        report["reason"] = _OLDER if older else limits.ALONE
    if (follower := replica.condition()) is not None:
        report |= {"replica": follower.word} | (
            {"replica_reason": follower.reason} if follower.reason else {}
        )
        if report["status"] == "ok" and follower.word not in (replica.Word.OK, replica.Word.UNKNOWN):
            report["status"] = "degraded"
    if (used := carriers())["messages"] == "rabbitmq":
        report |= {"carriers": used, "differences": differences()}
    return without_line(JsonResponse(report, status=200 if able else 503))


def _word(answers: bool) -> str:
    return "ok" if answers else "away"


def database_answers() -> Answer | None:
    """The database's answer on our clock and its schema; None when there is no answer within two seconds or so."""
    # A connection of its own: the process's pooled one may hang on a network that is gone.
    bounded = {
        "connect_timeout": _PATIENCE_SECONDS,
        "tcp_user_timeout": _PATIENCE_SECONDS * 1000,
    }
    try:
        with psycopg.connect(**parameters(connection) | bounded) as probe:
            # Set it by SQL, in this transaction: poolers refuse it as a startup parameter.
            probe.execute(f"SET LOCAL statement_timeout = '{_PATIENCE_SECONDS}s'")
            with Asking() as asking:
                [(at,)] = probe.execute("SELECT clock_timestamp()").fetchall()
            age = schema.compare(probe).age
            db.note_answer()
            return Answer(asking.reading(at), age)
    except psycopg.Error as error:
        db.note_away(error, what="readyz")
        return None
