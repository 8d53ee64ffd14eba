-- What the access method says of itself: as btree, but where it says otherwise.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS steady;
CREATE SCHEMA prop;
SET search_path = prop, public;
CREATE TABLE t (a int, b text, c name, d int4range);
CREATE INDEX t_steady ON t USING steady (a, b DESC, c NULLS FIRST, d DESC NULLS LAST) INCLUDE (a, b);
CREATE INDEX t_btree ON t USING btree (a, b DESC, c NULLS FIRST, d DESC NULLS LAST) INCLUDE (a, b);

-- Properties of the access method, of an index, and of its columns
SELECT p, pg_indexam_has_property(s.oid, p) AS steady, pg_indexam_has_property(b.oid, p) AS btree
FROM pg_am s, pg_am b, unnest(ARRAY['asc', 'can_order', 'can_unique', 'can_multi_col', 'can_exclude', 'can_include', 'bogus']) p
WHERE s.amname = 'steady' AND b.amname = 'btree' ORDER BY p;
SELECT p, pg_index_has_property('t_steady', p) AS steady, pg_index_has_property('t_btree', p) AS btree
FROM unnest(ARRAY['clusterable', 'index_scan', 'bitmap_scan', 'backward_scan', 'bogus', 'asc']) p ORDER BY p;
SELECT col, p, pg_index_column_has_property('t_steady', col, p) AS steady, pg_index_column_has_property('t_btree', col, p) AS btree
FROM unnest(ARRAY['asc', 'desc', 'nulls_first', 'nulls_last', 'orderable', 'distance_orderable', 'returnable', 'search_array', 'search_nulls', 'bogus']) p,
	generate_series(0, 7) col
WHERE pg_index_column_has_property('t_steady', col, p) IS DISTINCT FROM pg_index_column_has_property('t_btree', col, p) ORDER BY col, p;
SELECT p, array_agg(pg_index_column_has_property('t_steady', col, p) ORDER BY col) AS columns
FROM unnest(ARRAY['asc', 'desc', 'nulls_first', 'nulls_last', 'orderable', 'distance_orderable', 'returnable', 'search_array', 'search_nulls']) p, generate_series(1, 7) col
GROUP BY p ORDER BY p;

-- The definition comes back as it was given.
SELECT replace(pg_get_indexdef('t_steady'::regclass), 'steady', 'btree') = pg_get_indexdef('t_btree'::regclass) AS same;
SELECT pg_get_indexdef('t_steady'::regclass);
\d t_steady

-- The access method in the catalogs, and that it says it is fit
SELECT amname, amtype, amhandler FROM pg_am WHERE amname = 'steady';
SELECT count(*) FROM pg_opclass o JOIN pg_am a ON a.oid = o.opcmethod WHERE a.amname = 'steady' AND NOT amvalidate(o.oid);
SELECT obj_description(oid, 'pg_am') IS NOT NULL AS described FROM pg_am WHERE amname = 'steady';

-- The index's column types and statistics are those of btree.
SELECT attnum, attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't_steady'::regclass
EXCEPT
SELECT attnum, attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't_btree'::regclass;
SELECT relpages > 0 AS pages, reltuples FROM pg_class WHERE relname = 't_steady';
INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i;
ANALYZE t;
SELECT reltuples FROM pg_class WHERE relname IN ('t_steady', 't_btree');
DELETE FROM t WHERE a > 600;
VACUUM t;
SELECT reltuples FROM pg_class WHERE relname IN ('t_steady', 't_btree');
CREATE INDEX t_a ON t USING steady (a);
SELECT reltuples FROM pg_class WHERE relname = 't_a';

DROP SCHEMA prop CASCADE;
