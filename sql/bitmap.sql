-- Bitmap scans: alone, combined with others and with other access methods, exact and lossy, started again by joins.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS steady;
CREATE SCHEMA bmp;
SET search_path = bmp, public;
SET jit = off;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE t (id int, a int, b int, c text, arr int[]);
ALTER TABLE t SET (autovacuum_enabled = off);
INSERT INTO t SELECT i, nullif(i % 200, 17), i * 7919 % 1000, 'c' || i % 50, ARRAY[i % 10, i % 7] FROM generate_series(1, 12000) i;
CREATE INDEX t_a ON t USING steady (a);
CREATE INDEX t_b ON t USING steady (b, a);
CREATE INDEX t_c ON t USING steady (c COLLATE "C" DESC) WHERE a > 20;
CREATE INDEX t_id ON t (id);	-- btree
CREATE INDEX t_arr ON t USING gin (arr);
CREATE INDEX t_hash ON t USING hash (b);
ANALYZE t;

-- The nodes of a plan that speak of bitmaps
CREATE FUNCTION bitmap_plan(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	plan text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		plan := concat_ws(' ', nullif(plan, ''), (regexp_match(line, 'Bitmap(?:And|Or| Index Scan on \w+)'))[1]);
	END LOOP;
	RETURN replace(plan, 'Bitmap Index Scan on ', '');
END $$;

-- Are the rows those of a sequential scan?
CREATE FUNCTION by_bitmap(condition text) RETURNS TABLE (plan text, outcome text) LANGUAGE plpgsql AS $$
DECLARE
	expected int[];
	got int[];
	query text := 'SELECT array_agg(id ORDER BY id) FROM t WHERE ' || condition;
BEGIN
	SET LOCAL enable_bitmapscan = off;
	SET LOCAL enable_indexscan = off;
	SET LOCAL enable_indexonlyscan = off;
	SET LOCAL enable_seqscan = on;
	EXECUTE query INTO expected;
	SET LOCAL enable_bitmapscan = on;
	SET LOCAL enable_seqscan = off;
	plan := bitmap_plan(query);
	EXECUTE query INTO got;
	outcome := CASE WHEN plan !~ '\mt_[abc]\M' THEN 'NO STEADY INDEX'
		WHEN got IS DISTINCT FROM expected THEN 'DIFFERENT' WHEN got IS NULL THEN 'none' ELSE 'same' END;
	RETURN NEXT;
END $$;

CREATE TABLE conditions (no int GENERATED ALWAYS AS IDENTITY, condition text);
INSERT INTO conditions (condition) VALUES ('a = 5'), ('a IS NULL'), ('a IS NOT NULL AND a < 10'), ('a BETWEEN 20 AND 50'), ('a = ANY (''{3,1,3,NULL,150}'')'),
	('a = ANY (''{}'')'), ('a > 5 AND a < 3'), ('a = (SELECT NULL::int)'), ('a < ANY (''{4,9}'')'),
	('b = 8 AND a = 72'), ('b < 30 AND a > 100'), ('b = ANY (''{1,500,999}'') AND a = ANY (''{1,100,199}'')'), ('a = 77 AND b > 500 AND c = ''c27'''),
	('a = 5 OR b = 100'), ('a = 5 OR a = 6 OR b < 3'), ('a < 100 AND id < 6000'), ('b < 100 AND a > 150 AND id BETWEEN 5000 AND 7000'), ('(a = 5 OR id = 77) AND b > 400'),
	('a < 30 AND arr @> ''{3}'''), ('a = 7 OR arr @> ''{9,6}'''), ('c COLLATE "C" > ''c48'' AND a > 20'), ('c COLLATE "C" < ''c10'' AND a > 50 AND b < 100'),
	('a <> 3 AND a < 6'), ('a = 5::bigint'), ('a >= 199'), ('a < -1 OR a > 1000');
SELECT no, condition, outcome FROM conditions, by_bitmap(condition) r ORDER BY no;
SELECT count(*) FILTER (WHERE plan LIKE '%BitmapAnd%') > 0 AS ands, count(*) FILTER (WHERE plan LIKE '%BitmapOr%') > 3 AS ors,
	count(*) FILTER (WHERE plan ~ 't_[abc]' AND plan LIKE '%t_id%') > 0 AS with_btree, count(*) FILTER (WHERE plan ~ 't_[abc]' AND plan LIKE '%t_arr%') > 0 AS with_gin
FROM conditions, by_bitmap(condition) r;

-- So little memory that whole pages are noted
SET work_mem = '64kB';
CREATE TABLE wide (k int, id int, filler text);
INSERT INTO wide SELECT i % 7, i, repeat('x', 900) FROM generate_series(1, 14000) i;
CREATE INDEX wide_k ON wide USING steady (k);
VACUUM ANALYZE wide;
SET enable_seqscan = off;
SET enable_indexscan = off;
CREATE FUNCTION lossy(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT json) ' || query INTO plan;
	RETURN (plan #>> '{0,Plan,Lossy Heap Blocks}')::int > 0;
END $$;
SELECT lossy('SELECT id FROM wide WHERE k = 3 OR k = 5');
SELECT count(*), sum(id) FROM wide WHERE k = 3 OR k = 5;
SELECT count(*), sum(id) FROM wide WHERE k + 0 = 3 OR k + 0 = 5;
RESET work_mem;
RESET enable_indexscan;
RESET enable_seqscan;

-- With dead rows about, killed and not, and after VACUUM
DELETE FROM t WHERE id % 3 = 0;
UPDATE t SET a = a + 1 WHERE id % 20 = 1;
SELECT condition, r.* FROM conditions, by_bitmap(condition) r WHERE outcome = 'DIFFERENT' ORDER BY no;
SELECT count(*) FROM t WHERE a < 150;
SELECT condition, r.* FROM conditions, by_bitmap(condition) r WHERE outcome = 'DIFFERENT' ORDER BY no;
VACUUM t;
SELECT condition, r.* FROM conditions, by_bitmap(condition) r WHERE outcome = 'DIFFERENT' ORDER BY no;

-- Inner side of a join
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_indexscan = off;
SET enable_seqscan = off;
SET enable_memoize = off;
SET enable_material = off;
CREATE TABLE o (x int, y int[]);
INSERT INTO o VALUES (5, '{1,2}'), (NULL, '{3}'), (7, NULL), (199, '{}'), (5, '{150,5}'), (1000, '{NULL,9}');
SELECT bitmap_plan('SELECT o.x, count(t.id), sum(t.id) FROM o JOIN t ON t.a = o.x OR t.a = ANY (o.y) GROUP BY 1');
SELECT o.x, count(t.id), sum(t.id) FROM o JOIN t ON t.a = o.x OR t.a = ANY (o.y) GROUP BY 1 ORDER BY 1;
SELECT o.x, count(t.id), sum(t.id) FROM o JOIN t ON t.a + 0 = o.x OR t.a + 0 = ANY (o.y) GROUP BY 1 ORDER BY 1;

-- An empty index, and one that became empty
CREATE TABLE e (k int);
CREATE INDEX e_k ON e USING steady (k);
SELECT count(*) FROM e WHERE k > 0;
INSERT INTO e SELECT generate_series(1, 2000);
SELECT count(*) FROM e WHERE k > 0;
DELETE FROM e;
SELECT count(*) FROM e WHERE k > 0;
VACUUM e;
SELECT count(*) FROM e WHERE k > 0;
EXPLAIN (COSTS OFF) SELECT count(*) FROM e WHERE k > 0;

DROP SCHEMA bmp CASCADE;
