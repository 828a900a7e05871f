"""``/livez`` and ``/readyz``, for whatever restarts and routes. No key, no particulars of a failure.

Ready means the database answers: the API works without the broker, which is then named as away. Each question waits
two seconds at most. The database is asked for the time, which tells how far off this process's clock is.
"""

import psycopg
from django.db import connection
from django.http import HttpRequest, JsonResponse

from jobs import limits
from jobs.api.problems import without_line
from jobs.broker import broker_answers, carriers, differences
from jobs.explain.wellbeing import limits_exist
from jobs.store import db
from jobs.store.insight.clocks import Asking, Reading

_PATIENCE_SECONDS = 2


def livez(_: HttpRequest) -> JsonResponse:
    """This process answers."""
    return JsonResponse({"status": "ok"})


def readyz(_: HttpRequest) -> JsonResponse:
    """200 ``ok``, 200 ``degraded`` (broker away, or rates with no Redis), or 503 ``unavailable`` (database away).

    ``rates``: away when there are limits and Redis (or Postgres, where there is none) does not count them; ``reason``
    then says what that means. With RabbitMQ as the broker ``carriers`` says where messages, rates and wake-ups go, and
    ``differences`` which settings have no effect.
    ``clock_offset_seconds``: how far this process's clock is ahead of the database's; null while that is away.
    """
    clock, broker = database_answers(), broker_answers()
    rates = clock is None or not limits_exist() or limits.counted_together(patience_seconds=_PATIENCE_SECONDS)
    status = "ok" if clock and broker and rates else "degraded" if clock else "unavailable"
    report: dict[str, object] = {
        "status": status,
        "database": _word(clock is not None),
        "broker": _word(broker),
        "rates": _word(rates),
        "clock_offset_seconds": round(clock.offset_seconds, 3) if clock else None,
    }
    if not rates:
        report["reason"] = limits.ALONE
    if (used := carriers())["messages"] == "rabbitmq":
        report |= {"carriers": used, "differences": differences()}
    return without_line(JsonResponse(report, status=200 if clock else 503))


def _word(answers: bool) -> str:
    return "ok" if answers else "away"


def database_answers() -> Reading | None:
    """What its answer says of our clock; None when there is none within two seconds or so."""
    # A connection of its own: the process's pooled one may hang on a network that is gone.
    bounded = {
        "connect_timeout": _PATIENCE_SECONDS,
        "tcp_user_timeout": _PATIENCE_SECONDS * 1000,
    }
    own = ("cursor_factory", "context", "prepare_threshold")
    parameters = {
        name: value for name, value in connection.get_connection_params().items() if name not in own
    }
    try:
        with psycopg.connect(**parameters | bounded) as probe:
            # By SQL, in this transaction: poolers refuse it as a startup parameter.
            probe.execute(f"SET LOCAL statement_timeout = '{_PATIENCE_SECONDS}s'")
            with Asking() as asking:
                [(at,)] = probe.execute("SELECT clock_timestamp()").fetchall()
            db.note_answer()
            return asking.reading(at)
    except psycopg.Error as error:
        db.note_away(error, what="readyz")
        return None
