"""A new release's migrations run while the release before it works: they lock no table long, and break no statement.

They are held to the rules of CONTRIBUTING, "Migrations", from the first release on: earlier ones made empty tables.
"""

import json
import os
import re
from pathlib import Path

import pytest

from jobs.store.insight import schema
from stage.processes import run_python
from tests.upgrades.databases import own_database
from tests.upgrades.rules import broken_rules

ROOT = Path(__file__).resolve().parents[2]
#: The last migrations of the first release, 0.1.0.
BASELINE = {"jobs": "0007_operators_on_the_trail", "tenants": "0001_initial"}
#: The migration before, so that there is always one to be read.
EARLIER = ("jobs.0006_audit_trail", "tenants.0001_initial")
RELEASED = re.findall(r"^## \[(\d.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
#: A statement, and the rule that it breaks.
BAD = {
    "ALTER TABLE jobs_job ADD COLUMN x bigint NOT NULL": "adding-required-field",
    # Django adds a field with a default in this way. But the release before inserts rows without the field.
    "ALTER TABLE jobs_job ALTER COLUMN x DROP DEFAULT": "ban-drop-default",
    "ALTER TABLE jobs_job ADD COLUMN x uuid DEFAULT gen_random_uuid()": "adding-field-with-default",
    "ALTER TABLE jobs_job ADD COLUMN x bigint GENERATED ALWAYS AS (id + 1) STORED": "adding-field-with-default",
    "ALTER TABLE jobs_job ALTER COLUMN x TYPE bigint": "changing-column-type",
    "ALTER TABLE jobs_job ALTER COLUMN x SET NOT NULL": "adding-not-nullable-field",
    "ALTER TABLE jobs_job ADD CONSTRAINT c CHECK (x > 0)": "constraint-missing-not-valid",
    "ALTER TABLE jobs_job ADD CONSTRAINT f FOREIGN KEY (x) REFERENCES t (id)": "adding-foreign-key-constraint",
    "ALTER TABLE jobs_job ADD CONSTRAINT u UNIQUE (x)": "disallowed-unique-constraint",
    "CREATE INDEX i ON jobs_job (x)": "require-concurrent-index-creation",
    "CREATE INDEX i ON ONLY jobs_attempt (x)": "require-concurrent-index-creation",
    "CREATE INDEX CONCURRENTLY i ON jobs_job (x)": "ban-concurrent-index-creation-in-transaction",
    "DROP INDEX i": "require-concurrent-index-deletion",
    "REINDEX TABLE jobs_job": "require-concurrent-reindex",
    "ALTER TABLE jobs_job DROP COLUMN x": "ban-drop-column",
    "DROP TABLE jobs_job": "ban-drop-table",
    "ALTER TABLE jobs_job RENAME COLUMN x TO y": "renaming-column",
    "ALTER TABLE jobs_job RENAME TO y": "renaming-table",
    "LOCK TABLE jobs_job IN EXCLUSIVE MODE": "locks-a-whole-table",
    "VACUUM (FULL) jobs_job": "locks-a-whole-table",
    "CLUSTER jobs_job USING i": "locks-a-whole-table",
    "ALTER TABLE jobs_job SET UNLOGGED": "locks-a-whole-table",
    "ALTER TABLE jobs_job SET TABLESPACE fast": "locks-a-whole-table",
    "UPDATE jobs_job SET x = 1": "changes-rows-in-one-transaction",
    "DELETE FROM jobs_job WHERE x = 1": "changes-rows-in-one-transaction",
}
GOOD = (
    "ALTER TABLE jobs_job ADD COLUMN x bigint NULL",
    "ALTER TABLE jobs_job ADD COLUMN x bigint DEFAULT 0 NOT NULL",
    "ALTER TABLE jobs_job ADD CONSTRAINT c CHECK (x > 0) NOT VALID",
    "CREATE TABLE jobs_new (id bigint PRIMARY KEY, x integer NOT NULL)",
    "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
    "CREATE TRIGGER t AFTER INSERT ON jobs_job FOR EACH ROW EXECUTE FUNCTION f()",
    "INSERT INTO jobs_new (id, x) VALUES (1, 2)",
    "-- squawk-ignore require-concurrent-index-creation\nCREATE INDEX i ON ONLY jobs_attempt (x)",
)
GOOD_OUTSIDE_A_TRANSACTION = (
    "CREATE INDEX CONCURRENTLY i ON jobs_job (x)",
    "DROP INDEX CONCURRENTLY i",
    "ALTER TABLE jobs_job VALIDATE CONSTRAINT c",
    "UPDATE jobs_job SET x = 1 WHERE id IN (SELECT id FROM jobs_job WHERE x IS NULL LIMIT 1000)",
)


class TestTheRules:
    @pytest.mark.parametrize(("statement", "rule"), BAD.items())
    def test_find_what_locks_a_table_or_breaks_the_release_before(self, statement: str, rule: str) -> None:
        assert f"{rule}: {statement}" in broken_rules([statement], atomic=True)

    @pytest.mark.parametrize("statement", GOOD)
    def test_let_through_what_does_neither(self, statement: str) -> None:
        assert broken_rules([statement], atomic=True) == []

    @pytest.mark.parametrize("statement", GOOD_OUTSIDE_A_TRANSACTION)
    def test_let_through_what_goes_step_by_step(self, statement: str) -> None:
        assert broken_rules([statement], atomic=False) == []

    def test_let_through_what_is_done_to_a_new_table(self) -> None:
        new = (
            "CREATE TABLE jobs_new (id bigint PRIMARY KEY, x integer NOT NULL)",
            "CREATE INDEX i ON jobs_new (x)",
            "ALTER TABLE jobs_new ADD CONSTRAINT c CHECK (x > 0)",
            'ALTER TABLE "jobs_new" SET UNLOGGED',
        )
        assert broken_rules(new, atomic=True) == []

    def test_find_a_constraint_that_is_validated_where_it_is_added(self) -> None:
        both = (
            "ALTER TABLE jobs_job ADD CONSTRAINT c CHECK (x > 0) NOT VALID",
            "ALTER TABLE jobs_job VALIDATE CONSTRAINT c",
        )
        assert broken_rules(both, atomic=True)

    def test_name_the_statement_among_others(self) -> None:
        found = broken_rules(["INSERT INTO t\nVALUES (1)", "DROP INDEX i", "SELECT 1"], atomic=True)
        assert found == ["require-concurrent-index-deletion: DROP INDEX i"]

    def test_let_a_migration_that_contracts_drop_and_nothing_else(self) -> None:
        drops = [
            statement for statement, rule in BAD.items() if rule in ("ban-drop-column", "ban-drop-table")
        ]
        assert len(drops) == 2
        assert broken_rules(drops, atomic=True, contracts=True) == []
        assert broken_rules(["ALTER TABLE jobs_job RENAME TO y"], atomic=True, contracts=True)


@pytest.mark.slow
class TestMigrations:
    @pytest.fixture(scope="class")
    @classmethod
    def told(cls) -> list[dict[str, object]]:
        with own_database() as url:
            environment = {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "scheduler_project.settings"}
            done = run_python(
                ["-m", "tests.upgrades.statements", *EARLIER], environment=os.environ | environment
            )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def test_are_all_read(self, told: list[dict[str, object]]) -> None:
        later = {
            f"{app}.{name}" for app, name in schema.on_disk() if app in BASELINE and name > BASELINE[app]
        }
        assert {str(one["migration"]) for one in told} - {"jobs." + BASELINE["jobs"]} == later
        assert "CREATE FUNCTION carillon_trail_given()" in json.dumps(told[0]["statements"])

    def test_after_the_first_release_break_no_rule(self, told: list[dict[str, object]]) -> None:
        broken = {
            one["migration"]: broken_rules(
                one["statements"], atomic=one["atomic"], contracts=bool(one["contracts"])
            )
            for one in told
        }
        assert {name: rules for name, rules in broken.items() if rules} == {}

    def test_that_drop_name_the_release_that_used_it_no_more(self, told: list[dict[str, object]]) -> None:
        assert [
            one["migration"] for one in told if one["contracts"] and one["contracts"] not in RELEASED
        ] == []
