-- CREATE INDEX: entries of many types come out of the sort and the tree in the order that a plain sort gives them,
-- whether they fit in memory, went through files or were sorted by several processes.
\set VERBOSITY default
SET client_min_messages = error;	-- 15 warns of ON CONFLICT at each unique index
CREATE EXTENSION IF NOT EXISTS steady;
SET timezone = 'UTC';
SET max_parallel_workers_per_gather = 0;

-- Verifies the index and compares what it gives in its order with the sorted table: the keys, and the TIDs of equal
-- ones, which an index keeps ascending. Also looks each distinct key up.
CREATE FUNCTION bd_check(index regclass, keys text, cond text DEFAULT 'true') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	tab regclass := (SELECT indrelid FROM pg_index WHERE indexrelid = index);
	key text := regexp_replace(split_part(keys, ',', 1), ' (DESC|NULLS (FIRST|LAST))', '', 'g');
	line text; plan text := '';
	by_index text; by_sort text; n bigint; rows bigint; found bigint;
BEGIN
	PERFORM steady_verify(index, heapallindexed => true);

	SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off;
	SET LOCAL enable_indexscan = on;
	FOR line IN EXECUTE format('EXPLAIN (COSTS off) SELECT ctid FROM %s WHERE %s ORDER BY %s', tab, cond, keys) LOOP
		plan := plan || line;
	END LOOP;
	IF plan NOT LIKE format('%%Index%%Scan using %s on %%', (SELECT quote_ident(relname) FROM pg_class WHERE oid = index)) THEN
		RETURN format('index not used: %s', plan);
	END IF;
	EXECUTE format('SELECT count(*), md5(string_agg(s::text, '','')) FROM (SELECT ctid FROM %s WHERE %s ORDER BY %s) s',
				   tab, cond, keys) INTO n, by_index;
	EXECUTE format('SELECT sum(hits) FROM (SELECT DISTINCT %2$s AS k FROM %1$s WHERE %3$s) d CROSS JOIN LATERAL '
				   '(SELECT count(*) AS hits FROM %1$s WHERE %2$s = d.k AND %3$s) l', tab, key, cond) INTO found;

	SET LOCAL enable_seqscan = on; SET LOCAL enable_sort = on; SET LOCAL enable_indexscan = off;
	SET LOCAL enable_indexonlyscan = off;
	EXECUTE format('SELECT md5(string_agg(s::text, '','')) FROM (SELECT ctid FROM %s WHERE %s ORDER BY %s, ctid) s',
				   tab, cond, keys) INTO by_sort;
	EXECUTE format('SELECT count(%s) FROM %s WHERE %s', key, tab, cond) INTO rows;
	RETURN CASE WHEN by_index IS DISTINCT FROM by_sort THEN 'order differs'
		WHEN found IS DISTINCT FROM rows THEN format('look-ups found %s of %s rows', found, rows)
		ELSE format('ok, %s rows', n) END;
END $$;

--
-- Types
--
CREATE TYPE bd_color AS ENUM ('red', 'green', 'blue');
CREATE TYPE bd_pair AS (a int, b text);
CREATE TABLE bd_types AS
SELECT x AS i4, (x % 100)::int2 AS i2, x::int8 * 4294967296 AS i8, x > 0 AS b, chr(33 + abs(x) % 90)::"char" AS c,
	abs(x)::oid AS o,
	CASE x % 5 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN '-Infinity' ELSE x / 7.0 END::float8 AS f8,
	CASE x % 6 WHEN 0 THEN 'NaN' WHEN 1 THEN 0 ELSE x / 3.0 END::float4 AS f4,
	(x / 100.0 * 10 ^ (x % 9))::numeric AS num, x::money AS mon,
	md5(x::text) AS t, ('prefix that all have, then ' || x) AS t_long, ('ä' || x)::varchar(30) AS v, ('n' || x)::name AS nam,
	(x % 10)::char(5) AS bp, decode(md5(x::text), 'hex') AS bin, md5(x::text)::uuid AS u,
	date '2000-01-01' + x AS d, timestamp '2000-01-01' + x * interval '7 min' AS ts,
	timestamptz '2000-01-01 UTC' - x * interval '7 min' AS tstz, time '12:00' + x * interval '1 s' AS tm,
	timetz '12:00+00' + x * interval '1 s' AS tmtz, (x % 40) * interval '6 hours' AS iv,
	('10.' || abs(x) % 200 || '.' || abs(x) % 7 || '.0/24')::inet AS ip, ('08:00:2b:01:02:' || lpad(to_hex(abs(x) % 256), 2, '0'))::macaddr AS mac,
	x::bit(12) AS bits, (x % 64)::bit(6)::varbit AS vbits, ARRAY[x % 3, x % 5, x] AS arr, (x % 11, 'p' || x)::bd_pair AS pair,
	CASE WHEN x % 3 = 0 THEN 'red' WHEN x % 3 = 1 THEN 'blue' ELSE 'green' END::bd_color AS e,
	int4range(x, x + abs(x) % 9) AS r, jsonb_build_object('a', x % 17, 'b', x) AS j, to_tsvector('simple', 'w' || x % 50) AS tv,
	('0/' || to_hex(abs(x)))::pg_lsn AS lsn, abs(x)::text::xid8 AS x8
FROM (SELECT (i * 7919 % 2003 - 1000) AS x FROM generate_series(1, 2400) i) s;
-- Every fifth row has a NULL in each column but one; every seventh is dead.
DO $$
DECLARE
	col name;
BEGIN
	FOR col IN SELECT attname FROM pg_attribute WHERE attrelid = 'bd_types'::regclass AND attnum > 1 LOOP
		EXECUTE format('UPDATE bd_types SET %I = NULL WHERE i4 %% 5 = 0 AND hashint4(i4) %% 3 <> 0', col);
	END LOOP;
END $$;
DELETE FROM bd_types WHERE i4 % 7 = 0;
VACUUM (FREEZE) bd_types;

CREATE FUNCTION bd_each(keys text[], options text DEFAULT '') RETURNS TABLE (index_on text, result text)
LANGUAGE plpgsql AS $$
BEGIN
	FOREACH index_on IN ARRAY keys LOOP
		EXECUTE format('CREATE INDEX bd_one ON bd_types USING steady (%s) %s', index_on, options);
		result := bd_check('bd_one', index_on);
		DROP INDEX bd_one;
		RETURN NEXT;
	END LOOP;
END $$;

SELECT * FROM bd_each((SELECT array_agg(quote_ident(attname) ORDER BY attnum) FROM pg_attribute
					   WHERE attrelid = 'bd_types'::regclass AND attnum > 0));
SELECT * FROM bd_each(ARRAY['i8 DESC', 'f8 DESC NULLS LAST', 'num NULLS FIRST', 't COLLATE "C" DESC', 't_long COLLATE "C"',
	'u DESC NULLS LAST', 'v COLLATE "C" NULLS FIRST', 'i2, i4', 'i2 DESC, i4 NULLS FIRST', 'b, e DESC, i2, u', 'c, num DESC, t',
	'bp, bp DESC', 'f4, f8, i8', 'e, i2 NULLS FIRST, t COLLATE "C"', 'iv, ip, d']);
-- Collations of ICU, whose sort keys serve as abbreviations; 'a' = 'A' in the second
DO $$
BEGIN
	IF EXISTS (SELECT FROM pg_collation WHERE collname = 'und-x-icu' AND collencoding IN (-1, pg_char_to_encoding(getdatabaseencoding()))) THEN
		CREATE COLLATION bd_icu (provider = icu, locale = 'und');
		CREATE COLLATION bd_blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
	ELSE
		CREATE COLLATION bd_icu FROM "C";
		CREATE COLLATION bd_blind FROM "C";
	END IF;
END $$;
CREATE TABLE bd_icu AS SELECT CASE WHEN i % 2 = 0 THEN chr(97 + i % 26) ELSE chr(65 + i % 26) END || i % 300 AS t FROM generate_series(1, 3000) i;
CREATE INDEX bd_icu_1 ON bd_icu USING steady (t COLLATE bd_icu);
CREATE INDEX bd_icu_2 ON bd_icu USING steady (t COLLATE bd_blind DESC);
SELECT bd_check('bd_icu_1', 't COLLATE bd_icu'), bd_check('bd_icu_2', 't COLLATE bd_blind DESC');

--
-- INCLUDE, expressions, predicates
--
CREATE INDEX bd_include ON bd_types USING steady (i2) INCLUDE (t, num);
CREATE INDEX bd_expression ON bd_types USING steady ((i4 % 50), lower(t));
CREATE INDEX bd_partial ON bd_types USING steady (d) WHERE i2 > 20;
SELECT bd_check('bd_include', 'i2'), bd_check('bd_expression', '(i4 % 50), lower(t)'), bd_check('bd_partial', 'd', 'i2 > 20');
SELECT relname, reltuples FROM pg_class WHERE relname IN ('bd_include', 'bd_expression', 'bd_partial') ORDER BY 1;
DROP TABLE bd_types;

--
-- Duplicates, fillfactor, size (the place for stamps, up to a tenth of a page, counts as free)
--
CREATE TABLE bd_dup AS SELECT i, i % 10 AS few, i * 7919 % 15013 AS many, 'value ' || i % 100 AS t FROM generate_series(1, 15000) i;
CREATE FUNCTION bd_built(keys text, options text DEFAULT '', fill int DEFAULT 90) RETURNS TABLE (
	result text, shares boolean, entries bigint, levels int, fill_as_wanted boolean, small boolean, after_inserts text)
LANGUAGE plpgsql AS $$
DECLARE
	plain_keys text := replace(keys, ' INCLUDE (i)', ')');
	btree_size bigint;
BEGIN
	EXECUTE format('CREATE INDEX bd_one ON bd_dup USING btree (%s', keys);
	btree_size := pg_relation_size('bd_one');
	DROP INDEX bd_one;
	EXECUTE format('CREATE INDEX bd_one ON bd_dup USING steady (%s %s', keys, options);
	result := bd_check('bd_one', rtrim(plain_keys, ')'));
	SELECT posting_lists > 0, s.entries, s.levels, leaf_fill BETWEEN fill - 11 AND fill + 6 INTO shares, entries, levels, fill_as_wanted
		FROM steady_stats('bd_one') s;
	small := pg_relation_size('bd_one') <= 1.1 * btree_size;
	-- A built index takes inserts anywhere.
	INSERT INTO bd_dup SELECT i, i % 10, i * 7919 % 15013, 'value ' || i % 100 FROM generate_series(15001, 16500) i;
	after_inserts := bd_check('bd_one', rtrim(plain_keys, ')'));
	DROP INDEX bd_one;
	DELETE FROM bd_dup WHERE i > 15000;
	RETURN NEXT;
END $$;
SELECT * FROM bd_built('few)', 'WITH (codec = tuple)');
SELECT * FROM bd_built('few DESC)', 'WITH (deduplicate_items = off, codec = tuple)');
SELECT * FROM bd_built('few)', 'WITH (codec = auto)');
SELECT * FROM bd_built('t, few)');
SELECT * FROM bd_built('few) INCLUDE (i)');
SELECT * FROM bd_built('many)', 'WITH (codec = tuple)');
SELECT * FROM bd_built('many)', 'WITH (fillfactor = 50, codec = tuple)', 50);
SELECT * FROM bd_built('many)', 'WITH (fillfactor = 10, codec = tuple)', 10);
SELECT * FROM bd_built('many)', 'WITH (fillfactor = 100, codec = tuple)', 100);
SELECT * FROM bd_built('many)');
SELECT * FROM bd_built('many)', 'WITH (fillfactor = 50, codec = auto)', 50);
SELECT * FROM bd_built('many)', 'WITH (fillfactor = 10, codec = auto)', 10);
DROP TABLE bd_dup;

--
-- Empty tables; NULLs only
--
CREATE TABLE bd_empty (a int, b text);
CREATE INDEX bd_empty_ab ON bd_empty USING steady (a, b);
SELECT pg_relation_size('bd_empty_ab') / current_setting('block_size')::int AS blocks, steady_verify('bd_empty_ab', true);
INSERT INTO bd_empty SELECT NULL, NULL FROM generate_series(1, 500);
SELECT bd_check('bd_empty_ab', 'a, b');
REINDEX INDEX bd_empty_ab;
SELECT bd_check('bd_empty_ab', 'a, b');
TRUNCATE bd_empty;
SELECT pg_relation_size('bd_empty_ab') / current_setting('block_size')::int AS blocks, steady_verify('bd_empty_ab', true);
DROP TABLE bd_empty;

--
-- Uniqueness
--
CREATE TABLE bd_unique (a int, b text, c int);
INSERT INTO bd_unique SELECT i, 'b' || i, i / 2 FROM generate_series(1, 1000) i;
CREATE UNIQUE INDEX bd_u_a ON bd_unique USING steady (a);
CREATE UNIQUE INDEX bd_u_ca ON bd_unique USING steady (c, a);
CREATE UNIQUE INDEX bd_u_part ON bd_unique USING steady (c) WHERE a % 2 = 0;
SELECT bd_check('bd_u_a', 'a'), bd_check('bd_u_ca', 'c, a');
CREATE UNIQUE INDEX bd_u_c ON bd_unique USING steady (c);
CREATE UNIQUE INDEX bd_u_e ON bd_unique USING steady ((length(b))) INCLUDE (a);
INSERT INTO bd_unique VALUES (2000, 'twin', 2000), (2001, 'twin', 2000);
CREATE UNIQUE INDEX bd_u_b ON bd_unique USING steady (b);
CREATE UNIQUE INDEX bd_u_cb ON bd_unique USING steady (c, b) INCLUDE (a);
-- NULLs differ unless told otherwise.
UPDATE bd_unique SET b = NULL WHERE c = 2000;
CREATE UNIQUE INDEX bd_u_cb ON bd_unique USING steady (c, b) INCLUDE (a);
CREATE UNIQUE INDEX bd_u_b ON bd_unique USING steady (b) NULLS NOT DISTINCT;
DELETE FROM bd_unique WHERE a = 2001;
CREATE UNIQUE INDEX bd_u_b ON bd_unique USING steady (b) NULLS NOT DISTINCT;
SELECT bd_check('bd_u_b', 'b');
DROP INDEX bd_u_a, bd_u_b;
-- Equal, but not the same bytes
CREATE TABLE bd_zero AS SELECT '0'::float8 AS f, numeric '1.0' AS n UNION ALL SELECT '-0', numeric '1.00';
CREATE UNIQUE INDEX ON bd_zero USING steady (f);
CREATE UNIQUE INDEX ON bd_zero USING steady (n);
DROP TABLE bd_zero;
-- Rows that this transaction deleted have entries, but no say.
BEGIN;
INSERT INTO bd_unique SELECT -7, 'x' FROM generate_series(1, 3);
DELETE FROM bd_unique WHERE ctid = (SELECT ctid FROM bd_unique WHERE a = -7 ORDER BY ctid OFFSET 1 LIMIT 1);
SAVEPOINT between;
CREATE UNIQUE INDEX bd_u_dead ON bd_unique USING steady (a);
ROLLBACK TO between;
DELETE FROM bd_unique WHERE ctid = (SELECT max(ctid) FROM bd_unique WHERE a = -7);
CREATE UNIQUE INDEX bd_u_dead ON bd_unique USING steady (a);
SELECT entries FROM steady_stats('bd_u_dead');
SELECT steady_verify('bd_u_dead', true);
ROLLBACK;
DROP TABLE bd_unique;

--
-- Rows too large
--
CREATE TABLE bd_large (t text);
ALTER TABLE bd_large ALTER t SET STORAGE PLAIN;
INSERT INTO bd_large VALUES (repeat('x', 2680));
CREATE INDEX bd_large_t ON bd_large USING steady (t);
INSERT INTO bd_large SELECT repeat('x', 2680) FROM generate_series(1, 20);
INSERT INTO bd_large SELECT i || repeat('x', 2670) FROM generate_series(1, 1000) i;
REINDEX TABLE bd_large;
SELECT bd_check('bd_large_t', 't'), (SELECT levels > 5 FROM steady_stats('bd_large_t')) AS high;
DROP INDEX bd_large_t;
INSERT INTO bd_large VALUES (repeat('y', 2720));
CREATE INDEX bd_large_t ON bd_large USING steady (t);
DROP TABLE bd_large;

--
-- Sorts that don't fit in memory: a few runs, and more than are merged at once
--
SET maintenance_work_mem = '1MB';
CREATE TABLE bd_spill AS SELECT i, hashint4(i) AS h, nullif(i % 100, 7) AS few, md5(i::text) COLLATE "C" AS t FROM generate_series(1, 30000) i;
CREATE INDEX bd_spill_h ON bd_spill USING steady (h);
CREATE INDEX bd_spill_few ON bd_spill USING steady (few DESC, t);
CREATE UNIQUE INDEX bd_spill_t ON bd_spill USING steady (t);
SELECT index, bd_check(index, keys) FROM (VALUES
	('bd_spill_h'::regclass, 'h'), ('bd_spill_few', 'few DESC, t'), ('bd_spill_t', 't')) v (index, keys);
DROP INDEX bd_spill_t;
INSERT INTO bd_spill SELECT 0, 0, 0, md5('12345');
CREATE UNIQUE INDEX bd_spill_t ON bd_spill USING steady (t);
DELETE FROM bd_spill WHERE i = 0;
CREATE UNIQUE INDEX bd_spill_t ON bd_spill USING steady (t);
CREATE TABLE bd_runs (i int, t text);
ALTER TABLE bd_runs ALTER t SET STORAGE PLAIN;
INSERT INTO bd_runs SELECT i, md5((i / 2)::text) || repeat('x', 2600) FROM generate_series(1, 16000) i;
CREATE INDEX bd_runs_t ON bd_runs USING steady (t COLLATE "C");
SELECT steady_verify('bd_runs_t', true);
SELECT entries, (SELECT count(DISTINCT left(t, 32)) FROM bd_runs) AS keys FROM steady_stats('bd_runs_t');
DROP TABLE bd_runs;
-- A comparison that makes no sense: the order is nobody's, but each row has its entry.
CREATE FUNCTION bd_nonsense(text, text) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	RETURN (hashtext($1 || $2) & 3) - 1;
END $$;
CREATE OPERATOR CLASS bd_nonsense_ops FOR TYPE text USING steady AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 bd_nonsense(text, text);
CREATE INDEX bd_spill_one ON bd_spill USING steady (t bd_nonsense_ops) WHERE i <= 5000;
CREATE INDEX bd_spill_two ON bd_spill USING steady (few, t bd_nonsense_ops);
SELECT (SELECT entries FROM steady_stats('bd_spill_one')) AS one, (SELECT entries FROM steady_stats('bd_spill_two')) AS two;
DROP INDEX bd_spill_one, bd_spill_two;

-- Words: as many runs as memory is full, of records that are two, three and four parts long
CREATE FUNCTION bd_spilled() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_stat_clear_snapshot();
	RETURN (SELECT temp_files FROM pg_stat_database WHERE datname = current_database());
END $$;
CREATE TABLE bd_words AS SELECT i, hashint8extended(i, 1) AS h, nullif(i * 7919 % 1000, 7) AS few, md5(i::text)::uuid AS u, 150000 - i AS down
	FROM generate_series(1, 100000) i;
UPDATE bd_words SET few = NULL WHERE i % 100 = 0;
SELECT pg_stat_force_next_flush();
SELECT bd_spilled() AS spilled \gset
CREATE UNIQUE INDEX bd_words_h ON bd_words USING steady (h) WITH (codec = auto);
CREATE INDEX bd_words_few ON bd_words USING steady (few DESC) WITH (codec = auto);
CREATE UNIQUE INDEX bd_words_u ON bd_words USING steady (u DESC) WITH (codec = auto);
CREATE INDEX bd_words_long ON bd_words USING steady (few, h NULLS FIRST, down DESC) WITH (codec = auto);
CREATE INDEX bd_words_down ON bd_words USING steady (down) WITH (codec = auto);
SELECT pg_stat_force_next_flush();
SELECT bd_spilled() - :spilled >= 5 AS spilled;
CREATE FUNCTION bd_words_check() RETURNS TABLE (index regclass, result text, codec text) LANGUAGE sql AS $$
	SELECT index, bd_check(index, keys), (SELECT codec FROM steady_stats(index)) FROM (VALUES
		('bd_words_h'::regclass, 'h'), ('bd_words_few', 'few DESC'), ('bd_words_u', 'u DESC'),
		('bd_words_long', 'few, h NULLS FIRST, down DESC'), ('bd_words_down', 'down')) v (index, keys)
$$;
SELECT * FROM bd_words_check();
-- No larger than btree's, even of many duplicates, which share posting lists there
CREATE INDEX bd_words_btree ON bd_words USING btree (few DESC);
SELECT pg_relation_size('bd_words_few') <= pg_relation_size('bd_words_btree') AS small;
DROP INDEX bd_words_btree;
-- One of a pair in the first run, one in the last; live and dead
CREATE FUNCTION bd_twins(keys text) RETURNS TABLE (error text, detail text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE UNIQUE INDEX bd_twins ON bd_words USING steady (%s', keys);
	DROP INDEX bd_twins;
EXCEPTION WHEN unique_violation THEN
	GET STACKED DIAGNOSTICS error = message_text, detail = pg_exception_detail;
	RETURN NEXT;
END $$;
DROP INDEX bd_words_h, bd_words_u;
INSERT INTO bd_words SELECT 0, hashint8extended(3, 1), NULL, md5('5')::uuid, 0;
SELECT * FROM bd_twins('h) WITH (codec = auto)');
SELECT * FROM bd_twins('u DESC) WITH (codec = auto)');
SELECT * FROM bd_twins('few, h, down) WITH (codec = auto)');
SELECT * FROM bd_twins('few) WITH (codec = auto) WHERE few IS NULL');
SELECT * FROM bd_twins('few) NULLS NOT DISTINCT WITH (codec = auto) WHERE few IS NULL');
BEGIN;
DELETE FROM bd_words WHERE i = 0;
SELECT * FROM bd_twins('h) WITH (codec = auto)');
SELECT * FROM bd_twins('u DESC) WITH (codec = auto)');
ROLLBACK;
DELETE FROM bd_words WHERE i = 0;
CREATE UNIQUE INDEX bd_words_h ON bd_words USING steady (h) WITH (codec = auto);
CREATE UNIQUE INDEX bd_words_u ON bd_words USING steady (u DESC) WITH (codec = auto);
RESET maintenance_work_mem;

--
-- Several processes
--
SET max_parallel_maintenance_workers = 2;
SET min_parallel_table_scan_size = 0;
ALTER TABLE bd_spill SET (parallel_workers = 2);
REINDEX TABLE bd_spill;
CREATE INDEX bd_parallel_e ON bd_spill USING steady ((i % 50), lower(t)) WHERE i % 3 <> 0;
SELECT index, bd_check(index, keys, cond) FROM (VALUES ('bd_spill_h'::regclass, 'h', 'true'),
	('bd_spill_few', 'few DESC, t', 'true'), ('bd_spill_t', 't', 'true'), ('bd_parallel_e', '(i % 50), lower(t)', 'i % 3 <> 0')) v (index, keys, cond);
SELECT relname, reltuples FROM pg_class WHERE relname IN ('bd_parallel_e', 'bd_spill_t') ORDER BY 1;
SET maintenance_work_mem = '1MB';
REINDEX TABLE bd_spill;
SELECT index, bd_check(index, keys) FROM (VALUES
	('bd_spill_h'::regclass, 'h'), ('bd_spill_few', 'few DESC, t'), ('bd_spill_t', 't')) v (index, keys);
DROP INDEX bd_spill_t;
INSERT INTO bd_spill SELECT 0, 0, 0, md5('12345');
CREATE UNIQUE INDEX bd_spill_t ON bd_spill USING steady (t);
DELETE FROM bd_spill WHERE i = 0;
CREATE UNIQUE INDEX bd_spill_t ON bd_spill USING steady (t);
CREATE INDEX CONCURRENTLY bd_cic ON bd_spill USING steady (h, i);
REINDEX INDEX CONCURRENTLY bd_spill_t;
SELECT bd_check('bd_cic', 'h, i'), bd_check('bd_spill_t', 't');
-- Words; with little memory for each process there are more runs than are merged at once
ALTER TABLE bd_words SET (parallel_workers = 8);
SET max_parallel_maintenance_workers = 8;
REINDEX TABLE bd_words;
SELECT * FROM bd_words_check();
DROP INDEX bd_words_h, bd_words_u;
INSERT INTO bd_words SELECT 0, hashint8extended(3, 1), NULL, md5('5')::uuid, 0;
SELECT * FROM bd_twins('h) WITH (codec = auto)');
SELECT * FROM bd_twins('u DESC) WITH (codec = auto)');
SET max_parallel_maintenance_workers = 2;
DROP TABLE bd_words;
-- A row too large, met by any of them
CREATE TABLE bd_parallel_large (t text) WITH (parallel_workers = 2);
ALTER TABLE bd_parallel_large ALTER t SET STORAGE PLAIN;
INSERT INTO bd_parallel_large SELECT repeat('x', 3000) FROM generate_series(1, 100);
DO $$
BEGIN
	CREATE INDEX ON bd_parallel_large USING steady (t);
EXCEPTION WHEN program_limit_exceeded THEN
	RAISE NOTICE '%', SQLERRM;
END $$;
DROP TABLE bd_parallel_large;
RESET maintenance_work_mem;
-- The leader waits at each of its rows, so that workers get theirs.
SELECT set_config('bd.leader', pg_backend_pid()::text, false) IS NOT NULL;
CREATE FUNCTION bd_process(int) RETURNS boolean IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql AS $$
BEGIN
	IF pg_backend_pid() <> current_setting('bd.leader')::int THEN
		RETURN true;
	END IF;
	PERFORM pg_sleep(0.002);
	RETURN false;
END $$;
CREATE TABLE bd_processes WITH (parallel_workers = 2) AS SELECT i FROM generate_series(1, 10000) i;
CREATE INDEX bd_processes_i ON bd_processes USING steady (bd_process(i));
SELECT key, sum(coalesce(cardinality(tids), 1)) > 0 AS some
	FROM generate_series(1, pg_relation_size('bd_processes_i') / current_setting('block_size')::int - 1) block,
		steady_page_items('bd_processes_i', block) WHERE kind IN ('entry', 'posting') GROUP BY 1 ORDER BY 1;
DROP TABLE bd_processes;
-- Functions that may not run in a worker keep it to one process.
CREATE FUNCTION bd_unsafe(int) RETURNS int IMMUTABLE PARALLEL UNSAFE LANGUAGE plpgsql AS $$
BEGIN
	IF pg_backend_pid() <> current_setting('bd.leader')::int THEN
		RAISE 'called in a worker';
	END IF;
	RETURN $1;
END $$;
CREATE INDEX bd_serial ON bd_spill USING steady (bd_unsafe(i));
SELECT steady_verify('bd_serial', true);
DROP INDEX bd_serial;

--
-- HOT chains that the new index breaks: it may not be used by snapshots that could see the old rows
--
CREATE TABLE bd_hot (a int, b int) WITH (fillfactor = 50, parallel_workers = 0);
INSERT INTO bd_hot SELECT i, i FROM generate_series(1, 500) i;
CREATE INDEX ON bd_hot (a);
BEGIN;
UPDATE bd_hot SET b = b + 1;
CREATE INDEX bd_hot_serial ON bd_hot USING steady (b);
ALTER TABLE bd_hot SET (parallel_workers = 2);
CREATE INDEX bd_hot_parallel ON bd_hot USING steady (b);
CREATE INDEX bd_hot_whole ON bd_hot USING steady (a);
SELECT indexrelid::regclass, indcheckxmin FROM pg_index WHERE indexrelid::regclass::text LIKE 'bd_hot%' ORDER BY 1;
COMMIT;
SELECT steady_verify('bd_hot_serial', true), steady_verify('bd_hot_parallel', true), steady_verify('bd_hot_whole', true);
SELECT entries FROM steady_stats('bd_hot_parallel');
DROP TABLE bd_hot;

--
-- Kinds of relation
--
CREATE UNLOGGED TABLE bd_unlogged AS SELECT i FROM generate_series(1, 5000) i;
CREATE INDEX bd_unlogged_i ON bd_unlogged USING steady (i);
SELECT bd_check('bd_unlogged_i', 'i'), pg_relation_size('bd_unlogged_i', 'init') / current_setting('block_size')::int AS init_blocks;
ALTER TABLE bd_unlogged SET LOGGED;
SELECT bd_check('bd_unlogged_i', 'i'), pg_relation_size('bd_unlogged_i', 'init') AS init_blocks;
DROP TABLE bd_unlogged;
CREATE TEMP TABLE bd_temp AS SELECT i FROM generate_series(1, 5000) i;
CREATE INDEX bd_temp_i ON bd_temp USING steady (i DESC);
SELECT bd_check('bd_temp_i', 'i DESC');
CLUSTER bd_temp USING bd_temp_i;
SELECT bd_check('bd_temp_i', 'i DESC'), (SELECT i FROM bd_temp LIMIT 1);
DROP TABLE bd_temp;
DROP INDEX bd_cic;
CLUSTER bd_spill USING bd_spill_h;
SELECT bd_check('bd_spill_h', 'h'), bd_check('bd_spill_t', 't');
CREATE MATERIALIZED VIEW bd_view AS SELECT i, h FROM bd_spill;
CREATE INDEX bd_view_h ON bd_view USING steady (h);
REFRESH MATERIALIZED VIEW bd_view;
SELECT bd_check('bd_view_h', 'h');
CREATE TABLE bd_parted (i int, t text) PARTITION BY RANGE (i);
CREATE TABLE bd_parted_1 PARTITION OF bd_parted FOR VALUES FROM (0) TO (1000);
CREATE TABLE bd_parted_2 PARTITION OF bd_parted FOR VALUES FROM (1000) TO (2000);
INSERT INTO bd_parted SELECT i, 't' || i FROM generate_series(0, 1999) i;
CREATE INDEX bd_parted_t ON bd_parted USING steady (t);
SELECT bd_check('bd_parted_1_t_idx', 't'), bd_check('bd_parted_2_t_idx', 't');

-- What pg_stat_progress_create_index calls the phases
SELECT phase, pg_indexam_progress_phasename(a.oid, phase) FROM pg_am a, generate_series(1, 5) phase WHERE amname = 'steady';

SET client_min_messages = warning;
DROP MATERIALIZED VIEW bd_view;
DROP TABLE bd_spill, bd_parted, bd_icu;
DROP COLLATION bd_icu, bd_blind;
DROP TYPE bd_color, bd_pair;
DROP OPERATOR FAMILY bd_nonsense_ops USING steady;
DROP FUNCTION bd_check, bd_each, bd_built, bd_spilled, bd_words_check, bd_twins, bd_process, bd_unsafe, bd_nonsense;
