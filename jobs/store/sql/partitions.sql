-- name: partitions
-- A table's partitions with their bounds, oldest first.
-- returns: name, lower_bound (null: none), upper_bound (null for the default partition)
SELECT c.relname::text AS name,
       (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''([^'']+)''\)'))[1]::timestamptz AS lower_bound,
       (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \(''([^'']+)''\)'))[1]::timestamptz AS upper_bound
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = %(table)s::regclass
ORDER BY upper_bound NULLS LAST;

-- name: may_partition
-- Whether the role may make and drop partitions of a table.
-- returns: may, and the names that a GRANT needs
SELECT has_schema_privilege(relnamespace, 'CREATE') AND pg_has_role(relowner, 'USAGE') AS may,
       relnamespace::regnamespace::text AS schema, quote_ident(current_user) AS role
FROM pg_class WHERE oid = %(table)s::regclass;
