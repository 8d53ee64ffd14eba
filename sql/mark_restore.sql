-- Merge joins: the inner scan goes back to a mark for each duplicate on the outer side. Their rows must be a hash join's.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS steady;
CREATE SCHEMA mrk;
SET search_path = mrk, public;
SET jit = off;
SET max_parallel_workers_per_gather = 0;

-- x and y share keys with 0 to some hundred duplicates on either side, NULLs, and keys that the other side lacks.
-- The inner runs are longer than a page.
CREATE TABLE x (k int, b int, t text COLLATE "C", id int);
CREATE TABLE y (k int, b int, t text COLLATE "C", id int, filler text);
ALTER TABLE x SET (autovacuum_enabled = off);
ALTER TABLE y SET (autovacuum_enabled = off);
INSERT INTO x SELECT nullif(k, 11), i % 3, repeat(chr(97 + k % 5), 50), k * 1000 + i FROM generate_series(1, 25) k, generate_series(1, k % 7) i;
INSERT INTO y SELECT nullif(k, 11), i % 4, repeat(chr(97 + k % 7), 50), k * 1000 + i, repeat('f', 20)
	FROM generate_series(1, 30) k, generate_series(1, CASE k % 5 WHEN 0 THEN 0 WHEN 1 THEN 1 WHEN 2 THEN 500 ELSE 7 END) i;
CREATE INDEX x_k ON x USING steady (k, b);
CREATE INDEX x_t ON x USING steady (t);
CREATE INDEX y_k ON y USING steady (k, b) WITH (deduplicate_items = off);
CREATE INDEX y_kid ON y USING steady (k DESC NULLS LAST, id) INCLUDE (b);
CREATE INDEX y_bk ON y USING steady (b, k);
CREATE INDEX y_t ON y USING steady (t, id);
ANALYZE x, y;

CREATE FUNCTION methods(merge bool) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('enable_mergejoin', merge::text, true), set_config('enable_hashjoin', (NOT merge)::text, true),
		set_config('enable_nestloop', 'off', true), set_config('enable_material', 'off', true),
		set_config('enable_sort', (NOT merge)::text, true), set_config('enable_seqscan', (NOT merge)::text, true),
		set_config('enable_indexscan', merge::text, true), set_config('enable_indexonlyscan', merge::text, true),
		set_config('enable_bitmapscan', 'off', true)
$$;

-- How the plan reads the tables, and whether rows are the same
CREATE FUNCTION compare(query text, OUT plan text, OUT outcome text) LANGUAGE plpgsql AS $$
DECLARE
	line text;
	expected text;
	got text;
	collect text := format('SELECT concat(count(*), '' '', md5(string_agg(s::text, '','' ORDER BY s::text COLLATE "C"))) FROM (%s) s', query);
BEGIN
	PERFORM methods(false);
	EXECUTE collect INTO expected;
	PERFORM methods(true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		plan := concat_ws(' ', nullif(plan, ''), (regexp_match(line, '(Merge(?: (?:Left|Full|Right|Anti|Semi))?(?: Join)?$|Materialize|Sort$|Seq Scan|Index (?:Only )?Scan(?: Backward)?)'))[1]);
	END LOOP;
	EXECUTE collect INTO got;
	outcome := CASE WHEN got IS DISTINCT FROM expected THEN format('DIFFERENT: %s, not %s', got, expected) ELSE split_part(got, ' ', 1) || ' rows' END;
END $$;

CREATE TABLE queries (no int GENERATED ALWAYS AS IDENTITY, query text);
INSERT INTO queries (query) VALUES
	('SELECT x.id AS x, y.id AS y, filler FROM x JOIN y ON x.k = y.k'),	-- plain
	('SELECT x.k, x.b, y.k, y.b FROM x JOIN y ON x.k = y.k'),	-- index-only on both sides
	('SELECT x.k, y.id FROM x JOIN y ON x.k = y.k ORDER BY x.k DESC'),
	('SELECT x.id AS x, y.id AS y, filler FROM x JOIN y ON x.k = y.k ORDER BY y.k DESC'),	-- backward
	('SELECT x.id AS x, y.id AS y, filler FROM x JOIN y ON x.k = y.k AND x.b = y.b'),
	('SELECT x.k, x.b, y.k, y.b FROM x JOIN y USING (k, b)'),
	('SELECT x.id AS x, y.id AS y, filler FROM x JOIN y ON x.k = y.k AND x.b < y.b'),
	('SELECT x.id AS x, y.id AS y, filler FROM x LEFT JOIN y ON x.k = y.k'),
	('SELECT x.id AS x, y.id AS y, filler FROM y LEFT JOIN x ON x.k = y.k'),
	('SELECT x.id AS x, y.id AS y, filler FROM x FULL JOIN y ON x.k = y.k'),
	('SELECT x.id FROM x WHERE EXISTS (SELECT FROM y WHERE y.k = x.k AND y.b = 3)'),
	('SELECT x.id FROM x WHERE NOT EXISTS (SELECT FROM y WHERE y.k = x.k)'),
	('SELECT x.id AS x, y.id AS y FROM x JOIN y ON x.t = y.t'),
	('SELECT x.id AS x, y.id AS y FROM x JOIN y ON x.t = y.t ORDER BY x.t DESC'),
	-- conditions on the inner side, arrays among them: the mark may lie between two elements
	('SELECT x.id AS x, y.id AS y, filler FROM x JOIN y ON x.k = y.k WHERE y.k > 3 AND y.k < 24'),
	('SELECT x.id AS x, y.id AS y, filler FROM x JOIN y ON x.k = y.k WHERE y.k = ANY (''{2,7,12,17,22,23,27}'')'),
	('SELECT x.k, y.k, y.b FROM x JOIN y ON x.k = y.k WHERE y.k = ANY (''{2,7,12,17,22,23,27}'') ORDER BY y.k DESC'),
	('SELECT x.id AS x, y.id AS y, filler FROM x JOIN y ON x.k = y.k WHERE y.b = ANY (''{0,3}'')'),
	('SELECT x.k, y.k, y.b FROM x JOIN y ON x.k = y.k WHERE y.b = ANY (''{0,3}'') AND y.k = ANY (''{2,12,17,3}'')'),
	('SELECT x.id AS x, y.id AS y, filler FROM x JOIN y ON x.k = y.k WHERE y.b = 2'),
	-- three tables; a table with itself
	('SELECT x.id AS x, y.id AS y, z.id AS z FROM x JOIN y ON x.k = y.k AND x.b = y.b JOIN x z ON z.k = y.k'),
	('SELECT a.id AS a, b.id AS b FROM y a JOIN y b ON a.k = b.k WHERE a.id < 2100');
SELECT no, plan ~ '^Merge.*Index.*Index' AND plan !~ 'Sort|Seq' AS merge_by_index, outcome FROM queries, compare(query) r ORDER BY no;
-- where nothing but merge joins is below, nothing stands between them and the index
SELECT count(*) FILTER (WHERE plan ~ 'Materialize') FROM queries, compare(query) r WHERE no <> 21;

-- Index-only scans that need no row
VACUUM x, y;
SELECT no, outcome FROM queries, compare(query) r WHERE outcome LIKE 'D%';

-- Dead rows about: entries are killed between mark and restore
UPDATE y SET filler = 'new', id = id + 100000 WHERE id % 2 = 0;
DELETE FROM y WHERE id % 5 = 1;
UPDATE x SET id = id + 100000 WHERE id % 3 = 0;
SELECT no, outcome FROM queries, compare(query) r ORDER BY no;
SELECT killed > 0 AS killed FROM steady_stats('y_k');
SELECT no, outcome FROM queries, compare(query) r WHERE outcome LIKE 'D%';
VACUUM x, y;
SELECT no, outcome FROM queries, compare(query) r WHERE outcome LIKE 'D%';
SELECT steady_verify('x_k', true), steady_verify('y_k', true), steady_verify('y_kid', true), steady_verify('y_bk', true);

-- The situation of a mark in the middle of an array's cycle: the inner side's keys in order, with an array on a column
-- behind, restored to a page before the one that the array had come to
CREATE TABLE o (k int);
CREATE TABLE i (k int, j int, filler text);
INSERT INTO o SELECT k FROM generate_series(1, 40) k, generate_series(1, 3);
INSERT INTO i SELECT k, j, 'f' FROM generate_series(1, 40) k, generate_series(1, 200) j;
CREATE INDEX o_k ON o USING steady (k);
CREATE INDEX i_kj ON i USING steady (k, j);
CREATE INDEX i_jk ON i USING steady (j, k);
ANALYZE o, i;
SELECT r.outcome FROM unnest(ARRAY[
	'SELECT o.k, i.j, filler FROM o JOIN i ON o.k = i.k WHERE i.j = ANY (''{1,100,199,200}'')',
	'SELECT o.k, i.j FROM o JOIN i ON o.k = i.k WHERE i.j = ANY (''{1,100,199,200}'') AND i.k = ANY (''{2,3,20,21,39}'')',
	'SELECT o.k, i.j, filler FROM o JOIN i ON o.k = i.k WHERE i.k = ANY (''{40,39,1,2,3,17,18}'')',
	'SELECT o.k, i.j, filler FROM o JOIN i ON o.k = i.k WHERE i.k = ANY (''{40,39,1,2,3,17,18}'') ORDER BY o.k DESC',
	'SELECT o.k, i.k, filler FROM o JOIN i ON o.k = i.k AND i.j = 7',
	'SELECT p.k, o.k, i.j FROM o JOIN o p ON o.k = p.k JOIN i ON i.k = p.k AND i.j < 3 WHERE i.k = ANY (''{5,6,30}'')']) query, compare(query) r;

DROP SCHEMA mrk CASCADE;
