"""A witness in the database: a trigger that notes the writer of each row, and whether the write was its to make.

Processes are told apart by ``application_name`` (``tests.cluster.crew``). It sees the writes that were committed,
whichever process made them. It leaves out a charge that a worker takes back for a lease that it lost (``absolve``):
that write is the worker's to make, and changes nothing that decides who has the trigger.
"""

from tests.cluster.stage import Stage

INSTALL = """
CREATE TABLE leadership (who text, holder text, term bigint, at timestamptz);
CREATE FUNCTION note_leadership() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO leadership VALUES (current_setting('application_name'), NEW.holder, NEW.term, clock_timestamp());
    RETURN NULL;
END $$;
CREATE TRIGGER witness AFTER INSERT OR UPDATE ON jobs_lease FOR EACH ROW EXECUTE FUNCTION note_leadership();

CREATE TABLE written (at timestamptz, who text, noun text, id uuid, was text, becomes text, hand text, leader text);
CREATE FUNCTION note_write() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    was jsonb := CASE TG_OP WHEN 'UPDATE' THEN to_jsonb(OLD) END;
    becomes jsonb := to_jsonb(NEW);
BEGIN
    IF was -> 'crash_count' <> becomes -> 'crash_count'
            AND was - '{crash_count,budget_start}'::text[] = becomes - '{crash_count,budget_start}'::text[] THEN
        RETURN NULL;
    END IF;
    INSERT INTO written SELECT clock_timestamp(), current_setting('application_name'), TG_TABLE_NAME, NEW.id,
        was ->> 'state', becomes ->> 'state', was ->> 'worker',
        (SELECT holder FROM jobs_lease WHERE name = 'leader');
    RETURN NULL;
END $$;
CREATE TRIGGER witness AFTER INSERT OR UPDATE ON jobs_trigger FOR EACH ROW EXECUTE FUNCTION note_write();
CREATE TRIGGER witness AFTER UPDATE ON jobs_job FOR EACH ROW EXECUTE FUNCTION note_write();
"""
#: A beat writes as long as no other has taken the lease after it.
OUT_OF_LEADERSHIP = """
SELECT at::text, who, noun, was, becomes, leader FROM written
WHERE who LIKE 'beat%' AND NOT EXISTS (SELECT 1 FROM leadership WHERE leadership.who = written.who AND holder = leader)
"""
#: A worker claims or hands back queued triggers, and writes triggers that it runs itself.
OUT_OF_HAND = """
SELECT at::text, who, noun, was, becomes, hand FROM written
WHERE who LIKE 'worker%' AND noun = 'jobs_trigger'
  AND NOT (was = 'queued' OR was = 'running' AND hand LIKE who || '@%')
"""


def install(stage: Stage) -> None:
    """Note every write from now on."""
    stage.execute(INSTALL)


def assert_nobody_wrote_what_was_not_theirs(stage: Stage) -> str:
    """No write of a deposed leader, none of a worker under a fence that had moved on. Returns the figures."""
    for offence in (OUT_OF_LEADERSHIP, OUT_OF_HAND):
        found = stage.query(offence)
        assert not found, f"{len(found)} writes, e.g. {found[:3]}"
    [(count,)] = stage.query("SELECT count(*) FROM written WHERE who LIKE 'beat%' OR who LIKE 'worker%'")
    [(late,)] = stage.query("SELECT count(*) FROM jobs_attempt WHERE state = 'stale'")
    return f"{count} writes, each by whom it was for; {late} late outcomes refused"
