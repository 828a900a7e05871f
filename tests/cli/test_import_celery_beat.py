"""``carillon import-celery-beat``: rows in tables as django-celery-beat 2 has them, and the result of each."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
import yaml
from django.db import connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from jobs.models import Job
from tenants.models import Tenant
from tests.cli.conftest import ApiAdapter, Command

SCHEMA = "celery_beat_of_tests"
TABLES = """
CREATE TABLE django_celery_beat_intervalschedule (id int PRIMARY KEY, every int, period varchar(24));
CREATE TABLE django_celery_beat_crontabschedule (id int PRIMARY KEY, minute varchar(240), hour varchar(96),
    day_of_month varchar(124), month_of_year varchar(64), day_of_week varchar(64), timezone varchar(63));
CREATE TABLE django_celery_beat_clockedschedule (id int PRIMARY KEY, clocked_time timestamptz);
CREATE TABLE django_celery_beat_periodictask (id int GENERATED ALWAYS AS IDENTITY, name varchar(200), task varchar(200),
    args text DEFAULT '[]', kwargs text DEFAULT '{}', queue varchar(200), exchange varchar(200),
    routing_key varchar(200),
    headers text DEFAULT '{}', priority int, expires timestamptz, expire_seconds int, one_off bool DEFAULT false,
    start_time timestamptz, enabled bool DEFAULT true, interval_id int, crontab_id int, solar_id int, clocked_id int);
INSERT INTO django_celery_beat_intervalschedule VALUES (1, 10, 'minutes'), (2, 5, 'microseconds');
INSERT INTO django_celery_beat_crontabschedule VALUES (1, '0, 30', '2', '*', '*', 'mon-fri', 'Asia/Kolkata'),
    (2, '0', '0', '13', '*', '5', 'UTC');
INSERT INTO django_celery_beat_clockedschedule VALUES (1, '2090-01-01 00:00+01'), (2, '2020-01-01 00:00+00');
"""


@pytest.fixture
def beat(db: None) -> Iterator[Any]:
    """``beat(name="…", interval_id=1)`` adds a periodic task; ``beat.url`` is the place of the tables."""
    settings = connection.settings_dict
    place = make_conninfo(
        host=settings["HOST"], port=settings["PORT"], user=settings["USER"], password=settings["PASSWORD"],
        dbname=settings["NAME"], options=f"-csearch_path={SCHEMA}",
    )  # fmt: skip
    with psycopg.connect(place, autocommit=True) as rows:
        rows.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; CREATE SCHEMA {SCHEMA}; {TABLES}")

        def add(**columns: Any) -> None:
            columns = {"task": "reports.build"} | columns
            marks = ", ".join(["%s"] * len(columns))
            rows.execute(
                f"INSERT INTO django_celery_beat_periodictask ({', '.join(columns)}) VALUES ({marks})",
                list(columns.values()),
            )

        add.url = f"postgresql://?{'&'.join(_query(place))}"  # type: ignore[attr-defined]
        yield add
        rows.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


def _query(place: str) -> Iterator[str]:
    for name, value in conninfo_to_dict(place).items():
        if value:
            yield f"{name}={quote(str(value), safe='')}"


class TestImport:
    def test_makes_definitions_that_can_be_applied(
        self, carillon: Command, beat: Any, api: ApiAdapter, tmp_path: Path
    ) -> None:
        beat(name="often", interval_id=1, args="[1]", kwargs='{"a": null}', start_time="2080-01-01 00:00+00")
        beat(name="weekdays at 2", crontab_id=1, queue="reports", expires="2085-01-01 00:00+00")
        beat(name="once", clocked_id=1, one_off=True)
        printed = carillon("import-celery-beat", "--database-url", beat.url, "--queue", "default")
        assert printed.code == 0, printed.err
        often, once, weekdays = yaml.safe_load(printed.out)["jobs"]
        assert often["schedule"] == {
            "type": "interval",
            "every_seconds": 600,
            "starts_at": "2080-01-01T00:00:00Z",
        }
        assert often["payload"] == {
            "task": "reports.build",
            "args": [1],
            "kwargs": {"a": None},
            "queue": "default",
        }
        assert once["schedule"] == {"type": "once", "run_at": "2089-12-31T23:00:00Z"}
        assert weekdays["schedule"] == {
            "type": "cron", "cron": "0,30 2 * * mon-fri", "timezone": "Asia/Kolkata", "ends_at": "2085-01-01T00:00:00Z",
        }  # fmt: skip
        assert weekdays["payload"]["queue"] == "reports"
        assert api.sent == []
        file = tmp_path / "jobs.yaml"
        file.write_text(printed.out)
        # The team's queues are none of the tenant's own: an operator allows the tenant to write to them.
        refused = carillon("apply", "-f", str(file))
        assert refused.code == 1
        assert "payload.queue" in refused.err
        Tenant.objects.update(queues=["default", "reports"])
        applied = carillon("apply", "-f", str(file))
        assert applied.code == 0, applied.err
        assert set(Job.objects.values_list("name", flat=True)) == {"often", "once", "weekdays at 2"}

    @pytest.mark.parametrize(
        ("columns", "words"),
        [
            ({"solar_id": 1}, "REFUSED: Follows the sun"),
            ({"interval_id": 2}, "REFUSED: Every 5 microseconds"),
            ({"crontab_id": 2}, "REFUSED: 0 0 13 * 5: celery-beat fires where both"),
            ({"clocked_id": 2, "one_off": True}, "REFUSED: Was for 2020-01-01T00:00:00Z"),
            ({"interval_id": 1, "one_off": True}, "REFUSED: Fires once"),
            ({}, "REFUSED: Has no schedule"),
            ({"interval_id": 1, "args": "[1"}, "REFUSED: args is not JSON"),
            ({"interval_id": 1, "kwargs": "[]"}, "REFUSED: kwargs must be a JSON object"),
            ({"interval_id": 1, "task": "celery.backend_cleanup"}, "REFUSED: celery.backend_cleanup is"),
            ({"interval_id": 1, "routing_key": "a.b"}, "REFUSED: Goes by exchange"),
            ({"interval_id": 1, "enabled": False}, "note: Is disabled"),
            ({"interval_id": 1, "priority": 5}, "note: Priority 5"),
            ({"interval_id": 1, "expire_seconds": 5}, "note: expire_seconds (5)"),
            ({"interval_id": 1, "headers": '{"a": 1}'}, "note: Its headers are left out"),
        ],
    )
    def test_explains_what_cannot_be_a_job_or_not_the_same(
        self, carillon: Command, beat: Any, columns: dict[str, Any], words: str
    ) -> None:
        beat(name="odd", **columns)
        printed = carillon("import-celery-beat", "--database-url", beat.url)
        assert f"'odd': {words}" in printed.err
        assert printed.code == ("REFUSED" in words)

    def test_says_where_there_is_nothing_to_read(
        self, carillon: Command, beat: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        elsewhere = beat.url.replace(SCHEMA, "pg_catalog")
        ended = carillon("import-celery-beat", "--database-url", elsewhere)
        assert (ended.code, "has no tables of django-celery-beat" in ended.err) == (2, True)
        assert carillon("import-celery-beat", "--database-url", "mysql://x/y").code == 2
        assert carillon("import-celery-beat", "--database-url", "postgresql://127.0.0.1:9/x").code == 5
