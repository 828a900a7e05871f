-- Records of handlers' effects. Each is written in the handler's own transaction on the handler's own connection, so
-- nothing here may need more than the table. The second writer waits for the first to commit or roll back, and then
-- knows.

-- name: record
-- Say that this effect is being made.
-- index: primary key
-- returns: nothing; one row is affected, or none if the effect was made before
INSERT INTO jobs_effect (trigger_id, key, fence) VALUES (%(trigger_id)s, %(key)s, %(fence)s)
ON CONFLICT (trigger_id, key) DO NOTHING;

-- name: count_duplicate
-- Count a second execution that found the record.
-- locks: the effect's row, waits (worker)
-- index: primary key
UPDATE jobs_effect SET duplicates = duplicates + 1 WHERE trigger_id = %(trigger_id)s AND key = %(key)s;

-- name: duplicates
-- How often an effect of this trigger would have been made again.
-- index: primary key
-- returns: count
SELECT coalesce(sum(duplicates), 0)::int AS count FROM jobs_effect WHERE trigger_id = %(trigger_id)s;
