-- Parallel scans: forced ones, whose rows and order must be those of a sequential scan by one process.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS steady;
CREATE SCHEMA par;
SET search_path = par, public;
SET jit = off;

CREATE TABLE t (id int, a int, b int, c text, filler text);
ALTER TABLE t SET (autovacuum_enabled = off, parallel_workers = 3);
INSERT INTO t SELECT i, nullif(i % 500, 17), i * 7919 % 1000, 'c' || i % 50, repeat('f', 50) FROM generate_series(1, 20000) i;
CREATE INDEX t_a ON t USING steady (a, id);
CREATE INDEX t_b ON t USING steady (b DESC, c, id) INCLUDE (a);
CREATE INDEX t_dup ON t USING steady (c);
VACUUM ANALYZE t;

CREATE FUNCTION parallel(yes bool, bitmap bool DEFAULT false) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('cpu_tuple_cost', '1', false), set_config('cpu_operator_cost', '0', false), set_config('parallel_setup_cost', '0', false), set_config('parallel_tuple_cost', '0', false),
		set_config('min_parallel_table_scan_size', '0', false), set_config('min_parallel_index_scan_size', '0', false),
		set_config('max_parallel_workers_per_gather', CASE WHEN yes THEN '3' ELSE '0' END, false),
		set_config('enable_seqscan', (NOT yes)::text, false), set_config('enable_indexscan', (yes AND NOT bitmap)::text, false),
		set_config('enable_indexonlyscan', (yes AND NOT bitmap)::text, false), set_config('enable_bitmapscan', bitmap::text, false)
$$;

-- Workers that a query's plan started, and nodes that tell how the index was scanned
CREATE FUNCTION look(query text, OUT workers int, OUT nodes text) LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	workers := 0;
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		workers := workers + coalesce((regexp_match(line, 'Workers Launched: (\d+)'))[1]::int, 0);
		nodes := concat_ws(', ', nullif(nodes, ''), (regexp_match(line, '(Parallel (?:Index|Bitmap).*?)(?: using .*| on .*|) \('))[1]);
	END LOOP;
END $$;

CREATE FUNCTION compare(query text, OUT nodes text, OUT workers bool, OUT outcome text) LANGUAGE plpgsql AS $$
DECLARE
	expected text;
	got text;
	again text;
	collect text := format('SELECT md5(%s) FROM (%s) s', CASE WHEN query ~ 'ORDER BY' THEN 'string_agg(s::text, '','')'
		ELSE 'string_agg(s::text, '','' ORDER BY s::text COLLATE "C")' END, query);
BEGIN
	PERFORM parallel(false);
	EXECUTE collect INTO expected;
	PERFORM parallel(true, query ~ '/\* bitmap \*/');
	SELECT l.nodes, l.workers > 0 INTO nodes, workers FROM look(query) l;
	EXECUTE collect INTO got;
	SET LOCAL parallel_leader_participation = off;
	EXECUTE collect INTO again;
	outcome := CASE WHEN expected IS DISTINCT FROM got OR expected IS DISTINCT FROM again THEN 'DIFFERENT'
		WHEN got IS NULL THEN 'none' ELSE 'same' END;
END $$;

CREATE TABLE queries (no int GENERATED ALWAYS AS IDENTITY, query text);
INSERT INTO queries (query) VALUES
	-- a plain scan in both directions
	('SELECT a, id, filler FROM t WHERE a BETWEEN 100 AND 300 ORDER BY a, id'),
	('SELECT a, id, filler FROM t WHERE a BETWEEN 100 AND 300 ORDER BY a DESC, id DESC'),
	('SELECT id, filler FROM t ORDER BY a, id'),
	('SELECT id, filler FROM t ORDER BY b, c DESC, id DESC'),
	('SELECT id, filler FROM t WHERE a IS NULL ORDER BY id'),
	-- index-only
	('SELECT a, id FROM t WHERE a > 250 ORDER BY a, id'),
	('SELECT a, id FROM t WHERE a <= 250 ORDER BY a DESC, id DESC'),
	('SELECT b, c, id, a FROM t ORDER BY b DESC, c, id'),
	('SELECT count(*), sum(a), min(id) FROM t WHERE a IS NOT NULL'),
	('SELECT c, count(*) FROM t GROUP BY c'),
	-- arrays: pages are handed on from element to element
	('SELECT a, id, filler FROM t WHERE a = ANY (''{5,1,400,1,NULL,77,250,251,252}'')'),
	('SELECT a, id FROM t WHERE a = ANY (''{5,1,400,1,NULL,77,250,251,252,499,1000}'')'),
	('SELECT a, id FROM t WHERE a = ANY (ARRAY(SELECT generate_series(0, 500, 3)))'),
	('SELECT b, c, id FROM t WHERE b = ANY (''{1,10,100,999}'') AND c = ANY (''{c1,c9,c10,c19,c20,c29,c30,c39,c40,c49,x}'')'),
	('SELECT b, id, filler FROM t WHERE b < 600 AND c = ANY (''{c1,c49,c30}'')'),
	-- a value that is known when the scan begins
	('SELECT a, id FROM t WHERE a > (SELECT 490)'),
	('SELECT id, filler FROM t WHERE a = (SELECT NULL::int)'),
	-- conditions that nothing can meet
	('SELECT a, id FROM t WHERE a > 10 AND a < 5'),
	('SELECT id, filler FROM t WHERE a = ANY (''{}'')'),
	('SELECT a, id FROM t WHERE a = ANY (''{NULL}'')'),
	('SELECT a, id FROM t WHERE a = ANY (''{1,2}'') AND a = ANY (''{3,4}'')'),
	('SELECT a, id FROM t WHERE a > 10000'),
	-- bitmaps: the index itself is read by one process
	('SELECT /* bitmap */ id FROM t WHERE c = ''c7'' AND filler > ''a'''),
	('SELECT /* bitmap */ id FROM t WHERE c = ''c7'' OR a < 5'),
	-- joins
	('SELECT x.id, y.id FROM t x JOIN t y ON x.a = y.a AND x.id = y.id WHERE x.b < 300'),
	('SELECT count(*) FROM t x JOIN t y USING (a, id)'),
	('SELECT count(*) FROM t x WHERE NOT EXISTS (SELECT FROM t y WHERE y.a = x.b AND y.id > 15000)');
CREATE TABLE compared AS SELECT no, r.* FROM queries, compare(query) r;
SELECT no, nodes LIKE 'Parallel%' AS parallel, outcome FROM compared ORDER BY no;
SELECT count(*) FILTER (WHERE workers) > 15 AS workers_ran,
	count(*) FILTER (WHERE nodes LIKE 'Parallel Index Scan%') > 3 AS plain, count(*) FILTER (WHERE nodes LIKE 'Parallel Index Scan Backward%') > 0 AS plain_backward,
	count(*) FILTER (WHERE nodes LIKE 'Parallel Index Only Scan%') > 3 AS index_only, count(*) FILTER (WHERE nodes LIKE 'Parallel Index Only Scan Backward%') > 0 AS index_only_backward,
	count(*) FILTER (WHERE nodes LIKE 'Parallel Bitmap%') > 0 AS bitmap
FROM compared;

SELECT parallel(true) \g /dev/null

-- Started again, for each row of the outer side
SET enable_material = off;
SET enable_memoize = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
CREATE FUNCTION loops(query text, OUT loops int, OUT result text) LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		IF line LIKE '%Gather%' THEN
			loops := (regexp_match(line, 'loops=(\d+)'))[1];
		END IF;
	END LOOP;
	EXECUTE format('SELECT string_agg(s::text, '' '') FROM (%s) s', query) INTO result;
END $$;
SELECT * FROM loops('SELECT * FROM (VALUES (1), (2), (3)) v(x) LEFT JOIN (SELECT count(*), sum(id) FROM t WHERE a > 99) s ON true');
SELECT * FROM loops('SELECT * FROM (VALUES (1), (2), (3)) v(x) LEFT JOIN (SELECT count(*), sum(id) FROM t WHERE a = ANY (''{7,300,499}'')) s ON true');
SELECT * FROM loops('SELECT * FROM (VALUES (1), (2)) v(x) LEFT JOIN (SELECT count(filler) FROM t WHERE a > 99 AND a < 90) s ON true');
SELECT * FROM loops('SELECT x, max FROM (VALUES (1), (2), (3)) v(x) LEFT JOIN (SELECT max(id) FROM (SELECT id FROM t WHERE a < 400 ORDER BY a DESC, id DESC LIMIT 3000) l) s ON true');
RESET enable_material;
RESET enable_memoize;
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT count(*), sum(id) FROM t WHERE a + 0 > 99;
SELECT count(*), sum(id) FROM t WHERE a + 0 IN (7, 300, 499);
SELECT max(id) FROM (SELECT id FROM t WHERE a + 0 < 400 ORDER BY a + 0 DESC, id DESC LIMIT 3000) l;

-- A prepared query, NULLs among what it is given
SET plan_cache_mode = force_generic_plan;
PREPARE p(int, int[]) AS SELECT count(*), sum(id) FROM t WHERE a >= $1 AND a = ANY ($2) AND filler > 'a';
EXPLAIN (COSTS OFF) EXECUTE p(1, '{1,2,3}');
EXECUTE p(2, '{1,2,3,300}');
EXECUTE p(NULL, '{1,2,3,300}');
EXECUTE p(2, NULL);
EXECUTE p(2, '{}');
EXECUTE p(-1, '{0,499,NULL}');
DEALLOCATE p;
RESET plan_cache_mode;

-- With dead rows whose entries are killed on the way, emptied and deleted pages, and many equal keys
DELETE FROM t WHERE id % 3 = 0 OR a BETWEEN 200 AND 260;
UPDATE t SET a = 300 WHERE a BETWEEN 300 AND 350;
SELECT no, r.* FROM queries, compare(query) r WHERE outcome = 'DIFFERENT';
SELECT killed > 0 AS killed FROM steady_stats('t_a');
VACUUM t;
SELECT deleted_pages > 0 AS deleted FROM steady_stats('t_a');
SELECT no, r.* FROM queries, compare(query) r WHERE outcome = 'DIFFERENT';
SELECT steady_verify('t_a', true), steady_verify('t_b', true), steady_verify('t_dup', true);

-- A scan that is left early, and an empty index
SELECT parallel(true) \g /dev/null
SELECT count(*) FROM (SELECT id, filler FROM t WHERE a > 5 LIMIT 10) s;
CREATE TABLE e (k int);
ALTER TABLE e SET (parallel_workers = 3);
CREATE INDEX e_k ON e USING steady (k);
SELECT count(*) FROM e WHERE k > 0;
SELECT count(*) FROM e WHERE k = ANY ('{1,2}');

DROP SCHEMA par CASCADE;
