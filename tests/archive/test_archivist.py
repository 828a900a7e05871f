"""Partitions past retention are archived, and only then dropped, even if a step fails or a process dies meanwhile."""

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from jobs.core.errors import Conflict
from jobs.engine.steps.archivist import Archivist
from jobs.models import Attempt
from jobs.store import archive, partitions
from jobs.store.archive import Damaged, Manifest, Place
from stage.waiting import wait_until
from tests import factories
from tests.archive.conftest import RETENTION, add_rows
from tests.engine.conftest import Beat, broker, make_beat

__all__ = ("broker", "make_beat")
pytestmark = pytest.mark.django_db


def turn(archivist: Archivist) -> None:
    archivist.step.hurry()
    archivist.step.turn(None)


def run(archivist: Archivist) -> None:
    """Run the archivist until it rests."""
    turn(archivist)
    while archivist.step.more:
        turn(archivist)


def finish(archivist: Archivist) -> None:
    """Run it until all is archived and dropped: a lock, such as autovacuum's, lets it rest before."""

    def finished() -> bool:
        run(archivist)
        return not partitions.past(partitions.EVENTS, before=factories.now() - RETENTION)

    wait_until(finished, timeout=20, what="all that is past to be dropped")


def there_is(table: str) -> bool:
    return bool(query(f"SELECT to_regclass('{table}') IS NOT NULL")[0][0])


def query(statement: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def manifest_of(url: str, partition: str) -> Manifest:
    [found] = manifests_of(url, partition)
    return found


def manifests_of(url: str, partition: str) -> list[Manifest]:
    found, damaged = Place(url).manifests()
    assert not damaged
    return [each for each in found if each.partition == partition]


class Kept(NamedTuple):
    """``path``: the file of its rows."""

    place: Place
    manifest: Manifest
    path: Path


class TestAPartition:
    def test_is_archived_dropped_and_restored_row_by_row(self, url: str, past: str) -> None:
        rows = query(f"SELECT * FROM {past} ORDER BY id")
        finish(Archivist(url, retention=RETENTION))
        assert not there_is(past)
        place, manifest = Place(url), manifest_of(url, past)
        assert manifest.rows == len(rows) == 1203
        archive.verify(manifest, place)
        name = archive.restore(manifest, place)
        assert name == f"restored_{past}_{manifest.token}"
        assert query(f"SELECT * FROM {name} ORDER BY id") == rows
        assert not Attempt.objects.exists()

    def test_of_events_is_too(self, url: str, past: str) -> None:
        event = partitions.past(partitions.EVENTS, before=factories.now() - RETENTION)[0]
        rows = query(f"SELECT * FROM {event.name} ORDER BY xid, id")
        assert rows
        finish(Archivist(url, retention=RETENTION))
        name = archive.restore(manifest_of(url, event.name), Place(url))
        assert query(f"SELECT * FROM {name} ORDER BY xid, id") == rows

    def test_is_dropped_by_no_other_chore_of_the_leader(
        self, past: str, url: str, make_beat: Callable[..., Beat]
    ) -> None:
        steps = make_beat(archive_url=url).cycle.steps
        steps["partitions"].turn(None)
        assert there_is(past)
        assert "archive" in steps
        assert "archive" not in make_beat().cycle.steps

    def test_that_is_within_retention_is_left_alone(self, url: str, past: str) -> None:
        run(Archivist(url, retention=2 * RETENTION))
        assert there_is(past)
        assert Place(url).manifests() == ([], [])

    def test_is_archived_from_the_start_where_a_leader_died_over_it(self, url: str, past: str) -> None:
        dying = Archivist(url, retention=RETENTION)
        turn(dying)
        turn(dying)
        assert manifests_of(url, past) == []
        del dying
        finish(Archivist(url, retention=RETENTION))
        archive.verify(manifest_of(url, past), Place(url))
        assert not there_is(past)

    def test_is_archived_by_two_at_once_of_which_one_was_frozen(self, url: str, past: str) -> None:
        frozen = Archivist(url, retention=RETENTION)
        turn(frozen)
        finish(Archivist(url, retention=RETENTION))
        run(frozen)
        assert frozen.step.figures().failures == 1  # it would next read rows that are gone
        archive.verify(manifest_of(url, past), Place(url))

    def test_is_archived_beside_itself_where_a_leader_died_before_it_was_dropped(
        self, url: str, past: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(partitions, "drop_one", lambda _: False)
            run(Archivist(url, retention=RETENTION))
        assert there_is(past)
        finish(Archivist(url, retention=RETENTION))
        place = Place(url)
        first, second = manifests_of(url, past)
        assert first.sha256 == second.sha256
        for each in (first, second):
            archive.verify(each, place)

    def test_that_somebody_locks_is_dropped_later_and_not_archived_again(
        self, url: str, past: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        archivist = Archivist(url, retention=RETENTION)
        with monkeypatch.context() as patched:
            patched.setattr(partitions, "drop_one", lambda _: False)
            run(archivist)
        assert there_is(past)
        finish(archivist)
        assert not there_is(past)
        assert len(manifests_of(url, past)) == 1

    def test_stays_where_it_cannot_be_written(
        self, past: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "archive").write_text("no directory")
        archivist = Archivist(f"file://{tmp_path}/archive", retention=RETENTION)
        turn(archivist)
        assert archivist.step.figures().failures == 1
        assert there_is(past)
        assert "step failed" in caplog.text
        (tmp_path / "archive").unlink()
        finish(archivist)
        assert not there_is(past)

    def test_stays_where_the_bucket_is_gone(self, past: str, bucket_of: Any) -> None:
        archivist = Archivist(bucket_of().replace("carillon-", "other-"), retention=RETENTION)
        run(archivist)
        assert archivist.step.figures().failures == 1
        assert there_is(past)

    def test_that_grew_meanwhile_is_archived_once_more(self, url: str, past: str) -> None:
        archivist = Archivist(url, retention=RETENTION)
        turn(archivist)
        add_rows(1, row_id=f"'{UUID(int=0)}'")  # among those that are written already
        run(archivist)
        assert there_is(past)
        finish(archivist)
        assert not there_is(past)
        assert [each.rows for each in manifests_of(url, past)] == [1203, 1204]


@pytest.fixture
def kept(past: str, tmp_path: Path, settings: Any) -> Kept:
    """An archive in a directory that the commands know."""
    url = f"file://{tmp_path}"
    settings.CARILLON = settings.CARILLON.model_copy(update={"archive_url": url})
    finish(Archivist(url, retention=RETENTION))
    manifest = manifest_of(url, past)
    return Kept(Place(url), manifest, tmp_path / "jobs_attempt" / f"{manifest.name}.jsonl.gz")


class TestAnArchive:
    @staticmethod
    def refused(kept: Kept) -> str:
        """The error of both its readers, verify and restore."""
        with pytest.raises(Damaged) as verified:
            archive.verify(kept.manifest, kept.place)
        with pytest.raises(Damaged) as restored:
            archive.restore(kept.manifest, kept.place)
        assert str(verified.value) == str(restored.value)
        assert not there_is(f"restored_{kept.manifest.partition}_{kept.manifest.token}")
        return str(verified.value)

    def test_of_which_a_row_was_changed_is_refused(self, kept: Kept) -> None:
        lines = gzip.decompress(kept.path.read_bytes())
        kept.path.write_bytes(gzip.compress(lines.replace(b'"number":1,', b'"number":2,', 1)))
        assert "not those that were written" in self.refused(kept)

    def test_of_which_a_row_is_gone_is_refused(self, kept: Kept) -> None:
        lines = gzip.decompress(kept.path.read_bytes()).splitlines(keepends=True)
        kept.path.write_bytes(gzip.compress(b"".join(lines[1:])))
        assert "1,202 rows, and 1,203 were written" in self.refused(kept)

    def test_that_was_cut_short_is_refused(self, kept: Kept) -> None:
        kept.path.write_bytes(kept.path.read_bytes()[:-100])
        assert "cannot be unpacked" in self.refused(kept)

    def test_whose_rows_are_gone_is_refused(self, kept: Kept) -> None:
        kept.path.unlink()
        assert "its rows are gone" in self.refused(kept)

    def test_is_not_restored_over_what_is_there(self, kept: Kept) -> None:
        name = archive.restore(kept.manifest, kept.place)
        with pytest.raises(Conflict, match=f"DROP TABLE {name}"):
            archive.restore(kept.manifest, kept.place)
        assert query(f"SELECT count(*) FROM {name}") == [(1203,)]

    def test_with_a_column_that_is_gone_is_not_restored_without_it(self, kept: Kept) -> None:
        older = replace(kept.manifest, columns=kept.manifest.columns | {"mood": "text"})
        with pytest.raises(Damaged, match="jobs_attempt no longer has mood"):
            archive.restore(older, kept.place)

    def test_of_before_a_column_came_is_restored(self, kept: Kept) -> None:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE jobs_attempt ADD COLUMN mood text NOT NULL DEFAULT 'calm'")
        name = archive.restore(kept.manifest, kept.place)
        assert query(f"SELECT count(*) FROM {name}") == [(1203,)]


class TestTheCommand:
    def test_lists_what_there_is(self, kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
        call_command("archive", "list")
        [line] = [each for each in capsys.readouterr().out.splitlines() if kept.manifest.name in each]
        assert "1,203 rows" in line
        assert f"{kept.manifest.since} to {kept.manifest.until}" in line
        call_command("archive", "list", "--json")
        told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert kept.manifest.sha256 in {each["sha256"] for each in told}

    def test_verifies_all_or_those_that_are_named(
        self, kept: Kept, capsys: pytest.CaptureFixture[str]
    ) -> None:
        call_command("archive", "verify")
        assert f"{kept.manifest.name}: 1,203 rows as they were written" in capsys.readouterr().out
        kept.path.unlink()
        with pytest.raises(SystemExit) as ended:
            call_command("archive", "verify", kept.manifest.name)
        assert ended.value.code == 1
        assert capsys.readouterr().out.startswith("DAMAGED: ")

    def test_restores(self, kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
        call_command("archive", "restore", kept.manifest.name)
        assert f"restored_{kept.manifest.partition}_{kept.manifest.token}" in capsys.readouterr().out

    def test_refuses_what_there_is_not(self, kept: Kept, settings: Any) -> None:
        with pytest.raises(CommandError, match=r"no archive jobs_attempt_1\.1; `archive list`"):
            call_command("archive", "restore", "jobs_attempt_1.1")
        settings.CARILLON = settings.CARILLON.model_copy(update={"archive_url": ""})
        with pytest.raises(CommandError, match="CARILLON_ARCHIVE_URL: is not set"):
            call_command("archive", "list")

    def test_says_which_manifest_is_none_and_goes_on(
        self, kept: Kept, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (kept.path.parent / "jobs_attempt_x.1.json").write_text("{}")
        with pytest.raises(SystemExit):
            call_command("archive", "verify")
        told = capsys.readouterr().out
        assert "jobs_attempt_x.1.json is not the manifest" in told
        assert f"{kept.manifest.name}: 1,203 rows as they were written" in told

    def test_says_that_the_place_is_away(self, kept: Kept, settings: Any, bucket_of: Any) -> None:
        bucket = bucket_of().replace("carillon-", "other-")
        settings.CARILLON = settings.CARILLON.model_copy(update={"archive_url": bucket})
        with pytest.raises(CommandError, match="CARILLON_ARCHIVE_URL: s3://other-"):
            call_command("archive", "list")
