"""The catalogue of bad input: the input, the field that the refusal names, and its words for the right input.

Each row has its number in the catalogue. ``DEFINITIONS`` are sent both to the API and through the command line.
``right`` is a part of the message.
"""

from typing import Any

CRON = {"type": "cron", "cron": "0 2 * * *"}
EVERY = {"type": "interval", "every_seconds": 60}
HOOK: dict[str, Any] = {"url": "https://a.example/"}
LATE = "9999-12-31T23:59:59-12:00"
BEYOND = "between -2^53 and 2^53"
YEARS = "between 2000-01-01"
OFFSET = "Must be a time like"

ROWS = {
    1: "NUL in a JSON key, a JSON value, a text, a filter",
    2: "lone surrogates",
    3: "NaN, Infinity, 1e999",
    4: "nesting of 100,000",
    5: "integers of 5,000 digits, 10^4000, 2^31, 10^30",
    6: "9999-12-31T23:59:59-12:00",
    7: "infinity and years before Christ",
    8: "the years 9999 and 1 in another zone; durations beyond all bounds",
    9: "10 kB of text in an index",
    10: "time zones that are traps",
    11: "numbers that only look like some",
    12: "cron of six fields",
    13: "cron that only one parser takes",
    14: "cron that parsers read differently",
    15: "cron that never fires, or other than it looks",
    16: "headers",
    17: "repeated keys, retries without end, no back-off, jitter, the past, deceptive names",
}


def _schedule(**fields: Any) -> dict[str, Any]:
    return {"schedule": CRON | fields}


def _once(run_at: str) -> dict[str, Any]:
    return {"schedule": {"type": "once", "run_at": run_at}}


def _every(**fields: Any) -> dict[str, Any]:
    return {"schedule": EVERY | fields}


def _hook(**headers: Any) -> dict[str, Any]:
    return {"job_type": "webhook", "payload": HOOK | {"headers": headers}}


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


#: (row, changes to a definition that is accepted, field, right)
DEFINITIONS: list[tuple[int, dict[str, Any], str, str]] = [
    (1, {"payload": {"a": {"b": ["\0"]}}}, "payload.a.b[0]", "remove it"),
    (1, {"payload": {"a\0": 1}}, 'payload["a\\u0000"]', "remove it"),
    (1, {"name": "a\0b"}, "name", "remove it"),
    (1, {"concurrency_key": "a\0b"}, "concurrency_key", "remove it"),
    (1, {"labels": {"a": "b\0"}}, "labels.a", "remove it"),
    (1, _schedule(cron="0 2 * * *\0"), "schedule.cron", "remove it"),
    (1, {"notify": {"on": ["dead"], "url": "https://a.example/\0"}}, "notify.url", "remove it"),
    (2, {"payload": {"a": "\ud800"}}, "payload.a", "remove it"),
    (2, {"payload": {"\udfff": 1}}, 'payload["\\udfff"]', "remove it"),
    (2, {"name": "a\ud800"}, "name", "remove it"),
    (4, {"payload": {"deep": _nested(33)}}, "payload", "flatten it"),
    (5, {"payload": {"n": 2**53 + 1}}, "payload.n", BEYOND),
    (5, {"payload": {"n": 10**99}}, "payload.n", BEYOND),
    (5, {"payload": {"n": -1e300}}, "payload.n", BEYOND),
    (5, {"max_concurrent": 2**31}, "max_concurrent", "from 1 to 1,000,000"),
    (5, {"max_catchup": 2**31}, "max_catchup", "from 1 to 10,000"),
    (5, {"pause_after_failures": 2**31}, "pause_after_failures", "from 1 to 100"),
    (5, {"retry_policy": {"max_attempts": 2**31}}, "retry_policy.max_attempts", "from 1 to 100"),
    (6, _once(LATE), "schedule.run_at", YEARS),
    (6, _every(ends_at=LATE), "schedule.ends_at", YEARS),
    (6, _every(starts_at=LATE), "schedule.starts_at", YEARS),
    (7, _once("infinity"), "schedule.run_at", OFFSET),
    (7, _once("-infinity"), "schedule.run_at", OFFSET),
    (7, _once("0044-03-15 00:00:00+00 BC"), "schedule.run_at", OFFSET),
    (7, _every(ends_at="infinity"), "schedule.ends_at", OFFSET),
    (8, _once("9999-12-31T23:59:59+14:00"), "schedule.run_at", YEARS),
    (8, _every(starts_at="0001-01-01T00:00:00+14:00"), "schedule.starts_at", YEARS),
    (8, _every(every_seconds=1e15), "schedule.every_seconds", "from 1 to 31,622,400"),
    (8, {"timeout_seconds": 1e15}, "timeout_seconds", "from 0.1 to 86,400"),
    (8, {"misfire_grace_seconds": 1e15}, "misfire_grace_seconds", "from 1 to 604,800"),
    (8, {"catchup_window_seconds": 1e15}, "catchup_window_seconds", "from 0 to 31,622,400"),
    (8, {"retry_policy": {"delays_seconds": [1e15]}}, "retry_policy.delays_seconds[0]", "from 0.1 to 604,800"),
    (9, {"name": "x" * 10_000}, "name", "at most 200"),
    (9, {"concurrency_key": "x" * 10_000}, "concurrency_key", "at most 200"),
    (9, {"labels": {"a": "x" * 10_000}}, "labels.a", "1 to 63"),
    (9, {"job_type": "x" * 10_000}, "job_type", "Known: "),
    *[
        (10, _schedule(timezone=zone), "schedule.timezone", right)
        for zone, right in (
            *((trap, "use a name such as Europe/Berlin") for trap in (
                "localtime", "posixrules", "Factory", "right/UTC", "posix/UTC", "../etc/passwd", "/etc/localtime",
                "Mars/Olympus", "",
            )),
            ("utc ", "did you mean UTC?"),
            ("UTC+1", "did you mean UTC?"),
            ("Europe/Berlin\0", "remove it"),
        )
    ],
    (11, _every(every_seconds="\uff11\uff12"), "schedule.every_seconds", "Must be a number"),
    (11, {"max_concurrent": "1_000"}, "max_concurrent", "Must be a whole number"),
    (11, {"max_concurrent": "\u00b2"}, "max_concurrent", "Must be a whole number"),
    (11, {"max_concurrent": True}, "max_concurrent", "Must be a whole number"),
    (11, {"timeout_seconds": "60"}, "timeout_seconds", "Must be a number"),
    (11, _schedule(cron="\uff11\uff12 2 * * *"), "schedule.cron", "Only printable ASCII"),
    (12, _schedule(cron="0 0 2 * * *"), "schedule.cron", "five fields"),
    (12, _schedule(cron="0 2 * * * 2030"), "schedule.cron", "five fields"),
    (13, _schedule(cron="R R * * *"), "schedule.cron", "write the number, or *"),
    (13, _schedule(cron="5-1 * * * *"), "schedule.cron", "write 5-59,0-1"),
    (13, _schedule(cron="0 0 1 1 * 2030 0"), "schedule.cron", "five fields"),
    (13, _schedule(cron="@reboot"), "schedule.cron", "@daily"),
    (13, _schedule(cron="H * * * *"), "schedule.cron", "write the number, or *"),
    (14, _schedule(cron="0 0 29 2 1#5"), "schedule.cron", "joined with OR"),
    (15, _schedule(cron="0 0 30 2 *"), "schedule.cron", "never"),
    (15, _schedule(cron="*/99 * * * *"), "schedule.cron", "from 1 to 59"),
    (15, _schedule(cron="0 2 * * *" + " " * 100), "schedule.cron", "100"),
    (16, _hook(**{"X-A": "a\r\nX-B: b"}), "payload.headers", "printable ASCII"),
    (16, _hook(**{"X-A": "a\nb"}), "payload.headers", "printable ASCII"),
    (16, _hook(**{"X-A\r\nX-B": "b"}), "payload.headers", "letters, digits and -"),
    (16, _hook(Host="b.example"), "payload.headers", "Host"),
    (16, _hook(**{"Content-Length": "1"}), "payload.headers", "Content-Length"),
    (16, _hook(**{"X-A": "日"}), "payload.headers", "printable ASCII"),
    (17, {"retry_policy": {"max_attempts": 10**9}}, "retry_policy.max_attempts", "from 1 to 100"),
    (17, {"retry_policy": {"initial_delay_seconds": 0}}, "retry_policy.initial_delay_seconds", "from 0.1"),
    (17, {"retry_policy": {"factor": 0}}, "retry_policy.factor", "from 1 to 100"),
    (17, _every(jitter_seconds=61), "schedule.jitter_seconds", "shorter than every_seconds"),
    (17, _once("2020-01-01T00:00:00Z"), "schedule.run_at", "give a future time"),
    (17, {"name": "a\u202eb"}, "name", "remove it"),
    (17, {"name": "a\u2066b"}, "name", "remove it"),
    (17, {"after": ["nightly"]}, "after", "the fields are"),
]  # fmt: skip
