-- How far a replica is behind its primary, as the two servers tell it, by the primary's clock alone
-- (jobs.store.replica). Neither statement reads a table of ours, so neither needs an index.

-- name: mark
-- Asked of the primary: a place in its log that lies behind everything that was committed by ``at``, and the identity
-- of this cluster and database. If nothing is written, the place stays and the time goes on. At the beginning of a
-- page, the next record comes after the page's header of 24 or 40 bytes, and the replica has replayed up to the page.
-- returns: at, lsn, cluster, database
SELECT at, (lsn - CASE WHEN mod(lsn, page) IN (24, 40) THEN mod(lsn, page) ELSE 0 END)::bigint AS lsn, cluster, database
FROM (SELECT clock_timestamp() AS at, pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS lsn,
             current_setting('wal_block_size')::int AS page,
             (SELECT system_identifier FROM pg_control_system()) AS cluster,
             (SELECT oid::bigint FROM pg_database WHERE datname = current_database()) AS database
      OFFSET 0) AS place;

-- name: standing
-- Asked of the replica: how far it has replayed that log, when the last transaction that it replayed was committed on
-- the primary (null: none yet), and which cluster and database it has. A server that is no replica replays nothing.
-- returns: replays, lsn, replayed_at, cluster, database
SELECT pg_is_in_recovery() AS replays, (pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::bigint AS lsn,
       pg_last_xact_replay_timestamp() AS replayed_at,
       (SELECT system_identifier FROM pg_control_system()) AS cluster,
       (SELECT oid::bigint FROM pg_database WHERE datname = current_database()) AS database;
